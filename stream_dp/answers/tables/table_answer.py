"""How tables of people, or of groups and their members, answer a query in words.

Every kind of table can be asked for values of its columns. What was measured of a table decides how
its answers are weighted: `WEIGHTED` has an entry for every form of measurements. An answer without
measurements behind it has no error, and says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from stream_dp.errors import UserError
from stream_dp.study.families import Measured, Registry

from ..answer import Answer, Synthetic
from ..estimator import fieller_ratios
from ..level import QUANTILE
from .bounds import bounds, single_columns
from .conjunction import (
    Conjunction,
    example_conjunctions,
    matching_rows,
    parse_conjunction,
    small_conjunctions,
)
from .marginal_weights import marginal_weights
from .match_weights import match_weights
from .residual_weights import people_weights, residual_weights
from .table_facts import PublishedTables, Weights

LINEAR = "linear and unbiased, from measured residuals of the numbers or their sum"
NO_ERROR = "the synthetic records alone: no measurement says how far off they are"
BOUNDED = (
    "the synthetic records alone; the interval is what measured single columns leave open, however"
    " they depend on each other"
)
NOT_MEASURED = "no measurement says how far off its answer is"
NOT_TOGETHER = "its columns were measured each by itself, not together"


@dataclass(frozen=True)
class Conjunctions:
    """Answers to queries for values of columns, linear in the measurements of a table.

    weights: gives the weights of a query; None where no measurement answers it
    method: how an answer from measurements was computed, in words
    """

    weights: Callable[[Conjunction, PublishedTables], Weights | None]
    method: str

    def examples(self, published: PublishedTables) -> list[str]:
        """Examples of queries to a table."""
        return example_conjunctions(published)

    def answer(self, published: PublishedTables, words: str, *, count: bool) -> Answer:
        """The answer to a query in words. Raises UserError where the words are no query."""
        return self._answered(published, parse_conjunction(words, published), count=count)

    def every(self, published: PublishedTables) -> Iterator[Answer]:
        """The answers to all queries for one or two columns, as counts and as shares."""
        for query in small_conjunctions(published):
            yield self._answered(published, query, count=True)
            with suppress(UserError):  # of how many people is not known well enough
                yield self._answered(published, query, count=False)

    def _answered(self, published: PublishedTables, query: Conjunction, *, count: bool) -> Answer:
        rows = max(1, published.tables[query.table].num_rows)
        own = matching_rows(query, published) / (1 if count else rows)
        weights = self.measured(query, published)
        groups = published.study.groups
        unit = groups.unit + "s" if query.table == "groups" and groups is not None else "people"
        value, error, interval, method, reason = own, None, None, NO_ERROR, NOT_MEASURED
        total = self.total(query, published)
        if weights is not None:
            value, error, interval = _measured(weights, total, published, count)
            method, reason = LINEAR if query.linear else self.method, ""
        elif singles := single_columns(query, published, self.weights):
            with suppress(UserError):  # of how many people is not known well enough
                interval = bounds(
                    singles, total, lambda one, z: _measured(one, total, published, count, z)[2]
                )
                method, reason = BOUNDED, NOT_TOGETHER
        return Answer(
            release=published.declared.name,
            query=query.text,
            period=published.period,
            measure="count" if count else "share",
            unit=unit,
            people=unit,
            value=value,
            standard_error=error,
            interval=interval,
            method=method,
            reason=reason,
            origin=Synthetic.RECORDS,
            synthetic=own,
        )

    def measured(self, query: Conjunction, published: PublishedTables) -> Weights | None:
        """The weights of a query, sums of numbers too; None where no measurement says it."""
        if not query.linear:
            return self.weights(query, published)
        each = (self.weights(one, published) for one in query.measurable(published))
        known = [weights for weights in each if weights is not None]
        return min(known, key=lambda w: w.covariance(w, published), default=None)

    def total(self, query: Conjunction, published: PublishedTables) -> Weights:
        """The number that a share is of."""
        if "groups" not in published.tables:
            return people_weights(published)
        rows = float(published.tables[query.table].num_rows)
        return Weights(np.zeros(0, np.int64), np.zeros(0), rows)


def _measured(
    weights: Weights,
    total: Weights,
    published: PublishedTables,
    count: bool,
    z: float = QUANTILE,
) -> tuple[float, float, tuple[float, float]]:
    """The answer, its standard error, and the interval of z of them to each side."""
    value, variance = weights.value(published), weights.covariance(weights, published)
    if count:
        error = math.sqrt(variance)
        return value, error, (value - z * error, value + z * error)
    shares, errors, low, high = fieller_ratios(
        values=np.array([value]),
        variances=np.array([variance]),
        people=np.array([total.value(published)]),
        of_people=np.array([total.covariance(total, published)]),
        together=np.array([weights.covariance(total, published)]),
        z=z,
    )
    if np.isnan(shares[0]):
        raise UserError(
            "share: the noisy number of people is not clearly positive; ask for --count"
        )
    return float(shares[0]), float(errors[0]), (float(low[0]), float(high[0]))


WEIGHTED: Registry[Measured, Conjunctions] = Registry(
    "answers of tables",
    [measured for measured in Measured if measured is not Measured.SIZES],
    {
        Measured.RESIDUALS: Conjunctions(
            residual_weights, "best linear unbiased, from measured residuals"
        ),
        Measured.TWO_PHASES: Conjunctions(
            match_weights, "linear and unbiased, from measured residuals"
        ),
        Measured.MARGINALS: Conjunctions(
            marginal_weights, "sums of measured marginals, by inverse variance"
        ),
    },
)


def answering(published: PublishedTables) -> Conjunctions:
    """How the data set answers."""
    return WEIGHTED[published.declared.synthesizer.measured]
