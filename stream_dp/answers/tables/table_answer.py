"""Answers of tables of people, with groups or with events, to queries in words.

Every kind of table answers queries for values of columns. The measurement strategy of a table
decides the weights of an answer (`people_counts.py`), which cells that rules of the table exclude
make more precise (`ruled_out.py`). An answer without measurements has no error, and a reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations, product
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import scipy

from stream_dp.errors import UserError
from stream_dp.release.answer import LEVEL, QUANTILE, Answer, Interval, Sampled, Synthetic
from stream_dp.study.families import Measured, Registry

from ..joint_answers import JointAnswers, Ratios, fieller_ratio, sampled_shares
from ..query import query_words
from ..tidy_rows import Row, answer_table
from .conjunction import (
    Conjunction,
    among_answering,
    matching_rows,
    parse_among,
)
from .limited_records import limited_records
from .people_counts import count_weights, people_weights
from .ruled_out import GIVEN_RULES, excluding_rules, given_rules, ruled_out_text
from .table_facts import Floats, PublishedTables, Weights, weighted_sum

_MOST_PAIRED = 2_000  # cells of all pairs of columns of a table
_ZERO = Weights(np.zeros(0, np.int64), np.zeros(0))


LINEAR = "linear and unbiased, from measured residuals of the numbers or their sum"
NO_ERROR = "the synthetic records alone: no measurement says how far off they are"
BOUNDED = (
    "the synthetic records alone; the interval is what measured single columns leave open, however"
    " they depend on each other"
)
NOT_MEASURED = "no measurement says how far off its answer is"
NOT_TOGETHER = "its columns were measured each by itself, not together"


# The two-sided interval of an answer, given the number of standard deviations to each side.
Intervals = Callable[[Weights, float], Interval]


@dataclass(frozen=True, eq=False)
class Conjunctions:
    """Answers to queries for values of columns, linear in the measurements of a data set."""

    published: PublishedTables

    def answer(self, text: str, *, count: bool) -> Answer:
        """The answer to a query in words. Raises UserError if `text` is no query."""
        query, among = self.asked(text, count=count)
        return self._answered(query, among, count=count)

    def asked(self, text: str, *, count: bool) -> tuple[Conjunction, Conjunction | None]:
        """The query, and the rows of which a share is; None for all rows. Raises UserError."""
        words = query_words(text)
        query, among = parse_among(words, self.published)
        if count or words.among is not None:
            return query, among
        return self.based(query)

    def based(self, query: Conjunction) -> tuple[Conjunction, Conjunction | None]:
        """The answering rows of a query, and all answering rows: the base of its share.

        The base is all rows, None, where those who answered are not measured.
        """
        pair = among_answering(query, self.published)
        if pair is None or self.measured(pair[1]) is None:
            return query, None
        return pair

    def every(self, *, paired: bool = True) -> Iterator[Answer]:
        """The answers to all queries for one or two columns, in counts and in shares.

        paired: whether for two columns, too.
        """
        for query in _small_conjunctions(self.published, paired=paired):
            yield self._answered(query, count=True)
            with suppress(UserError):  # of how many people is not known well enough
                yield self._answered(*self.based(query), count=False)

    def joint(self, queries: Sequence[str], *, count: bool) -> JointAnswers:
        """The answers to queries in words about a data set.

        Raises UserError if a query is not measured.
        """
        weights, totals = [], []
        for text in queries:
            query, among = self.asked(text, count=count)
            measured, total = self.measured(query), self.total(query, among)
            if measured is None or total is None:
                raise UserError(f"query '{query.text}': {self._unmeasured(query, among)}")
            weights.append(measured)
            totals.append(total)
        answers = tuple(self.answer(text, count=count) for text in queries)
        values, errors = _with_errors(weights, self.published)
        if not count:
            people, theirs = _with_errors(totals, self.published)
            # Shares to the first order: (value - share * people) / people.
            values = values / people
            errors = scipy.sparse.csr_array((errors - theirs * values[:, None]) / people[:, None])
        exact = (replace(a, value=float(v)) for a, v in zip(answers, values, strict=True))
        return JointAnswers(tuple(exact), (errors @ errors.T).toarray())

    def _answered(
        self,
        query: Conjunction,
        among: Conjunction | None = None,
        *,
        count: bool,
    ) -> Answer:
        published = self.published
        rows = published.tables[query.table].num_rows
        rows = max(1, rows if among is None else matching_rows(among, published))
        synthetic = matching_rows(query, published) / (1 if count else rows)
        weights, sampled = self.measured(query), None
        unit = published.noun(query.table)
        value, error, interval, method, reason = synthetic, None, None, NO_ERROR, ""
        total = self.total(query, among)
        if weights is None or total is None:
            reason = self._unmeasured(query, among)
        if weights is not None and total is not None:
            value, error, interval = _measured(weights, total, published, count)
            method = self._method(query, weights)
            if not count and published.link is None:
                design = published.study.sampling
                (sampled,) = sampled_shares(_ratio(weights, total, published), design)
            if weights is _ZERO:
                sampled = sampled and Sampled(0.0, (0.0, 0.0), sampled.covers)
        elif total is not None and among is None:
            singles = single_columns(query, published)
            with suppress(UserError):  # the number of people is not clearly positive
                if singles:
                    interval = bounds(
                        singles,
                        total,
                        lambda single, z: _measured(single, total, published, count, z)[2],
                    )
                    method, reason = BOUNDED, NOT_TOGETHER
        return Answer(
            release=published.declared.name,
            query=query.text,
            period=published.period,
            measure="count" if count else "share",
            unit=unit,
            people=unit if among is None else f"among {among.text}",
            value=value,
            standard_error=error,
            interval=interval,
            method=method,
            reason=reason,
            origin=Synthetic.RECORDS,
            synthetic=synthetic,
            sampled=sampled,
        )

    def _unmeasured(self, query: Conjunction, among: Conjunction | None) -> str:
        """Why a query without weights has no error, in words."""
        bounds_of_numbers = (*query.linear, *(among.linear if among is not None else ()))
        divided = (threshold.divided_bin(self.published) for threshold in bounds_of_numbers)
        return next(filter(None, divided), NOT_MEASURED)

    def _method(self, query: Conjunction, weights: Weights) -> str:
        """How an answer from measurements was computed, in words."""
        if weights is _ZERO:
            return ruled_out_text(excluding_rules(query, self.published))
        strategy = self.published.declared.data_set.measured
        method = LINEAR if query.linear else _METHODS[strategy]
        return f"{method}; {GIVEN_RULES}" if weights.ruled else method

    def measured(self, query: Conjunction, *, ruled: bool = True) -> Weights | None:
        """The weights of a query, also with sums of numbers; None if not measured.

        A query that rules of the table exclude is 0 without a measurement.

        ruled: whether cells that rules exclude count as empty.
        """
        if excluding_rules(query, self.published):
            return _ZERO
        candidates = (
            count_weights(measurable, self.published)
            for measurable in (query.measurable(self.published) if query.linear else [query])
        )
        measured = [weights for weights in candidates if weights is not None]
        best = min(measured, key=lambda w: w.covariance(w, self.published), default=None)
        return given_rules(best, self.published) if ruled and best is not None else best

    def total(self, query: Conjunction, among: Conjunction | None) -> Weights | None:
        """The denominator of a share: people or groups. None without a measurement."""
        if among is not None:
            return self.measured(among)
        if self.published.link is None:
            return given_rules(people_weights(self.published), self.published)
        if query.table == "events":
            return count_weights(Conjunction("", query.table, {}), self.published)
        rows = float(self.published.tables[query.table].num_rows)
        return Weights(np.zeros(0, np.int64), np.zeros(0), rows)


def _small_conjunctions(
    published: PublishedTables, *, paired: bool = True
) -> Iterator[Conjunction]:
    """Every value of every column and, for tables with few values, every pair of two columns.

    paired: whether pairs are wanted.
    """
    for table, names in published.names.items():
        columns = {name: published.columns[table][name] for name in names}
        prefix = "" if published.link is None else f"{published.noun(table)}: "
        pairs = list(combinations(names, 2))
        if sum(len(columns[a]) * len(columns[b]) for a, b in pairs) > _MOST_PAIRED or not paired:
            pairs = []
        for cell_columns in [*((name,) for name in names), *pairs]:
            for cell in product(*(range(len(columns[name])) for name in cell_columns)):
                codes = {name: (code,) for name, code in zip(cell_columns, cell, strict=True)}
                description = " & ".join(
                    f"{name}={columns[name][code]}" for name, (code,) in codes.items()
                )
                yield Conjunction(prefix + description, table, {table: codes})


def _measured(
    weights: Weights,
    total: Weights,
    published: PublishedTables,
    count: bool,
    z: float = QUANTILE,
) -> tuple[float, float, Interval]:
    """The answer, the standard error, and the interval of z errors to every side."""
    value, variance = weights.value(published), weights.covariance(weights, published)
    if count:
        error = math.sqrt(variance)
        return value, error, (value - z * error, value + z * error)
    return fieller_ratio(_ratio(weights, total, published), z)


def _ratio(weights: Weights, total: Weights, published: PublishedTables) -> Ratios:
    return Ratios.of(
        weights.value(published),
        weights.covariance(weights, published),
        total.value(published),
        total.covariance(total, published),
        weights.covariance(total, published),
    )


def single_columns(query: Conjunction, published: PublishedTables) -> list[Weights]:
    """The answers of the single columns; empty if a column has none, or for groups."""
    if published.link is not None or query.linear:
        return []
    candidates = [
        count_weights(replace(query, codes={"people": {name: codes}}), published)
        for name, codes in query.of("people").items()
    ]
    measured = [single for single in candidates if single is not None]
    return measured if len(measured) == len(candidates) else []


def bounds(singles: Sequence[Weights], total: Weights, interval_of: Intervals) -> Interval:
    """The interval of a count of people by columns that were not measured together, from 0 on.

    Of N people let c_i have the values that a query names in column i, for k columns. Then
        c_1 + ... + c_k - (k - 1) N  <=  c  <=  min c_i
    for every dependence of the columns (Frechet 1935). Each c_i has an unbiased answer with exact
    noise. The interval has the upper ends of k one-sided intervals and the lower end of one, each
    of 1 - (1 - LEVEL) / (k + 1). By Bonferroni's inequality all hold together at LEVEL at least.

    singles: of each column, at least one.
    total: of the number of people.
    """
    z = NormalDist().inv_cdf(1 - (1 - LEVEL) / (len(singles) + 1))
    high = max(min(interval_of(single, z)[1] for single in singles), 0.0)
    lower = weighted_sum([*((1.0, single) for single in singles), (1.0 - len(singles), total)])
    low = max(interval_of(lower, z)[0], 0.0)
    return min(low, high), high


_METHODS: Registry[Measured, str] = Registry(
    "answers of tables",
    [measured for measured in Measured if measured is not Measured.SIZES],
    {
        Measured.RESIDUALS: "best linear unbiased, from measured residuals",
        Measured.TWO_PHASES: "linear and unbiased, from measured residuals",
        Measured.MARGINALS: "sums of measured marginals, by inverse variance",
    },
)


def table_answers(published: PublishedTables, head: str) -> pa.Table:
    """The answers for each value of every column, and for each pair of values, in a tidy table.

    head: the hash of the newest message that the answers use

    Without measurements behind it an answer is the records' own, and has neither error nor
    interval; it has an interval alone where its columns were measured, but not together.
    """
    number = published.study.periods.numbers[published.period]
    rows = (
        Row(
            number,
            a.query,
            a.measure,
            a.base if a.measure == "share" else None,
            *_row_numbers(a),
            *((None,) * 4 if a.unbiased is None else _row_numbers(a.unbiased)),
        )
        for a in map(limited_records, Conjunctions(published).every())
    )
    return answer_table(published.study, published.declared.name, rows, head=head)


def _row_numbers(answer: Answer) -> tuple[float, float | None, float | None, float | None]:
    """The value, the error and both ends."""
    low, high = answer.interval or (None, None)
    return answer.value, answer.standard_error, low, high


def _with_errors(
    answers: Sequence[Weights], published: PublishedTables
) -> tuple[Floats, scipy.sparse.csr_array]:
    """Values, (n,), and their weights on the measurements in units of the noise, (n, rows)."""
    rows = np.repeat(np.arange(len(answers)), [a.rows.size for a in answers])
    measured = np.concatenate([a.rows for a in answers])
    entries = np.concatenate([a.weights for a in answers]) * np.sqrt(published.variances[measured])
    shape = (len(answers), published.values.size)
    values = np.array([answer.value(published) for answer in answers])
    return values, scipy.sparse.csr_array((entries, (rows, measured.astype(np.int64))), shape=shape)
