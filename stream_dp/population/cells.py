"""Cells: the answers of people for a period and an attribute, in columns, until the close.

People, and their cells, fall into parts by the top bits of the keyed hash of the id.

The cells of reports are counted by outcome. A reason for rejecting a report or a cell, like
lateness, never quotes the report. `report_judging.py` decides on each report alone, and
`population.py` on cells that the close rejects. Confidential.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .id_index import last_rows

CLEARED = -1  # the code of a cell that clears the answer
_COMPACT = 1 << 20  # further cells of a partition after which repeated cells are looked for
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd, for multiplicative hashing
_CHUNK = 1 << 11  # a chunk of this many cells is not joined with others
_JOINED = 8


@dataclass(frozen=True)
class Cells:
    """Columns of equal length, a row per cell (person, period, attribute).

    hi, lo: the two halves of the 128-bit keyed hash of the person's id.
    period: its number, from 1.
    attribute: the index among the study's attributes.
    code: of the value, or CLEARED; its type is `cell_type`.
    partition, offset: the position of the record.
    """

    hi: NDArray[np.uint64]
    lo: NDArray[np.uint64]
    period: NDArray[np.uint16]
    attribute: NDArray[np.uint16]
    code: NDArray[np.signedinteger]
    partition: NDArray[np.uint16]
    offset: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.hi.shape[0])

    def take(self, rows: NDArray[Any] | slice) -> Cells:
        """Selects cells by row numbers, a mask or a slice."""
        return Cells(*(column[rows] for column in self.columns()))

    def columns(self) -> tuple[NDArray[Any], ...]:
        """Returns the columns in the order of the fields."""
        return (
            self.hi,
            self.lo,
            self.period,
            self.attribute,
            self.code,
            self.partition,
            self.offset,
        )

    @staticmethod
    def joined(chunks: Sequence[Cells]) -> Cells:
        """Concatenates cells in the given order."""
        if not chunks:
            return EMPTY
        columns = zip(*(chunk.columns() for chunk in chunks), strict=True)
        return Cells(*(np.concatenate(column) for column in columns))


EMPTY = Cells(
    hi=np.zeros(0, np.uint64),
    lo=np.zeros(0, np.uint64),
    period=np.zeros(0, np.uint16),
    attribute=np.zeros(0, np.uint16),
    code=np.zeros(0, np.int16),
    partition=np.zeros(0, np.uint16),
    offset=np.zeros(0, np.int64),
)


def code_type(symbols: int) -> type[np.unsignedinteger]:
    """Returns the narrowest type of an attribute's codes."""
    if symbols <= 1 << 8:
        return np.uint8
    return np.uint16 if symbols <= 1 << 16 else np.uint32


def cell_type(symbols: int) -> type[np.signedinteger]:
    """Returns the narrowest type of the codes of cells.

    symbols: of the largest attribute.
    """
    return np.int16 if symbols <= 1 << 15 else np.int32


class WaitingCells:
    """Cells of open periods, by partition, in the order of their offsets.

    Whenever the cells of a partition have doubled, repeated cells are merged if they are many: so
    memory stays bounded. This happens at the same cell however the partition was read in batches,
    so the state does not depend on the batches.
    """

    def __init__(self) -> None:
        self._chunks: dict[int, list[Cells]] = {}
        self._counts: dict[int, int] = {}  # cells by partition
        self._merged: dict[int, int] = {}  # cells by partition at the last look for repeated cells

    @classmethod
    def of(cls, cells: Cells) -> WaitingCells:
        """Makes waiting cells from the result of `all`."""
        self = cls()
        if not len(cells):
            return self  # `np.unique` imports masked arrays, which takes long
        for partition in np.unique(cells.partition).tolist():
            chunk = cells.take(cells.partition == partition)
            self._set(partition, [chunk], len(chunk))
        return self

    def _set(self, partition: int, chunks: list[Cells], count: int) -> None:
        self._chunks[partition], self._counts[partition] = chunks, count
        self._merged[partition] = count

    def all(self) -> Cells:
        """Returns every waiting cell, by partition and offset."""
        return Cells.joined([chunk for key in sorted(self._chunks) for chunk in self._chunks[key]])

    def add(self, cells: Cells) -> None:
        """Adds cells, and merges repeated cells in a partition that has many."""
        if (cells.partition[1:] < cells.partition[:-1]).any():
            cells = cells.take(np.argsort(cells.partition, kind="stable"))
        last = cells.partition[1:] != cells.partition[:-1]
        bounds = [0, *(np.flatnonzero(last) + 1).tolist(), len(cells)]
        for start, end in pairwise(bounds if len(cells) else [0]):
            chunk, partition = cells.take(slice(start, end)), int(cells.partition[start])
            # The decoder puts irregular reports last in a batch: restore the order of offsets.
            if (np.diff(chunk.offset) < 0).any():
                chunk = chunk.take(np.argsort(chunk.offset, kind="stable"))
            self._add(partition, chunk)

    def _add(self, partition: int, cells: Cells) -> None:
        """Adds cells of a partition, merging whenever its limit is reached."""
        chunks = self._chunks.setdefault(partition, [])
        while len(cells):
            limit = 2 * self._merged.get(partition, 0) + _COMPACT
            room = limit - self._counts.get(partition, 0)
            if len(cells) < room:
                chunks.append(cells)
                self._counts[partition] = self._counts.get(partition, 0) + len(cells)
                _join_last(chunks)
                break
            chunks = [*chunks, cells.take(slice(room))]
            if _merges(chunks):
                chunks = [latest_cells(Cells.joined(chunks))]
            self._set(partition, chunks, sum(map(len, chunks)))
            cells = cells.take(slice(room, None))

    def pop(self, period: int) -> Cells:
        """Removes the cells of a period and returns them by partition and offset."""
        due_chunks = []
        for partition in sorted(self._chunks):
            remaining = []
            for chunk in self._chunks[partition]:
                due_rows = chunk.period == period
                if due_rows.any():
                    due_chunks.append(chunk if due_rows.all() else chunk.take(due_rows))
                if not due_rows.all():
                    remaining.append(chunk.take(~due_rows) if due_rows.any() else chunk)
            self._set(partition, remaining, sum(map(len, remaining)))
        return Cells.joined(due_chunks)


