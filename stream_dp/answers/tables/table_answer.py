"""Answers of tables of people, with groups or with events, to queries in words.

Every kind of table answers queries for values of columns. The measurement strategy of a table
decides the weights of an answer: `WEIGHTED` has an entry for every strategy. An answer without
measurements has no error, and a reason.

A data set of groups publishes marginals, which give unbiased counts of groups or members. Cells of
a marginal that differ in columns the query does not name are disjoint sets of people, so
their sum answers the query, with independent noise. Several marginals answer it with independent
noise too, and are averaged by inverse variance. A group may have several members, so the cells of
a marginal of groups by columns of members overlap: they are summed over columns of groups alone,
and answer for single values of members' columns only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod
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
from .people_counts import match_weights, people_weights, residual_weights
from .ruled_out import excluding_rules, ruled_out_text
from .table_facts import Floats, PublishedTables, Weights, weighted_sum

_MOST_CELLS = 1 << 16
_MOST_PAIRED = 2_000  # cells of all pairs of columns of a table
_ZERO = Weights(np.zeros(0, np.int64), np.zeros(0))


def marginal_weights(query: Conjunction, published: PublishedTables) -> Weights | None:
    """The weights of a count; None if no measured marginal contains the query.

    Each marginal gives a sum of cells, of a variance that is the sum of theirs. The marginals, and
    repeated measurements of a cell, are averaged by inverse variance.
    """
    link = published.link
    assert link is not None
    several = any(len(codes) > 1 for codes in query.of(link.members).values())
    if query.table == link.owners and several:
        return None
    rows: dict[int, float] = {}
    total = 0.0
    for columns in _marginals(query, published):
        cells = _cells(query, columns, published)
        if cells is None:
            continue
        best = [1 / sum(1 / published.variances[row] for row in cell_rows) for cell_rows in cells]
        precision = 1 / sum(best)
        total += precision
        for cell_rows, variance in zip(cells, best, strict=True):
            for row in cell_rows:
                rows[row] = precision * variance / published.variances[row]
    if not rows:
        return None
    positions = np.array(list(rows), np.int64)
    return Weights(positions, np.array(list(rows.values())) / total)


def _marginals(query: Conjunction, published: PublishedTables) -> Iterator[frozenset[str]]:
    """The columns of the measured marginals that may contain the query."""
    named = frozenset(name for names in query.codes.values() for name in names)
    link = published.link
    assert link is not None
    members = frozenset(published.names[link.members]) - named
    for table, columns in published.measured_columns:
        overlapping = table == link.owners and columns & members
        if table == query.table and named <= columns and not overlapping:
            yield columns


def _cells(
    query: Conjunction, columns: frozenset[str], published: PublishedTables
) -> list[list[int]] | None:
    """The rows of the measurements of every cell. None without a measurement of every cell."""
    terms: list[list[str]] = []
    for table in published.link[:2] if published.link is not None else ():
        for name in published.names[table]:
            codes: Sequence[int] = query.of(table).get(name, ())
            if name not in columns:
                continue
            values = published.columns[table][name]
            terms.append([f"{name}={values[c]}" for c in codes or range(len(values))])
    if prod(map(len, terms)) > _MOST_CELLS:
        return None
    cells = []
    for cell in product(*terms):
        rows = published.rows_of.get(f"{query.table}: {', '.join(cell)}")
        if rows is None:
            return None
        cells.append(rows)
    return cells


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


@dataclass(frozen=True)
class Conjunctions:
    """Answers to queries for values of columns, linear in the measurements of a table.

    weights: gives the weights of a query; None where no measurement answers it
    method: how an answer from measurements was computed, in words
    """

    weights: Callable[[Conjunction, PublishedTables], Weights | None]
    method: str

    def answer(self, published: PublishedTables, text: str, *, count: bool) -> Answer:
        """The answer to a query in words. Raises UserError if `text` is no query."""
        query, among = self.asked(published, text, count=count)
        return self._answered(published, query, among, count=count)

    def asked(
        self, published: PublishedTables, text: str, *, count: bool
    ) -> tuple[Conjunction, Conjunction | None]:
        """The query, and the rows of which a share is; None for all rows. Raises UserError."""
        words = query_words(text)
        query, among = parse_among(words, published)
        if count or words.among is not None:
            return query, among
        return self.based(published, query)

    def based(
        self, published: PublishedTables, query: Conjunction
    ) -> tuple[Conjunction, Conjunction | None]:
        """The answering rows of a query, and all answering rows: the base of its share.

        The base is all rows, None, where those who answered are not measured.
        """
        pair = among_answering(query, published)
        if pair is None or self.measured(pair[1], published) is None:
            return query, None
        return pair

    def every(self, published: PublishedTables, *, paired: bool = True) -> Iterator[Answer]:
        """The answers to all queries for one or two columns, in counts and in shares.

        paired: whether for two columns, too.
        """
        for query in _small_conjunctions(published, paired=paired):
            yield self._answered(published, query, count=True)
            with suppress(UserError):  # of how many people is not known well enough
                yield self._answered(published, *self.based(published, query), count=False)

    def _answered(
        self,
        published: PublishedTables,
        query: Conjunction,
        among: Conjunction | None = None,
        *,
        count: bool,
    ) -> Answer:
        rows = published.tables[query.table].num_rows
        rows = max(1, rows if among is None else matching_rows(among, published))
        synthetic = matching_rows(query, published) / (1 if count else rows)
        weights, sampled = self.measured(query, published), None
        unit = published.noun(query.table)
        value, error, interval, method, reason = synthetic, None, None, NO_ERROR, NOT_MEASURED
        total = self.total(query, among, published)
        if weights is not None and total is not None:
            value, error, interval = _measured(weights, total, published, count)
            method, reason = LINEAR if query.linear else self.method, ""
            if not count and published.link is None:
                design = published.study.sampling
                (sampled,) = sampled_shares(_ratio(weights, total, published), design)
            if weights is _ZERO:
                method = ruled_out_text(excluding_rules(query, published))
                sampled = sampled and Sampled(0.0, (0.0, 0.0), sampled.covers)
        elif total is not None and among is None:
            singles = single_columns(query, published, self.weights)
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

    def measured(self, query: Conjunction, published: PublishedTables) -> Weights | None:
        """The weights of a query, also with sums of numbers; None if not measured.

        A query that rules of the table exclude is 0 without a measurement.
        """
        if excluding_rules(query, published):
            return _ZERO
        if not query.linear:
            return self.weights(query, published)
        candidates = (
            self.weights(measurable, published) for measurable in query.measurable(published)
        )
        measured = [weights for weights in candidates if weights is not None]
        return min(measured, key=lambda w: w.covariance(w, published), default=None)

    def total(
        self, query: Conjunction, among: Conjunction | None, published: PublishedTables
    ) -> Weights | None:
        """The denominator of a share: people or groups. None without a measurement."""
        if among is not None:
            return self.measured(among, published)
        if published.link is None:
            return people_weights(published)
        if query.table == "events":
            return self.weights(Conjunction("", query.table, {}), published)
        rows = float(published.tables[query.table].num_rows)
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


def single_columns(
    query: Conjunction,
    published: PublishedTables,
    weights: Callable[[Conjunction, PublishedTables], Weights | None],
) -> list[Weights]:
    """The answers of the single columns; empty if a column has none, or for groups."""
    if published.link is not None or query.linear:
        return []
    candidates = [
        weights(replace(query, codes={"people": {name: codes}}), published)
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
    """The answers of a data set's measurement strategy."""
    return WEIGHTED[published.declared.data_set.measured]


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
        for a in map(limited_records, answering(published).every(published))
    )
    return answer_table(published.study, published.declared.name, rows, head=head)


