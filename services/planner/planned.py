"""Errors to expect of queries, the budget that an error needs, other declarations: one result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stream_dp.errors import UserError
from stream_dp.estimate.examples import example_queries
from stream_dp.planning.alternatives import Alternative, alternatives
from stream_dp.planning.expected import ExpectedError, asked_query, expected_errors
from stream_dp.planning.horizon import study_over
from stream_dp.planning.needed import Asked, Goal, NeededBudget, needed_budget
from stream_dp.privacy.zcdp import epsilon
from stream_dp.release.certificate import guess_words
from stream_dp.study import Study

from .wish import Wish


@dataclass(frozen=True)
class Planned:
    """The answers to a wish. others: by release and query."""

    study: Study
    wish: Wish
    errors: tuple[ExpectedError, ...]
    needed: NeededBudget | None
    others: dict[Asked, list[Alternative]]

    def as_dict(self) -> dict[str, Any]:
        study = self.study
        data: dict[str, Any] = {
            "study": study.name,
            "unit": study.unit,
            "periods": list(study.periods.labels),
            "rho": str(study.rho),
            "delta": str(study.delta),
            "epsilon": str(epsilon(study.rho, study.delta)),
            "meaning": guess_words(study, study.rho),
            "confidence": self.wish.confidence,
            "of": "count" if self.wish.count else "share",
            "errors": [self._row(row) for row in self.errors],
        }
        if self.needed is not None:
            data["needed"] = {"error": self.wish.error, **self.needed.as_dict()}
        if self.wish.alternatives:
            data["alternatives"] = [
                {
                    "release": name,
                    "query": query,
                    "declaration": each.words,
                    "periods": each.periods,
                    "waves": each.waves,
                    "half_width": each.error,
                    "rho_needed": None if each.rho is None else str(each.rho),
                }
                for (name, query), rows in self.others.items()
                for each in rows
            ]
        return data

    def _row(self, row: ExpectedError) -> dict[str, Any]:
        """An error with its half-widths."""
        halves = {
            f"{name}_half_width": None if error is None else self.wish.quantile * error
            for name, error in (
                ("count", row.count),
                ("share", row.share),
                ("final_count", row.final_count),
                ("final_share", row.final_share),
            )
        }
        return {**asdict(row), **halves}

    def text(self) -> str:
        lines = self._table()
        if self.needed is not None:
            lines += self._needed(self.needed)
        for asked, rows in self.others.items():
            lines += self._alternatives(asked, rows)
        return "\n".join(lines)

    def _table(self) -> list[str]:
        study = self.study
        labels, level = study.periods.labels, self.wish.confidence
        lines = [
            f"study {study.name}: errors to expect of the privacy noise, before any data",
            f"each: standard error, half-width at {level:.4g}; as a share and in {study.unit}s",
        ]
        before = None
        for row in self.errors:
            if (row.release, row.query) != before:
                before = row.release, row.query
                lines += [
                    "",
                    f"{row.release}: {row.query}",
                    f"  {'period':<10} {'when it is published':<44} once {labels[-1]} is published",
                ]
            now = self._cell(row.share, row.count)
            lines.append(
                f"  {row.period:<10} {now:<44} {self._cell(row.final_share, row.final_count)}"
            )
        if all(row.share is None for row in self.errors):
            lines += ["", "shares: the number of people is private; --people N assumes one"]
        return lines

    def _cell(self, share: float | None, count: float) -> str:
        quantile = self.wish.quantile
        people = f"{count:.1f}, +-{quantile * count:.1f}"
        return people if share is None else f"{share:.5f}, +-{quantile * share:.5f}; {people}"

    def _needed(self, needed: NeededBudget) -> list[str]:
        unit = f"{self.study.unit}s" if self.wish.count else "as a share"
        new = needed.study
        return [
            "",
            f"half-widths of at most {self.wish.error:g} ({unit}), every period, need",
            *(
                f"  release {after.name}: rho = {float(after.rho):g} (now {float(before.rho):g})"
                for after, before in zip(new.releases, self.study.releases, strict=True)
            ),
            f"  in all: rho = {float(new.rho):g}, eps = {epsilon(new.rho, new.delta)} at delta ="
            f" {float(new.delta):g}; planned again, the largest half-width is {needed.error:.4g}",
        ]

    def _alternatives(self, asked: Asked, rows: Sequence[Alternative]) -> list[str]:
        reach = self.wish.error is not None
        rho = float(self.study.release(asked[0]).rho)
        heading = f"{'declared as':<50} {'periods':<8} {'waves':<6} {'half-width':<12}"
        lines = [
            "",
            f"{asked[0]}: {asked[1]}: by itself, at rho = {rho:g}",
            f"  {heading}" + "rho for the error" * reach,
        ]
        for row in rows:
            cost = "out of reach" if row.rho is None else f"{float(row.rho):.4g}"
            cells = f"{row.words:<50} {row.periods:<8} {row.waves:<6} {row.error:<12.4g}"
            lines.append(f"  {cells}{cost * reach}".rstrip())
        return lines


def planned(study: Study, wish: Wish) -> Planned:
    """Plans a study without any data. Raises UserError for what cannot be answered."""
    wish.check()
    if wish.periods is not None:
        study = study_over(study, wish.periods)
    asked = _asked(study, wish)
    goal = Goal(asked, wish.error or 1.0, wish.quantile, count=wish.count, people=wish.people)
    errors: list[ExpectedError] = []
    for name, query in asked:
        errors += expected_errors(study, name, query, people=wish.people)
    needed = None if wish.error is None else needed_budget(study, goal)
    others: dict[Asked, list[Alternative]] = {}
    if wish.alternatives:
        reach = wish.error is not None
        for name, query in asked:
            others[name, query] = alternatives(study, name, query, goal=goal, reach=reach)
    return Planned(study, wish, tuple(errors), needed, others)


def _asked(study: Study, wish: Wish) -> list[Asked]:
    """The releases and queries to plan. Raises UserError where no release can answer a query."""
    every = [r.name for r in study.releases]
    names = every if wish.release is None else [study.release(wish.release).name]
    if not names:
        raise UserError("releases: none of a panel; errors are planned of panels' queries alone")
    if wish.queries is None:
        return [(name, q) for name in names for q in example_queries(study, study.release(name))]
    asked: list[Asked] = []
    for query in wish.queries:
        refusals, before = [], len(asked)
        for name in names:
            try:
                asked_query(study, name, query)
                asked.append((name, query))
            except UserError as error:
                refusals += [f"release '{name}': {line}" for line in error.lines]
        if len(asked) == before:
            raise UserError(refusals)
    return asked
