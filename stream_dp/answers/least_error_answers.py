"""Answers of least error to queries in words, beside the unbiased ones.

Where the people of a share are a noisy number that no series counts, the answer stays unbiased.

An answer is the panel's count, less its error as reruns predict it. The weights are published
(`error_weights.py`, `reruns.py`), so that every reader has the same digits. Of a query at a period,
the answer is a = p - beta F. In a rerun e - beta (F* - F) is left of its error. Let v be half the
mean square of what is left, and half its mean over the periods. The variance of what beta takes for
an error and is none is r = s^2 roughness, plus

- the square of a tenth of the estimate's error, or of half of it for a total that the panel has
  fewer people of: a panel that lost a few people early is sure of its zeros;
- the square of the excess, where the mean over the periods of x - a is more than 1.5 standard
  deviations of reruns from theirs.

The mean square error of a sum of c_i a_i is

    (inflation (mean (sum c_i left_i)^2 + (sum |c_i| sqrt(r_i))^2) + .3 sum c_i^2) (1 + guard),

with v for the mean of a single answer. Intervals are cut to the possible values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stream_dp.errors import Inconsistent
from stream_dp.release.answer import LEAST_ERROR, QUANTILE, Answer, Interval, Sampled
from stream_dp.release.published_panels import FamilyWeights, GroupWeights, PublishedWeights
from stream_dp.study.declared_sections import Sampling

from .estimator import StreamMeasurements
from .joint_answers import Ratios, sampled_shares
from .measured_rows import ReleaseMeasurements
from .measurement_blocks import Floats
from .panel_answer import PanelQuery
from .query import Query, TotalQuery, WindowQuery
from .reruns import ROUNDING, QuerySeries, ReleaseSeries, Reruns, SeriesLayout
from .unknown_counts import key_of

DOUBT = 1.5  # standard deviations of reruns
FLOOR, LOW_TOTAL = 0.1, 0.5  # of the estimate's error


@dataclass(frozen=True)
class ErrorWeights:
    """The weights of a release: of groups of cells, and of families of queries."""

    groups: tuple[GroupWeights, ...]
    families: tuple[FamilyWeights, ...]

    @cached_property
    def _by_key(self) -> dict[tuple[str, int, int, bool], GroupWeights]:
        return {(g.family, g.past, g.future, g.large): g for g in self.groups}

    def group(self, family: str, past: int, future: int, large: bool) -> GroupWeights | None:
        """The weights of a cell's size, or of the next size without weights for this size."""
        own = self._by_key.get((family, past, future, large))
        return own or self._by_key.get((family, past, future, not large))

    def family(self, name: str) -> FamilyWeights | None:
        return next((family for family in self.families if family.family == name), None)


