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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.study.alphabet import ABSENT
from stream_dp.study.scale import Numbers
from stream_dp.study.thresholds import MOST_SUM

from ..query import nearest
from .table_facts import PublishedTables

_COMPARED = re.compile(r"([^=<>]*?)\s*(<=|>=|<|>)\s*([^=<>]*)")
_WHOLE = re.compile(r"-?[0-9]{1,16}")


@dataclass(frozen=True)
class LinearThreshold:
    """A sum's side of a bound.

    weights: by number, without a common divisor; the first one is positive.
    bound: the largest sum up to it that there can be.
    above: whether it asks for the sums above the bound; otherwise for those up to it.
    """

    weights: tuple[tuple[str, int], ...]
    bound: int
    above: bool

    @property
    def text(self) -> str:
        return f"{_sum_text(self.weights)} {'>' if self.above else '<='} {self.bound}"

    def rows(self, published: PublishedTables) -> NDArray[np.bool_]:
        """Whether each synthetic person is on its side."""
        here = np.ones(published.tables["people"].num_rows, np.bool_)
        total = np.zeros(here.size, np.int64)
        for name, weight in self.weights:
            points = published.numbers[name].scale.points
            codes = published.number_codes[name]
            here &= codes < len(points)
            total += weight * (points.start + points.step * codes)
        side = total > self.bound if self.above else total <= self.bound
        own: NDArray[np.bool_] = here & side
        return own

    def measurable(self, published: PublishedTables) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The columns whose measured histograms may answer, and the cells that do."""
        for column, (weights, thresholds) in _histograms(published).items():
            for place, threshold in enumerate(thresholds):
                same = reduced(weights, threshold, published.numbers)
                if (same.weights, same.bound) == (self.weights, self.bound):
                    upper = same.above != self.above
                    cells = range(len(thresholds) + 1)
                    yield column, tuple(cells[place + 1 :] if upper else cells[: place + 1])


def parse_threshold(text: str, term: str, published: PublishedTables) -> LinearThreshold | None:
    """The threshold that a term of a query is; None where the term compares nothing.

    text: the query that it is a term of, for the errors. Raises UserError.
    """
    compared = _COMPARED.fullmatch(term)
    if compared is None:
        return None
    words, sign, bound = compared.groups()
    weights = _weights(text, words, published)
    if not _WHOLE.fullmatch(bound):
        raise UserError(f"query '{text}': write a whole number after {sign}, not '{bound}'")
    ends = [
        sorted((w * points[0], w * points[-1]))
        for w, points in ((w, published.numbers[name].scale.points) for name, w in weights.items())
    ]
    least, most = (sum(end) for end in zip(*ends, strict=True))
    if max(-least, most) > MOST_SUM:
        raise UserError(f"query '{text}': the sum may be over {MOST_SUM:,}; take smaller weights")
    at_most = int(bound) - (sign in ("<", ">="))
    if not least <= at_most < most:
        raise UserError(
            f"query '{text}': '{words}' is from {least} to {most}; compare it with what is between"
        )
    own = reduced(weights, at_most, published.numbers)
    above = own.above != (sign in (">", ">="))
    return LinearThreshold(own.weights, own.bound, above)


def example_threshold(published: PublishedTables) -> str | None:
    """A threshold that is measured, of a projection before one of a number; None without any."""
    for weights, thresholds in reversed(_histograms(published).values()):
        if thresholds:
            middle = thresholds[len(thresholds) // 2]
            return reduced(weights, middle, published.numbers).text
    return None


def reduced(
    weights: Mapping[str, int], at_most: int, numbers: Mapping[str, Numbers]
) -> LinearThreshold:
    """The sum at or below a number, in the one form that all equal thresholds have."""
    divisor = gcd(*weights.values())
    order = [name for name in numbers if name in weights]
    if weights[order[0]] < 0:
        divisor = -divisor
    own = tuple((name, weights[name] // divisor) for name in order)
    scales = [(w, numbers[name].scale.points) for name, w in own]
    base = sum(w * points.start for w, points in scales)
    unit = gcd(*(w * points.step for w, points in scales))
    if divisor > 0:
        return LinearThreshold(own, base + unit * ((at_most // divisor - base) // unit), False)
    # The reduced sum is at least at_most / divisor, so above the largest sum below that.
    least = -(at_most // -divisor)
    return LinearThreshold(own, base + unit * (-((base - least) // unit) - 1), True)


def _histograms(
    published: PublishedTables,
) -> dict[str, tuple[dict[str, int], tuple[int, ...]]]:
    """By column that may be measured, its weights and where it is cut: numbers, projections."""
    own: dict[str, tuple[dict[str, int], tuple[int, ...]]] = {}
    for name, numbers in published.numbers.items():
        points = numbers.scale.points
        own[name] = {name: 1}, tuple(points[start - 1] for start in numbers.starts[1:-1])
    for column, cells in published.projections.items():
        ends = [cell.partition("..")[2] for cell in cells if cell != ABSENT]
        own[column] = _measured_weights(column), tuple(int(end) for end in ends[:-1])
    return own


def _measured_weights(column: str) -> dict[str, int]:
    """Of the name of a projection, such as 2*age-3*income. Names may have signs, not a *."""
    first, *parts = column.split("*")
    weights, weight = dict[str, int](), int(first)
    for part in parts[:-1]:
        sign = max(part.rfind("+"), part.rfind("-"))
        weights[part[:sign]], weight = weight, int(part[sign:])
    return {**weights, parts[-1]: weight}


def _sum_text(weights: tuple[tuple[str, int], ...]) -> str:
    words = (f"{'-' if w < 0 else '+'}{'' if abs(w) == 1 else f'{abs(w)}*'}{n}" for n, w in weights)
    return "".join(words).removeprefix("+")


def _weights(text: str, words: str, published: PublishedTables) -> dict[str, int]:
    """By number, its weight. Raises UserError for words that are no sum of numbers."""
    if not published.numbers:
        raise UserError(f"query '{text}': only numbers are compared, and no column is a number")
    term = _term(published.numbers)
    weights, place = dict[str, int](), 0
    while place < len(words) or not weights:
        part = term.match(words, place)
        if part is None or (weights and not part[1]):
            raise UserError(f"query '{text}': {_fault(words[place:], published)}")
        sign, digits, name = part.groups()
        weight = int(sign + (digits or "1"))
        if name in weights or not weight:
            why = "stands twice in the sum" if name in weights else "has the weight 0; leave it out"
            raise UserError(f"query '{text}': '{name}' {why}")
        weights[name], place = weight, part.end()
    return weights


def _term(names: Iterable[str]) -> re.Pattern[str]:
    """One of these names with its sign and weight, and another term or nothing behind it."""
    either = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.compile(rf"\s*([+-]?)\s*(?:([0-9]{{1,16}})\s*\*\s*)?({either})(?=\s*(?:[+-]|$))")


def _fault(words: str, published: PublishedTables) -> str:
    """Why words are no sum of numbers, and what to write."""
    numbers, columns = list(published.numbers), published.names["people"]
    example = f"write a sum of numbers, such as 2*{numbers[0]}"
    example += f"-{numbers[1]}" if len(numbers) > 1 else ""
    known = _term(columns).match(words)
    if known is not None and known[3] not in numbers:
        return f"'{known[3]}' is no number; there are {', '.join(numbers)}"
    named = re.match(r"\s*[+-]?\s*(?:[0-9]+\s*\*\s*)?([A-Za-z0-9][A-Za-z0-9._-]*)\s*$", words)
    if named is None or named[1] in numbers:
        return example
    near = nearest(named[1], columns)
    return f"'{named[1]}' is no column; numbers are {', '.join(numbers)}{near}"
