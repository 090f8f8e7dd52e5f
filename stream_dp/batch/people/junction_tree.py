"""Junction trees: cliques of columns that hold given sets of columns, joined in a tree.

Lauritzen and Spiegelhalter 1988, "Local computations with probabilities on graphical structures".
Cliques come from greedy elimination of columns, smallest table first; they are joined by a spanning
tree of the largest overlaps. Belief propagation gives the marginals of cliques from potentials:
from the leaves to the root each clique keeps its distribution given what it shares with its parent;
back from the root that times the parent's marginal is its own. All but the marginals is public.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data.domain import Columns

MOST_CELLS = 60_000  # of the cliques of a tree whose pairs are picked

Table = NDArray[np.float64]
Axes = tuple[int, ...]
Shape = tuple[int, ...]


class _Message(NamedTuple):
    """The sums by which a clique and its parent agree on their shared columns.

    summed: the clique's axes that the parent lacks.
    parent_summed: the parent's axes that the clique lacks.
    shape: of a table of the shared columns, as it broadcasts to the parent's.
    """

    summed: Axes
    parent_summed: Axes
    shape: Shape


class _Conditional(NamedTuple):
    """A neighbour's distribution given the columns that it shares with a clique.

    summed: the axes to be summed of the clique's table with one more column in front.
    shape: of a table of the shared columns, as it broadcasts to the neighbour's.
    table: of the neighbour.
    """

    summed: Axes
    shape: Shape
    table: Table


class _Path(NamedTuple):
    """The cells added by joining cliques, and the cliques."""

    cells: int
    cliques: tuple[int, ...]


@dataclass(frozen=True)
class JunctionTree:
    """Cliques of columns, each after its parent.

    sizes: the columns' values.
    cliques: each in increasing order of columns; every column is in one.
    parents: by clique the number of its parent; 0 of the first.
    """

    sizes: tuple[int, ...]
    cliques: tuple[Columns, ...]
    parents: tuple[int, ...]

    @staticmethod
    def of(sizes: tuple[int, ...], sets: Iterable[Columns]) -> JunctionTree:
        """The tree in which every set lies in a clique."""
        neighbours = {c: {c} for c in range(len(sizes))}
        for columns in sets:
            for c in columns:
                neighbours[c] |= {*columns}
        cliques = list[frozenset[int]]()
        while neighbours:
            cells = {c: prod(sizes[i] for i in joined) for c, joined in neighbours.items()}
            eliminated = min(neighbours, key=lambda c: (cells[c], c))
            clique = frozenset(neighbours.pop(eliminated))
            for c in clique - {eliminated}:
                neighbours[c] = (neighbours[c] | clique) - {eliminated}
            if not any(clique <= larger for larger in cliques):
                cliques.append(clique)
        return JunctionTree.joined(sizes, cliques)

    @staticmethod
    def joined(sizes: tuple[int, ...], cliques: Sequence[frozenset[int]]) -> JunctionTree:
        """The tree of the maximal cliques of a chordal graph: a largest spanning tree of overlaps.

        The last clique comes first; of equal overlaps the first clique goes to the first parent.
        """
        order, parents = [cliques[-1]], [0]
        overlaps = {i: (len(c & cliques[-1]), 0) for i, c in enumerate(cliques[:-1])}
        while overlaps:
            child = max(overlaps, key=lambda i: (overlaps[i][0], -i))
            parents.append(overlaps.pop(child)[1])
            order.append(cliques[child])
            for i, (overlap, _) in overlaps.items():
                if len(cliques[i] & cliques[child]) > overlap:
                    overlaps[i] = (len(cliques[i] & cliques[child]), len(order) - 1)
        return JunctionTree(sizes, tuple(tuple(sorted(c)) for c in order), tuple(parents))

    def extended(self, first: int, second: int) -> JunctionTree:
        """A tree with a clique that holds two columns; `growth` says how many cells are added."""
        cliques = [frozenset(c) for c in self.cliques]
        path = self._paths(first).get(second, _Path(0, ())).cliques
        if path:
            cliques = [c | {first} if i in path else c for i, c in enumerate(cliques)]
        else:
            cliques.append(frozenset({first, second}))
        maximal = [
            c
            for i, c in enumerate(cliques)
            if not any(c < d or (c == d and i < j) for j, d in enumerate(cliques) if i != j)
        ]
        return JunctionTree.joined(self.sizes, maximal)

    def growth(self, first: int) -> list[int]:
        """By column, the most cells added by a clique that holds the column and the first.

        The first column joins all cliques between its own ones and the other's; columns that
        nothing ties together get a clique of their own.
        """
        paths = self._paths(first)
        pairs = [self.sizes[first] * n for n in self.sizes]
        return [paths[c].cells if c in paths else cells for c, cells in enumerate(pairs)]

    def _paths(self, first: int) -> dict[int, _Path]:
        """By column connected with the first, the cliques to be joined by the first."""
        result: dict[int, _Path] = {}
        ready = [(i, _Path(0, ())) for i, c in enumerate(self.cliques) if first in c]
        seen = {i for i, _ in ready}
        while ready:
            clique, path = ready.pop()
            for c in self.cliques[clique]:
                if c not in result or path.cells < result[c].cells:
                    result[c] = path
            for neighbour in self.neighbours[clique]:
                if neighbour not in seen:
                    seen.add(neighbour)
                    added = prod(self.shapes[neighbour]) * (self.sizes[first] - 1)
                    longer = _Path(path.cells + added, (*path.cliques, neighbour))
                    ready.append((neighbour, longer))
        return result

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """By clique, the parent and children with a common column."""
        result: list[list[int]] = [[] for _ in self.cliques]
        for child, shared in enumerate(self.separators):
            if shared:
                result[child].append(self.parents[child])
                result[self.parents[child]].append(child)
        return tuple(map(tuple, result))

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """By clique, the shape of its table."""
        return tuple(tuple(self.sizes[c] for c in clique) for clique in self.cliques)

    @property
    def cells(self) -> int:
        """The cells of all cliques together."""
        return sum(map(prod, self.shapes))

    def holder(self, columns: Columns) -> int:
        """The smallest clique with all `columns`."""
        holders = [i for i, clique in enumerate(self.cliques) if {*columns} <= {*clique}]
        return min(holders, key=lambda i: prod(self.shapes[i]))

    @cached_property
    def separators(self) -> tuple[Columns, ...]:
        """By clique, the columns shared with the parent; none for the first clique."""
        pairs = zip(self.cliques[1:], self.parents[1:], strict=True)
        shared = [tuple(c for c in clique if c in self.cliques[parent]) for clique, parent in pairs]
        return ((), *shared)

    def spread(self, values: Table, columns: Columns, clique: int) -> Table:
        """Reshapes a table of `columns` to be added to a clique's table."""
        return values.reshape(self.shape_in(clique, columns))

    def reduced(self, table: Table, clique: int, columns: Columns) -> Table:
        """Sums a clique's table over all columns but these."""
        return np.asarray(table.sum(axis=self.axes_without(clique, columns)))

    def shape_in(self, clique: int, columns: Columns) -> Shape:
        """The shape in which a table of `columns` fits a clique's table."""
        return tuple(self.sizes[c] if c in columns else 1 for c in self.cliques[clique])

    def axes_without(self, clique: int, columns: Columns) -> Axes:
        """The axes of a clique's table for columns outside `columns`."""
        return tuple(i for i, c in enumerate(self.cliques[clique]) if c not in columns)

    @cached_property
    def _messages(self) -> tuple[_Message, ...]:
        """By clique, how it and its parent exchange tables of their shared columns."""
        return tuple(
            _Message(
                self.axes_without(clique, shared),
                self.axes_without(parent, shared),
                self.shape_in(parent, shared),
            )
            for clique, (parent, shared) in enumerate(
                zip(self.parents, self.separators, strict=True)
            )
        )

    def marginals(self, potentials: Sequence[Table]) -> tuple[list[Table], float]:
        """By clique its marginal, and the logarithm of the normalising sum.

        Upwards, a clique's table becomes its distribution given the columns shared with the parent,
        whose table gains the logarithm of the sums. Downwards, it is multiplied by the parent's
        marginal of these columns.

        potentials: by clique, logarithms; they are overwritten.
        """
        tables = list(potentials)
        for clique in reversed(range(1, len(tables))):
            message = self._messages[clique]
            highest = tables[clique].max(axis=message.summed, keepdims=True)
            tilted = np.exp(tables[clique] - highest)
            total = tilted.sum(axis=message.summed, keepdims=True)
            tables[clique] = tilted / total
            tables[self.parents[clique]] += (highest + np.log(total)).reshape(message.shape)
        highest = tables[0].max()
        tilted = np.exp(tables[0] - highest)
        total = float(tilted.sum())
        result = [tilted / total]
        for clique in range(1, len(tables)):
            shared = result[self.parents[clique]].sum(axis=self._messages[clique].parent_summed)
            shape = self.shape_in(clique, self.separators[clique])
            result.append(tables[clique] * shared.reshape(shape))
        return result, float(highest) + float(np.log(total))

    def pairs(self, marginals: Sequence[Table]) -> Iterator[tuple[int, dict[int, Table]]]:
        """By column, its joint shares with all columns, (values of the first, of the second).

        A table of the first column and a clique's columns goes from clique to clique: summed to the
        columns shared with the neighbour, and multiplied by the neighbour's others given these.

        marginals: by clique.
        """
        conditionals = self._conditionals(marginals)
        singles = dict[int, Table]()
        for clique, columns in enumerate(self.cliques):
            for c in columns:
                if c not in singles:
                    singles[c] = self.reduced(marginals[clique], clique, (c,))
        for first, size in enumerate(self.sizes):
            joint = {c: np.outer(singles[first], shares) for c, shares in singles.items()}
            start = self.holder((first,))
            # The clique's table with the column once more, in front.
            axis, diagonal = self.cliques[start].index(first), np.arange(size)
            table = np.zeros((size, *self.shapes[start]))
            np.moveaxis(table, axis + 1, 1)[diagonal, diagonal] = np.moveaxis(
                marginals[start], axis, 0
            )
            seen, ready = {start}, [(start, table)]
            while ready:
                clique, table = ready.pop()
                for c in self.cliques[clique]:
                    axes = self.axes_without(clique, (c,))
                    joint[c] = table.sum(axis=tuple(i + 1 for i in axes))
                for neighbour in self.neighbours[clique]:
                    if neighbour not in seen:
                        seen.add(neighbour)
                        given = conditionals[clique, neighbour]
                        shared = table.sum(axis=given.summed).reshape(size, *given.shape)
                        ready.append((neighbour, shared * given.table))
            yield first, joint

    def _conditionals(self, marginals: Sequence[Table]) -> dict[tuple[int, int], _Conditional]:
        """By clique and neighbour, the neighbour's distribution given the columns they share."""
        result = {}
        for clique, neighbours in enumerate(self.neighbours):
            columns = self.cliques[clique]
            for neighbour in neighbours:
                lacks = self.axes_without(clique, self.cliques[neighbour])
                new = self.axes_without(neighbour, columns)
                total = marginals[neighbour].sum(axis=new, keepdims=True)
                conditional = marginals[neighbour] / np.maximum(total, np.finfo(float).tiny)
                shape = self.shape_in(neighbour, columns)
                summed = tuple(i + 1 for i in lacks)
                result[clique, neighbour] = _Conditional(summed, shape, conditional)
        return result


