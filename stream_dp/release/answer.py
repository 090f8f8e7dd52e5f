"""The type of every answer: about panels, tables and sizes, and of differences of answers.

Answers about the sizes of a region's groups have errors if measurements state them. A number of
groups is a sum of entries of H, or a difference of two entries of Hc; the number of members is the
sum of Hg, or the number of groups for each size less the sum of Hc. These are unbiased, with a
variance that the noise alone decides. Quantiles, skewness and further answers that rest on a
regression have no known variance.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.notebook_html import html_facts

LEVEL = 0.95  # of intervals
DOUBTFUL = 3.0  # own standard errors from which a fused answer is doubted
DECLARED = "declared"  # `Answer.people`: all, whose number is public
RESPONDENTS = "respondents"  # those who answered in the period
ASSUMED = "drift as in the past"
QUANTILE = NormalDist().inv_cdf((1 + LEVEL) / 2)

Interval = tuple[float, float]
Region = tuple[str, ...]
Json = Mapping[str, object]


class ReleaseQuery(NamedTuple):
    """A query in words to a release.

    period: the label of a period; None for the last one
    region: of sizes, the region's path from the top; None for all regions together
    """

    release: str
    query: str
    period: str | None = None
    region: Region | None = None


class Synthetic(StrEnum):
    """The published data behind `Answer.synthetic`, and the key of this answer in JSON."""

    PANEL = "panel"
    RECORDS = "records"
    SIZES = "published"


@dataclass(frozen=True)
class Fused:
    """An answer from several months of a table of people, under the assumption of past drift.

    standard_error: under this assumption
    interval: 2.5 standard errors to each side
    periods: the labels of the months, in order
    apart: how far it is from the month's own answer, in standard errors of that
    """

    value: float
    standard_error: float
    interval: Interval
    periods: tuple[str, ...]
    apart: float

    @property
    def doubtful(self) -> bool:
        """Whether the month's own answer contradicts the assumption."""
        return self.apart > DOUBTFUL

    def as_dict(self) -> dict[str, object]:
        """The answer in plain data."""
        return {
            "value": self.value,
            "standard_error": self.standard_error,
            "interval": list(self.interval),
            "periods": list(self.periods),
            "assumes": ASSUMED,
            "doubtful": self.doubtful,
        }


@dataclass(frozen=True)
class Sampled:
    """The error of an answer about the population from which the people were drawn.

    standard_error, interval: of the noise and the sampling together
    covers: what they cover, in words
    """

    standard_error: float
    interval: Interval
    covers: str

    def as_dict(self) -> dict[str, object]:
        """The error in plain data."""
        return {
            "standard_error": self.standard_error,
            "interval": list(self.interval),
            "covers": self.covers,
        }


LEAST_ERROR = "least error"  # `Answer.method`, of panels
RECORDS_LIMITED = (  # of tables
    "the synthetic records' number, at most 1.5 standard errors from the unbiased answer, with the"
    " unbiased answer's interval"
)


def base_words(people: str | None, unit: str) -> str:
    """Of whom a share is, in words, from `Answer.people` and the unit.

    >>> base_words("among respondents", "persons"), base_words("declared", "persons")
    ('respondents', 'all persons')
    >>> base_words("among age=30", "persons"), base_words("present at 2021-05", "persons")
    ('persons with age=30', 'persons present at 2021-05')
    """
    if people is None:
        return unit
    if people in (DECLARED, unit):
        return f"all {unit}"
    word, _, rest = people.partition(" ")
    if word == "of":
        return rest
    if word == "among":
        return rest if rest.startswith(RESPONDENTS) else f"{unit} with {rest}"
    return f"{unit} {people}"


