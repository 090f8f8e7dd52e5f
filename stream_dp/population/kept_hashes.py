"""Ids and their hashes, kept in memory in a hash table of arrays: many are looked up at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

KEPT = 1 << 19  # ids, at most: 128 bytes for each
LONGEST = 40  # bytes of an id that is kept: five words, which are compared as such

_WORDS = LONGEST // 8
_ROW = 1 + _WORDS + 2  # words: the id's length and one, or 0 in a free row; the id; the hash
_PROBES = 8
_FIRST_BITS = 10  # of the number of rows
# Odd constants for multiplicative hashing. They are no secret: who finds ids that fall together
# gains that these are not kept.
_FACTORS = np.array(
    [
        0x9E3779B97F4A7C15,
        0xBF58476D1CE4E5B9,
        0x94D049BB133111EB,
        0xD6E8FEB86659FD93,
        0xA0761D6478BD642F,
        0xE7037ED1A0B428DB,
    ],
    np.uint64,
)

Words = NDArray[np.uint64]


def packed(ids: Any) -> Words:
    """One more than the length of each id, and its bytes in words, (n, 6).

    ids: an array of `large_binary` without nulls, none longer than LONGEST.
    """
    texts = pa.Array.from_buffers(pa.large_string(), len(ids), ids.buffers(), 0, ids.offset)
    padded = pc.ascii_rpad(texts, LONGEST, "\0")  # bytes, whatever they encode
    keys = np.empty((len(ids), 1 + _WORDS), np.uint64)
    keys[:, 0] = pc.binary_length(ids).to_numpy() + 1
    keys[:, 1:] = np.frombuffer(padded.buffers()[2], np.uint64, len(ids) * _WORDS).reshape(
        -1, _WORDS
    )
    return keys


class KeptHashes:
    """The hashes of the first ids that were added; open addressing with linear probing.

    The ids themselves are compared, so that an answer is never another id's. What is not within
    the probes is not kept; at most half of the rows are in use, so that this is seldom.
    """

    def __init__(self) -> None:
        self._bits = _FIRST_BITS
        self._table = np.zeros((1 << self._bits, _ROW), np.uint64)
        self._count = 0  # of the ids that are kept; one that was added twice at once counts twice

    def find(self, keys: Words) -> tuple[Words, NDArray[np.int64]]:
        """The hash of each id as its two halves, and the rows of those that are not kept.

        keys: as `packed` gives them.
        """
        place = self._places(keys)
        entries = self._table.take(place, 0)
        hashes = entries[:, -2:].copy()
        rows, unknown = np.flatnonzero(~_equal(entries, keys)), []
        free = entries[rows, 0] == 0
        keys, place = keys.take(rows, 0), place.take(rows)
        for _ in range(_PROBES - 1):
            if free.any():
                unknown.append(rows[free])
                other = np.flatnonzero(~free)
                rows, keys, place = rows[other], keys.take(other, 0), place[other]
            if not rows.size:
                break
            place = self._next(place)
            entries = self._table.take(place, 0)
            hashes[rows] = entries[:, -2:]
            other = np.flatnonzero(~_equal(entries, keys))
            free = entries[other, 0] == 0
            rows, keys, place = rows[other], keys.take(other, 0), place[other]
        return hashes, np.concatenate([*unknown, rows])

    def add(self, keys: Words, hashes: Words) -> None:
        """Keep the hashes of ids that are not kept yet, as far as there is room."""
        entries = np.concatenate([keys, hashes], axis=1)
        while 2 * (self._count + len(entries)) > len(self._table):
            if len(self._table) >= 2 * KEPT:
                entries = entries[: max(0, KEPT - self._count)]
                break
            self._bits += 1
            before = self._table[self._table[:, 0] > 0]
            self._table = np.zeros((1 << self._bits, _ROW), np.uint64)
            self._count = self._insert(before)
        self._count += self._insert(entries)

    def _insert(self, entries: Words) -> int:
        """Puts entries into free rows; returns for how many there was one."""
        count, place = len(entries), self._places(entries[:, :-2])
        for _ in range(_PROBES):
            free = self._table[place, 0] == 0
            self._table[place[free]] = entries[free]
            # Of several that met in one row the last one has it.
            others = ~_equal(self._table.take(place, 0), entries[:, :-2])
            entries, place = entries[others], self._next(place[others])
        return count - len(entries)

    def _places(self, keys: Words) -> NDArray[np.int64]:
        """The first row of each to look at."""
        mixed = keys @ _FACTORS
        return (mixed >> np.uint64(64 - self._bits)).astype(np.int64)

    def _next(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return (places + 1) & (len(self._table) - 1)


def _equal(entries: Words, keys: Words) -> NDArray[np.bool_]:
    """Whether each entry is of the id with that key."""
    same: NDArray[np.bool_] = entries[:, 0] == keys[:, 0]
    for word in range(1, keys.shape[1]):
        same &= entries[:, word] == keys[:, word]
    return same
