"""A cache of ids and their hashes: a hash table of arrays, for many look-ups at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

KEPT = 1 << 19  # ids in the cache, at most: 128 bytes an id
LONGEST = 40  # bytes of an id in the cache, at most: five words, compared as words

_WORDS = LONGEST // 8
_ROW = 1 + _WORDS + 2  # words: the id's length and one, or 0 in a free row; the id; the hash
_PROBES = 8
_FIRST_BITS = 10  # of the number of rows
# Odd constants for multiplicative hashing. They are public: somebody who finds ids that collide
# can only keep these ids out of the cache.
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


def packed(ids: pa.Array) -> Words:
    """Packs ids into words, (n, 6): the length plus one, then the bytes.

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

    The ids themselves are compared, so that the answer is never another id's. An id without a free
    row within the probes is not stored. At most half of the rows are in use, so that this is
    seldom.
    """

    def __init__(self) -> None:
        self._bits = _FIRST_BITS
        self._table = np.zeros((1 << self._bits, _ROW), np.uint64)
        self._count = 0  # stored ids; an id that was added twice at once counts twice

    def find(self, keys: Words) -> tuple[Words, NDArray[np.int64]]:
        """Returns the two halves of the hash of every id, and the rows of ids that are not stored.

        keys: the result of `packed`.
        """
        table_rows = self._first_rows(keys)
        entries = self._table.take(table_rows, 0)
        hashes = entries[:, -2:].copy()
        rows, unknown = np.flatnonzero(~_equal(entries, keys)), []
        free = entries[rows, 0] == 0
        keys, table_rows = keys.take(rows, 0), table_rows.take(rows)
        for _ in range(_PROBES - 1):
            if free.any():
                unknown.append(rows[free])
                others = np.flatnonzero(~free)
                rows, keys, table_rows = rows[others], keys.take(others, 0), table_rows[others]
            if not rows.size:
                break
            table_rows = self._next(table_rows)
            entries = self._table.take(table_rows, 0)
            hashes[rows] = entries[:, -2:]
            others = np.flatnonzero(~_equal(entries, keys))
            free = entries[others, 0] == 0
            rows, keys, table_rows = rows[others], keys.take(others, 0), table_rows[others]
        return hashes, np.concatenate([*unknown, rows])

    def add(self, keys: Words, hashes: Words) -> None:
        """Stores the hashes of new ids until the table is half full."""
        entries = np.concatenate([keys, hashes], axis=1)
        while 2 * (self._count + len(entries)) > len(self._table):
            if len(self._table) >= 2 * KEPT:
                entries = entries[: max(0, KEPT - self._count)]
                break
            self._bits += 1
            stored = self._table[self._table[:, 0] > 0]
            self._table = np.zeros((1 << self._bits, _ROW), np.uint64)
            self._count = self._insert(stored)
        self._count += self._insert(entries)

    def _insert(self, entries: Words) -> int:
        """Puts entries into free rows. Returns the number of entries that found a row."""
        count, table_rows = len(entries), self._first_rows(entries[:, :-2])
        for _ in range(_PROBES):
            free = self._table[table_rows, 0] == 0
            self._table[table_rows[free]] = entries[free]
            # Of several entries that met in a row, the last has it.
            displaced = ~_equal(self._table.take(table_rows, 0), entries[:, :-2])
            entries, table_rows = entries[displaced], self._next(table_rows[displaced])
        return count - len(entries)

    def _first_rows(self, keys: Words) -> NDArray[np.int64]:
        """Returns the first row to probe for every key."""
        mixed = keys @ _FACTORS
        return (mixed >> np.uint64(64 - self._bits)).astype(np.int64)

    def _next(self, table_rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return (table_rows + 1) & (len(self._table) - 1)


def _equal(entries: Words, keys: Words) -> NDArray[np.bool_]:
    """Tells for every row whether the entry belongs to the key."""
    same: NDArray[np.bool_] = entries[:, 0] == keys[:, 0]
    for word in range(1, keys.shape[1]):
        same &= entries[:, word] == keys[:, word]
    return same
