"""Cells of columns of people that structural rules leave possible.

The rules are public (`study/column_rules.py`), so all of this is, and costs nothing. A model holds
the rules: impossible cells have probability 0, and no row is rejected or changed afterwards. What
real people say of impossible cells is measured like everything else, and the model ignores it.

Of numbers, an order is about their bins: two bins are possible together if some of their numbers
are. The numbers in the bins are then drawn so that they keep the order (`people_draw.py`).
Where an order goes on through bins, as in a <= b <= c, what follows is held, too: a <= c. So every
possible combination of bins has numbers that keep all orders (shortest paths solve systems of
differences, Bellman 1958).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.study.column_rules import Cell, ColumnRule, Order, column_cells
from stream_dp.study.scale import Numbers

from ..data.domain import Column, Columns
from .junction_tree import JunctionTree, Table

Possible = NDArray[np.bool_]
IMPOSSIBLE = -1e9  # the logarithm that stands for that of 0
MOST_TIED = 250_000  # cells of the cliques that hold all rules
MOST_BLOCK = 20_000  # cells of the columns that rules tie together, in a mixture of blocks


class ColumnOrder(NamedTuple):
    """The rule low + gap <= high about columns; None stands for 0."""

    low: int | None
    high: int | None
    gap: int


@dataclass(frozen=True, eq=False)
class StructuralZeros:
    """The possible cells by set of columns.

    orders: the declared orders of numbers.
    """

    possible: Mapping[Columns, Possible] = field(default_factory=dict)
    orders: tuple[ColumnOrder, ...] = ()

    @cached_property
    def sets(self) -> tuple[Columns, ...]:
        """The sets of two columns and more, which a model must hold."""
        return tuple(sorted(columns for columns in self.possible if len(columns) > 1))

    def tied(self) -> list[Columns]:
        """The columns that rules tie together, directly or through others."""
        group = {c: frozenset({c}) for columns in self.sets for c in columns}
        for columns in self.sets:
            merged = frozenset().union(*(group[c] for c in columns))
            group |= dict.fromkeys(merged, merged)
        return sorted(tuple(sorted(columns)) for columns in {*group.values()})

    def classes(self, column: int, values: int) -> NDArray[np.int64]:
        """(values,) the class of every value: values of a class are possible with the same ones."""
        tables = [np.ones((values, 1), np.bool_)]
        for columns, possible in self.possible.items():
            if column in columns:
                tables.append(np.moveaxis(possible, columns.index(column), 0).reshape(values, -1))
        _, classes = np.unique(np.concatenate(tables, axis=1), axis=0, return_inverse=True)
        return np.asarray(classes, np.int64).reshape(-1)

    def potentials(self, tree: JunctionTree) -> list[Table]:
        """By clique, 0 for a cell that keeps every rule of its columns, else IMPOSSIBLE or less."""
        result = [np.zeros(shape) for shape in tree.shapes]
        for columns, possible in self.possible.items():
            logarithms = np.where(possible, 0.0, IMPOSSIBLE)
            for clique, own in enumerate(tree.cliques):
                if {*columns} <= {*own}:
                    result[clique] += tree.spread(logarithms, columns, clique)
        return result

    def support(self, tree: JunctionTree) -> list[Possible] | list[None]:
        """By clique, the cells of some row that keeps every rule; None without rules."""
        if not self.possible:
            return [None] * len(tree.cliques)
        return [table > 0 for table in tree.marginals(self.potentials(tree))[0]]

    def composed(self, parts: Sequence[Columns], sizes: Sequence[int]) -> StructuralZeros:
        """The zeros of columns that are made of these.

        parts: by new column its columns, in the order of the digits of its values.
        sizes: of the columns before.
        """
        if not self.possible:
            return NO_ZEROS
        new_column = {c: number for number, columns in enumerate(parts) for c in columns}
        new_sizes = [prod(sizes[c] for c in columns) for columns in parts]
        result = dict[Columns, Possible]()
        for columns, possible in self.possible.items():
            moved = tuple(sorted({new_column[c] for c in columns}))
            grids = np.indices([new_sizes[c] for c in moved])
            codes = list[NDArray[np.int64]]()
            for c in columns:
                own = parts[new_column[c]]
                values = np.unravel_index(
                    grids[moved.index(new_column[c])], [sizes[i] for i in own]
                )
                codes.append(values[own.index(c)])
            table = possible[tuple(codes)]
            result[moved] = result[moved] & table if moved in result else table
        return StructuralZeros(result)

    def merged(self, group_of: Sequence[NDArray[np.int64]]) -> StructuralZeros:
        """The zeros of groups of values, each within a class. group_of: by column."""
        result = dict[Columns, Possible]()
        for columns, possible in self.possible.items():
            firsts = [np.unique(group_of[c], return_index=True)[1] for c in columns]
            result[columns] = possible[np.ix_(*firsts)]
        return StructuralZeros(result)


NO_ZEROS = StructuralZeros()


def declared_zeros(
    rules: Sequence[ColumnRule], columns: Sequence[Column], numbers: Mapping[int, Numbers]
) -> StructuralZeros:
    """The zeros of declared rules. numbers: by column that is a number.

    Raises UserError for rules that leave no row, or that tie too many columns together.
    """
    if not rules:
        return NO_ZEROS
    position = {column.name: c for c, column in enumerate(columns)}
    cells = [column_cells(column.values, numbers.get(c)) for c, column in enumerate(columns)]
    orders = [_column_order(r, position) for r in rules if isinstance(r, Order)]
    tables = [*_order_tables(orders, cells)]
    for rule in rules:
        if not isinstance(rule, Order):
            first, second = (position[name] for name in rule.columns)
            table = np.array([[rule.kept(a, b) for b in cells[second]] for a in cells[first]])
            tables.append(
                ((first, second), table) if first < second else ((second, first), table.T)
            )
    possible = dict[Columns, Possible]()
    for own, table in tables:
        possible[own] = possible[own] & table if own in possible else table
    zeros = StructuralZeros(possible, tuple(orders))
    _require_rows(zeros, rules, columns)
    return zeros


def _column_order(order: Order, position: Mapping[str, int]) -> ColumnOrder:
    rule = order.rule
    return ColumnOrder(
        None if rule.low is None else position[rule.low.column],
        None if rule.high is None else position[rule.high.column],
        rule.gap,
    )


def _order_tables(
    orders: Sequence[ColumnOrder], cells: Sequence[Sequence[Cell]]
) -> Iterator[tuple[Columns, Possible]]:
    """The possible cells of the orders, and of what follows from them through bins of numbers.

    What follows through a column binds only people with a number there: its table has the column.
    """
    gaps = dict[tuple[int | None, int | None, frozenset[int]], int]()

    def learn(low: int | None, high: int | None, through: frozenset[int], gap: int) -> None:
        key = low, high, through
        gaps[key] = max(gap, gaps.get(key, gap))

    for order in orders:
        learn(order.low, order.high, frozenset(), order.gap)
    for middle, own in enumerate(cells):
        if any(cell.is_range for cell in own):
            optional = frozenset({middle} if any(cell.least is None for cell in own) else ())
            into = [(k, gap) for k, gap in gaps.items() if k[1] == middle and k[0] != middle]
            onward = [(k, gap) for k, gap in gaps.items() if k[0] == middle and k[1] != middle]
            for ((low, _, before), below), ((_, high, after), above) in product(into, onward):
                learn(low, high, before | after | optional, below + above)
    for (low, high, through), gap in gaps.items():
        columns = tuple(sorted({c for c in (low, high) if c is not None} | through))
        shape = [len(cells[c]) for c in columns]
        if columns and prod(shape) <= MOST_TIED:
            yield columns, _order_table(low, high, gap, columns, cells)
        elif columns:
            raise UserError(f"rules: orders tie {len(columns)} columns together; leave some out")


def _order_table(
    low: int | None,
    high: int | None,
    gap: int,
    columns: Columns,
    cells: Sequence[Sequence[Cell]],
) -> Possible:
    """Whether some numbers of every cell keep low + gap <= high, or the cell has no number."""
    grids = np.indices([len(cells[c]) for c in columns])
    ranges = {c: number_ranges(cells[c])[grid] for c, grid in zip(columns, grids, strict=True)}
    counted = np.all([r[..., 0] <= r[..., 1] for r in ranges.values()], axis=0)
    least = 0 if low is None else ranges[low][..., 0]
    most = 0 if high is None else ranges[high][..., 1]
    kept = gap <= 0 if low == high else least + gap <= most
    return np.asarray(~counted | kept, np.bool_)


def number_ranges(cells: Sequence[Cell]) -> NDArray[np.int64]:
    """(cells, 2) the first and last number of every cell; 1, 0 where it is no number."""
    ends = [(1, 0) if c.least is None or c.most is None else (c.least, c.most) for c in cells]
    return np.array(ends, np.int64)


def _require_rows(
    zeros: StructuralZeros, rules: Sequence[ColumnRule], columns: Sequence[Column]
) -> None:
    """Raises UserError unless some row keeps all rules, and a model can hold them."""
    sizes = tuple(len(column.values) for column in columns)
    tree = JunctionTree.of(sizes, zeros.sets)
    tied = [c for c in tree.cliques if len(c) > 1]
    if sum(prod(sizes[i] for i in c) for c in tied) > MOST_TIED:
        largest = max(tied, key=lambda c: prod(sizes[i] for i in c))
        names = ", ".join(columns[c].name for c in largest)
        raise UserError(
            f"rules: tie {names} together, whose {prod(sizes[i] for i in largest):,} cells are too"
            f" many (at most {MOST_TIED:,}); leave a rule out, or take coarser bins"
        )
    if tree.marginals(zeros.potentials(tree))[1] < IMPOSSIBLE / 2:
        texts = ", ".join(f"'{rule.text}'" for rule in rules)
        raise UserError(f"rules: no row can keep {texts}; change or leave out one")


def require_blocks(zeros: StructuralZeros, columns: Sequence[Column]) -> None:
    """Raises UserError if rules tie more together than a mixture of blocks can hold."""
    if any(len(columns) > 2 for columns in zeros.sets):
        raise UserError(
            "rules: orders go on through a number that may be missing, which a mixture of blocks"
            " cannot hold; take kind = 'table'"
        )
    for tied in zeros.tied():
        cells = prod(len(columns[c].values) for c in tied)
        if cells > MOST_BLOCK:
            names = ", ".join(columns[c].name for c in tied)
            raise UserError(
                f"rules: tie {names} together, whose {cells:,} cells a mixture of blocks cannot"
                f" hold (at most {MOST_BLOCK:,}); take kind = 'table'"
            )