def _join_last(chunks: list[Cells]) -> None:
    """Joins many small last chunks, so that small batches make few arrays.

    Chunks of a size are joined by _JOINED, so each cell is copied only few times.
    """
    few = False
    while not few:
        bound = 1
        while bound <= len(chunks[-1]):
            bound *= _JOINED
        bound, first = min(bound, _CHUNK), len(chunks)
        while first and len(chunks[first - 1]) < bound:
            first -= 1
        few = len(chunks) - first < _JOINED
        if not few:
            chunks[first:] = [Cells.joined(chunks[first:])]


def latest_cells(cells: Cells) -> Cells:
    """Returns the last cell of each (person, period, attribute), sorted by period and attribute.

    cells: in order of precedence, the prevailing cell last. Cells of the same period and attribute
        are sorted by the hash of the person.
    """
    rows = [
        kind_rows[last_rows(cells.hi[kind_rows], cells.lo[kind_rows])]
        for kind_rows in rows_by_kind(cells)
    ]
    return cells.take(np.concatenate(rows)) if rows else cells


def rows_by_kind(cells: Cells) -> list[NDArray[np.int64]]:
    """Returns the rows of every period and attribute, in unchanged order."""
    if not len(cells):
        return []
    attributes = np.uint32(int(cells.attribute.max()) + 1)
    kinds = cells.period.astype(np.uint32) * attributes + cells.attribute
    if kinds.min() == (largest := kinds.max()):
        return [np.arange(len(cells))]
    if largest < 1 << 16:
        kinds = kinds.astype(np.uint16)  # sorted in linear time
    order = np.argsort(kinds, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(kinds[order])) + 1)


def _merges(chunks: Sequence[Cells]) -> bool:
    """Estimates whether merging would drop an eighth of the cells or more.

    The estimate counts the cells that fall into different places of a table, by the keyed hash
    (Whang, Vander-Zanden and Taylor 1990, linear counting). Its standard error is below 1 %.
    """
    count = sum(map(len, chunks))
    bits = max(20, (count >> 2).bit_length())
    seen = np.zeros(1 << bits, bool)
    for chunk in chunks:
        kind = chunk.period.astype(np.uint64) << np.uint64(16) | chunk.attribute
        seen[(chunk.hi + kind * _SPREAD) >> np.uint64(64 - bits)] = True
    free = len(seen) - int(np.count_nonzero(seen))
    distinct = len(seen) * math.log(len(seen) / max(free, 1))
    return distinct < 7 / 8 * count


_CODE = 4  # the column of cells whose type depends on the study


@dataclass(frozen=True)
class Part:
    """A part of the people: hashes whose top bits are `index`. count: of parts, a power of two."""

    index: int
    count: int


def part_of(hi: NDArray[np.uint64], count: int) -> NDArray[np.intp]:
    """Returns everybody's part, of `count` parts. hi: the first halves of hashes."""
    bits = count.bit_length() - 1
    if bits == 0:
        return np.zeros(hi.shape[0], np.intp)
    return (hi >> np.uint64(64 - bits)).astype(np.intp)


