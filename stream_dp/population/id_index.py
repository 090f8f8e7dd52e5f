"""Finds the slots of people by their ids: normal forms of a column of ids, their hashes, the index.

The index sorts the keyed hashes. People with equal first halves of their hashes are told apart by
the second halves. A cache of hashes is a hash table of arrays, for many look-ups at once. In it an
id is represented by a fingerprint of 127 bits under a secret key, which is several times quicker to
compute for a column of ids than their hashes.
"""

from __future__ import annotations

import hashlib
import string
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.log.records import binary_array, string_bounds
from stream_dp.study.declared_sections import Ids

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
        """Stores the hashes of new ids.

        A table that would be more than half full is doubled first, up to 2 KEPT rows. A table of
        that size takes ids until it is half full, and no more.
        """
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


_DIGIT, _LETTER, _MARK, _POINT, _ODD = 1, 2, 4, 8, 16  # kinds of characters in ids
_KINDS = np.full(256, _ODD, np.uint8)
for _characters, _kind in (
    (string.digits, _DIGIT),
    (string.ascii_letters, _LETTER),
    ("-_/:@", _MARK),
    (".,", _POINT),
):
    _KINDS[list(_characters.encode())] = _kind
_KEPT_DIGITS = 15  # by a spreadsheet
_LONGEST_WORD = 12  # characters, at least those of the longest word for nobody
_MONTH = 3  # letters of a month's name


def normal_ids(ids: pa.Array, rule: Ids) -> pa.Array:
    """Returns the normal form of every id by a study's rule.

    ids: in UTF-8; an array of `large_binary` without nulls.
    """
    rows = unusual_rows(ids) if rule.leaves_usual else np.arange(len(ids))
    if not rows.size:
        return ids
    before = ids.take(pa.array(rows))
    after = rule.normals([person.decode() for person in before.to_pylist()])
    normal = binary_array([person.encode() for person in after])
    if normal.equals(before):
        return ids
    if len(rows) == len(ids):
        return normal
    from pyarrow import compute as pc  # takes long, and most commands read no ids

    needs_look = np.zeros(len(ids), bool)
    needs_look[rows] = True
    return pc.replace_with_mask(ids, pa.array(needs_look), normal)


def unusual_rows(ids: pa.Array) -> NDArray[np.int64]:
    """Returns the rows of ids that may have a form that needs a look, see `id_forms.py`.

    A quick look: every other id is certainly as it is written, and ASCII.
    """
    bounds, content = string_bounds(ids), ids.buffers()[2]
    # Of a slice of a large table the content has the whole column.
    data = np.frombuffer(content or b"", np.uint8)[bounds[0] : bounds[-1]]
    bounds = bounds - bounds[0]
    lengths = np.diff(bounds)
    rows = np.flatnonzero(lengths)
    if not rows.size:
        return np.arange(len(ids))
    kinds, begins, length = _KINDS[data], bounds[rows], lengths[rows]
    kind = np.bitwise_or.reduceat(kinds, begins)
    usual = (kind == _DIGIT | _LETTER) | ((kind == _DIGIT) & (length <= _KEPT_DIGITS))
    if not usual.all():
        ends = bounds[rows + 1] - 1
        framed = (kinds[begins] | kinds[ends]) <= _DIGIT | _LETTER
        usual |= (kind == _DIGIT) & (data[ends] != ord("0"))
        usual |= (kind == _DIGIT | _MARK) & framed
        long = length > _LONGEST_WORD
        usual |= ((kind & _LETTER) > 0) & (kind < _ODD) & framed & long
    if not usual.all():
        letters = np.add.reduceat(kinds == _LETTER, begins, dtype=np.int64)
        usual |= (kind == _DIGIT | _LETTER | _MARK) & framed & (letters != _MONTH)
    odd = np.ones(len(ids), bool)
    odd[rows] = ~usual
    return np.flatnonzero(odd)
