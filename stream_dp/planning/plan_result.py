"""Requests to the planner, and its results: expected errors, the needed budget, alternatives.

A picture of a result shows half-widths over the periods, and the alternatives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import groupby
from statistics import NormalDist
from typing import Any

from stream_dp.answers.query import example_queries
from stream_dp.errors import UserError
from stream_dp.figures.marks import (
    Box,
    Dot,
    Frame,
    Mark,
    Path,
    Picture,
    Placed,
    Text,
    number_axis,
    period_ticks,
    px,
)
from stream_dp.json_object import Json
from stream_dp.privacy.zcdp import epsilon
from stream_dp.release.certificate import guess_words
from stream_dp.study import Study

from .alternatives import (
    Alternative,
    Goal,
    NeededBudget,
    ReleaseAndQuery,
    alternatives,
    needed_budget,
    study_over,
)
from .expected_errors import (
    ExpectedError,
    GroupError,
    expected_errors,
    group_error,
    group_lines,
    group_table,
    parsed_query,
    response_words,
    rule_words,
)


@dataclass(frozen=True)
class PlanRequest:
    """A request for expected errors, a needed budget or alternatives.

    release: the name of a release; None for all releases that can answer
    queries: the queries in words; None for examples of every release
    error: the half-width to reach at every period; None for no goal
    confidence: the level of the intervals
    count: whether errors are numbers of people instead of shares
    people: the number of people under shares; None for the study's number
    periods: the number of periods; None for the declared number
    alternatives: whether to compare other declarations
    """

    release: str | None = None
    queries: tuple[str, ...] | None = None
    error: float | None = None
    confidence: float = 0.95
    count: bool = False
    people: int | None = None
    periods: int | None = None
    alternatives: bool = False

    def check(self) -> None:
        """Raises UserError for numbers out of range."""
        if not 0 < self.confidence < 1:
            raise UserError("--confidence: write a level between 0 and 1, such as 0.95")
        if self.people is not None and self.people < 1:
            raise UserError("--people: write a number of at least 1")
        if self.error is not None and not 0 < self.error < math.inf:
            raise UserError("--error: write a number above 0")

    @property
    def quantile(self) -> float:
        """Half-width over standard error."""
        return NormalDist().inv_cdf((1 + self.confidence) / 2)


@dataclass(frozen=True)
class Planned:
    """The answers to a request. compared: by release and query, the alternatives."""

    study: Study
    request: PlanRequest
    errors: tuple[ExpectedError, ...]
    needed: NeededBudget | None
    compared: dict[ReleaseAndQuery, list[Alternative]]

    def as_dict(self) -> Json:
        study = self.study
        data: Json = {
            "study": study.name,
            "unit": study.unit,
            "periods": list(study.periods.labels),
            "rho": str(study.rho),
            "delta": str(study.delta),
            "epsilon": str(epsilon(study.rho, study.delta)),
            "meaning": guess_words(study, study.rho),
            "confidence": self.request.confidence,
            "of": "count" if self.request.count else "share",
            "errors": [self._row(row) for row in self.errors],
        }
        data["group_errors"] = group_table(study, self.groups)
        if self.needed is not None:
            data["needed"] = {"error": self.request.error, **self.needed.as_dict()}
        if self.request.alternatives:
            data["alternatives"] = [
                {
                    "release": name,
                    "query": query,
                    "declaration": alternative.words,
                    "periods": alternative.periods,
                    "waves": alternative.waves,
                    "half_width": alternative.error,
                    "rho_needed": None if alternative.rho is None else str(alternative.rho),
                }
                for (name, query), rows in self.compared.items()
                for alternative in rows
            ]
        return data

    @cached_property
    def groups(self) -> tuple[GroupError, ...]:
        """The error of every query's count at its last period, by the size of a group."""
        last = {(row.release, row.query): row.count for row in self.errors}
        return tuple(
            group_error(self.study, self.study.release(name), query, error)
            for (name, query), error in last.items()
        )

    def _row(self, row: ExpectedError) -> Json:
        """The fields of an expected error, with half-widths."""
        halves = {
            f"{name}_half_width": None if error is None else self.request.quantile * error
            for name, error in (
                ("count", row.count),
                ("share", row.share),
                ("final_count", row.final_count),
                ("final_share", row.final_share),
            )
        }
        return {**asdict(row), **halves}

    def text(self, *, long: bool = False) -> str:
        """In words: a line per query. long: with every period, and the errors of groups."""
        lines = self._table() if long else self._last_periods()
        if self.needed is not None:
            lines += self._needed(self.needed)
        for (name, query), rows in self.compared.items():
            lines += self._alternatives(name, query, rows)
        if not long:
            return "\n".join([*lines, "every period, and small groups: stream-dp plan --long"])
        unit = self.study.unit
        lines += ["", f"what a small group can learn, by its number of {unit}s:"]
        lines += [f"  {rule_words(unit)}", *group_lines(self.groups)]
        return "\n".join(lines)

    def _last_periods(self) -> list[str]:
        """By query, the half-width at the last period, and the largest of all periods."""
        queries: dict[ReleaseAndQuery, list[ExpectedError]] = {}
        for row in self.errors:
            queries.setdefault((row.release, row.query), []).append(row)
        names = {key: f"{key[0]}: {key[1]}" for key in queries}
        wide = max(map(len, names.values()))
        rows = []
        for key, answers in queries.items():
            last, largest = answers[-1], max(answers, key=lambda row: row.count)
            more = f", at most {self._half_width(largest)}" if largest.count > last.count else ""
            rows.append(f"  {names[key]:<{wide}}  {self._half_width(last)} at {last.period}{more}")
        heading = f"study {self.study.name}: half-widths of {self.request.confidence:.4g} intervals"
        return [f"{heading} of the privacy noise, before any data", *rows, *self._bases()]

    def _half_width(self, row: ExpectedError) -> str:
        count = f"+-{self.request.quantile * row.count:,.0f} {self.study.unit}s"
        share = "" if row.share is None else f"+-{self.request.quantile * row.share:.2%}, "
        return share + count

    def _bases(self) -> list[str]:
        """The bases of shares, and why a share is left out."""
        lines = response_words(self.study, self.errors)
        if all(row.share is None for row in self.errors):
            lines = [*lines, "shares: the number of people is private; --people N assumes one"]
        return [*lines]

    def _table(self) -> list[str]:
        study = self.study
        labels, level = study.periods.labels, self.request.confidence
        lines = [
            f"study {study.name}: errors to expect of the privacy noise, before any data",
            f"each: standard error, half-width at {level:.4g}; as a share and in {study.unit}s",
        ]
        previous = None
        for row in self.errors:
            if (row.release, row.query) != previous:
                previous = row.release, row.query
                lines += [
                    "",
                    f"{row.release}: {row.query}",
                    f"  {'period':<10} {'when it is published':<44} once {labels[-1]} is published",
                ]
            cell = self._cell(row.share, row.count)
            lines.append(
                f"  {row.period:<10} {cell:<44} {self._cell(row.final_share, row.final_count)}"
            )
        return [*lines, *[""] * bool(bases := self._bases()), *bases]

    def _cell(self, share: float | None, count: float) -> str:
        quantile = self.request.quantile
        people = f"{count:.1f}, +-{quantile * count:.1f}"
        return people if share is None else f"{share:.5f}, +-{quantile * share:.5f}; {people}"

    def _needed(self, needed: NeededBudget) -> list[str]:
        unit = f"{self.study.unit}s" if self.request.count else "as a share"
        new = needed.study
        rhos = [
            (release.name, float(release.rho), float(declared.rho))
            for release, declared in zip(new.releases, self.study.releases, strict=True)
        ]
        return [
            "",
            f"half-widths of at most {self.request.error:g} ({unit}), every period, need",
            *(
                f"  release {name}: rho = {needed_rho:g} (now {declared_rho:g})"
                for name, needed_rho, declared_rho in rhos
            ),
            f"  in all: rho = {float(new.rho):g}, eps = {epsilon(new.rho, new.delta)} at delta ="
            f" {float(new.delta):g}; planned again, the largest half-width is {needed.error:.4g}",
        ]

    def _alternatives(self, name: str, query: str, rows: Sequence[Alternative]) -> list[str]:
        reach = self.request.error is not None
        rho = float(self.study.release(name).rho)
        heading = f"{'declared as':<50} {'periods':<8} {'waves':<6} {'half-width':<12}"
        lines = [
            "",
            f"{name}: {query}: by itself, at rho = {rho:g}",
            f"  {heading}" + "rho for the error" * reach,
        ]
        for row in rows:
            cost = "out of reach" if row.rho is None else f"{float(row.rho):.4g}"
            cells = f"{row.words:<50} {row.periods:<8} {row.waves:<6} {row.error:<12.4g}"
            lines.append(f"  {cells}{cost * reach}".rstrip())
        return lines


