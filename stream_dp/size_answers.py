"""Answers about the sizes of a region's groups, with errors where measurements state them.

A number of groups is a sum of entries of H, or a difference of two of Hc; the number of members is
the sum of Hg, or the number of groups for each size less the sum of Hc. Each is unbiased, with a
variance that the noise alone decides. Quantiles, skewness and whatever else rests on a regression
have none that is known.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from .errors import UserError

Int64Array = NDArray[np.int64]
QUERIES = "'size 3', 'at-least 3', 'quantile 1/2', 'mean' or 'skewness'"
_QUERY = re.compile(r"(size|at-least|quantile) +([0-9./]{1,40})|(mean|skewness)")


@dataclass(frozen=True)
class SizeAnswer:
    """The answer to a query.

    value: from the published sizes, which agree with one another at every level.
    unbiased: from the measurements of this region alone; None where they say nothing of it.
    standard_error: of `unbiased`.
    reason: why there is no standard error; empty where there is one.
    """

    value: float
    unbiased: float | None = None
    standard_error: float | None = None
    reason: str = ""

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of `unbiased`, by a normal law; None without a standard error."""
        if self.unbiased is None or self.standard_error is None:
            return None
        reach = NormalDist().inv_cdf(0.975) * self.standard_error
        return self.unbiased - reach, self.unbiased + reach

    def minus(self, other: SizeAnswer) -> SizeAnswer:
        """The difference from an answer of another region or another period.

        Their noise is independent: every region is measured by itself at every period.
        """
        value = self.value - other.value
        first, second = self.standard_error, other.standard_error
        if self.unbiased is None or other.unbiased is None or first is None or second is None:
            return SizeAnswer(value, reason=self.reason or other.reason)
        return SizeAnswer(value, self.unbiased - other.unbiased, math.hypot(first, second))


@dataclass(frozen=True)
class MeasuredRegion:
    """What was published of a region.

    size, groups: int64 (d,), the published sizes in increasing order, and how many groups have
        each; consistent with other regions.
    largest: the public cap of sizes.
    method: what was measured: `histogram`, `sorted`, `cumulative` or `cumulative-squares`.
    values: the noisy values, None where they are not published.
    variance: of the noise in each.
    """

    size: Int64Array
    groups: Int64Array
    largest: int
    method: str
    values: Int64Array | None
    variance: float

    @property
    def total(self) -> int:
        """The number of groups."""
        return int(self.groups.sum())

    def answer(self, query: str) -> SizeAnswer:
        """The answer to a query in words, one of `QUERIES`. Raises UserError.

        size S: how many groups have S members; at-least S: how many have S or more; quantile Q: the
        least size that a share Q of the groups does not exceed; mean and skewness: of the sizes.
        """
        match = _QUERY.fullmatch(query.strip())
        if match is None:
            raise UserError(f"query: write {QUERIES}")
        if not self.total:
            return SizeAnswer(float("nan"), reason="the region has no groups")
        kind, number, moment = match.groups()
        if moment == "mean":
            return self._mean()
        if moment == "skewness":
            return SizeAnswer(self._skewness(), reason="a skewness is no sum of measurements")
        try:
            asked = Fraction(number)
        except (ValueError, ZeroDivisionError):
            raise UserError(f"query: '{number}' is no number; write {QUERIES}") from None
        if kind == "quantile":
            return self._quantile(asked)
        if asked.denominator != 1 or asked > self.largest:
            raise UserError(
                f"query: sizes are whole numbers up to {self.largest}, where larger groups count"
            )
        size = int(asked)
        upper = self.largest if kind == "at-least" else size
        return self._between(size, upper)

    def _between(self, low: int, high: int) -> SizeAnswer:
        """How many groups have a size from `low` to `high`."""
        value = float(self.groups[(self.size >= low) & (self.size <= high)].sum())
        if self.values is None or self.method == "sorted":
            return SizeAnswer(value, reason=self._no_counts())
        if self.method == "histogram":
            # The number of all groups is public: the fewer entries are summed up.
            inside = np.arange(low, high + 1)
            outside = np.setdiff1d(np.arange(self.largest + 1), inside)
            if len(inside) <= len(outside):
                unbiased, entries = float(self.values[inside].sum()), len(inside)
            else:
                unbiased, entries = float(self.total - self.values[outside].sum()), len(outside)
        else:
            below = 0 if low == 0 else int(self.values[low - 1])
            up_to = self.total if high == self.largest else int(self.values[high])
            unbiased, entries = float(up_to - below), (low > 0) + (high < self.largest)
        return SizeAnswer(value, unbiased, float(entries * self.variance) ** 0.5)

    def _no_counts(self) -> str:
        if self.values is None:
            return "the level has too many noisy values to be published"
        return "the sizes were measured here, and not numbers of groups"

    def _mean(self) -> SizeAnswer:
        groups = self.total
        value = float(self.size @ self.groups) / groups
        if self.values is None:
            return SizeAnswer(value, reason=self._no_counts())
        if self.method == "histogram":
            weights = np.arange(self.largest + 1)
            members, variance = float(weights @ self.values), float(weights @ weights)
        elif self.method == "sorted":
            members, variance = float(self.values.sum()), float(groups)
        else:
            members = float(groups * self.largest - self.values.sum())
            variance = float(self.largest)
        return SizeAnswer(value, members / groups, (variance * self.variance) ** 0.5 / groups)

    def _quantile(self, share: Fraction) -> SizeAnswer:
        if not 0 <= share <= 1:
            raise UserError("query: a quantile lies between 0 and 1")
        rank = max(1, -(-share.numerator * self.total // share.denominator))
        place = int(np.searchsorted(np.cumsum(self.groups), rank))
        return SizeAnswer(float(self.size[place]), reason="a quantile is no sum of measurements")

    def _skewness(self) -> float:
        """The third central moment over the standard deviation cubed; nan where all are equal."""
        share = self.groups / self.total
        deviation = self.size - share @ self.size
        second = float(share @ deviation**2)
        return float(share @ deviation**3) / second**1.5 if second else float("nan")