def split(cells: Cells, count: int) -> list[Cells]:
    """Splits cells by part, in unchanged order. count: of parts."""
    part_indices = part_of(cells.hi, count)
    ends = np.cumsum(np.bincount(part_indices, minlength=count))
    sorted_cells = cells.take(np.argsort(part_indices, kind="stable"))
    return [
        sorted_cells.take(np.arange(start, end))
        for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)
    ]


def ordered(cells: Cells) -> Cells:
    """Sorts cells by partition, offset and attribute, which together are unique.

    So the state after them does not depend on how the input was cut into tasks.
    """
    return cells.take(np.lexsort((cells.attribute, cells.offset, cells.partition)))


def packed(cells: Cells) -> bytes:
    """Writes cells as bytes: the width of a code, then column after column, little-endian."""
    little = [column.astype(column.dtype.newbyteorder("<")) for column in cells.columns()]
    return bytes([cells.code.itemsize]) + b"".join(column.tobytes() for column in little)


def unpacked(blobs: Sequence[bytes]) -> Cells:
    """Reads the cells of all blobs from `packed`."""

    def columns(blob: bytes) -> Iterator[NDArray[Any]]:
        kinds = [f"{column.dtype.kind}{column.dtype.itemsize}" for column in EMPTY.columns()]
        kinds[_CODE] = f"i{blob[0]}"
        width, at = sum(int(kind[1:]) for kind in kinds), 1
        count = (len(blob) - 1) // width
        for kind in kinds:
            yield np.frombuffer(blob, f"<{kind}", count, at).astype(kind)
            at += count * int(kind[1:])

    return Cells.joined([Cells(*columns(blob)) for blob in blobs])


Reason = Literal[
    "unreadable",
    "deleted",
    "before",
    "person",
    "period",
    "zone",
    "late",
    "attribute",
    "value",
    "range",
    "step",
    "full",
    "closed",
    "fixed",
]

REASONS: dict[Reason, str] = {
    "unreadable": "not a JSON report with person, period and values, or over 64 kB, or with headers"
    " that are not text, or with a schema that is unknown or beyond a limit, or a row of a file"
    " that does not fit its header",
    "deleted": "a record without a value, or with a mark of deletion that is neither true nor"
    " false: see tombstone and deleted in [run.input]",
    "before": "a change that does not say which person and period its row had: see before in"
    " [run.input]; on PostgreSQL ALTER TABLE ... REPLICA IDENTITY FULL writes it",
    "person": "the person's id is empty, damaged, a word for nobody, too long or not text (see"
    " [study.ids])",
    "period": "the period is not one of the study's",
    "zone": "the period is a time in UTC near the border of two periods, and no zone is declared:"
    " see zone in [run.input]",
    "late": "the period is closed",
    "attribute": "no such attribute is declared",
    "value": "not one of the attribute's values",
    "range": "the number is below the attribute's least or above its most",
    "step": "the number is no multiple of the attribute's step",
    "full": "no place in the population: its declared size, or the table of members, is full",
    "closed": "the cohort is closed, and the person has no answer in the periods of entry",
    "fixed": "the person has another value of a fixed attribute, for good",
}


class RejectedRecord(NamedTuple):
    """A record with rejected cells.

    row: its index in the batch.
    cells: by reason, the number of rejected cells.
    """

    row: int
    cells: dict[Reason, int]


@dataclass(frozen=True)
class CellCounts:
    """Counts of cells: received = accepted + superseded + rejected + pending.

    accepted: cells held by closed periods.
    superseded: cells of closed periods that a later cell of the same person, period and attribute
        replaced.
    pending: cells that wait for their period's close, superseded cells among them.
    rejected: by reason.
    """

    received: int = 0
    accepted: int = 0
    superseded: int = 0
    pending: int = 0
    rejected: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))

    def plus(self, further: CellCounts) -> CellCounts:
        """Adds the counts of two sets of cells."""
        return CellCounts(
            received=self.received + further.received,
            accepted=self.accepted + further.accepted,
            superseded=self.superseded + further.superseded,
            pending=self.pending + further.pending,
            rejected=dict(+Tally(self.rejected) + Tally(further.rejected)),
        )

    def as_dict(self) -> dict[str, object]:
        """Returns the counts for JSON, rejected cells in the order of their reasons."""
        return {
            "received": self.received,
            "accepted": self.accepted,
            "superseded": self.superseded,
            "rejected": dict(sorted(self.rejected.items())),
            "pending": self.pending,
        }


@dataclass(frozen=True)
class Answering:
    """Counts of a closed period, before newcomers without a place are refused.

    people: with an answer, admitted or not.
    answers: to the attributes that each period asks for anew.
    """

    people: int = 0
    answers: int = 0

    def plus(self, further: Answering) -> Answering:
        """Adds the counts of two sets of people."""
        return Answering(self.people + further.people, self.answers + further.answers)
