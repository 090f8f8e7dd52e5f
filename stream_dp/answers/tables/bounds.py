"""What single columns say of a count of people whose columns were not measured together.

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

import numpy as np

from ..level import LEVEL
from .conjunction import Conjunction
from .table_facts import Floats, PublishedTables, Weights

Interval = tuple[float, float]

# The two-sided interval of an answer, of so many standard deviations to each side.
Intervals = Callable[[Weights, float], Interval]


def single_columns(
    query: Conjunction,
    published: PublishedTables,
    weights: Callable[[Conjunction, PublishedTables], Weights | None],
) -> list[Weights]:
    """The answers of each column alone; empty where one has none, or there are groups."""
    if "groups" in published.tables or query.linear:
        return []
    each = [
        weights(replace(query, codes={"people": {name: codes}}), published)
        for name, codes in query.of("people").items()
    ]
    known = [one for one in each if one is not None]
    return known if len(known) == len(each) else []


def bounds(singles: Sequence[Weights], total: Weights, of: Intervals) -> Interval:
    """The interval, from 0 on.

    singles: of each column, at least one.
    total: of the number of people.
    """
    z = NormalDist().inv_cdf(1 - (1 - LEVEL) / (len(singles) + 1))
    high = max(min(of(one, z)[1] for one in singles), 0.0)
    least = combined([*singles, total], [*[1.0] * len(singles), 1.0 - len(singles)])
    low = max(of(least, z)[0], 0.0)
    return min(low, high), high


def combined(answers: Sequence[Weights], factors: Sequence[float]) -> Weights:
    """The sum of answers times factors."""
    places = np.concatenate([one.places for one in answers])
    scaled = [f * one.weights for one, f in zip(answers, factors, strict=True)]
    own, which = np.unique(places, return_inverse=True)
    weights: Floats = np.zeros(own.size)
    np.add.at(weights, which, np.concatenate(scaled))
    constant = sum(f * one.constant for one, f in zip(answers, factors, strict=True))
    return Weights(own, weights, constant)
