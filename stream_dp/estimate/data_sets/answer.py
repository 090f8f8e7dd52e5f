"""How each kind of data set answers a query in words.

A kind is in `KINDS` with what it can be asked and how it answers: that is all that clients,
commands and pages know of it. An answer without measurements behind it has no error, and says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from stream_dp.errors import UserError

from ..estimator import fieller_ratios
from ..level import LEVEL, QUANTILE
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
from .published import PublishedTables, Weights
from .residual_weights import people_weights, residual_weights

LINEAR = "linear and unbiased, from measured residuals of the numbers or their sum"
NO_ERROR = "the synthetic records alone: no measurement says how far off they are"
BOUNDED = (
    "the synthetic records alone; the interval is what measured single columns leave open, however"
    " they depend on each other"
)


@dataclass(frozen=True)
class DataSetEstimate:
    """An answer about a data set, and the synthetic records' own.

    measure: "count" or "share"
    people: whom it counts: `people`, or the study's word for groups
    value: unbiased where there is an error; otherwise the records' own
    standard_error, interval: of this level, of the privacy noise alone; None without measurements.
        Where the columns were measured each by itself, not together, there is an interval alone
    records: the answer of the synthetic rows
    method: how the value was computed, in words
    """

    release: str
    query: str
    period: str
    measure: str
    people: str
    value: float
    standard_error: float | None
    interval: tuple[float, float] | None
    level: float
    records: float
    method: str

    def as_dict(self) -> dict[str, Any]:
        interval = None if self.interval is None else list(self.interval)
        return {**self.__dict__, "interval": interval}


class DataSetKind(Protocol):
    """examples: queries that it can be asked
    answer: to a query in words; raises UserError where the words are none of its queries
    every: the answers to all queries of few columns, as counts and as shares
    """

    def examples(self, published: PublishedTables) -> list[str]: ...
    def answer(self, published: PublishedTables, words: str, *, count: bool) -> DataSetEstimate: ...
    def every(self, published: PublishedTables) -> Iterator[DataSetEstimate]: ...


@dataclass(frozen=True)
class Conjunctions:
    """Kinds that are asked for values of columns, and answer linearly in their measurements.

    weights: of a query; None where no measurement says it
    method: of an answer from measurements, in words
    """

    weights: Callable[[Conjunction, PublishedTables], Weights | None]
    method: str

    def examples(self, published: PublishedTables) -> list[str]:
        return example_conjunctions(published)

    def answer(self, published: PublishedTables, words: str, *, count: bool) -> DataSetEstimate:
        return self._answered(published, parse_conjunction(words, published), count=count)

    def every(self, published: PublishedTables) -> Iterator[DataSetEstimate]:
        for query in small_conjunctions(published):
            yield self._answered(published, query, count=True)
            with suppress(UserError):  # of how many people is not known well enough
                yield self._answered(published, query, count=False)

    def _answered(
        self, published: PublishedTables, query: Conjunction, *, count: bool
    ) -> DataSetEstimate:
        rows = max(1, published.tables[query.table].num_rows)
        own = matching_rows(query, published) / (1 if count else rows)
        weights = self.measured(query, published)
        groups = published.study.groups
        unit = groups.unit + "s" if query.table == "groups" and groups is not None else "people"
        value, error, interval, method = own, None, None, NO_ERROR
        total = self.total(query, published)
        if weights is not None:
            value, error, interval = _measured(weights, total, published, count)
            method = LINEAR if query.linear else self.method
        elif singles := single_columns(query, published, self.weights):
            with suppress(UserError):  # of how many people is not known well enough
                interval = bounds(
                    singles, total, lambda one, z: _measured(one, total, published, count, z)[2]
                )
                method = BOUNDED
        return DataSetEstimate(
            release=published.declared.name,
            query=query.text,
            period=published.period,
            measure="count" if count else "share",
            people=unit,
            value=value,
            standard_error=error,
            interval=interval,
            level=LEVEL,
            records=own,
            method=method,
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


_OF_GROUPS = Conjunctions(marginal_weights, "sums of measured marginals, by inverse variance")
KINDS: Mapping[str, DataSetKind] = {
    **dict.fromkeys(
        ("mixture", "rap"),
        Conjunctions(residual_weights, "best linear unbiased, from measured residuals"),
    ),
    "match": Conjunctions(match_weights, "linear and unbiased, from measured residuals"),
    **dict.fromkeys(("independent", "mwem", "hpd-fixed", "hpd-gen"), _OF_GROUPS),
}


def answering(published: PublishedTables) -> DataSetKind:
    """How the data set answers. Raises UserError where its kind cannot."""
    kind = KINDS.get(published.declared.kind)
    if kind is None:
        raise UserError(
            f"release '{published.declared.name}': a data set of kind '{published.declared.kind}'"
            " is not asked in words; 'stream-dp export' writes it"
        )
    return kind