def planned(study: Study, request: PlanRequest) -> Planned:
    """Plans a study without any data. Raises UserError for unanswerable queries."""
    request.check()
    if request.periods is not None:
        study = study_over(study, request.periods)
    release_queries = _release_queries(study, request)
    goal = Goal(
        release_queries,
        request.error or 1.0,
        request.quantile,
        count=request.count,
        people=request.people,
    )
    errors: list[ExpectedError] = []
    for name, query in release_queries:
        errors += expected_errors(study, name, query, people=request.people)
    needed = None if request.error is None else needed_budget(study, goal)
    compared: dict[ReleaseAndQuery, list[Alternative]] = {}
    if request.alternatives:
        reach = request.error is not None
        for name, query in release_queries:
            compared[name, query] = alternatives(study, name, query, goal=goal, reach=reach)
    return Planned(study, request, tuple(errors), needed, compared)


def _release_queries(study: Study, request: PlanRequest) -> list[ReleaseAndQuery]:
    """The releases and queries to plan. Raises UserError for an unanswerable query."""
    all_names = [r.name for r in study.releases]
    names = all_names if request.release is None else [study.release(request.release).name]
    if not names:
        raise UserError("releases: none of a panel; errors are planned of panels' queries alone")
    if request.queries is None:
        return [(name, q) for name in names for q in example_queries(study, study.release(name))]
    release_queries: list[ReleaseAndQuery] = []
    for query in request.queries:
        refusals, accepted = [], len(release_queries)
        for name in names:
            try:
                parsed_query(study, name, query)
                release_queries.append((name, query))
            except UserError as error:
                refusals += [f"release '{name}': {line}" for line in error.lines]
        if len(release_queries) == accepted:
            raise UserError(refusals)
    return release_queries