@dataclass(frozen=True)
class Answer:
    """An answer to a query, its error, and what the published synthetic data say themselves.

    release, query, period, region: what the answer is of; the region of sizes alone
    measure: `share` or `count`; of sizes also `mean`, `quantile` and `skewness`; `ratio` of two
    unit: what is counted, in words: `people`, `households`
    value: computed from noisy measurements; what the synthetic data say where none answers the
        query, which is where there is no standard error
    standard_error: of the privacy noise alone; None where no measurement says it. Of an answer of
        least error, and of limited records, its root mean square error (estimates.md)
    interval: of the level `level`, for the privacy noise alone. There may be an interval without a
        standard error, where columns of a table were measured each by itself
    method: how the value was computed, in words
    reason: why there is no standard error; empty where there is one
    origin, synthetic: which synthetic data were published, and their own answer, which padding,
        clamping and repairs may bias; None where it was not counted
    padding: how much of `synthetic` are rows of a panel's padding
    bias: how the synthetic data's answers are biased, in words
    people: whom a share is of, in words: `declared`, or those of a noisy number
    sources, through: the releases and the last period whose measurements the value uses
    minus: the query whose answer was taken off, of a difference
    unbiased: beside an answer of least error, or from records that the measurements limit, the
        unbiased one with its exact error. It is better for a single question that was fixed in
        advance, and where answers must add up
    fused: of tables of people, the answer that uses earlier months as well
    sampled: of shares, the error with that of sampling people; None where no design is declared
    weighted_by: the attribute of the public cells that a weighted answer uses

    >>> answer = Answer("quarters", "pattern 1", "2021-03", measure="share", unit="households",
    ...                 value=0.25, standard_error=0.01, interval=(0.23, 0.27), method="unbiased")
    >>> print(answer)
    pattern 1 at 2021-03: 25.000% (share; households), 95% interval 23.000% to 27.000%
    >>> answer.as_dict()["interval"]
    [0.23, 0.27]
    """

    release: str
    query: str
    period: str
    measure: str
    unit: str
    value: float
    standard_error: float | None
    interval: Interval | None
    method: str
    reason: str = ""
    level: float = LEVEL
    origin: Synthetic = Synthetic.PANEL
    synthetic: float | None = None
    padding: float | None = None
    bias: str | None = None
    people: str | None = None
    sources: tuple[str, ...] = ()
    through: str | None = None
    region: Region | None = None
    minus: ReleaseQuery | None = None
    unbiased: Answer | None = None
    fused: Fused | None = None
    sampled: Sampled | None = None
    weighted_by: str | None = None

    def alone(self) -> Answer:
        """The unbiased answer beside the answer; without one the answer itself."""
        return self.unbiased or self

    @property
    def ends(self) -> Interval:
        """The interval; without an interval the value twice."""
        return self.interval or (self.value, self.value)

    @property
    def base(self) -> str:
        """Of whom a share is, in words: 'respondents', 'all persons'. Else what is counted."""
        return base_words(self.people, self.unit) if self.measure == "share" else self.unit

    @property
    def _people_stated(self) -> str | None:
        if self.measure == "share" and self.people is not None:
            return self.base
        return self.people if self.weighted_by else None

    def _repr_html_(self) -> str:
        low, high = self.ends
        shown = self._shown
        error = "none: " + self.reason
        if self.standard_error is not None:
            words = "one standard error of the noise"
            if self.unbiased is not None:
                words = "root mean square, with the bias"
            error = f"± {shown(self.standard_error)} ({words})"
        facts = [
            ("value", shown(self.value)),
            ("error", error),
            (f"{self.level:.0%} interval", f"{shown(low)} to {shown(high)}"),
            *self._sampled_facts(),
            ("of", self.base),
            ("method", self.method),
        ]
        return html_facts(f"{self.query}, {self.release}, {self.period}", facts)

    def _sampled_facts(self) -> list[tuple[str, str]]:
        if self.sampled is None:
            return []
        low, high = map(self._shown, self.sampled.interval)
        return [(f"{self.level:.0%}, {self.sampled.covers}", f"{low} to {high}")]

    def _shown(self, value: float) -> str:
        """A number for people: shares in percent."""
        return f"{100 * value:.2f} %" if self.measure == "share" else f"{value:,.6g}"

    def _numbers(self) -> Json:
        ends = None if self.interval is None else list(self.interval)
        error = self.standard_error
        return {"value": _number(self.value), "standard_error": error, "interval": ends}

    def __str__(self) -> str:
        form = ".3%" if self.measure == "share" else ",.6g"
        text = f"{self.query} at {self.period}: {self.value:{form}} ({self.measure}; {self.base})"
        if self.interval is None:
            return text
        low, high = self.interval
        return f"{text}, {self.level:.0%} interval {low:{form}} to {high:{form}}"

    def as_dict(self) -> dict[str, object]:
        """The answer in plain data, without fields of other kinds of releases."""
        data: dict[str, object] = {
            "release": self.release,
            "query": self.query,
            "period": self.period,
            "measure": self.measure,
            "unit": self.unit,
            **self._numbers(),
            "level": self.level,
            "method": self.method,
            "reason": self.reason or None,
        }
        if self.synthetic is not None:
            # The key is "panel", "records" or "published".
            data[self.origin.value] = _number(self.synthetic)
        optional: Json = {
            "padding": self.padding,
            "panel_bias": self.bias,
            "people": self._people_stated,
            "sources": list(self.sources) or None,
            "through": self.through,
            "region": None if self.region is None else list(self.region),
            "unbiased": self.unbiased and self.unbiased._numbers(),
            "sampled": self.sampled and self.sampled.as_dict(),
            "weighted_by": self.weighted_by,
        }
        data |= {key: value for key, value in optional.items() if value is not None}
        if self.minus is not None:
            data["minus"] = self.minus.period
            if self.minus.region is not None:
                data["minus_region"] = list(self.minus.region)
        if self.fused is not None:
            data["fused"] = self.fused.as_dict()
        return data


def _number(value: float) -> float | None:
    """The number, with None for NaN."""
    return None if math.isnan(value) else value


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
