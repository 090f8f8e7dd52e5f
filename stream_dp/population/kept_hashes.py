"""A cache of the hashes of ids: a hash table of arrays, for many look-ups at once.

An id is represented by a fingerprint of 127 bits under a secret key, which is several times quicker
to compute for a column of ids than their hashes.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

KEPT = 1 << 21  # ids in the cache, at most: 64 bytes an id
LONGEST = 40  # bytes of an id in the cache, at most
_WORD = 4  # bytes
_ROW = 4  # words of 64 bits: the fingerprint, 0 in a free row; the hash
_PROBES = 8
_FIRST_BITS = 10  # of the number of rows

Words = NDArray[np.uint64]


class Fingerprints:
    """Multilinear hashing of ids with secret factors.

    Two ids have the same fingerprint with a probability of 2^-127 over the factors. Each of four
    sums of words times factors, modulo 2^64, is strongly universal in its upper 32 bits
    (Dietzfelbinger 1996; Lemire and Kaser 2014). The mark of rows in use takes one bit.

    key: secret; the factors are functions of it.
    """

    def __init__(self, key: bytes) -> None:
        count = 4 * (2 + LONGEST // _WORD)
        stream = b"".join(
            hashlib.blake2b(bytes([block]), key=key, person=b"kept-hashes").digest()
            for block in range(-(-8 * count // 64))
        )
        factors = np.frombuffer(stream, "<u8", count).astype(np.uint64).reshape(-1, 4)
        self._constant, self._of_length, self._of_words = factors[0], factors[1], factors[2:]

    def of(self, ids: pa.Array) -> Words:
        """Returns the fingerprint of every id, (n, 2), with a first word other than 0.

        ids: an array of `large_binary` without nulls, none longer than LONGEST.
        """
        from pyarrow import compute as pc  # takes long, and most commands read no ids

        lengths = pc.binary_length(ids).to_numpy()
        word_count = -(-int(lengths.max(initial=1)) // _WORD)
        texts = pa.Array.from_buffers(pa.large_string(), len(ids), ids.buffers(), 0, ids.offset)
        padded = pc.ascii_rpad(texts, _WORD * word_count, "\0")  # bytes, whatever they encode
        columns = np.frombuffer(padded.buffers()[2], "<u4", len(ids) * word_count).reshape(
            -1, word_count
        )
        columns = np.ascontiguousarray(columns.T).astype(np.uint64)
        sizes = lengths.astype(np.uint64)
        halves = []
        for number in range(4):
            total = self._constant[number] + sizes * self._of_length[number]
            for column, factor in zip(columns, self._of_words[:, number], strict=False):
                total += column * factor
            halves.append(total >> np.uint64(32))
        prints = np.empty((len(ids), 2), np.uint64)
        prints[:, 0] = halves[0] << np.uint64(32) | halves[1] | np.uint64(1)
        prints[:, 1] = halves[2] << np.uint64(32) | halves[3]
        return prints


class KeptHashes:
    """The hashes of the first ids that were added; open addressing with linear probing.

    Ids are compared by their fingerprints. An id without a free row within the probes is not
    stored. At most half of the rows are in use, so that this is seldom.
    """

    def __init__(self) -> None:
        self._bits = _FIRST_BITS
        self._table = np.zeros((1 << self._bits, _ROW), np.uint64)
        self._count = 0  # stored ids; an id that was added twice at once counts twice

    def find(self, keys: Words) -> tuple[Words, NDArray[np.int64]]:
        """Returns the two halves of the hash of every id, and the rows of ids that are not stored.

        keys: the result of `Fingerprints.of`.
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
                occupied = np.flatnonzero(~free)
                rows, keys, table_rows = (
                    rows[occupied],
                    keys.take(occupied, 0),
                    table_rows[occupied],
                )
            if not rows.size:
                break
            table_rows = self._next(table_rows)
            entries = self._table.take(table_rows, 0)
            hashes[rows] = entries[:, -2:]
            occupied = np.flatnonzero(~_equal(entries, keys))
            free = entries[occupied, 0] == 0
            rows, keys, table_rows = rows[occupied], keys.take(occupied, 0), table_rows[occupied]
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
        return (keys[:, 0] >> np.uint64(64 - self._bits)).astype(np.int64)

    def _next(self, table_rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return (table_rows + 1) & (len(self._table) - 1)


def _equal(entries: Words, keys: Words) -> NDArray[np.bool_]:
    """Tells for every row whether the entry belongs to the key."""
    same: NDArray[np.bool_] = (entries[:, 0] == keys[:, 0]) & (entries[:, 1] == keys[:, 1])
    return same
