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
from stream_dp.study.alphabet import ABSENT
from stream_dp.study.scale import Numbers
from stream_dp.study.thresholds import MOST_SUM, Linear

from ...data.domain import Codes, Column, Int64Array
from ..measure.residual_counts import Columns, Residuals, all_residuals
from ..people_table import People, PeopleDomain
from ..select.all_pairs import MOST_TRIPLE, label_columns

CELLS = 16  # of a projection without declared thresholds
_DRAWS = 4096  # of the reference
_NORMAL = 12  # uniform words whose sum is about normal, with a standard deviation of about 2^16
_LEAST_WEIGHT = 1000  # what a weight of one standard deviation is for the widest number


@dataclass(frozen=True)
class Projection:
    """A sum of numbers and where it is cut.

    weights: by column that is a number, in increasing order.
    thresholds: increasing; cell k holds the sums above k of them.
    """

    weights: tuple[tuple[int, int], ...]
    thresholds: tuple[int, ...]

    def sums(
        self, domain: PeopleDomain, answers: Mapping[int, Codes]
    ) -> tuple[Int64Array, NDArray[np.bool_]]:
        """(N,) the sums, and whether one of their numbers is absent.

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
        """(N,) the cell of each person; who is absent has the last one."""
        total, absent = self.sums(domain, answers)
        cells = np.searchsorted(np.array(self.thresholds, np.int64), total, side="left")
        return np.where(absent, len(self.thresholds) + 1, cells).astype(np.int64)

    def column(self, domain: PeopleDomain) -> Column:
        """The cells as a column: '2*age-3*income' with '..100', '101..200', '201..'."""
        words = [f"{w}*{domain.columns[c].name}" for c, w in self.weights]
        starts = ["", *(str(t + 1) for t in self.thresholds)]
        cells = [f"{a}..{b}" for a, b in zip(starts, (*self.thresholds, ""), strict=True)]
        numbers = (domain.numbers[c] for c, _ in self.weights)
        if any(number.absent for number in numbers):
            cells.append(ABSENT)
        return Column("+".join(words).replace("+-", "-"), tuple(cells))


def declared_projections(domain: PeopleDomain, release: PeopleRelease) -> tuple[Projection, ...]:
    """The projections of a release's `linear`. Raises UserError where sums would be too large."""
    reference = {
        column: _reference(domain.columns[column].name, numbers)
        for column, numbers in sorted(domain.numbers.items())
    }
    places = {domain.columns[c].name: c for c in reference}
    projections = []
    for one in release.linear or ():
        for own in _weights(one, places, reference):
            weights = tuple(sorted(own.items()))
            thresholds = one.thresholds or _quantiles(domain, weights, reference)
            projections.append(Projection(weights, thresholds))
    return tuple(projections)


def linear_residuals(domain: PeopleDomain, release: PeopleRelease) -> Residuals:
    """The residuals of columns, of projections, and of each projection with each label."""
    projections = declared_projections(domain, release)
    own, first = all_residuals(domain, 3, MOST_TRIPLE).sets, len(domain.columns)
    added = range(first, first + len(projections))
    sets: list[Columns] = [*own, *((p,) for p in added)]
    sets += [(label, p) for label in sorted(label_columns(release)) for p in added]
    return Residuals(widened_domain(domain, projections), tuple(sets))


def widened_domain(domain: PeopleDomain, projections: tuple[Projection, ...]) -> PeopleDomain:
    """The columns, and one more for each projection."""
    columns = (p.column(domain) for p in projections)
    return replace(domain, columns=(*domain.columns, *columns), numbers={})


def widened(wide: PeopleDomain, people: People, projections: tuple[Projection, ...]) -> People:
    """The people with a column more for each projection."""
    cells = [p.cells(people.domain, people.numbers) for p in projections]
    codes = np.concatenate([people.codes.astype(np.int64), np.stack(cells, axis=1)], axis=1)
    return People(wide, codes)


def _weights(
    one: Linear, places: Mapping[str, int], reference: Mapping[int, NDArray[np.int64]]
) -> Iterator[dict[int, int]]:
    """By column, the weights of each projection that is declared."""
    if one.weights is not None:
        yield {places[name]: weight for name, weight in one.weights.items()}
        return
    spreads = {column: _deviation(values) for column, values in reference.items()}
    widest = max(spreads.values())
    for number in range(one.random or 0):
        weights = {}
        for name, column in places.items():
            words = _words(f"projection {one.seed or 0} {number} {name}", "<u2", _NORMAL)
            normal = sum(words.tolist()) - _NORMAL * ((1 << 16) - 1) // 2
            exact = Fraction(_LEAST_WEIGHT * normal * widest, (1 << 16) * spreads[column])
            weights[column] = round(exact) or 1
        yield weights


def _quantiles(
    domain: PeopleDomain,
    weights: tuple[tuple[int, int], ...],
    reference: Mapping[int, NDArray[np.int64]],
) -> tuple[int, ...]:
    """The thresholds that cut the reference into CELLS parts, as far as they differ."""
    ends = [sorted(w * x for x in _ends(domain.numbers[c])) for c, w in weights]
    least, most = (sum(end) for end in zip(*ends, strict=True))
    if max(-least, most) > MOST_SUM:
        raise UserError(
            f"linear: a sum may be over {MOST_SUM:,}, for the numbers' scales differ too much;"
            " declare weights"
        )
    values = np.sort(sum((w * reference[c] for c, w in weights), np.zeros(_DRAWS, np.int64)))
    cuts = {int(values[k * _DRAWS // CELLS - 1]) for k in range(1, CELLS)}
    return tuple(sorted(cut for cut in cuts if cut < most)) or (least,)


def _ends(numbers: Numbers) -> tuple[int, int]:
    return numbers.scale.points[0], numbers.scale.points[-1]


def _reference(name: str, numbers: Numbers) -> NDArray[np.int64]:
    """(_DRAWS,) numbers, of every bin about equally many, uniform within it."""
    bins, places = _words(f"reference {name}", "<u4", 2 * _DRAWS).reshape(2, _DRAWS)
    starts = np.array(numbers.starts, np.int64)
    own = (bins.astype(np.int64) * (len(starts) - 1)) >> 32
    width = (starts[1:] - starts[:-1])[own]
    codes = starts[own] + ((places.astype(np.int64) * width) >> 32)
    points = numbers.scale.points
    result: NDArray[np.int64] = points.start + points.step * codes
    return result


def _deviation(values: NDArray[np.int64]) -> int:
    """The standard deviation, a whole number of at least 1."""
    listed = values.tolist()
    square = len(listed) * sum(v * v for v in listed) - sum(listed) ** 2
    return max(1, math.isqrt(square) // len(listed))


def _words(of: str, kind: str, count: int) -> NDArray[np.unsignedinteger]:
    """Public words that follow from a text: SHAKE-256, the same everywhere."""
    data = hashlib.shake_256(f"stream-dp {of}".encode()).digest(count * np.dtype(kind).itemsize)
    words: NDArray[np.unsignedinteger] = np.frombuffer(data, kind)
    return words
