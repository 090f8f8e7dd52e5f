"""Junction trees: exact marginals of a graphical model whose marginals hang together loosely.

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
from scipy.special import logsumexp

from ..residuals import Columns

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
        order, parents = [cliques.pop()], [0]
        while cliques:
            pairs = ((len(c & o), i, j) for i, c in enumerate(cliques) for j, o in enumerate(order))
            _, child, parent = max(pairs, key=lambda p: (p[0], -p[1], -p[2]))
            order.append(cliques.pop(child))
            parents.append(parent)
        return JunctionTree(sizes, tuple(tuple(sorted(c)) for c in order), tuple(parents))

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
        """The sum of a clique's table over its other columns."""
        return np.asarray(table.sum(axis=self._others(clique, columns)))

    def _others(self, clique: int, columns: Columns) -> tuple[int, ...]:
        return tuple(i for i, c in enumerate(self.cliques[clique]) if c not in columns)

    def calibrated(self, potentials: Sequence[Table]) -> tuple[list[Table], float]:
        """Each clique's marginal, adding up to 1, and the logarithm of the normalising sum.

        potentials: by clique, logarithms; the model is in proportion to the exponential of their
        sum.
        """
        beliefs, messages = [np.array(p) for p in potentials], list[Table]()
        for child in reversed(range(1, len(beliefs))):
            own = self.separators[child]
            message = np.asarray(logsumexp(beliefs[child], axis=self._others(child, own)))
            messages.append(message)
            parent = self.parents[child]
            beliefs[parent] += self.spread(message, own, parent)
        total = float(logsumexp(beliefs[0]))
        for child, message in zip(range(1, len(beliefs)), reversed(messages), strict=True):
            own, parent = self.separators[child], self.parents[child]
            above = np.asarray(logsumexp(beliefs[parent], axis=self._others(parent, own)))
            beliefs[child] += self.spread(above - message, own, child)
        return [np.exp(belief - total) for belief in beliefs], total