@lru_cache(maxsize=4096)
def _grown(
    sizes: tuple[int, ...], base: tuple[Columns, ...], pairs: tuple[Columns, ...]
) -> JunctionTree:
    """The tree of all pairs but the last, extended by the last, or a new one if it is smaller."""
    if not pairs:
        return JunctionTree.of(sizes, base)
    smaller = _grown(sizes, base, pairs[:-1])
    first, second = pairs[-1]
    if any({first, second} <= {*clique} for clique in smaller.cliques):
        return smaller
    grown, anew = smaller.extended(first, second), JunctionTree.of(sizes, (*base, *pairs))
    return anew if anew.cells < grown.cells else grown


def grown_tree(
    sizes: tuple[int, ...], base: tuple[Columns, ...], pairs: tuple[Columns, ...]
) -> JunctionTree:
    """The tree of the sets `base` and of pairs, in the order of picking.

    Each pair joins the tree before it, or all are put in a new tree where that is smaller: so it
    has room for every pair that `open_pairs` named.
    """
    for count in range(0, len(pairs), 200):  # so that the next call does not go deep
        _grown(sizes, base, pairs[:count])
    return _grown(sizes, base, pairs)


def open_pairs(
    sizes: tuple[int, ...], base: tuple[Columns, ...], pairs: tuple[Columns, ...], most: int
) -> set[Columns]:
    """The pairs that may be picked next: the tree then has at most `most` cells."""
    tree = grown_tree(sizes, base, pairs)
    result = set[Columns]()
    for first in range(len(sizes)):
        added = tree.growth(first)
        result |= {
            (first, c) for c in range(first + 1, len(sizes)) if tree.cells + added[c] <= most
        }
    return result
