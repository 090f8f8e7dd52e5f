"""Joint answers: covariances, combinations, differences, ratios and simultaneous bands.

Answers about a stream share its measurements and equalities, so their errors are correlated. Errors
of different streams, data sets or regions are independent. Counts are linear in the measurements,
and their covariances exact. Shares of a noisy number of people are ratios, with covariances to the
first order. Errors are of the privacy noise alone, and intervals take the noise as normal.

A band that covers several true answers simultaneously has a width in standard errors. Errors are
taken as jointly normal, with the correlations that follow from the measurements. The
quantile of the largest |error| over its standard error is found by simulation: the draws have a
fixed seed, so all analysts get the same band, and of their ordered maxima the one is taken that is
below the true quantile with a probability of at most RISK. Where that is more, Sidak's bound is
taken instead: it treats answers as independent, which is never too narrow for normal errors (Sidak
1967, "Rectangular confidence regions for the means of multivariate normal distributions").

Shares are ratios of two noisy numbers, with Fieller's interval, for the noise and for sampling. Let
v and n be the noisy numbers, with variances V_v and V_n and covariance C. The standard error of the
share s = v / n is that of the first order. The interval of Fieller 1954 holds all shares p with

    (v - p n)^2  <=  z^2 (V_v - 2 p C + p^2 V_n),

so it covers as a normal interval does however noisy n is. If the people are a random sample,
v - p n also varies by the sampling, with variance k p (1 - p) for k = n * design effect * (1 -
fraction). This term is added to the bracket: without noise the interval is Wilson's (1927).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import NamedTuple, TypeVar

import numpy as np
import scipy

from stream_dp.errors import UserError
from stream_dp.release.answer import LEVEL, QUANTILE, Answer, Interval, ReleaseQuery, Sampled
from stream_dp.study.declared_sections import Sampling

from .measurement_blocks import Floats

_CERTAIN = 1e-13  # of a share's variance without correlation: below it, a rounding of floats
UNCLEAR = "share: the noisy number of people is not clearly positive; ask for a count"


class ShareIntervals(NamedTuple):
    """Shares, standard errors, low and high ends, (n,) each; NaN for shares without an interval."""

    values: Floats
    errors: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Ratios:
    """Noisy values over noisy numbers of people, (n,) each.

    variances, of_people: of each value and number of people
    together: the covariance of each value with its number of people
    """

    values: Floats
    variances: Floats
    people: Floats
    of_people: Floats
    together: Floats

    @classmethod
    def of(
        cls, value: float, variance: float, people: float, of_people: float, together: float
    ) -> Ratios:
        """A single ratio."""
        numbers = (value, variance, people, of_people, together)
        return cls(*(np.array([number]) for number in numbers))

    def intervals(self, z: float = QUANTILE) -> ShareIntervals:
        """The intervals of the noise. z: standard errors to every side of a normal answer."""
        shares, noise = self._shares(z)
        n = self.people
        low, high = self._ends(shares, noise, np.zeros_like(shares), z)
        return ShareIntervals(shares, np.sqrt(noise) / n, low, high)

    def sampled(self, design: Sampling, z: float = QUANTILE) -> ShareIntervals:
        """The intervals of noise and sampling together. Each contains the interval of the noise."""
        shares, noise = self._shares(z)
        sampling = design.factor * np.maximum(self.people, 0.0)
        clipped = np.clip(shares, 0.0, 1.0)
        low, high = self._ends(shares, noise, sampling, z)
        alone = self._ends(shares, noise, np.zeros_like(shares), z)
        errors = np.sqrt(noise + sampling * clipped * (1 - clipped)) / self.people
        return ShareIntervals(shares, errors, np.fmin(low, alone[0]), np.fmax(high, alone[1]))

    def _shares(self, z: float) -> tuple[Floats, Floats]:
        """The shares s = v / n, and the variances of v - s n, (n,) each.

        v: a noisy value. n: its noisy number of people. z: as in `intervals`.

        A share is NaN if n is not z standard errors above 0. The variance is
        Var v - 2 s Cov(v, n) + s^2 Var n; it is 0 where no more than rounding is left of it.
        """
        clear = self.people > z * np.sqrt(np.maximum(self.of_people, 0.0))
        shares = self.values / np.where(clear, self.people, np.nan)
        of_people = shares**2 * self.of_people
        noise = self.variances - 2 * shares * self.together + of_people
        certain = noise <= _CERTAIN * (self.variances + of_people)
        return shares, np.where(certain, 0.0, noise)

    def _ends(
        self, shares: Floats, noise: Floats, sampling: Floats, z: float
    ) -> tuple[Floats, Floats]:
        """The roots of the inequality, written in the distance from the share; NaN without roots.

        sampling: k of every share.
        """
        a = self.people**2 - z * z * (self.of_people - sampling)
        b = z * z * (shares * self.of_people - self.together + sampling * (0.5 - shares))
        c = z * z * (noise + sampling * shares * (1 - shares))
        squares = b * b + a * c
        # A sum below 0 has no root: a share far outside of 0 to 1.
        reach = np.sqrt(np.where(squares < 0, np.nan, squares))
        return shares + (b - reach) / a, shares + (b + reach) / a


def fieller_ratio(ratio: Ratios, z: float) -> tuple[float, float, Interval]:
    """The share, the first-order standard error and Fieller's interval of a single ratio.

    Raises UserError where the number of people is not clearly above 0, so that this is no interval.
    """
    share, error, low, high = (float(column[0]) for column in ratio.intervals(z))
    if np.isnan(share):
        raise UserError(UNCLEAR)
    return share, error, (low, high)


def sampled_shares(ratios: Ratios, design: Sampling | None) -> list[Sampled | None]:
    """The intervals of noise and sampling together, where the study declares its sampling."""
    if design is None:
        return [None] * ratios.values.size
    _, errors, low, high = ratios.sampled(design)
    columns = zip(errors.tolist(), low.tolist(), high.tolist(), strict=True)
    return [
        None if np.isnan(error) else Sampled(error, (below, above), design.label)
        for error, below, above in columns
    ]


DRAWS, RISK = 50_000, 1e-3
_SEED = 1967
_AT_ONCE = 2_000_000  # numbers


def simultaneous_quantiles(covariance: Floats, levels: Sequence[float]) -> list[float]:
    """By level, the number of standard errors for a covariance (n, n).

    Raises UserError unless every level lies between 0 and 1.
    """
    for level in levels:
        if not 0 < level < 1:
            raise UserError(f"level {level}: must lie between 0 and 1")
    variances = covariance.diagonal()
    noisy = np.flatnonzero(variances > 0)  # others are certain
    if not noisy.size:
        return [0.0] * len(levels)
    bounds = [NormalDist().inv_cdf((1 + level ** (1 / noisy.size)) / 2) for level in levels]
    ranks = [_binomial_quantile(1 - RISK, DRAWS, level) for level in levels]  # from 0
    if noisy.size == 1 or min(ranks) >= DRAWS:
        return bounds
    errors = np.sqrt(variances[noisy])
    correlation = covariance[np.ix_(noisy, noisy)] / np.outer(errors, errors)
    maxima = np.sort(_maxima(correlation))
    return [
        bound if rank >= DRAWS else min(bound, float(maxima[rank]))
        for bound, rank in zip(bounds, ranks, strict=True)
    ]


def _binomial_quantile(q: float, n: int, p: float) -> int:
    """The least k with P(X <= k) >= q for a binomial X of n trials, each a success with p."""
    return bisect_left(range(n), True, key=lambda k: bool(scipy.special.bdtr(k, n, p) >= q))


def _maxima(correlation: Floats) -> Floats:
    """The largest |error| of every draw, (DRAWS,)."""
    values, vectors = np.linalg.eigh(correlation)
    # The symmetric root is unique, whatever vectors a machine's library finds.
    root = vectors * np.sqrt(np.maximum(0.0, values)) @ vectors.T
    random = np.random.default_rng(_SEED)
    chunk = max(1, _AT_ONCE // len(root))
    maxima = np.zeros(DRAWS)
    for start in range(0, DRAWS, chunk):
        chunk_maxima = maxima[start : start + chunk]
        draws = random.standard_normal((chunk_maxima.size, len(root))) @ root
        np.abs(draws).max(axis=1, out=chunk_maxima)
    return maxima


Q = TypeVar("Q")
_SHOWN = 10  # answers in a notebook
INDEPENDENT = "both, whose noise is independent"
TOGETHER = "both, with the error that they have together"


@dataclass(frozen=True, eq=False)
class JointAnswers:
    """Answers with the covariance of their errors: the result of `PublicLog.answers`.

    covariance: (n, n); NaN in the row and the column of an answer without a standard error
    """

    answers: tuple[Answer, ...]
    covariance: Floats

    @cached_property
    def values(self) -> Floats:
        """(n,)"""
        return np.array([answer.value for answer in self.answers])

    @cached_property
    def standard_errors(self) -> Floats:
        """(n,)"""
        return np.sqrt(np.maximum(0.0, self.covariance.diagonal()))

    def _repr_html_(self) -> str:
        return "".join(answer._repr_html_() for answer in self.answers[:_SHOWN])

    def combined(self, weights: Floats) -> JointAnswers:
        """weights @ answers: (m,) answers for (m, n), for example changes since a period."""
        covariance = weights @ self.covariance @ weights.T
        errors = np.sqrt(np.maximum(0.0, covariance.diagonal()))
        rows = zip(weights, weights @ self.values, errors, strict=True)
        return JointAnswers(tuple(self._combination(*row) for row in rows), covariance)

    def _combination(self, weights: Floats, value: float, error: float) -> Answer:
        """The answer weights @ answers, with its value and error. weights: (answers,)."""
        positions = np.flatnonzero(weights)
        terms_of = [self.answers[position] for position in positions] or [self.answers[0]]
        terms = (f"{weights[p]:+g} ({_named(self.answers[p])})" for p in positions)
        synthetic = [answer.synthetic for answer in terms_of]
        counted = [number for number in synthetic if number is not None]
        total = float(weights[positions] @ counted) if len(counted) == len(positions) else None
        return with_error(
            Answer(
                release=", ".join(dict.fromkeys(answer.release for answer in terms_of)),
                query=" ".join(terms),
                period=terms_of[-1].period,
                measure=terms_of[0].measure,
                unit=terms_of[0].unit,
                value=float(value),
                standard_error=None,
                interval=None,
                method=terms_of[0].method,
                reason=next((answer.reason for answer in terms_of if answer.reason), ""),
                origin=terms_of[0].origin,
                synthetic=total,
            ),
            float(error),
        )

    def difference(self, first: int, second: int) -> Answer:
        """The answer `first` less the answer `second`, with the joint error of both."""
        minuend, subtrahend = self.answers[first], self.answers[second]
        covariance, shared = self.covariance, self.covariance[first, second]
        variance = covariance[first, first] + covariance[second, second] - 2 * shared
        synthetic = None
        if minuend.synthetic is not None and subtrahend.synthetic is not None:
            synthetic = minuend.synthetic - subtrahend.synthetic
        has_error = not math.isnan(variance)
        change = replace(
            minuend,
            value=minuend.value - subtrahend.value if has_error or synthetic is None else synthetic,
            reason=minuend.reason or subtrahend.reason,
            standard_error=None,
            interval=None,
            synthetic=synthetic,
            padding=None,
            people=minuend.people
            if minuend.people == subtrahend.people
            else f"of {minuend.base} and of {subtrahend.base}",
            sampled=None,
            method=f"{minuend.method}; {TOGETHER if shared else INDEPENDENT}",
            minus=ReleaseQuery(
                subtrahend.release, subtrahend.query, subtrahend.period, subtrahend.region
            ),
        )
        return with_error(change, float(np.sqrt(np.maximum(0.0, variance))))

    def ratio(self, first: int, second: int) -> Answer:
        """The answer `first` over the answer `second`, with the first-order standard error (delta
        method) and the interval of Fieller 1954, which covers however noisy `second` is.

        Raises UserError where `second` is not clearly above 0.
        """
        values, variances = self.values, self.covariance.diagonal()
        together = self.covariance[[first], [second]]
        pair = (values[[first]], variances[[first]], values[[second]], variances[[second]])
        ratios, errors, low, high = Ratios(*pair, together).intervals()
        if np.isnan(ratios[0]):
            raise UserError("ratio: the noisy answer below the line is not clearly above 0")
        numerator, denominator = self.answers[first], self.answers[second]
        return Answer(
            release=numerator.release,
            query=f"({_named(numerator)}) / ({_named(denominator)})",
            period=numerator.period,
            measure="ratio",
            unit="",
            value=float(ratios[0]),
            standard_error=float(errors[0]),
            interval=(float(low[0]), float(high[0])),
            method=numerator.method,
            origin=numerator.origin,
        )

    def band(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """Low and high ends, (n,) each, that cover all true answers simultaneously at `level`.

        `simultaneous_quantiles` has the number of standard errors to both sides. Raises UserError
        where an answer has no standard error.
        """
        return self.bands((level,))[0]

    def bands(self, levels: Sequence[float]) -> list[tuple[Floats, Floats]]:
        """By level, the low and high ends, (n,) each, that cover all true answers simultaneously.

        Raises UserError where an answer has no standard error.
        """
        for answer in self.answers:
            if answer.reason:
                raise UserError(f"query '{answer.query}': no error is known: {answer.reason}")
        quantiles = simultaneous_quantiles(self.covariance, levels)
        reaches = (quantile * self.standard_errors for quantile in quantiles)
        return [(self.values - reach, self.values + reach) for reach in reaches]


def with_error(answer: Answer, error: float) -> Answer:
    """The answer with a standard error and the normal interval; unchanged if `error` is NaN."""
    if math.isnan(error):
        return answer
    interval = answer.value - QUANTILE * error, answer.value + QUANTILE * error
    return replace(answer, standard_error=error, interval=interval, reason="")


def joined(
    queries: Sequence[Q],
    source: Callable[[Q], Hashable],
    answered: Callable[[list[Q]], JointAnswers],
) -> JointAnswers:
    """The answers to all queries, in order; answers of different sources are independent.

    source: where the noise of a query's answer comes from
    answered: the answers to queries of one source
    """
    sources = [source(query) for query in queries]
    answers: dict[int, Answer] = {}
    covariance = np.zeros((len(queries), len(queries)))
    for shared in dict.fromkeys(sources):
        positions = [i for i, query_source in enumerate(sources) if query_source == shared]
        joint = answered([queries[position] for position in positions])
        answers |= zip(positions, joint.answers, strict=True)
        covariance[np.ix_(positions, positions)] = joint.covariance
    return JointAnswers(tuple(answers[position] for position in range(len(queries))), covariance)


def _named(answer: Answer) -> str:
    return f"{answer.release}, {answer.query} at {answer.period}"
