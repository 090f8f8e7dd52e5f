"""Linear thresholds in words: a sum of numbers with whole weights, compared with a whole number.

age <= 39, income-12*rent > 0, 2*age-3*income <= -100. Whoever is absent in one of the numbers is
neither at or below the bound nor above it.

Sums are integers base + unit * k, so every threshold is one k of the sum whose weights have no
common divisor and begin with a positive one: -2*rent <= -1500 asks for rent > 749, and so does
rent >= 750. A histogram that is measured, of a projection or of a number's bins, answers where one
of its thresholds is the same k; its cells on one side are the answer.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.study.field_types import ABSENT
from stream_dp.study.scale import Numbers
from stream_dp.study.thresholds import MOST_SUM

from ..query import nearest
from .table_facts import PublishedTables

_COMPARED = re.compile(r"([^=<>]*?)\s*(<=|>=|<|>)\s*([^=<>]*)")
_WHOLE = re.compile(r"-?[0-9]{1,16}")


@dataclass(frozen=True)
class LinearThreshold:
    """A sum's side of a bound.

    weights: by number, without a common divisor; the first is positive.
    bound: a possible value of the sum.
    exceeds: whether the sum must be above the bound, or else at most the bound.
    """

    weights: tuple[tuple[str, int], ...]
    bound: int
    exceeds: bool

    @property
    def text(self) -> str:
        return f"{_sum_text(self.weights)} {'>' if self.exceeds else '<='} {self.bound}"

    def rows(self, published: PublishedTables) -> NDArray[np.bool_]:
        """Whether each synthetic person has all the numbers and a sum on this side, (people,)."""
        complete = np.ones(published.tables["people"].num_rows, np.bool_)
        weighted_sum = np.zeros(complete.size, np.int64)
        for name, weight in self.weights:
            points = published.numbers[name].scale.points
            codes = published.number_codes[name]
            complete &= codes < len(points)
            weighted_sum += weight * (points.start + points.step * codes)
        on_side = weighted_sum > self.bound if self.exceeds else weighted_sum <= self.bound
        matching: NDArray[np.bool_] = complete & on_side
        return matching

    def measurable(self, published: PublishedTables) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The columns with a measured histogram that may answer, and the answering cells."""
        for column, (weights, ends) in _histograms(published).items():
            for position, end in enumerate(ends):
                same = reduced(weights, end, published.numbers)
                if (same.weights, same.bound) == (self.weights, self.bound):
                    upper = same.exceeds != self.exceeds
                    cells = range(len(ends) + 1)
                    yield column, tuple(cells[position + 1 :] if upper else cells[: position + 1])

    def divided_bin(self, published: PublishedTables) -> str | None:
        """The bin with numbers of both sides of a bound, and the nearest bounds between bins."""
        name = self.weights[0][0]
        ends = _histograms(published)[name].ends
        if len(self.weights) > 1 or not ends or any(self.measurable(published)):
            return None
        at, sign = bisect(ends, self.bound), ">" if self.exceeds else "<="
        divided = published.columns["people"][name][at]
        nearest_ends = ", ".join(f"{name} {sign} {end}" for end in ends[max(0, at - 1) : at + 1])
        return f"{self.text} divides the bin {divided}; the nearest to divide none: {nearest_ends}"


def parse_threshold(text: str, term: str, published: PublishedTables) -> LinearThreshold | None:
    """Parses a term of a query; None for a term without a comparison.

    text: the whole query, for the errors. Raises UserError.
    """
    compared = _COMPARED.fullmatch(term)
    if compared is None:
        return None
    sum_text, sign, bound = compared.groups()
    weights = _weights(text, sum_text, published)
    if not _WHOLE.fullmatch(bound):
        raise UserError(f"query '{text}': write a whole number after {sign}, not '{bound}'")
    ends = [
        sorted((w * points[0], w * points[-1]))
        for w, points in ((w, published.numbers[name].scale.points) for name, w in weights.items())
    ]
    minimum, maximum = (sum(end) for end in zip(*ends, strict=True))
    if max(-minimum, maximum) > MOST_SUM:
        raise UserError(f"query '{text}': the sum may be over {MOST_SUM:,}; take smaller weights")
    at_most = int(bound) - (sign in ("<", ">="))
    if not minimum <= at_most < maximum:
        raise UserError(
            f"query '{text}': '{sum_text}' is from {minimum} to {maximum};"
            " compare it with what is between"
        )
    threshold = reduced(weights, at_most, published.numbers)
    exceeds = threshold.exceeds != (sign in (">", ">="))
    return LinearThreshold(threshold.weights, threshold.bound, exceeds)


