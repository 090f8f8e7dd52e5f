"""Projections: sums of people's numbers with whole weights, cut at public thresholds.

P(w1 x1 + w2 x2 + ... <= t and label = y) is what Vietri et al. 2022 (RAP++) call a
class-conditional linear threshold. A projection's cells between its thresholds are one column more,
and all of its thresholds are sums of cells of one histogram. Sums and thresholds are integers, so
counts are exact.

Weights of random projections and thresholds that are not declared are functions of declarations
alone, in integers, the same on every machine: of a reference in which every bin of every number is
equally likely, and independent of the others.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.study import PeopleRelease
from stream_dp.study.field_types import ABSENT
from stream_dp.study.scale import Numbers
from stream_dp.study.thresholds import MOST_SUM, Linear

from ..data.domain import Codes, Column, Int64Array
from .all_pairs import MOST_TRIPLE, label_columns
from .people_table import People, PeopleDomain
from .residual_counts import Columns, DependentColumns, Residuals, all_residuals

CELLS = 16  # of a projection without declared thresholds
_DRAWS = 4096  # of the reference
_MOST_ANSWERS = 1 << 20  # combinations of answers whose cells are computed
_NORMAL = 12  # uniform words whose sum is about normal, with a standard deviation of about 2^16
_LEAST_WEIGHT = 1000  # what a weight of one standard deviation is for the widest number


@dataclass(frozen=True)
class Projection:
    """A sum of numbers and its thresholds.

    weights: by column that is a number, in increasing order.
    thresholds: increasing; cell k holds the sums above k of them.
    """

    weights: tuple[tuple[int, int], ...]
    thresholds: tuple[int, ...]

    def sums(
        self, domain: PeopleDomain, answers: Mapping[int, Codes]
    ) -> tuple[Int64Array, NDArray[np.bool_]]:
        """(N,) the sums, and whether a number of a sum is absent or a special code.

        answers: by column that is a number, (N,) codes.
        """
        first = answers[self.weights[0][0]]
        total, absent = np.zeros(len(first), np.int64), np.zeros(len(first), np.bool_)
        for column, weight in self.weights:
            points = domain.numbers[column].scale.points
            codes = np.asarray(answers[column], np.int64)
            absent |= codes >= len(points)
            total += weight * (points.start + points.step * codes)
        return total, absent

    def cells(self, domain: PeopleDomain, answers: Mapping[int, Codes]) -> Int64Array:
        """(N,) the cell of every person; people without one of the numbers have the last cell."""
        total, absent = self.sums(domain, answers)
        cells = np.searchsorted(np.array(self.thresholds, np.int64), total, side="left")
        return np.where(absent, len(self.thresholds) + 1, cells).astype(np.int64)

    def column(self, domain: PeopleDomain) -> Column:
        """The cells as a column: '2*age-3*income' with '..100', '101..200', '201..'."""
        terms = [f"{w}*{domain.columns[c].name}" for c, w in self.weights]
        starts = ["", *(str(t + 1) for t in self.thresholds)]
        cells = [f"{a}..{b}" for a, b in zip(starts, (*self.thresholds, ""), strict=True)]
        numbers = (domain.numbers[c] for c, _ in self.weights)
        if any(number.non_numbers for number in numbers):
            cells.append(ABSENT)
        return Column("+".join(terms).replace("+-", "-"), tuple(cells))


def declared_projections(domain: PeopleDomain, release: PeopleRelease) -> tuple[Projection, ...]:
    """The projections of a release's `linear`. Raises UserError where sums would be too large."""
    reference = {
        column: _reference(domain.columns[column].name, numbers)
        for column, numbers in sorted(domain.numbers.items())
    }
    column_of = {domain.columns[c].name: c for c in reference}
    projections = []
    for linear in release.linear or ():
        for weight_of in _weights(linear, column_of, reference):
            weights = tuple(sorted(weight_of.items()))
            thresholds = linear.thresholds or _quantiles(domain, weights, reference)
            projections.append(Projection(weights, thresholds))
    return tuple(projections)


def linear_residuals(domain: PeopleDomain, release: PeopleRelease) -> Residuals:
    """The residuals of columns, of projections, and of every projection with every label."""
    projections = declared_projections(domain, release)
    unwidened, first = all_residuals(domain, 3, MOST_TRIPLE).sets, len(domain.columns)
    added = range(first, first + len(projections))
    sets: list[Columns] = [*unwidened, *((p,) for p in added)]
    sets += [(label, p) for label in sorted(label_columns(release)) for p in added]
    dependent = _dependent(domain, projections)
    return Residuals(widened_domain(domain, projections), tuple(sets), dependent=dependent)


