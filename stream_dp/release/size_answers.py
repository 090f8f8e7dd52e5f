"""Answers about the sizes of a region's groups, with errors if measurements state them.

A number of groups is a sum of entries of H, or a difference of two entries of Hc; the number of
members is the sum of Hg, or the number of groups for each size less the sum of Hc. These are
unbiased, with a variance that the noise alone decides. Quantiles, skewness and further answers that
rest on a regression have no known variance.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError

from .answer import QUANTILE, Answer, Region, Synthetic

Int64Array = NDArray[np.int64]
QUERIES = "'size 3', 'at-least 3', 'quantile 1/2', 'mean' or 'skewness'"
EXAMPLES = ("size 3", "at-least 3", "quantile 1/2", "mean", "skewness")
METHOD = "unbiased, from the measurements of this region alone"
PUBLISHED = "the published sizes alone"
_QUERY = re.compile(r"(size|at-least|quantile) +([0-9./]{1,40})|(mean|skewness)")


@dataclass(frozen=True)
class MeasuredRegion:
    """The published sizes and measurements of a region.

    size, groups: int64 (d,), the published sizes in increasing order, and their numbers of groups;
        consistent with other regions.
    largest: the public cap of sizes.
    method: one of `place_releases.SizesMethod`.
    values: the noisy values, None if not published.
    variance: of the noise in a value.
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

    def answer(
        self, query: str, *, release: str = "", period: str = "", region: Region = ()
    ) -> Answer:
        """The answer to a query in words, one of `QUERIES`. Raises UserError.

        size S: how many groups have S members; at-least S: how many have S or more; quantile Q: the
        least size that a share Q of the groups does not exceed; mean and skewness: of the sizes.
        release, period, region: what the answer is of, where these sizes are published
        """
        match = _QUERY.fullmatch(query.strip())
        if match is None:
            raise UserError(f"query '{query}': not understood; write {QUERIES}")
        kind, number, moment = match.groups()
        answer = Answer(
            release=release,
            query=query.strip(),
            period=period,
            measure=moment or ("quantile" if kind == "quantile" else "count"),
            unit="groups",
            value=float("nan"),
            standard_error=None,
            interval=None,
            method=PUBLISHED,
            origin=Synthetic.SIZES,
            region=region,
        )
        if not self.total:
            return replace(answer, synthetic=float("nan"), reason="the region has no groups")
        if moment:
            return self._mean(answer) if moment == "mean" else self._skewness(answer)
        try:
            argument = Fraction(number)
        except (ValueError, ZeroDivisionError):
            raise UserError(f"query: '{number}' is no number; write {QUERIES}") from None
        if kind == "quantile":
            return self._quantile(answer, argument)
        if argument.denominator != 1 or argument > self.largest:
            raise UserError(
                f"query: sizes are whole numbers up to {self.largest}, where larger groups count"
            )
        size = int(argument)
        upper = self.largest if kind == "at-least" else size
        return self._between(answer, size, upper)

    def _between(self, answer: Answer, low: int, high: int) -> Answer:
        """The number of groups with a size from `low` to `high`.

        Its estimate is the cumulative count at `high` less that at `low - 1`. The counts of no
        group and of all groups have no noise. Of a histogram the fewer entries are added up, those
        of the sizes or those of all other sizes.
        """
        value = float(self.groups[(self.size >= low) & (self.size <= high)].sum())
        if self.values is None or self.method == "sorted":
            return _published(answer, value, self._no_counts())
        if self.method == "naive":
            inside, everywhere = int(self.values[low : high + 1].sum()), int(self.values.sum())
            entries, others = high - low + 1, self.largest - (high - low)
            if others < entries:
                inside, entries = self.total - (everywhere - inside), others
            return _measured(answer, value, inside, float(entries * self.variance) ** 0.5)
        lower = 0 if low == 0 else int(self.values[low - 1])
        up_to = self.total if high == self.largest else int(self.values[high])
        entries = (low > 0) + (high < self.largest)
        error = float(entries * self.variance) ** 0.5
        return _measured(answer, value, float(up_to - lower), error)

    def _no_counts(self) -> str:
        if self.values is None:
            return "the level has too many noisy values to be published"
        return "the sizes were measured here, and not numbers of groups"

    def _mean(self, answer: Answer) -> Answer:
        """The members over the groups. The members are the sum of the sorted sizes.

        Of cumulative counts c(0), .., c(largest - 1) they are groups * largest - sum of c(s).
        """
        groups = self.total
        value = float(self.size @ self.groups) / groups
        if self.values is None:
            return _published(answer, value, self._no_counts())
        if self.method == "sorted":
            members, variance = float(self.values.sum()), float(groups)
        elif self.method == "naive":
            weights = np.arange(self.largest + 1)
            members, variance = float(weights @ self.values), float(weights @ weights)
        else:
            members = float(groups * self.largest - self.values.sum())
            variance = float(self.largest)
        error = (variance * self.variance) ** 0.5 / groups
        return _measured(answer, value, members / groups, error)

    def _quantile(self, answer: Answer, share: Fraction) -> Answer:
        """The size at the rank ceil(share * groups), without an error."""
        if not 0 <= share <= 1:
            raise UserError("query: a quantile lies between 0 and 1")
        rank = max(1, -(-share.numerator * self.total // share.denominator))
        position = int(np.searchsorted(np.cumsum(self.groups), rank))
        value = float(self.size[position])
        return _published(answer, value, "a quantile is no sum of measurements")

    def _skewness(self, answer: Answer) -> Answer:
        """The third central moment over the standard deviation cubed; NaN for equal sizes."""
        share = self.groups / self.total
        deviation = self.size - share @ self.size
        second = float(share @ deviation**2)
        value = float(share @ deviation**3) / second**1.5 if second else float("nan")
        return _published(answer, value, "a skewness is no sum of measurements")


def _published(answer: Answer, value: float, reason: str) -> Answer:
    """The answer of the published sizes alone. reason: for the missing error"""
    return replace(answer, value=value, synthetic=value, reason=reason)


def _measured(answer: Answer, published: float, unbiased: float, error: float) -> Answer:
    """The answer from the region's measurements beside the published sizes' answer."""
    interval = unbiased - QUANTILE * error, unbiased + QUANTILE * error
    return replace(
        answer,
        value=unbiased,
        standard_error=error,
        interval=interval,
        method=METHOD,
        synthetic=published,
    )