def example_threshold(published: PublishedTables) -> str | None:
    """A measured threshold, rather of a projection than of a number; None without any."""
    for weights, ends in reversed(_histograms(published).values()):
        if ends:
            middle = ends[len(ends) // 2]
            return reduced(weights, middle, published.numbers).text
    return None


def reduced(
    weights: Mapping[str, int], at_most: int, numbers: Mapping[str, Numbers]
) -> LinearThreshold:
    """The threshold sum <= at_most, in the canonical form of equal thresholds.

    Divided by the weights' common divisor, with the sign that makes the first weight positive, the
    sum is base + unit k for whole k. The bound becomes the largest such sum on its side.
    """
    divisor = gcd(*weights.values())
    order = [name for name in numbers if name in weights]
    if weights[order[0]] < 0:
        divisor = -divisor
    coprime = tuple((name, weights[name] // divisor) for name in order)
    scales = [(w, numbers[name].scale.points) for name, w in coprime]
    base = sum(w * points.start for w, points in scales)
    unit = gcd(*(w * points.step for w, points in scales))
    if divisor > 0:
        return LinearThreshold(coprime, base + unit * ((at_most // divisor - base) // unit), False)
    # The reduced sum is at least at_most / divisor, so above the largest sum below that.
    minimum = -(at_most // -divisor)
    return LinearThreshold(coprime, base + unit * (-((base - minimum) // unit) - 1), True)


class _Histogram(NamedTuple):
    """A measured histogram of a sum of numbers.

    weights: of the numbers in the sum.
    ends: the largest sum in each cell but the last.
    """

    weights: dict[str, int]
    ends: tuple[int, ...]


def _histograms(published: PublishedTables) -> dict[str, _Histogram]:
    """The measured histograms, by column of a number or of a projection."""
    histograms: dict[str, _Histogram] = {}
    for name, numbers in published.numbers.items():
        points = numbers.scale.points
        bin_ends = tuple(points[start - 1] for start in numbers.bin_starts[1:-1])
        histograms[name] = _Histogram({name: 1}, bin_ends)
    for column, cells in published.projections.items():
        ends = [cell.partition("..")[2] for cell in cells if cell != ABSENT]
        histograms[column] = _Histogram(_measured_weights(column), tuple(map(int, ends[:-1])))
    return histograms


def _measured_weights(column: str) -> dict[str, int]:
    """The weights of a projection by its name, 2*age-3*income. Names may have signs, not a *."""
    first, *pieces = column.split("*")
    weights, weight = dict[str, int](), int(first)
    for piece in pieces[:-1]:
        sign = max(piece.rfind("+"), piece.rfind("-"))
        weights[piece[:sign]], weight = weight, int(piece[sign:])
    return {**weights, pieces[-1]: weight}


def _sum_text(weights: tuple[tuple[str, int], ...]) -> str:
    terms = (f"{'-' if w < 0 else '+'}{'' if abs(w) == 1 else f'{abs(w)}*'}{n}" for n, w in weights)
    return "".join(terms).removeprefix("+")


def _weights(text: str, text_of_sum: str, published: PublishedTables) -> dict[str, int]:
    """The weights by number. Raises UserError if `text_of_sum` is no sum of numbers."""
    if not published.numbers:
        raise UserError(f"query '{text}': only numbers are compared, and no column is a number")
    term = _term(published.numbers)
    weights, position = dict[str, int](), 0
    while position < len(text_of_sum) or not weights:
        match = term.match(text_of_sum, position)
        if match is None or (weights and not match[1]):
            raise UserError(f"query '{text}': {_fault(text_of_sum[position:], published)}")
        sign, digits, name = match.groups()
        weight = int(sign + (digits or "1"))
        if name in weights or not weight:
            why = "stands twice in the sum" if name in weights else "has the weight 0; leave it out"
            raise UserError(f"query '{text}': '{name}' {why}")
        weights[name], position = weight, match.end()
    return weights


def _term(names: Iterable[str]) -> re.Pattern[str]:
    """The pattern of a name with sign and weight, before the next term or the end."""
    either = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.compile(rf"\s*([+-]?)\s*(?:([0-9]{{1,16}})\s*\*\s*)?({either})(?=\s*(?:[+-]|$))")


def _fault(faulty: str, published: PublishedTables) -> str:
    """The reason why `faulty` is no sum of numbers, and the text to write."""
    numbers, columns = list(published.numbers), published.names["people"]
    example = f"write a sum of numbers, such as 2*{numbers[0]}"
    example += f"-{numbers[1]}" if len(numbers) > 1 else ""
    term = _term(columns).match(faulty)
    if term is not None and term[3] not in numbers:
        return (
            f"'{term[3]}' has listed values: write some of them, such as '{term[3]}=A|B'; numbers"
            f" are {', '.join(numbers)}"
        )
    named = re.match(r"\s*[+-]?\s*(?:[0-9]+\s*\*\s*)?([A-Za-z0-9][A-Za-z0-9._-]*)\s*$", faulty)
    if named is None or named[1] in numbers:
        return example
    hint = nearest(named[1], columns)
    return f"'{named[1]}' is no column; numbers are {', '.join(numbers)}{hint}"
