"""The result of an evaluation: frozen values with a complete representation in JSON.

CONFIDENTIAL. Truths, means and errors are computed from true data, and no noise protects them:
every form says so. All numbers are in people; divided by the number of people they are shares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from stream_dp.json_object import Json

from .text_tables import WARNING
from .trial import Floats


@dataclass(frozen=True)
class QueryErrors:
    """The errors of an answer to a query, in every period of the query."""

    query: str
    # "bin", "named", "narrower" or "wider" for windows, "total" for cumulative releases.
    kind: str
    # The query's width, or b of a total.
    width: int
    # "raw": the release's own unbiased estimates; "panel": the synthetic panel, for windows less
    # its padding; "undebiased": the panel's plain share times the people.
    answer: str
    # Numbers from 1; the sequences below have an entry for each.
    periods: tuple[int, ...]
    truth: tuple[float, ...]
    # Over the repetitions: the answer's mean, its root mean square error, its largest error.
    mean: tuple[float, ...]
    rmse: tuple[float, ...]
    # The relative standard error of the RMSE over all periods.
    chance: float
    worst: tuple[float, ...]
    # The standard deviation of the raw answer, a yardstick for the others; None for wider queries.
    theory: tuple[float, ...] | None

    @property
    def bias(self) -> tuple[float, ...]:
        return tuple(m - t for m, t in zip(self.mean, self.truth, strict=True))

    @property
    def deviation(self) -> tuple[float, ...]:
        """The standard deviation of the answer over the repetitions."""
        pairs = zip(self.rmse, self.bias, strict=True)
        return tuple(math.sqrt(max(r * r - b * b, 0)) for r, b in pairs)

    @property
    def ratio(self) -> tuple[float, ...] | None:
        """RMSE over theory, by period."""
        if self.theory is None:
            return None
        return tuple(r / s for r, s in zip(self.rmse, self.theory, strict=True))


@dataclass(frozen=True)
class CellErrors:
    """The errors of an answer over all cells of a release: bins and periods, or every b <= t."""

    answer: str
    # The number of cells.
    number: int
    rmse: float
    # The relative standard error of the RMSE.
    chance: float
    worst: float
    theory: float
    # The share of repetitions whose worst cell stayed within the release's error bound.
    within: float


@dataclass(frozen=True)
class ReleaseErrors:
    """The errors of a release, or of a class of its queries."""

    release: str
    # "window" or "cumulative".
    kind: str
    attribute: str
    # Of a window release.
    width: int | None
    # Exact, as a fraction.
    rho: str
    padding: int | None
    # The published error bound, which holds with probability 1 - failure.
    bound: float
    failure: float
    # The share of repetitions whose noisy counts had to be repaired: a count was below zero, counts
    # were not monotone, or no panel had them.
    repaired: float
    # Whether the raw answers to all cells are independent and have the same variance.
    independent: bool
    cells: tuple[CellErrors, ...]
    lines: tuple[QueryErrors, ...]

    def line(self, query: str, answer: str) -> QueryErrors | None:
        matching = (x for x in self.lines if x.query == query and x.answer == answer)
        return next(matching, None)

    def of_kind(self, kind: str, answer: str) -> tuple[QueryErrors, ...]:
        return tuple(x for x in self.lines if x.kind == kind and x.answer == answer)


@dataclass(frozen=True)
class Evaluation:
    """The errors of a study's declared releases on a known panel, over simulated repetitions."""

    study: str
    study_hash: str
    unit: str
    neighbours: str
    rho: str
    people: int
    periods: tuple[str, ...]
    repetitions: int
    seed: int
    releases: tuple[ReleaseErrors, ...]
    confidential: bool = True

    def as_dict(self) -> Json:
        """Converts the evaluation to JSON values."""
        fields_by_name = asdict(self)
        for release, errors in zip(fields_by_name["releases"], self.releases, strict=True):
            for line, query_errors in zip(release["lines"], errors.lines, strict=True):
                line["bias"], line["ratio"] = query_errors.bias, query_errors.ratio
        return {"confidential": True, "warning": WARNING, **fields_by_name}


@dataclass(frozen=True)
class Sweep:
    """The same study at several multiples of its rhos; confidential like each evaluation."""

    # Exact, as fractions.
    scales: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]
    confidential: bool = True

    def as_dict(self) -> Json:
        pairs = zip(self.scales, self.evaluations, strict=True)
        points = [{"scale": scale, "evaluation": e.as_dict()} for scale, e in pairs]
        return {"confidential": True, "warning": WARNING, "points": points}


def root_mean_square(numbers: Sequence[float] | Floats) -> float:
    return float(np.sqrt(np.mean(np.square(numbers))))
