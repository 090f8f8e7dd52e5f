"""Unbiased counts of rows, linear in the measurements that a data set publishes.

A table of people publishes residuals. A table of two phases (the kinds `table` and `match`): the
first phase measures the residual of every measured column, in all of its values; so the count of
any values of one column follows, and of two columns that were measured as one. The second phase
measures residuals of columns whose rare values are one, and of coarser bins in place of a number's
own; see below how a marginal is the sum of its residuals. With n_i groups of values in column i of
A, of which a query allows the share s_i,
    count = prod s_i N
            + sum over columns c of (prod over the others s_i) (count of c alone - s_c N)
            + sum over larger sets B of (prod over A less B s_i) / (prod over B n_i)
              times the sum of v_B over the allowed cells,
with the first phase's counts of single columns. Whether values were merged depends on their noise,
so what just escaped would be counted too high: of several columns at once only those without merged
values are answered.

A table of one phase: with n_i values in column i, the residual of a set of columns B is v_B =
(tensor over B of (n_i I - 1 1')) h_B of its marginal h_B. So (tensor of (I - 1 1' / n_i)) h_B = v_B
/ prod_B n_i is the part of h_B that no fewer columns determine, and the marginal of columns A is
the sum of the parts of all subsets, each spread evenly over its cells:
    h_A(x) = sum over B within A of v_B(x_B) / prod_A n_i.
(Xiao, He, Zhang, Kifer 2023, ResidualPlanner.) A query allows f_i of the n_i values of each column
in A, and is sum over B of prod over A less B of f_i / prod_A n_i times the sum of v_B over the
allowed cells. v_B sums to 0 along every column, and its entries have independent noise of equal
variance, so the best linear unbiased estimate of a sum of them is that of v_B projected to such
tables: entry weights tensor over B of (1[allowed] - f_i / n_i).

A data set of groups publishes marginals, which give unbiased counts of groups or members. Cells of
a marginal that differ in columns the query does not name are disjoint sets of people, so
their sum answers the query, with independent noise. Several marginals answer it with independent
noise too, and are averaged by inverse variance. A group may have several members, so the cells of
a marginal of groups by columns of members overlap: they are summed over columns of groups alone,
and answer for single values of members' columns only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import cast

import numpy as np

from stream_dp.study import MatchRelease
from stream_dp.study.families import Measured, Registry

from .conjunction import Conjunction
from .table_facts import Floats, Ints, PublishedTables, Value, Weights, weighted_sum

_PEOPLE = "people"  # the residual of no column: how many people there are


def residual_weights(query: Conjunction, published: PublishedTables) -> Weights | None:
    """The weights of a count of people; None if a residual for the count is not measured.

    For a table of one phase: see the module.
    """
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
    """(cells,) the weights of a residual's cells in C order: tensor of (1[allowed] - f_i / n_i)."""
    entries = np.ones(1)
    for name in names:
        codes = list(query.of("people")[name])
        column = np.full(sizes[name], -len(codes) / sizes[name])
        column[codes] += 1.0
        entries = np.multiply.outer(entries, column).ravel()
    return entries


_MOST_CELLS = 1 << 20  # of columns together, for residuals
_MOST_OF_MARGINAL = 1 << 16  # cells of a marginal


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
    """The weights of a count of people; None if a residual for the count is not measured.

    For a table of two phases, where the module's sum has a term for N, for each column, and for
    each larger set of columns.
    """
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
            repeated = _cells([axes[i] for i in columns], published)
            if not repeated:
                return None
            entries = np.ones(1)
            for i in columns:
                entries = np.multiply.outer(entries, allowed[i] - share[i]).ravel()
            factor = prod(share[i] for i in range(len(axes)) if i not in columns)
            scale = factor / prod(sizes[i] for i in columns)
            precisions = [1 / published.variances[rows[0]] for rows in repeated]
            terms += [
                (scale * precision / sum(precisions), Weights(rows, entries))
                for rows, precision in zip(repeated, precisions, strict=True)
            ]
    return weighted_sum(terms)


def value_texts(published: PublishedTables) -> list[tuple[str, Sequence[str], Sequence[str]]]:
    """The measured columns: their names, and their values, alone and beside other columns."""
    release, everything = cast(MatchRelease, published.declared), Conjunction("", "people", {})
    axes = [_axis(name, everything, published) for name in release.columns]
    return [(axis.name, axis.texts, axis.group_texts) for axis in axes]


def measured_groups(name: str, published: PublishedTables) -> list[tuple[int, ...]]:
    """The codes of a column of people that the second phase measured as one, group by group.

    Each code alone where a composite of columns was measured.
    """
    release = cast(MatchRelease, published.declared)
    if release.columns.get(name) == (name,):
        members = _axis(name, Conjunction("", "people", {}), published).members
        return [tuple(codes.tolist()) for codes in members]
    return [(code,) for code in range(len(published.columns["people"][name]))]


def _axis(name: str, query: Conjunction, published: PublishedTables) -> _Axis:
    """The measured column `name`, which may be a composite of several columns of the table."""
    release, codes_of_query = cast(MatchRelease, published.declared), query.of("people")
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
        codes[list(codes_of_query.get(column, range(len(values))))] = 1
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


def _cells(axes: Sequence[_Axis], published: PublishedTables) -> list[Ints]:
    """The rows of a residual's cells in C order, of every measurement."""
    return rows_of_cells(
        [axis.name for axis in axes], [axis.group_texts for axis in axes], published
    )


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
    for columns in _containing(query, published):
        cells = _marginal_cells(query, columns, published)
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


def _containing(query: Conjunction, published: PublishedTables) -> Iterator[frozenset[str]]:
    """The columns of the measured marginals that may contain the query."""
    named = frozenset(name for names in query.codes.values() for name in names)
    link = published.link
    assert link is not None
    members = frozenset(published.names[link.members]) - named
    for table, columns in published.measured_columns:
        overlapping = table == link.owners and columns & members
        if table == query.table and named <= columns and not overlapping:
            yield columns


def _marginal_cells(
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
    if prod(map(len, terms)) > _MOST_OF_MARGINAL:
        return None
    cells = []
    for cell in product(*terms):
        rows = published.rows_of.get(f"{query.table}: {', '.join(cell)}")
        if rows is None:
            return None
        cells.append(rows)
    return cells


_WEIGHTS: Registry[Measured, Callable[[Conjunction, PublishedTables], Weights | None]] = Registry(
    "counts of tables",
    [measured for measured in Measured if measured is not Measured.SIZES],
    {
        Measured.RESIDUALS: residual_weights,
        Measured.TWO_PHASES: match_weights,
        Measured.MARGINALS: marginal_weights,
    },
)


def count_weights(query: Conjunction, published: PublishedTables) -> Weights | None:
    """The weights of an unbiased count, by the measurement strategy; None if not measured."""
    return _WEIGHTS[published.declared.data_set.measured](query, published)