@dataclass(frozen=True, eq=False)
class Correction:
    """A query in all periods with its answers of least error.

    weights: without groups, the answers are the panel's counts
    exact: whether the answers are the unbiased estimates
    """

    query: QuerySeries
    weights: ErrorWeights
    exact: bool = False

    @classmethod
    def best(cls, query: QuerySeries, weights: ErrorWeights) -> Correction:
        """The correction, the panel's counts or the unbiased estimates: those of the least risk."""
        counts = cls(query, ErrorWeights((), weights.families))
        return min(
            cls(query, weights),
            counts,
            cls(query, weights, exact=True),
            key=lambda answers: answers._risk,
        )

    @property
    def _risk(self) -> float:
        """The mean square error of the answers, times that of their changes.

        The product has no unit that one of them could outweigh. Changes are since the period
        before and since the first. Errors that last make good changes of poor answers.
        """
        live, biases, inflation = np.flatnonzero(self.query.live), self.biases, self.inflation
        squares = inflation * (self.variances + biases) + self.rounding
        risk = (1 + self.family.guard) * float(squares[live].mean())
        if live.size == 1:
            return risk
        now = np.concatenate([live[1:], live[2:]])
        then = np.concatenate([np.repeat(live[0], live.size - 1), live[1:-1]])
        left = ((self.rerun_errors[:, now] - self.rerun_errors[:, then]) ** 2).mean(
            axis=0
        ) + biases[now]
        inflated = np.maximum(inflation[now], inflation[then]) * (left + biases[then])
        return risk * (1 + self.family.guard) * float((inflated + 2 * self.rounding).mean())

    @property
    def family(self) -> FamilyWeights:
        """The factor and the guard of the intervals."""
        found = None if self.exact else self.weights.family(self.query.family)
        return found or FamilyWeights(family=self.query.family, factor=QUANTILE, guard=0.0)

    @property
    def rounding(self) -> float:
        return 0.0 if self.exact else ROUNDING

    @cached_property
    def _groups(self) -> tuple[Floats, Floats, Floats]:
        """Beta (features, periods), roughness and inflation (periods,)."""
        query = self.query
        beta = np.zeros((len(query.observed), query.live.size))
        roughness, inflation = np.zeros(query.live.size), np.ones(query.live.size)
        for t in np.flatnonzero(query.live):
            past, future = query.neighbours[:, t].tolist()
            group = self.weights.group(query.family, past, future, query.large)
            if group is not None:
                beta[:, t] = group.beta
                roughness[t], inflation[t] = group.roughness, group.inflation
        return beta, roughness, inflation

    @cached_property
    def answers(self) -> Floats:
        """(periods,)"""
        beta, query = self._groups[0], self.query
        if self.exact:
            return query.estimates
        return query.counts - _predicted(beta, query.observed)

    @cached_property
    def rerun_errors(self) -> Floats:
        """The errors of these answers in reruns: e - beta (F* - F), (reruns, periods)."""
        beta, query = self._groups[0], self.query
        if self.exact:
            return query.unbiased
        if not beta.any():
            return query.panel
        left = query.panel - _predicted(beta, query.noise)
        query.__dict__.pop("noise")  # nine times as large, and not needed again
        return left

    @cached_property
    def variances(self) -> Floats:
        """v, (periods,)."""
        squares: Floats = (self.rerun_errors**2).mean(axis=0)
        mean = float(squares[self.query.live].mean())
        return (squares + mean) / 2

    @cached_property
    def biases(self) -> Floats:
        """r, (periods,)."""
        query, live = self.query, self.query.live
        if self.exact:
            return np.zeros(live.size)
        own = (query.estimates - self.answers)[live].mean()
        of_reruns = (query.unbiased - self.rerun_errors)[:, live].mean(axis=1)
        spread = of_reruns.std(ddof=1)
        excess = max(abs(own - of_reruns.mean()) - DOUBT * spread, 0.0)
        few = (query.family == "total") & (query.counts < query.deviation)
        floor = np.where(few, LOW_TOTAL, FLOOR) * query.deviation
        return self._groups[1] * query.scale**2 + np.where(live, floor**2 + excess**2, 0.0)

    @property
    def inflation(self) -> Floats:
        """(periods,)"""
        return np.ones(self.query.live.size) if self.exact else self._groups[2]


def _predicted(beta: Floats, features: Floats) -> Floats:
    """beta F, in the same order of sums on every machine: (.., periods)."""
    predicted = np.zeros(features.shape[1:])
    for weights, values in zip(beta, features, strict=True):
        predicted += weights * values
    return predicted


class Term(NamedTuple):
    """A coefficient of a query's answer at a period, from 1."""

    coefficient: float
    correction: Correction
    time: int


