"""The result of an evaluation of data sets: frozen values, and their text.

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

from ..process.command_output import WARNING, decimal, plain_table

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


def budget_label(rho: Fraction) -> str:
    """A release's budget as a label."""
    return f"rho {float(rho):.12g}"


def reports_text(reports: Iterable[DataSetReport]) -> str:
    texts = []
    for report in reports:
        texts += [quality_text(report.qualities, report.about), *score_texts(report.scores)]
    return "\n\n".join(texts)


def score_texts(scores: Iterable[Score]) -> list[str]:
    """Tables by budget: lines for measures, columns for methods."""
    means = averaged(scores)
    methods = list(dict.fromkeys(s.method for s in means))
    texts = []
    for budget in dict.fromkeys(s.budget for s in means):
        values = {(s.measure, s.method): s.value for s in means if s.budget == budget}
        lines = [
            [name, *(decimal(values.get((name, method)), 4) for method in methods)]
            for name in dict.fromkeys(name for name, _ in values)
        ]
        texts.append(plain_table([budget, *methods], lines))
    return texts


def quality_text(qualities: Iterable[Quality], about: str = "") -> str:
    """Lines for methods and answers, by class and budget; errors in percentage points.

    Behind the errors of measurements stands the number of measured queries of the class.

    about: a line above the tables.
    """
    means = averaged(qualities)
    budgets = list(dict.fromkeys(q.budget for q in means))
    head = [WARNING, about, "errors in percentage points: largest / mean (queries measured)"]
    blocks = ["\n".join(line for line in head if line)]
    for name in dict.fromkeys(q.queries for q in means):
        rows = {(q.method, q.answer, q.budget): q for q in means if q.queries == name}
        lines = [
            [
                f"{method}: {answer}",
                *(_cell(rows.get((method, answer, budget)), answer) for budget in budgets),
            ]
            for method, answer in dict.fromkeys(
                (q.method, q.answer) for q in means if q.queries == name or q.answer == MEASURED
            )
        ]
        # A fit may measure more or fewer queries than the class has.
        numbers = [q.number for q in rows.values() if q.answer != MEASURED]
        number = max(numbers or [q.number for q in rows.values()])
        blocks.append(plain_table([f"{name}, {number:,} queries", *budgets], lines))
    return "\n\n".join(blocks)


def _cell(q: Quality | None, answer: str) -> str:
    if q is None:
        return "none measured" if answer == MEASURED else "-"
    errors = f"{100 * q.greatest:.2f} / {100 * q.mean:.4f}"
    return f"{errors} ({q.number:,})" if answer == MEASURED else errors
