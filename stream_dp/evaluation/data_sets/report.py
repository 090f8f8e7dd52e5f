"""What the evaluation of data sets of groups and members found: frozen values.

CONFIDENTIAL: errors are computed from true data, and no noise protects them; every form says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..table import WARNING

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


def quality_json(found: Iterable[Quality]) -> dict[str, Any]:
    """As JSON values."""
    rows = [asdict(q) for q in found]
    return {"confidential": True, "warning": WARNING, "quality": rows}


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

    def as_dict(self) -> dict[str, Any]:
        return {"confidential": True, "releases": [one.as_dict() for one in self.releases]}


def budget_label(rho: Fraction) -> str:
    """A release's budget as a label."""
    return f"rho {float(rho):.12g}"