@dataclass(frozen=True)
class Estimate:
    """An answer of least error.

    value: within the possible values
    terms: of which its error is, to the first order
    low, high: the possible values
    people: the number below the line, of a share; 1 for a count
    """

    value: float
    terms: tuple[Term, ...]
    low: float
    high: float
    people: float = 1.0

    @classmethod
    def of_count(cls, term: Term, largest: float) -> Estimate:
        """A number of people. largest: the largest possible one"""
        coefficient, correction, time = term
        value = coefficient * float(correction.answers[time - 1])
        return cls(min(max(value, 0.0), largest), (term,), 0.0, largest)

    @classmethod
    def of_share(cls, part: Term, base: Term) -> Estimate:
        """A share of the people of a base: a ratio, with first-order terms."""
        people = max(float(base.correction.answers[base.time - 1]), 1.0)
        value = Estimate.of_count(part, people).value / people
        terms = part._replace(coefficient=1 / people), base._replace(coefficient=-value / people)
        return cls(value, terms, 0.0, 1.0, people)

    @classmethod
    def of_share_of(cls, part: Term, size: int) -> Estimate:
        """A share of a public number of people."""
        count = Estimate.of_count(part, size)
        return cls(count.value / size, (part._replace(coefficient=1 / size),), 0.0, 1.0, size)

    def minus(self, other: Estimate) -> Estimate:
        """The difference of two answers, whose errors are known together."""
        taken = (t._replace(coefficient=-t.coefficient) for t in other.terms)
        return Estimate(
            self.value - other.value,
            (*self.terms, *taken),
            self.low - other.high,
            self.high - other.low,
        )

    @property
    def exact(self) -> bool:
        """Whether it is unbiased."""
        return all(term.correction.exact for term in self.terms)

    @cached_property
    def error(self) -> float:
        """The root mean square error."""
        c = np.array([term.coefficient for term in self.terms])

        def each(name: str) -> Floats:
            return np.array([getattr(t.correction, name)[t.time - 1] for t in self.terms])

        left = sum(t.coefficient * t.correction.rerun_errors[:, t.time - 1] for t in self.terms)
        noise = float(np.mean(np.square(left)))
        if len(self.terms) == 1:
            noise = float(c[0] ** 2 * each("variances")[0])
        bias = float((np.abs(c) * np.sqrt(each("biases"))).sum()) ** 2
        rounding = sum(t.correction.rounding * t.coefficient**2 for t in self.terms)
        variance = float(each("inflation").max()) * (noise + bias) + rounding
        guard = max(term.correction.family.guard for term in self.terms)
        return float(np.sqrt(variance * (1 + guard)))

    @property
    def factor(self) -> float:
        """The errors to every side of the interval."""
        return max(term.correction.family.factor for term in self.terms)

    @property
    def interval(self) -> Interval:
        reach = self.factor * self.error
        return max(self.value - reach, self.low), min(self.value + reach, self.high)


_DIGITS = 10  # significant, of answers: the last digits of floats differ between machines
_KEPT = 5000  # corrections of queries in memory