def _dependent(domain: PeopleDomain, projections: tuple[Projection, ...]) -> DependentColumns:
    """The bins of the numbers in sums, and the sums. Two rows may differ within a bin."""
    numbers = sorted({c for p in projections for c, _ in p.weights})
    first = len(domain.columns)
    columns = (*numbers, *range(first, first + len(projections)))
    counts = [len(domain.numbers[c]) for c in numbers]
    if math.prod(counts) > _MOST_ANSWERS:
        return DependentColumns(columns, None)
    answers = dict(zip(numbers, np.indices(counts).reshape(len(counts), -1), strict=True))
    bins = [
        np.searchsorted(domain.numbers[c].starts, answers[c], side="right") - 1 for c in numbers
    ]
    cells = [p.cells(domain, answers) for p in projections]
    return DependentColumns.of(columns, np.stack([*bins, *cells], axis=1))


def widened_domain(domain: PeopleDomain, projections: tuple[Projection, ...]) -> PeopleDomain:
    """The domain of what is measured: the table's columns, then a column for every projection.

    It has no `numbers`: people are drawn in `domain`, never in the widened one.
    """
    columns = (p.column(domain) for p in projections)
    return replace(domain, columns=(*domain.columns, *columns), numbers={})


def widened(wide: PeopleDomain, people: People, projections: tuple[Projection, ...]) -> People:
    """The people with a further column for every projection."""
    cells = [p.cells(people.domain, people.numbers) for p in projections]
    codes = np.concatenate([people.codes.astype(np.int64), np.stack(cells, axis=1)], axis=1)
    return People(wide, codes)


def _weights(
    linear: Linear, column_of: Mapping[str, int], reference: Mapping[int, NDArray[np.int64]]
) -> Iterator[dict[int, int]]:
    """The weights of every declared projection, by column.

    A random weight is about normal (`_NORMAL` uniform words, less their mean), in units in which
    every column's reference has the same standard deviation.
    """
    if linear.weights is not None:
        yield {column_of[name]: weight for name, weight in linear.weights.items()}
        return
    spreads = {column: _deviation(values) for column, values in reference.items()}
    widest = max(spreads.values())
    for number in range(linear.random or 0):
        weights = {}
        for name, column in column_of.items():
            draws = _words(f"projection {linear.seed or 0} {number} {name}", "<u2", _NORMAL)
            normal = sum(draws.tolist()) - _NORMAL * ((1 << 16) - 1) // 2
            exact = Fraction(_LEAST_WEIGHT * normal * widest, (1 << 16) * spreads[column])
            weights[column] = round(exact) or 1
        yield weights


def _quantiles(
    domain: PeopleDomain,
    weights: tuple[tuple[int, int], ...],
    reference: Mapping[int, NDArray[np.int64]],
) -> tuple[int, ...]:
    """The distinct thresholds that cut the reference into CELLS equal parts."""
    ends = [sorted(w * x for x in _ends(domain.numbers[c])) for c, w in weights]
    smallest, largest = (sum(end) for end in zip(*ends, strict=True))
    if max(-smallest, largest) > MOST_SUM:
        raise UserError(
            f"linear: a sum may be over {MOST_SUM:,}, for the numbers' scales differ too much;"
            " declare weights"
        )
    values = np.sort(sum((w * reference[c] for c, w in weights), np.zeros(_DRAWS, np.int64)))
    cuts = {int(values[k * _DRAWS // CELLS - 1]) for k in range(1, CELLS)}
    return tuple(sorted(cut for cut in cuts if cut < largest)) or (smallest,)


def _ends(numbers: Numbers) -> tuple[int, int]:
    return numbers.scale.points[0], numbers.scale.points[-1]


def _reference(name: str, numbers: Numbers) -> NDArray[np.int64]:
    """(_DRAWS,) numbers, of every bin about equally many, uniform within it."""
    bins, offsets = _words(f"reference {name}", "<u4", 2 * _DRAWS).reshape(2, _DRAWS)
    starts = np.array(numbers.bin_starts, np.int64)
    bin_of = (bins.astype(np.int64) * (len(starts) - 1)) >> 32
    width = (starts[1:] - starts[:-1])[bin_of]
    codes = starts[bin_of] + ((offsets.astype(np.int64) * width) >> 32)
    points = numbers.scale.points
    result: NDArray[np.int64] = points.start + points.step * codes
    return result


def _deviation(values: NDArray[np.int64]) -> int:
    """The standard deviation, a whole number of at least 1."""
    listed = values.tolist()
    square = len(listed) * sum(v * v for v in listed) - sum(listed) ** 2
    return max(1, math.isqrt(square) // len(listed))


def _words(label: str, kind: str, count: int) -> NDArray[np.unsignedinteger]:
    """Public words that follow from a text: SHAKE-256, the same everywhere."""
    data = hashlib.shake_256(f"stream-dp {label}".encode()).digest(count * np.dtype(kind).itemsize)
    result: NDArray[np.unsignedinteger] = np.frombuffer(data, kind)
    return result