_PERCENT = 100.0
_STEP, _TOP = 40.0, 26.0  # pixels of an alternative, and above the first
_MARGIN, _WIDTH, _HEIGHT = 20.0, 520.0, 280.0
Row = Mapping[str, Any]


def plan_picture(data: Row) -> Picture:
    """The charts of a plan in a column, below their titles and a key.

    data: the result of `Planned.as_dict`.
    """
    needed = data.get("needed")
    alternatives = {
        _release_and_query(rows[0]): rows for rows in _groups(data.get("alternatives", ()))
    }
    placed = [Placed(_MARGIN, _MARGIN, _key(asked=needed is not None))]
    y = 2.4 * _MARGIN

    def place(title: str, height: float, marks: Sequence[Mark]) -> None:
        nonlocal y
        placed.append(Placed(_MARGIN, y, [Text("heading", 0, 12, title)]))
        placed.append(Placed(_MARGIN, y + 24, marks))
        y = px(y + 24 + height + 2 * _MARGIN)

    for rows in _groups(data["errors"]):
        release, query = _release_and_query(rows[0])
        title = f"{release}: {query}"
        share = rows[0]["share"] is not None
        goal = None
        if needed is not None and (data["of"] == "share") == share:
            goal = needed["error"]
        place(title, _HEIGHT, _half_widths(data, rows, share=share, goal=goal))
        if alternative_rows := alternatives.get((release, query)):
            height = _TOP + _STEP * len(alternative_rows)
            place(f"{title}: declared otherwise", height, _bars(alternative_rows, data))
    title = f"{data['study']}: errors to expect of the privacy noise"
    return Picture(title, title, _WIDTH + 2 * _MARGIN, y, tuple(placed))


