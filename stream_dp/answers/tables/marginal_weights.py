"""Unbiased counts of groups or members from the marginals that a data set of groups publishes.

Cells of a marginal that differ in columns the query does not name are disjoint sets of people, so
their sum answers the query, with independent noise. Several marginals answer it with independent
noise too, and are averaged by inverse variance. A group may have several members, so the cells of
a marginal of groups by columns of members overlap: they are summed over columns of groups alone,
and answer for single values of members' columns only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from .conjunction import Conjunction
from .table_facts import PublishedTables, Weights

_MOST_CELLS = 1 << 16


def marginal_weights(query: Conjunction, published: PublishedTables) -> Weights | None:
    """The weights of a count; None if no measured marginal contains the query."""
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
    """The rows of the measurements of each cell. None without a measurement of every cell."""
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
