"""Answers of least error to queries in words, beside the unbiased ones.

Where the people of a share are a noisy number that no series counts, the answer stays unbiased.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from stream_dp.errors import Inconsistent
from stream_dp.release.answer import LEAST_ERROR, QUANTILE, Answer, Sampled
from stream_dp.release.published_weights import PublishedWeights
from stream_dp.study.declared_sections import Sampling

from .error_features import ReleaseSeries
from .estimator import StreamMeasurements
from .joint_answers import Ratios, sampled_shares
from .least_error import Correction, ErrorWeights, Estimate, Term
from .measured_rows import ReleaseMeasurements
from .panel_answer import PanelQuery
from .query import Query, TotalQuery, WindowQuery
from .reruns import Reruns, SeriesLayout
from .unknown_counts import key_of

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
