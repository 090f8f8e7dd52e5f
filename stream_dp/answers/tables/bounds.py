"""Bounds on a count of people by several columns, from measurements of single columns.

Of N people let c_i have the values that a query asks of column i, k columns in all. Whatever the
dependence of the columns,
    c_1 + ... + c_k - (k - 1) N  <=  c  <=  min c_i
(Frechet 1935). Each c_i has an unbiased answer with exact noise. The interval has the upper ends of
k one-sided intervals and the lower end of one, each of 1 - (1 - LEVEL) / (k + 1): by Bonferroni's
inequality all of them hold together at LEVEL at least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import NormalDist

from ..answer import LEVEL
from .conjunction import Conjunction
from .table_facts import PublishedTables, Weights, weighted_sum

Interval = tuple[float, float]

# The two-sided interval of an answer, given the number of standard deviations to each side.
Intervals = Callable[[Weights, float], Interval]


def single_columns(
    query: Conjunction,
    published: PublishedTables,
    weights: Callable[[Conjunction, PublishedTables], Weights | None],
) -> list[Weights]:
    """The answers of the single columns; empty if a column has none, or for groups."""
    if "groups" in published.tables or query.linear:
        return []
    candidates = [
        weights(replace(query, codes={"people": {name: codes}}), published)
        for name, codes in query.of("people").items()
    ]
    measured = [single for single in candidates if single is not None]
    return measured if len(measured) == len(candidates) else []


def bounds(singles: Sequence[Weights], total: Weights, interval_of: Intervals) -> Interval:
    """The interval, from 0 on.

    singles: of each column, at least one.
    total: of the number of people.
    """
    z = NormalDist().inv_cdf(1 - (1 - LEVEL) / (len(singles) + 1))
    high = max(min(interval_of(single, z)[1] for single in singles), 0.0)
    lower = weighted_sum([*((1.0, single) for single in singles), (1.0 - len(singles), total)])
    low = max(interval_of(lower, z)[0], 0.0)
    return min(low, high), high
