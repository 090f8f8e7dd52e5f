"""Sorts the keyed hashes of people's ids, and finds the slot of an id.

People with equal first halves of their hashes are told apart by the second halves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Halves = NDArray[np.uint64]


def sorted_rows(hi: Halves, lo: Halves) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Sorts rows by their hash, rows with equal hashes in unchanged order.

    hi, lo: the two halves of the hashes.

    Returns the rows in their order, and which of them begin a new hash.
    """
    # An unstable sort of one half is several times quicker than a sort by three keys. Rows whose
    # halves are equal are few, and are sorted again.
    order = np.argsort(hi)
    ranked = hi[order]
    begins = np.ones(len(order), bool)
    begins[1:] = ranked[1:] != ranked[:-1]
    if not begins.all():
        repeated = ~begins
        repeated[:-1] |= ~begins[1:]
        positions = np.flatnonzero(repeated)
        rows = order[positions]
        order[positions] = rows[np.lexsort((rows, lo[rows], hi[rows]))]
        begins[1:] |= lo[order[1:]] != lo[order[:-1]]
    return order, begins


def last_rows(hi: Halves, lo: Halves) -> NDArray[np.int64]:
    """Returns the last row of every hash, in the order of the hashes."""
    order, begins = sorted_rows(hi, lo)
    return order if begins.all() else order[np.append(begins[1:], True)]


def distinct(hi: Halves, lo: Halves) -> tuple[Halves, Halves]:
    """Sorts hashes and drops repeated hashes.

    Hashes with `hi` in strictly increasing order are returned as they are.
    """
    if (hi[1:] <= hi[:-1]).any():
        order, begins = sorted_rows(hi, lo)
        hi, lo = hi[order[begins]], lo[order[begins]]
    return hi, lo


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
