"""The numbers of groups by size in a region: runs of groups of equal size.

Three representations of the numbers, by Kuo et al. 2018 (VLDB 11), section 4: the histogram H
(the number of groups of each size), the cumulative counts Hc (the number of groups of at most each
size) and the sorted sizes Hg (the size of every group, in increasing order).

`Regions` is the public tree of regions with the number of groups in each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]


@dataclass(frozen=True)
class Sizes:
    """The sizes of a region's groups.

    size: int64 (d,), the sizes that occur, increasing and none negative.
    groups: int64 (d,), the number of groups of each size, none zero.
    """

    size: Int64Array
    groups: Int64Array

    @classmethod
    def of(cls, size: Int64Array, groups: Int64Array | None = None) -> Sizes:
        """The sizes of groups in any order; an entry stands for `groups` groups."""
        if groups is None:
            return cls(*np.unique(np.asarray(size, np.int64), return_counts=True))
        size, position = np.unique(np.asarray(size, np.int64), return_inverse=True)
        total = np.zeros(len(size), np.int64)
        np.add.at(total, position, groups)
        return cls(size[total > 0], total[total > 0])

    @classmethod
    def of_histogram(cls, histogram: Int64Array) -> Sizes:
        """From H: entry s is the number of groups of size s."""
        size = np.flatnonzero(histogram)
        return cls(size, histogram[size].astype(np.int64))

    @classmethod
    def together(cls, regions: Sequence[Sizes]) -> Sizes:
        """The sizes of all groups of several regions."""
        return cls.of(
            np.concatenate([region.size for region in regions]),
            np.concatenate([region.groups for region in regions]),
        )

    @property
    def total(self) -> int:
        """The number of groups."""
        return int(self.groups.sum())

    @property
    def members(self) -> int:
        """The number of members of all groups."""
        return int(self.size @ self.groups)

    def capped(self, largest: int) -> Sizes:
        """The same groups, where a size above `largest` counts as `largest`."""
        return Sizes.of(np.minimum(self.size, largest), self.groups)

    def histogram(self, largest: int) -> Int64Array:
        """H, int64 (largest + 1,). No size may be above `largest`."""
        counts = np.zeros(largest + 1, np.int64)
        counts[self.size] = self.groups
        return counts

    def cumulative(self, largest: int) -> Int64Array:
        """Hc without its last entry, which is the public number of groups: int64 (largest,)."""
        return np.cumsum(self.histogram(largest))[:-1]

    def sorted(self) -> Int64Array:
        """Hg, int64 (groups,): the size of every group, in increasing order."""
        return np.repeat(self.size, self.groups)


@dataclass(frozen=True)
class Estimate:
    """Estimated sizes of a region's groups, not yet rounded.

    value: float64 (d,), increasing and none negative.
    groups: int64 (d,), the number of groups of each size.
    """

    value: NDArray[np.float64]
    groups: Int64Array

    @classmethod
    def of(cls, sizes: Sizes) -> Estimate:
        """An estimate in whole numbers."""
        return cls(sizes.size.astype(np.float64), sizes.groups)

    @property
    def sizes(self) -> Sizes:
        """The sizes, rounded."""
        return Sizes.of(np.rint(self.value).astype(np.int64), self.groups)


LevelSizes = tuple[tuple[Sizes, ...], ...]  # by level, from the root down, then by region


def earth_movers_distance(first: Sizes, second: Sizes) -> int:
    """The number of members to add or remove to turn the first region's sizes into the second's.

    The sum of |Hc - Hc'|, and of |Hg - Hg'|, which are equal. Both must have as many groups. A
    person who joins or leaves a group changes it by at most 1, one who moves by at most 2.
    """
    size = np.concatenate([first.size, second.size])
    order = np.argsort(size, kind="stable")
    difference = np.cumsum(np.concatenate([first.groups, -second.groups])[order])
    if difference.size and difference[-1]:
        raise ValueError("the two have different numbers of groups")
    return int(np.abs(difference[:-1]) @ np.diff(size[order]))


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