def _key(*, asked: bool) -> list[Mark]:
    rows = [
        (0, "estimate-line", "when the period is published"),
        (210, "panel-line", "once all periods are"),
        *([(380, "truth", "the error asked for")] if asked else []),
    ]
    marks: list[Mark] = []
    for x, style, label in rows:
        marks += [Path(style, f"M{x} 0h22"), Text("tick", x + 28, 4, label)]
    return marks


def _release_and_query(row: Row) -> tuple[str, str]:
    return row["release"], row["query"]


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    return [list(group) for _, group in groupby(rows, _release_and_query)]


def _half_widths(data: Row, rows: Sequence[Row], *, share: bool, goal: float | None) -> list[Mark]:
    """Draws half-widths at publication and after the last period; the goal as a line."""
    kind, scale = ("share", _PERCENT) if share else ("count", 1.0)
    labels = data["periods"]
    at_release = [scale * row[f"{kind}_half_width"] for row in rows]
    final = [scale * row[f"final_{kind}_half_width"] for row in rows]
    top = max(*at_release, *final, scale * (goal or 0.0))
    frame = Frame(_WIDTH, _HEIGHT, number_axis(0.0, top), len(labels))
    unit = f"half-width, % of {data['unit']}s" if share else f"half-width, {data['unit']}s"
    marks: list[Mark] = list(frame.axes(period_ticks(labels, _WIDTH - 54), unit))
    positions = [labels.index(row["period"]) for row in rows]
    for style, values in (("panel-line", final), ("estimate-line", at_release)):
        ends = (f"{frame.x(x)} {frame.y(y)}" for x, y in zip(positions, values, strict=True))
        marks.append(Path(style, "M" + "L".join(ends)))
    for position, value, row in zip(positions, at_release, rows, strict=True):
        title = f"{row['period']}: {_shown(value / scale, share=share)}"
        marks.append(Dot("estimate", frame.x(position), frame.y(value), 2.2, title=title))
    if goal is not None:
        y = frame.y(scale * goal)
        marks.append(Path("truth", f"M{frame.left} {y}H{px(_WIDTH - frame.right)}"))
    return marks


def _shown(half_width: float, *, share: bool) -> str:
    return f"{half_width:.2%}" if share else f"{half_width:,.1f}"


def _bars(rows: Sequence[Row], data: Row) -> list[Mark]:
    """Draws bars of half-widths, a bar a declaration, the most precise first."""
    count = data["of"] == "count"
    largest = max(row["half_width"] for row in rows)
    unit = f"{data['unit']}s" if count else f"% of {data['unit']}s"
    marks: list[Mark] = [Text("tick", 0, 11, f"largest half-width, {unit}")]
    for index, row in enumerate(rows):
        y, declaration = _TOP + _STEP * index, _declaration(row)
        value = _shown(row["half_width"], share=not count)
        length = px((_WIDTH - 70.0) * row["half_width"] / largest)
        marks += [
            Text("name", 0, y + 10, declaration),
            Box("bar", x=0, y=y + 15, width=length, height=12, title=f"{declaration}: {value}"),
            Text("value-ink", length + 6, y + 25, value),
        ]
    return marks


def _declaration(row: Row) -> str:
    """The declaration of an alternative: the kind, the number of periods, the number of waves."""
    waves = f", {row['waves']} waves of" if row["waves"] > 1 else ","
    return f"{row['declaration']}{waves} {row['periods']} periods"
