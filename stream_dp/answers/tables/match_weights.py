"""Unbiased counts of people from what a two-phase table of people publishes.

The first phase measures the residual of every measured column, in all of its values; so the count
of any values of one column follows, and of two columns that were measured as one. The second phase
measures residuals of columns whose rare values are one, and of coarser bins in place of a number's
own; `residual_weights.py` says how a marginal is the sum of its residuals. With n_i groups of
values in column i of A, of which a query allows the share s_i,
    count = prod s_i N
            + sum over columns c of (prod over the others s_i) (count of c alone - s_c N)
            + sum over larger sets B of (prod over A less B s_i) / (prod over B n_i)
              times the sum of v_B over the allowed cells,
with the first phase's counts of single columns. Whether values were merged depends on their noise,
so what just escaped would be counted too high: of several columns at once only those without merged
values are answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import cast

import numpy as np

from stream_dp.study import MatchRelease

from .conjunction import Conjunction
from .residual_weights import people_weights
from .table_facts import Floats, Ints, PublishedTables, Weights, weighted_sum

_MOST_CELLS = 1 << 20


@dataclass(frozen=True, eq=False)
class _Axis:
    """A measured column of a query.

    name: the column's name.
    texts: of the values.
    groups: (values,) the declared groups of the values, from 0.
    allowed: (values,) whether the query allows a value.
    """

    name: str
    texts: tuple[str, ...]
    groups: Ints
    allowed: Floats

    @property
    def members(self) -> list[Ints]:
        """The positions of the values by group."""
        return [np.flatnonzero(self.groups == g) for g in range(int(self.groups.max()) + 1)]

    @property
    def group_texts(self) -> list[str]:
        return ["|".join(self.texts[v] for v in members) for members in self.members]

    @property
    def allowed_groups(self) -> Floats | None:
        """(groups,) whether a group is allowed; None if a group is partly allowed."""
        shares = np.array([self.allowed[members].mean() for members in self.members])
        return shares if np.isin(shares, (0, 1)).all() else None


def match_weights(query: Conjunction, published: PublishedTables) -> Weights | None:
    """The weights of a count of people; None if a residual for the count is not measured."""
    release, codes = cast(MatchRelease, published.declared), query.of("people")
    if not codes.keys() <= {*release.names}:
        return None
    axes = [
        _axis(name, query, published)
        for name, columns in release.columns.items()
        if codes.keys() & {*columns}
    ]
    if not axes:
        return people_weights(published)
    singles = [_single(axis, published) for axis in axes]
    if len(axes) == 1 or None in singles:
        return singles[0] if len(axes) == 1 else None
    groups = [axis.allowed_groups for axis in axes]
    sizes = [int(axis.groups.max()) + 1 for axis in axes]
    if any(g is None for g in groups) or prod(sizes) > _MOST_CELLS:
        return None
    allowed = [g for g in groups if g is not None]
    share = [float(g.mean()) for g in allowed]
    people = people_weights(published)
    terms = [(prod(share) * (1 - len(axes)), people)]
    for position, single in enumerate(singles):
        assert single is not None
        terms.append((prod(s for i, s in enumerate(share) if i != position), single))
    for ways in range(2, len(axes) + 1):
        for columns in combinations(range(len(axes)), ways):
            rows = _cells([axes[i] for i in columns], published)
            if rows is None:
                return None
            entries = np.ones(1)
            for i in columns:
                entries = np.multiply.outer(entries, allowed[i] - share[i]).ravel()
            factor = prod(share[i] for i in range(len(axes)) if i not in columns)
            scale = factor / prod(sizes[i] for i in columns)
            terms.append((scale, Weights(np.array(rows), entries)))
    return weighted_sum(terms)


def value_texts(published: PublishedTables) -> list[tuple[str, Sequence[str], Sequence[str]]]:
    """The measured columns: their names, and their values, alone and beside other columns."""
    release, everything = cast(MatchRelease, published.declared), Conjunction("", "people", {})
    axes = [_axis(name, everything, published) for name in release.columns]
    return [(axis.name, axis.texts, axis.group_texts) for axis in axes]


def _axis(name: str, query: Conjunction, published: PublishedTables) -> _Axis:
    release, codes_asked = cast(MatchRelease, published.declared), query.of("people")
    columns = release.columns[name]
    groups: Ints = np.zeros(1, np.int64)
    allowed, texts = np.ones(1), [""]
    attributes = {answer.column: answer.attribute for answer in release.answers}
    for column in columns:
        values = published.columns["people"][column]
        numbers = published.study.attributes[attributes[column]].numbers
        edges = (release.coarser or {}).get(column)
        coarse = np.arange(len(values))
        if edges is not None and numbers is not None:
            coarse = np.array(numbers.coarser(edges))
        codes = np.zeros(len(values))
        codes[list(codes_asked.get(column, range(len(values))))] = 1
        groups = (groups[:, None] * (int(coarse.max()) + 1) + coarse).reshape(-1)
        allowed = np.multiply.outer(allowed, codes).reshape(-1)
        texts = [f"{a}&{b}" if column != columns[0] else str(b) for a, b in product(texts, values)]
    return _Axis(name, tuple(texts), groups, allowed)


def _single(axis: _Axis, published: PublishedTables) -> Weights | None:
    """The count of the allowed values of a column."""
    rows = [published.rows_of.get(f"{axis.name}={text}") for text in axis.texts]
    if not all(rows):
        return None
    n, share = len(axis.texts), float(axis.allowed.mean())
    residual = Weights(np.array([p[0] for p in rows if p]), (axis.allowed - share) / n)
    return weighted_sum([(1.0, residual), (share, people_weights(published))])


def _cells(axes: Sequence[_Axis], published: PublishedTables) -> list[int] | None:
    """The rows of a residual's cells in C order; None if a cell is not measured."""
    names = [axis.name for axis in axes]
    result = []
    for cell in product(*(axis.group_texts for axis in axes)):
        text = ", ".join(f"{n}={v}" for n, v in zip(names, cell, strict=True))
        rows = published.rows_of.get(text)
        if not rows:
            return None
        result.append(rows[0])
    return result
