"""A public tree of regions with the number of groups in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .histogram import LevelSizes, Sizes


@dataclass(frozen=True)
class Regions:
    """A tree of regions.

    columns: the names of the levels below the root, from the top down.
    leaves: the path of each smallest region, a value for each column, in increasing order.
    groups: the number of groups in each leaf, none negative.
    """

    columns: tuple[str, ...]
    leaves: tuple[tuple[str, ...], ...]
    groups: tuple[int, ...]

    @classmethod
    def of(cls, columns: Sequence[str], groups: Mapping[tuple[str, ...], int]) -> Regions:
        """The tree of smallest regions with these numbers of groups, by path."""
        leaves = tuple(sorted(groups))
        return cls(tuple(columns), leaves, tuple(groups[leaf] for leaf in leaves))

    @property
    def depth(self) -> int:
        """The number of levels, the root's included."""
        return len(self.columns) + 1

    @cached_property
    def levels(self) -> tuple[tuple[tuple[str, ...], ...], ...]:
        """The paths of the regions of every level from the root down, in increasing order."""
        return tuple(
            tuple(dict.fromkeys(leaf[:depth] for leaf in self.leaves))
            for depth in range(self.depth)
        )

    @cached_property
    def counts(self) -> tuple[NDArray[np.int64], ...]:
        """The number of groups of the regions of every level, (regions,)."""
        counts = [np.array(self.groups, np.int64)]
        for depth in range(self.depth - 1, 0, -1):
            totals = np.zeros(len(self.levels[depth - 1]), np.int64)
            np.add.at(totals, self.parents(depth), counts[0])
            counts.insert(0, totals)
        return tuple(counts)

    def parents(self, depth: int) -> NDArray[np.int64]:
        """The positions in the level above of the parents of level `depth` >= 1."""
        positions = {path: i for i, path in enumerate(self.levels[depth - 1])}
        return np.array([positions[path[:-1]] for path in self.levels[depth]], np.int64)

    def sums(self, leaves: Sequence[Sizes]) -> LevelSizes:
        """The sizes of the regions of every level, given the sizes of the smallest regions."""
        levels = [tuple(leaves)]
        for depth in range(self.depth - 1, 0, -1):
            levels.insert(0, tuple(map(Sizes.together, self.children(levels[0], depth))))
        return tuple(levels)

    def children(self, level: Sequence[Sizes], depth: int) -> list[list[Sizes]]:
        """The sizes of the regions of level `depth` >= 1, by parent."""
        families: list[list[Sizes]] = [[] for _ in self.levels[depth - 1]]
        for parent, sizes in zip(self.parents(depth).tolist(), level, strict=True):
            families[parent].append(sizes)
        return families
