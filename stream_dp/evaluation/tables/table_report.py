"""The result of an evaluation of data sets: frozen values.

CONFIDENTIAL: errors are computed from true data, and no noise protects them; every form says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from stream_dp.json_object import Json

from ..text_tables import WARNING

RELATIONS = ("relations: spouse", "relations: child", "relations: parent")
CLASSES = ("groups", "people", "relations", *RELATIONS)
DATA_SET, MODEL, MEASURED = "data set", "model", "measurements"


@dataclass(frozen=True)
class Quality:
    """One method's errors on one class of queries, as shares."""

    method: str
    # The label of a budget, as the owner writes it.
    budget: str
    # `DATA_SET`; `MODEL`: the expectation of the fitted one; or `MEASURED`.
    answer: str
    # One of `CLASSES`; of people alone, how many columns a query is about, and whether the release
    # measured it.
    queries: str
    # How many queries there are.
    number: int
    greatest: float
    mean: float


def class_qualities(
    errors: Mapping[str, Sequence[NDArray[np.float64]]],
    *,
    method: str,
    budget: str,
    answer: str,
) -> Iterator[Quality]:
    """One entry for each class of queries; errors: of each class, in parts of any shape."""
    for name, parts in errors.items():
        sizes = np.abs(np.concatenate([part.reshape(-1) for part in parts]))
        yield Quality(
            method=method,
            budget=budget,
            answer=answer,
            queries=name,
            number=len(sizes),
            greatest=float(sizes.max()),
            mean=float(sizes.mean()),
        )


def averaged(qualities: Sequence[Quality]) -> list[Quality]:
    """The means over repetitions: one entry for each method, budget, answer and class."""
    by_key: dict[tuple[str, str, str, str], list[Quality]] = {}
    for q in qualities:
        by_key.setdefault((q.method, q.budget, q.answer, q.queries), []).append(q)
    return [
        Quality(
            *key,
            number=round(np.mean([q.number for q in repeated])),
            greatest=float(np.mean([q.greatest for q in repeated])),
            mean=float(np.mean([q.mean for q in repeated])),
        )
        for key, repeated in by_key.items()
    ]


@dataclass(frozen=True)
class Score:
    """How near one method's table of people comes to the true one, in one measure."""

    method: str
    budget: str
    measure: str
    value: float


def averaged_scores(scores: Sequence[Score]) -> list[Score]:
    """The means over repetitions: one entry for each method, budget and measure."""
    by_key: dict[tuple[str, str, str], list[float]] = {}
    for s in scores:
        by_key.setdefault((s.method, s.budget, s.measure), []).append(s.value)
    return [Score(*key, float(np.mean(values))) for key, values in by_key.items()]


def quality_json(qualities: Iterable[Quality]) -> Json:
    """Errors as JSON values."""
    rows = [asdict(q) for q in qualities]
    return {"confidential": True, "warning": WARNING, "quality": rows}


@dataclass(frozen=True)
class DataSetReport:
    """The errors of one batch release on its population at one period's close."""

    study: str
    release: str
    kind: str
    period: str
    # How many groups and people there are; no groups where people are released alone.
    groups: int
    people: int
    repetitions: int
    seed: int
    # By the label of each budget, in the owner's order.
    rhos: dict[str, Fraction]
    # Of every repetition.
    qualities: tuple[Quality, ...]
    # Of every repetition, of people alone.
    scores: tuple[Score, ...] = ()
    # Releases whose published answers enter the fit; simulated anew in every repetition.
    panels: tuple[str, ...] = ()

    @property
    def population(self) -> str:
        """How many there are, in words."""
        groups = f"{self.groups:,} groups, " if self.groups else ""
        return f"{groups}{self.people:,} people"

    @property
    def about(self) -> str:
        words = (
            f"study {self.study}, {self.release} ({self.kind}) at {self.period}: "
            f"{self.population}, repetitions: {self.repetitions}, seed {self.seed}"
        )
        if self.panels:
            words += f"\nfitted with what {', '.join(self.panels)} would publish, simulated too"
        return words

    def as_dict(self) -> Json:
        """As JSON values: under `quality` the means over repetitions, under `each` every one."""
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
            "panels": list(self.panels),
            "budgets": {label: str(rho) for label, rho in self.rhos.items()},
            "quality": [asdict(q) for q in averaged(self.qualities)],
            "each": [asdict(q) for q in self.qualities],
            "scores": [asdict(s) for s in averaged_scores(self.scores)],
            "each_score": [asdict(s) for s in self.scores],
        }


@dataclass(frozen=True)
class DataSetReports:
    """The reports of all batch releases of a study."""

    releases: tuple[DataSetReport, ...]

    def as_dict(self) -> Json:
        return {"confidential": True, "releases": [report.as_dict() for report in self.releases]}


def budget_label(rho: Fraction) -> str:
    """A release's budget as a label."""
    return f"rho {float(rho):.12g}"
