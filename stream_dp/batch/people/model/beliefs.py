"""Marginals of a junction tree's cliques from potentials, and of all pairs of columns from those.

Lauritzen and Spiegelhalter 1988, "Local computations with probabilities on graphical structures".
From the leaves to the root each clique keeps its distribution given what it shares with its parent;
back from the root that times the parent's marginal is its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .junction_tree import JunctionTree

Table = NDArray[np.float64]
Axes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Beliefs:
    """What is computed of a tree again and again."""

    tree: JunctionTree

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """By clique, that of its table."""
        return tuple(tuple(self.tree.sizes[c] for c in own) for own in self.tree.cliques)

    @cached_property
    def _up(self) -> tuple[tuple[Axes, Axes, tuple[int, ...]], ...]:
        """By clique: its axes that its parent lacks, the parent's that it lacks, and the shape in
        which what they share fits the parent's table."""
        result = []
        for clique, (own, shared) in enumerate(
            zip(self.tree.cliques, self.tree.separators, strict=True)
        ):
            above = self.tree.cliques[self.tree.parents[clique]]
            lacks = tuple(i for i, c in enumerate(own) if c not in shared)
            parent_lacks = tuple(i for i, c in enumerate(above) if c not in shared)
            shape = tuple(self.tree.sizes[c] if c in shared else 1 for c in above)
            result.append((lacks, parent_lacks, shape))
        return tuple(result)

    def marginals(self, potentials: Sequence[Table]) -> tuple[list[Table], float]:
        """By clique its marginal, and the logarithm of the normalising sum.

        potentials: by clique, logarithms; they are overwritten.
        """
        given = list(potentials)
        for clique in reversed(range(1, len(given))):
            lacks, _, shape = self._up[clique]
            own = given[clique]
            highest = own.max(axis=lacks, keepdims=True)
            own = np.exp(own - highest)
            total = own.sum(axis=lacks, keepdims=True)
            given[clique] = own / total
            given[self.tree.parents[clique]] += (highest + np.log(total)).reshape(shape)
        highest = given[0].max()
        own = np.exp(given[0] - highest)
        total = float(own.sum())
        result = [own / total]
        for clique in range(1, len(given)):
            lacks, parent_lacks, _ = self._up[clique]
            above = result[self.tree.parents[clique]].sum(axis=parent_lacks)
            shape = tuple(1 if i in lacks else n for i, n in enumerate(self.shapes[clique]))
            result.append(given[clique] * above.reshape(shape))
        return result, float(highest) + float(np.log(total))

    def pairs(self, marginals: Sequence[Table]) -> Iterator[tuple[int, dict[int, Table]]]:
        """Of every column in turn, its joint shares with all others, (own values, theirs).

        marginals: by clique.
        """
        tree, sizes = self.tree, self.tree.sizes
        conditionals = self._conditionals(marginals)
        singles = {}
        for clique, own in enumerate(tree.cliques):
            for axis, c in enumerate(own):
                if c not in singles:
                    others = tuple(i for i in range(len(own)) if i != axis)
                    singles[c] = marginals[clique].sum(axis=others)
        for first in range(len(sizes)):
            joint = {c: np.outer(singles[first], shares) for c, shares in singles.items()}
            start = tree.holder((first,))
            own = tree.cliques[start]
            # The clique's table with the column once more, in front.
            axis = own.index(first)
            moved = np.moveaxis(marginals[start], axis, 0)
            table = np.zeros((sizes[first], *self.shapes[start]))
            np.moveaxis(table, axis + 1, 1)[np.arange(sizes[first]), np.arange(sizes[first])] = (
                moved
            )
            done, ready = {start}, [(start, table)]
            while ready:
                clique, table = ready.pop()
                own = tree.cliques[clique]
                for axis, c in enumerate(own):
                    others = tuple(i + 1 for i in range(len(own)) if i != axis)
                    joint[c] = table.sum(axis=others)
                for other in self.tree.near[clique]:
                    if other in done:
                        continue
                    done.add(other)
                    lacks, shape, given = conditionals[clique, other]
                    shared = table.sum(axis=lacks).reshape(sizes[first], *shape)
                    ready.append((other, shared * given))
            yield first, joint

    def _conditionals(
        self, marginals: Sequence[Table]
    ) -> dict[tuple[int, int], tuple[Axes, tuple[int, ...], Table]]:
        """By neighbours: the axes that the second lacks of the first's table with a column in
        front, the shape of what they share in the second's, and the second's given that."""
        result = {}
        for clique, near in enumerate(self.tree.near):
            for other in near:
                own, theirs = self.tree.cliques[clique], self.tree.cliques[other]
                lacks = tuple(i + 1 for i, c in enumerate(own) if c not in theirs)
                shape = tuple(self.tree.sizes[c] if c in own else 1 for c in theirs)
                new = tuple(i for i, c in enumerate(theirs) if c not in own)
                total = marginals[other].sum(axis=new, keepdims=True)
                given = marginals[other] / np.maximum(total, np.finfo(float).tiny)
                result[clique, other] = lacks, shape, given
        return result
