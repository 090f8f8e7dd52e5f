"""The result of an evaluation of data sets: frozen values.

CONFIDENTIAL: errors are computed from true data, and no noise protects them; every form says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_dp.json_object import Json

from ..process.command_output import WARNING

RELATIONS = ("relations: spouse", "relations: child", "relations: parent")
CLASSES = ("groups", "people", "relations", *RELATIONS)
DATA_SET, MODEL, MEASURED = "data set", "model", "measurements"
Floats = NDArray[np.float64]
ClassErrors = Mapping[str, Sequence[Floats]]  # by class of queries, errors in arrays of any shape
Row = TypeVar("Row", "Quality", "Score")


@dataclass(frozen=True)
class Quality:
    """A method's errors on a class of queries, as shares."""

    method: str
    # The label of a budget, as the owner writes it.
    budget: str
    # `DATA_SET`; `MODEL`, the model's expectation; or `MEASURED`.
    answer: str
    # A class of `CLASSES`; of people alone, the number of columns of a query, and whether the
    # release measured the query.
    queries: str
    # The number of queries.
    number: int
    greatest: float
    mean: float


@dataclass(frozen=True)
class Score:
    """The distance of a method's table of people from the true table, by a measure."""

    method: str
    budget: str
    measure: str
    value: float


def qualities(errors: ClassErrors, method: str, budget: str, answer: str) -> list[Quality]:
    """Summarises the errors of every class of queries."""
    rows = []
    for name, arrays in errors.items():
        sizes = np.abs(np.concatenate([array.reshape(-1) for array in arrays]))
        greatest, mean = float(sizes.max()), float(sizes.mean())
        rows.append(Quality(method, budget, answer, name, len(sizes), greatest, mean))
    return rows


def averaged(rows: Iterable[Row]) -> list[Row]:
    """The means over repetitions: a row per combination of the text fields."""
    repetitions: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        key = tuple(value for value in vars(row).values() if isinstance(value, str))
        repetitions.setdefault(key, []).append(row)
    return [_mean(repeated) for repeated in repetitions.values()]


def _mean(rows: Sequence[Row]) -> Row:
    """A row with the means of all numbers; whole numbers stay whole."""
    fields = dict(vars(rows[0]))
    for name, value in fields.items():
        if not isinstance(value, str):
            mean = float(np.mean([vars(row)[name] for row in rows]))
            fields[name] = round(mean) if isinstance(value, int) else mean
    return type(rows[0])(**fields)


@dataclass(frozen=True)
class DataSetReport:
    """The errors of a batch release on the population at a period's close."""

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
        """The numbers of groups and people, in words."""
        groups = f"{self.groups:,} groups, " if self.groups else ""
        return f"{groups}{self.people:,} people"

    @property
    def about(self) -> str:
        text = (
            f"study {self.study}, {self.release} ({self.kind}) at {self.period}: "
            f"{self.population}, repetitions: {self.repetitions}, seed {self.seed}"
        )
        if self.panels:
            text += f"\nfitted with what {', '.join(self.panels)} would publish, simulated too"
        return text

    def as_dict(self) -> Json:
        """As JSON values: `quality` has the means over repetitions, `each` all repetitions."""
        values = asdict(self)
        rhos, rows, scores = (values.pop(name) for name in ("rhos", "qualities", "scores"))
        return {
            "confidential": True,
            "warning": WARNING,
            **values,
            "budgets": {label: str(rho) for label, rho in rhos.items()},
            "quality": [asdict(q) for q in averaged(self.qualities)],
            "each": rows,
            "scores": [asdict(s) for s in averaged(self.scores)],
            "each_score": scores,
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
