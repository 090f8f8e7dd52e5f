"""Id to slot: a sorted array of the keyed hashes of people's ids."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass
class Index:
    """The slots of people by the 128-bit hash of the id, sorted by its first half.

    hi, lo: the two halves of each hash.
    slot: the slot of each person.
    """

    hi: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    lo: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    slot: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    def __len__(self) -> int:
        return int(self.hi.shape[0])

    def find(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Slots by hash, -1 where there is none: a search by `hi`, and a comparison of `lo`."""
        count = len(self)
        slots = np.full(hi.shape[0], -1, np.int64)
        places = np.searchsorted(self.hi, hi)
        rows = np.flatnonzero(places < count)
        while rows.size:
            rows = rows[self.hi[places[rows]] == hi[rows]]
            same = self.lo[places[rows]] == lo[rows]
            slots[rows[same]] = self.slot[places[rows[same]]]
            # Several people may share `hi`: compare with the next one.
            rows = rows[~same]
            places[rows] += 1
            rows = rows[places[rows] < count]
        return slots

    def insert(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64], first: int) -> None:
        """Give newcomers, sorted by their hashes, the slots from `first` on."""
        place = np.searchsorted(self.hi, hi)
        slots = np.arange(first, first + hi.shape[0], dtype=np.int32)
        self.hi = np.insert(self.hi, place, hi)
        self.lo = np.insert(self.lo, place, lo)
        self.slot = np.insert(self.slot, place, slots)


def distinct(
    hi: NDArray[np.uint64], lo: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The hashes in their order, each once; hi: sorted where each is there once."""
    if (hi[1:] <= hi[:-1]).any():
        order = np.lexsort((lo, hi))
        hi, lo = hi[order], lo[order]
        new = np.ones(hi.shape[0], bool)
        new[1:] = (hi[1:] != hi[:-1]) | (lo[1:] != lo[:-1])
        hi, lo = hi[new], lo[new]
    return hi, lo
