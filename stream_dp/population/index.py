"""Finds the slot of an id: a sorted array of the keyed hashes of people's ids."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass
class Index:
    """The slots of people by the 128-bit hash of the id, sorted by its first half.

    hi, lo: the two halves of the hashes.
    slot: the slots of people.
    """

    hi: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    lo: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    slot: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    def __len__(self) -> int:
        return int(self.hi.shape[0])

    def find(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Returns slots by hash, -1 for an unknown hash.

        The search is by `hi`, followed by a comparison of `lo`.
        """
        count = len(self)
        slots = np.full(hi.shape[0], -1, np.int64)
        positions = np.searchsorted(self.hi, hi)
        rows = np.flatnonzero(positions < count)
        while rows.size:
            rows = rows[self.hi[positions[rows]] == hi[rows]]
            same = self.lo[positions[rows]] == lo[rows]
            slots[rows[same]] = self.slot[positions[rows[same]]]
            # Several people may share `hi`: compare with the next person.
            rows = rows[~same]
            positions[rows] += 1
            rows = rows[positions[rows] < count]
        return slots

    def insert(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64], first: int) -> None:
        """Gives newcomers, sorted by their hashes, the slots from `first` on."""
        positions = np.searchsorted(self.hi, hi)
        slots = np.arange(first, first + hi.shape[0], dtype=np.int32)
        self.hi = np.insert(self.hi, positions, hi)
        self.lo = np.insert(self.lo, positions, lo)
        self.slot = np.insert(self.slot, positions, slots)
