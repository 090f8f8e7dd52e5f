"""Junction trees: cliques of columns that hold given sets of columns, joined in a tree.

Lauritzen and Spiegelhalter 1988, "Local computations with probabilities on graphical structures".
Cliques come from greedy elimination of columns, smallest table first; they are joined by a spanning
tree of the largest overlaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..measure.residual_counts import Columns

Table = NDArray[np.float64]


@dataclass(frozen=True)
class JunctionTree:
    """Cliques of columns, each after its parent.

    sizes: the columns' values.
    cliques: each in increasing order of columns; every column is in one.
    parents: of each clique the place of its parent; 0 of the first.
    """

    sizes: tuple[int, ...]
    cliques: tuple[Columns, ...]
    parents: tuple[int, ...]

    @staticmethod
    def of(sizes: tuple[int, ...], sets: Iterable[Columns]) -> JunctionTree:
        """The tree in which every set lies in a clique."""
        near = {c: {c} for c in range(len(sizes))}
        for columns in sets:
            for c in columns:
                near[c] |= {*columns}
        cliques = list[frozenset[int]]()
        while near:
            own = min(near, key=lambda c: (prod(sizes[i] for i in near[c]), c))
            clique = frozenset(near.pop(own))
            for c in clique - {own}:
                near[c] = (near[c] | clique) - {own}
            if not any(clique <= other for other in cliques):
                cliques.append(clique)
        return JunctionTree.joined(sizes, cliques)

    @staticmethod
    def joined(sizes: tuple[int, ...], cliques: Sequence[frozenset[int]]) -> JunctionTree:
        """The tree of the maximal cliques of a chordal graph: a largest spanning tree of overlaps.

        The last one comes first; of equal overlaps the first clique goes to the first parent.
        """
        order, parents = [cliques[-1]], [0]
        left = {i: (len(c & cliques[-1]), 0) for i, c in enumerate(cliques[:-1])}
        while left:
            child = max(left, key=lambda i: (left[i][0], -i))
            parents.append(left.pop(child)[1])
            order.append(cliques[child])
            for i, (overlap, _) in left.items():
                if len(cliques[i] & cliques[child]) > overlap:
                    left[i] = (len(cliques[i] & cliques[child]), len(order) - 1)
        return JunctionTree(sizes, tuple(tuple(sorted(c)) for c in order), tuple(parents))

    def extended(self, first: int, second: int) -> JunctionTree:
        """A tree with a clique that holds two columns, of so many cells more as `growth` says."""
        cliques = [frozenset(c) for c in self.cliques]
        path = self._paths(first).get(second, (0, ()))[1]
        if path:
            cliques = [c | {first} if i in path else c for i, c in enumerate(cliques)]
        else:
            cliques.append(frozenset({first, second}))
        kept = [
            c
            for i, c in enumerate(cliques)
            if not any(c < o or (c == o and i < j) for j, o in enumerate(cliques) if i != j)
        ]
        return JunctionTree.joined(self.sizes, kept)

    def growth(self, first: int) -> list[int]:
        """By column, at most how many cells a tree has more whose clique holds it and the first.

        The first column joins all cliques between its own ones and the other's; columns that
        nothing ties together get a clique of their own.
        """
        paths = self._paths(first)
        alone = [self.sizes[first] * n for n in self.sizes]
        return [paths[c][0] if c in paths else cells for c, cells in enumerate(alone)]

    def _paths(self, first: int) -> dict[int, tuple[int, tuple[int, ...]]]:
        """By column that hangs together with the first, the cells added and the cliques joined."""
        result: dict[int, tuple[int, tuple[int, ...]]] = {}
        ready: list[tuple[int, int, tuple[int, ...]]]
        ready = [(0, i, ()) for i, c in enumerate(self.cliques) if first in c]
        seen = {i for _, i, _ in ready}
        while ready:
            added, clique, path = ready.pop()
            for c in self.cliques[clique]:
                if c not in result or added < result[c][0]:
                    result[c] = (added, path)
            for other in self.near[clique]:
                if other not in seen:
                    seen.add(other)
                    more = prod(self.sizes[c] for c in self.cliques[other])
                    more *= self.sizes[first] - 1
                    ready.append((added + more, other, (*path, other)))
        return result

    @cached_property
    def near(self) -> tuple[tuple[int, ...], ...]:
        """By clique, its neighbours that have a column of it."""
        near: list[list[int]] = [[] for _ in self.cliques]
        for child, own in enumerate(self.separators):
            if own:
                near[child].append(self.parents[child])
                near[self.parents[child]].append(child)
        return tuple(map(tuple, near))

    @property
    def cells(self) -> int:
        """Of all cliques together."""
        return sum(prod(self.sizes[c] for c in clique) for clique in self.cliques)

    def holder(self, columns: Columns) -> int:
        """The smallest clique that holds some columns."""
        holders = [i for i, clique in enumerate(self.cliques) if {*columns} <= {*clique}]
        return min(holders, key=lambda i: prod(self.sizes[c] for c in self.cliques[i]))

    @cached_property
    def separators(self) -> tuple[Columns, ...]:
        """Of each clique, the columns that its parent has as well; none of the first."""
        pairs = zip(self.cliques[1:], self.parents[1:], strict=True)
        shared = [tuple(c for c in own if c in self.cliques[parent]) for own, parent in pairs]
        return ((), *shared)

    def spread(self, values: Table, columns: Columns, clique: int) -> Table:
        """A table of some columns as one that fits a clique's table."""
        own = self.cliques[clique]
        return values.reshape([self.sizes[c] if c in columns else 1 for c in own])

    def reduced(self, table: Table, clique: int, columns: Columns) -> Table:
        """Sums a clique's table over its other columns."""
        others = tuple(i for i, c in enumerate(self.cliques[clique]) if c not in columns)
        return np.asarray(table.sum(axis=others))