def _row_numbers(answer: Answer) -> tuple[float, float | None, float | None, float | None]:
    """The value, the error and both ends."""
    low, high = answer.interval or (None, None)
    return answer.value, answer.standard_error, low, high


def joint_table_answers(
    kind: Conjunctions, published: PublishedTables, queries: Sequence[str], *, count: bool
) -> JointAnswers:
    """The answers to queries in words about a data set.

    Raises UserError if a query is not measured.
    """
    weights, totals = [], []
    for text in queries:
        query, among = kind.asked(published, text, count=count)
        measured, total = kind.measured(query, published), kind.total(query, among, published)
        if measured is None or total is None:
            raise UserError(f"query '{query.text}': {NOT_MEASURED}")
        weights.append(measured)
        totals.append(total)
    answers = tuple(kind.answer(published, text, count=count) for text in queries)
    values, errors = _with_errors(weights, published)
    if not count:
        people, theirs = _with_errors(totals, published)
        # Shares to the first order: (value - share * people) / people.
        values = values / people
        errors = scipy.sparse.csr_array((errors - theirs * values[:, None]) / people[:, None])
    covariance = (errors @ errors.T).toarray()
    return JointAnswers(
        tuple(replace(a, value=float(v)) for a, v in zip(answers, values, strict=True)), covariance
    )


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
