"""How well data sets of groups and members answer, by class of queries, method and rho.

CONFIDENTIAL: errors are computed from true data, and no noise protects them; every form says so.
Answers are shares: of groups at the level of groups, of people at all others, a data set's among
its own groups and people.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.loop import AdaptiveFit
from stream_dp.batch.workload import counts as exact
from stream_dp.batch.workload.queries import GROUP, PERSON, SPOUSE, Queries

from ..table import WARNING, plain_table

CLASSES = ("groups", "people", "relations")
MEASURED = "measurements"


@dataclass(frozen=True)
class Quality:
    """One method's errors on one class of queries, in shares.

    answer: "data set", "model" (its expectation) or "measurements"; budget: as the owner writes it;
    number: of queries.
    """

    method: str
    budget: str
    answer: str
    queries: str
    number: int
    greatest: float
    mean: float


@dataclass(frozen=True)
class DataSetJudge:
    """The truth about some queries. Confidential."""

    queries: Queries
    true: NDArray[np.float64]

    @staticmethod
    def of(hierarchy: Hierarchy, queries: Queries) -> DataSetJudge:
        return DataSetJudge(
            queries, _as_shares(queries, exact.exact_answers(hierarchy, queries), hierarchy)
        )

    def data_set(self, made: Hierarchy, method: str, budget: str) -> list[Quality]:
        found = _as_shares(self.queries, exact.exact_answers(made, self.queries), made)
        return self.answers(found, method, budget, "data set")

    def model(
        self, truth: Hierarchy, fitted: AdaptiveFit, method: str, budget: str
    ) -> list[Quality]:
        """The workload of a fit must end with these queries."""
        every = len(fitted.workload.queries)
        rows = np.arange(every - len(self.queries), every)
        found = _as_shares(self.queries, fitted.model.answers(rows), truth)
        return self.answers(found, method, budget, "model")

    def counts(
        self, truth: Hierarchy, noisy: NDArray[np.int64], method: str, budget: str
    ) -> list[Quality]:
        """Of measurements of all these queries."""
        return self.answers(_as_shares(self.queries, noisy, truth), method, budget, MEASURED)

    def answers(
        self, shares: NDArray[np.float64], method: str, budget: str, answer: str
    ) -> list[Quality]:
        return by_class(self.queries, shares - self.true, method, budget, answer)


def measurement_errors(
    truth: Hierarchy, fitted: AdaptiveFit, method: str, budget: str
) -> list[Quality]:
    """The noise floor: the errors of what was measured, and of nothing else."""
    queries = fitted.workload.queries.take(fitted.answers.rows)
    missed = fitted.answers.values - exact.exact_answers(truth, queries)
    return by_class(queries, _as_shares(queries, missed, truth), method, budget, MEASURED)


def by_class(
    queries: Queries, errors: NDArray[np.float64], method: str, budget: str, answer: str
) -> list[Quality]:
    """One entry for each class that there are queries of."""
    level, found = queries.level, []
    for name, those in zip(
        CLASSES, (level == GROUP, level == PERSON, level >= SPOUSE), strict=True
    ):
        if those.any():
            size = np.abs(errors[those])
            count = int(those.sum())
            found.append(
                Quality(method, budget, answer, name, count, float(size.max()), float(size.mean()))
            )
    return found


def _as_shares(queries: Queries, counts: NDArray[Any], hierarchy: Hierarchy) -> NDArray[np.float64]:
    # No groups, no people: all shares are 0.
    of_groups, of_people = float(max(hierarchy.G, 1)), float(max(hierarchy.N, 1))
    totals = np.where(queries.level == GROUP, of_groups, of_people)
    return np.asarray(counts / totals, np.float64)


def averaged(found: Sequence[Quality]) -> list[Quality]:
    """Repetitions of the same method, budget, answer and class become one entry: their mean."""
    groups: dict[tuple[str, str, str, str], list[Quality]] = {}
    for q in found:
        groups.setdefault((q.method, q.budget, q.answer, q.queries), []).append(q)
    return [
        Quality(
            *key,
            held[0].number,
            float(np.mean([q.greatest for q in held])),
            float(np.mean([q.mean for q in held])),
        )
        for key, held in groups.items()
    ]


def quality_text(found: Iterable[Quality], about: str = "") -> str:
    """One line a method and answer, for each class and budget; errors in percent."""
    held = averaged(list(found))
    budgets = list(dict.fromkeys(q.budget for q in held))
    head = [WARNING, about, "errors in percentage points: largest / mean"]
    blocks = ["\n".join(line for line in head if line)]
    for name in dict.fromkeys(q.queries for q in held):
        of = {(q.method, q.answer, q.budget): q for q in held if q.queries == name}
        lines = [
            [
                f"{method}: {answer}",
                *(_cell(of.get((method, answer, budget))) for budget in budgets),
            ]
            for method, answer in dict.fromkeys((q.method, q.answer) for q in of.values())
        ]
        # What is measured may be more or less than what is asked.
        asked = [q.number for q in of.values() if q.answer != MEASURED]
        number = max(asked or [q.number for q in of.values()])
        blocks.append(plain_table([f"{name}, {number:,} queries", *budgets], lines))
    return "\n\n".join(blocks)


def quality_json(found: Iterable[Quality]) -> dict[str, Any]:
    """As JSON values."""
    rows = [asdict(q) for q in found]
    return {"confidential": True, "warning": WARNING, "quality": rows}


def _cell(q: Quality | None) -> str:
    return "-" if q is None else f"{100 * q.greatest:.2f} / {100 * q.mean:.4f}"


@dataclass(frozen=True)
class DataSetReport:
    """What was found of one batch release, on its population at one period's close.

    groups, people: how many there are; rhos: by budget label, in the owner's order.
    """

    study: str
    release: str
    kind: str
    period: str
    groups: int
    people: int
    repetitions: int
    seed: int
    rhos: dict[str, Fraction]
    found: tuple[Quality, ...]

    @property
    def about(self) -> str:
        return (
            f"study {self.study}, {self.release} ({self.kind}) at {self.period}: {self.groups:,} "
            f"groups, {self.people:,} people, repetitions: {self.repetitions}, seed {self.seed}"
        )

    def table(self) -> str:
        return quality_text(self.found, self.about)

    def as_dict(self) -> dict[str, Any]:
        """quality: the mean over repetitions; each: of every one."""
        return {
            "confidential": True,
            "warning": WARNING,
            "study": self.study,
            "release": self.release,
            "kind": self.kind,
            "period": self.period,
            "groups": self.groups,
            "people": self.people,
            "repetitions": self.repetitions,
            "seed": self.seed,
            "budgets": {label: str(rho) for label, rho in self.rhos.items()},
            "quality": [asdict(q) for q in averaged(self.found)],
            "each": [asdict(q) for q in self.found],
        }


@dataclass(frozen=True)
class DataSetReports:
    """Of all batch releases of a study."""

    releases: tuple[DataSetReport, ...]

    def table(self) -> str:
        return "\n\n".join(report.table() for report in self.releases)

    def as_dict(self) -> dict[str, Any]:
        return {"confidential": True, "releases": [one.as_dict() for one in self.releases]}


def budget_label(rho: Fraction) -> str:
    """A release's budget as a label."""
    return f"rho {float(rho):.12g}"
