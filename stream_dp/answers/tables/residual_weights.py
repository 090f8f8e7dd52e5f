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
from .table_facts import Floats, Ints, PublishedTables, Value, Weights

_PEOPLE = "people"  # the residual of no column: how many people there are
_MOST_CELLS = 1 << 20


def residual_weights(query: Conjunction, published: PublishedTables) -> Weights | None:
    """The weights of a count of people; None if a residual for the count is not measured."""
    names = [name for name in published.residual_columns if name in query.of("people")]
    sizes = {name: len(published.residual_columns[name]) for name in names}
    allowed = {name: len(query.of("people")[name]) for name in names}
    cells = prod(sizes.values())
    if cells > _MOST_CELLS:
        return None
    rows: list[Ints] = [np.zeros(0, np.int64)]
    weights: list[Floats] = [np.zeros(0)]
    constant = 0.0
    for count in range(len(names) + 1):
        for subset in combinations(names, count):
            share = prod(allowed[name] for name in names if name not in subset) / cells
            repeated = _measured(subset, published)
            if not repeated and subset:
                return None
            if not repeated:
                constant = share * people_count(published)
            entries = share * _entries(subset, query, sizes)
            precisions = [1 / published.variances[measurement[0]] for measurement in repeated]
            for measurement, precision in zip(repeated, precisions, strict=True):
                rows.append(measurement)
                weights.append(entries * (precision / sum(precisions)))
    return Weights(np.concatenate(rows), np.concatenate(weights), constant)


def people_weights(published: PublishedTables) -> Weights:
    """The weights of the number of people: public, or noisy where it is measured."""
    return residual_weights(Conjunction("", "people", {}), published) or Weights(
        np.zeros(0, np.int64), np.zeros(0), people_count(published)
    )


def people_count(published: PublishedTables) -> float:
    """The number of synthetic people: the public number, if not measured."""
    return float(published.tables["people"].num_rows)


def _measured(names: Sequence[str], published: PublishedTables) -> list[Ints]:
    """The rows of the cells, in C order, of every complete measurement of a residual."""
    return rows_of_cells(names, [published.residual_columns[name] for name in names], published)


def rows_of_cells(
    names: Sequence[str], values: Sequence[Sequence[Value]], published: PublishedTables
) -> list[Ints]:
    """The rows of the cells, in C order, of every complete measurement of columns' values."""
    texts = [
        ", ".join(f"{name}={value}" for name, value in zip(names, cell, strict=True)) or _PEOPLE
        for cell in product(*values)
    ]
    rows_of_cells = [published.rows_of.get(text, []) for text in texts]
    times = min(map(len, rows_of_cells))
    return [np.array([rows[i] for rows in rows_of_cells], np.int64) for i in range(times)]


def _entries(names: Sequence[str], query: Conjunction, sizes: dict[str, int]) -> Floats:
    """The weights of a residual's cells, in C order."""
    entries = np.ones(1)
    for name in names:
        codes = list(query.of("people")[name])
        column = np.full(sizes[name], -len(codes) / sizes[name])
        column[codes] += 1.0
        entries = np.multiply.outer(entries, column).ravel()
    return entries