@dataclass(eq=False)
class LeastErrorAnswers:
    """The answers of least error of a release.

    bound: the largest possible count
    """

    series: ReleaseSeries
    weights: ErrorWeights
    bound: float
    _corrections: dict[tuple[object, ...], Correction] = field(default_factory=dict)

    @classmethod
    def of(
        cls, stream: StreamMeasurements, release: ReleaseMeasurements, published: PublishedWeights
    ) -> LeastErrorAnswers | None:
        """The answers; None if the weights are older than the last publication about the people.

        Raises Inconsistent for weights of other counts.
        """
        head, layout = published.head, SeriesLayout(release)
        if head.number != max(each.last for each in stream.releases):
            return None
        if published.counts.size != layout.live.sum():
            raise Inconsistent(
                f"public log: the weights of {head.release} at {head.period} are not of its counts"
            )
        estimates = stream.answers(layout.questions(stream)).values
        series = ReleaseSeries.of(layout, reruns_of(published), estimates)
        return cls(series, ErrorWeights(head.groups, head.families), largest_count(release))

    def answer(self, query: PanelQuery, unbiased: Answer) -> Answer:
        """The answer to a query. unbiased: the other answer, which stays where none is here"""
        found = self._estimate(query, count=unbiased.measure == "count")
        return unbiased if found is None or found.exact else _stated(found, query, unbiased)

    def change(self, query: PanelQuery, since: PanelQuery, unbiased: Answer) -> Answer:
        """The answer to a query less the answer to another."""
        count = unbiased.measure == "count"
        last, first = (self._estimate(each, count=count) for each in (query, since))
        if last is None or first is None:
            return unbiased
        change = last.minus(first)
        return unbiased if change.exact else _stated(change, query, unbiased)

    def numbers(
        self, query: PanelQuery, *, count: bool
    ) -> tuple[float, float, float, float] | None:
        """The value, the error and both ends of the interval; None if the answer is unbiased."""
        found = self._estimate(query, count=count)
        return None if found is None or found.exact else _numbers(found)

    def _estimate(self, query: PanelQuery, *, count: bool) -> Estimate | None:
        """The answer to a query; None where the people of the share are of no series."""
        part = self._term(query, query.query)
        if count:
            return Estimate.of_count(part, self.bound)
        size = query.best.stream.size
        if query.among is None and size is not None:
            return Estimate.of_share_of(part, size)
        among = query.among or self._everybody(query)
        base = None if among is None else self._term(query, among)
        if base is None or not base.correction.query.live[base.time - 1]:
            return None
        return Estimate.of_share(part, base)

    def _term(self, query: PanelQuery, asked: Query) -> Term:
        """The answer to a part of a query, as a term."""
        release, time = query.release, query.release.time(query.number)
        if isinstance(asked, TotalQuery):
            key: tuple[object, ...] = (asked.threshold,)
        else:
            window = release.window
            assert window is not None
            mask = asked.over(window.bins)
            if time < window.width:  # the first window, with any later symbols
                later = window.q ** (window.width - time)
                mask, time = np.repeat(mask[: window.bins // later], later), window.width
            key = (mask.tobytes(),)
        if key not in self._corrections:
            if len(self._corrections) >= _KEPT:
                self._corrections.clear()
            series = (
                self.series.total(asked.threshold)
                if isinstance(asked, TotalQuery)
                else self.series.pattern(mask)
            )
            self._corrections[key] = Correction.best(series, self.weights)
        return Term(1.0, self._corrections[key], time)

    def _everybody(self, query: PanelQuery) -> WindowQuery | None:
        """All who are counted or present at the period, whose number is noisy.

        None where it counts those who have entered.
        """
        stream, window = query.best.stream, query.release.window
        entered = isinstance(query.query, TotalQuery) and (
            stream.entries[key_of(query.release)].get(0) is not None
        )
        if window is None or entered:
            return None
        mask = np.ones(window.q, bool)
        if any(r.window is not None and r.window.absent is not None for r in stream.releases):
            assert stream.absent is not None
            mask[stream.absent] = False
        return WindowQuery("", 1, mask)


def reruns_of(published: PublishedWeights) -> Reruns:
    """The counts and the errors in a message with weights."""
    panel, unbiased = published.errors
    head = published.head
    return Reruns(published.counts, panel, unbiased, head.panel_step, head.unbiased_step)


def largest_count(release: ReleaseMeasurements) -> float:
    """The largest possible number of people of a release: the public one or the declared cap."""
    rows = (part.rows for part in (release.window, release.totals) if part is not None)
    return float(min((number for number in rows if number is not None), default=math.inf))


def _stated(found: Estimate, query: PanelQuery, unbiased: Answer) -> Answer:
    """The unbiased answer with these numbers, and itself beside them."""
    value, error, low, high = _numbers(found)
    design = query.release.study.sampling
    sampled = None if unbiased.sampled is None or design is None else _sampled(found, design)
    return replace(
        unbiased,
        value=value,
        standard_error=error,
        interval=(low, high),
        method=LEAST_ERROR,
        sampled=sampled,
        unbiased=unbiased,
    )


def _sampled(found: Estimate, design: Sampling) -> Sampled | None:
    """The error of a share with that of sampling, as for unbiased answers."""
    reach = found.factor / QUANTILE * found.error * found.people
    ratio = Ratios.of(found.value * found.people, reach**2, found.people, 0.0, 0.0)
    (sampled,) = sampled_shares(ratio, design)
    if sampled is None:
        return None
    drawn = design.factor * found.value * (1 - found.value) / found.people
    error, (low, high) = math.sqrt(found.error**2 + drawn), sampled.interval
    interval = min(low, found.interval[0]), max(high, found.interval[1])
    return replace(
        sampled,
        standard_error=_rounded(error),
        interval=(_rounded(interval[0]), _rounded(interval[1])),
    )


def _numbers(found: Estimate) -> tuple[float, float, float, float]:
    value, error, low, high = map(_rounded, (found.value, found.error, *found.interval))
    return value, error, low, high


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
