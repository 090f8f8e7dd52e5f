"""Answers of least error about panels: the panel's count, less its error as reruns predict it.

The weights are published (`error_weights.py`, `reruns.py`), so that every reader has the same
digits. Of a query at a period, the answer is a = p - beta F. In a rerun e - beta (F* - F) is left
of its error. Let v be half the mean square of what is left, and half its mean over the periods. The
variance of what beta takes for an error and is none is r = s^2 roughness, plus

- the square of a tenth of the estimate's error, or of half of it for a total that the panel has
  fewer people of: a panel that lost a few people early is sure of its zeros;
- the square of the excess, where the mean over the periods of x - a is more than 1.5 standard
  deviations of reruns from theirs.

The mean square error of a sum of c_i a_i is

    (inflation (mean (sum c_i left_i)^2 + (sum |c_i| sqrt(r_i))^2) + .3 sum c_i^2) (1 + guard),

with v for the mean of a single answer. Intervals are cut to the possible values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stream_dp.release.answer import QUANTILE, Interval
from stream_dp.release.published_weights import FamilyWeights, GroupWeights

from .error_features import ROUNDING, QuerySeries
from .measurement_blocks import Floats

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
        left = ((self.left[:, now] - self.left[:, then]) ** 2).mean(axis=0) + biases[now]
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
    def left(self) -> Floats:
        """The errors that are left in reruns, (reruns, periods)."""
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
        squares: Floats = (self.left**2).mean(axis=0)
        mean = float(squares[self.query.live].mean())
        return (squares + mean) / 2

    @cached_property
    def biases(self) -> Floats:
        """r, (periods,)."""
        query, live = self.query, self.query.live
        if self.exact:
            return np.zeros(live.size)
        own = (query.estimates - self.answers)[live].mean()
        of_reruns = (query.unbiased - self.left)[:, live].mean(axis=1)
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

        left = sum(t.coefficient * t.correction.left[:, t.time - 1] for t in self.terms)
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
