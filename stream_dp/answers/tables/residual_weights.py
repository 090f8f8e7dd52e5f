"""Unbiased counts of people from the residuals that a table of people publishes.

With n_i values in column i, the residual of a set of columns B is v_B = (tensor over B of
(n_i I - 1 1')) h_B of its marginal h_B. So (tensor of (I - 1 1' / n_i)) h_B = v_B / prod_B n_i is
the part of h_B that no fewer columns determine, and the marginal of columns A is the sum of the
parts of all subsets, each spread evenly over its cells:
    h_A(x) = sum over B within A of v_B(x_B) / prod_A n_i.
(Xiao, He, Zhang, Kifer 2023, ResidualPlanner.) A query allows f_i of the n_i values of each column
in A, and is sum over B of prod over A less B of f_i / prod_A n_i times the sum of v_B over the
allowed cells. v_B sums to 0 along every column, and its entries have independent noise of equal
variance, so the best linear unbiased estimate of a sum of them is that of v_B projected to such
tables: entry weights tensor over B of (1[allowed] - f_i / n_i).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from math import prod

import numpy as np

from .conjunction import Conjunction
from .table_facts import Floats, Ints, PublishedTables, Weights

_PEOPLE = "people"  # the residual of no column: how many people there are
_MOST_CELLS = 1 << 20


def residual_weights(query: Conjunction, published: PublishedTables) -> Weights | None:
    """The weights of a count of people; None where a residual that it needs is not measured."""
    names = [name for name in published.residual_columns if name in query.of("people")]
    sizes = {name: len(published.residual_columns[name]) for name in names}
    allowed = {name: len(query.of("people")[name]) for name in names}
    cells = prod(sizes.values())
    if cells > _MOST_CELLS:
        return None
    places: list[Ints] = [np.zeros(0, np.int64)]
    weights: list[Floats] = [np.zeros(0)]
    constant = 0.0
    for count in range(len(names) + 1):
        for own in combinations(names, count):
            share = prod(allowed[name] for name in names if name not in own) / cells
            repeated = _measured(own, published)
            if not repeated and own:
                return None
            if not repeated:
                constant = share * people_count(published)
            entries = share * _entries(own, query, sizes)
            precisions = [1 / published.variances[each[0]] for each in repeated]
            for each, precision in zip(repeated, precisions, strict=True):
                places.append(each)
                weights.append(entries * (precision / sum(precisions)))
    return Weights(np.concatenate(places), np.concatenate(weights), constant)


def people_weights(published: PublishedTables) -> Weights:
    """The weights of the number of people: public, or noisy where it is measured."""
    return residual_weights(Conjunction("", "people", {}), published) or Weights(
        np.zeros(0, np.int64), np.zeros(0), people_count(published)
    )


def people_count(published: PublishedTables) -> float:
    """The number of synthetic people, which is the public one where that is not measured."""
    return float(published.tables["people"].num_rows)


def _measured(own: Sequence[str], published: PublishedTables) -> list[Ints]:
    """Of every measurement of a residual the places of its cells, in C order; none if not all."""
    values = [published.residual_columns[name] for name in own]
    texts = [
        ", ".join(f"{name}={value}" for name, value in zip(own, cell, strict=True)) or _PEOPLE
        for cell in product(*values)
    ]
    known = [published.places.get(text, []) for text in texts]
    times = min(map(len, known))
    return [np.array([each[i] for each in known], np.int64) for i in range(times)]


def _entries(own: Sequence[str], query: Conjunction, sizes: dict[str, int]) -> Floats:
    """The weights of a residual's cells, in C order."""
    entries = np.ones(1)
    for name in own:
        codes = list(query.of("people")[name])
        column = np.full(sizes[name], -len(codes) / sizes[name])
        column[codes] += 1.0
        entries = np.multiply.outer(entries, column).ravel()
    return entries
