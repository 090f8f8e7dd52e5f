"""Cells: the answers of people for a period and an attribute, in columns, until it closes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CLEARED = -1  # the code of a cell that clears the answer
_COMPACT = 1 << 20  # further cells of a partition after which repeated ones are merged
_PART = 1 << 16  # a part of so many cells is not joined with others


@dataclass(frozen=True)
class Cells:
    """Columns of equal length, a row for each cell (person, period, attribute).

    hi, lo: the two halves of the 128-bit keyed hash of the person's id.
    period: its number, from 1.
    attribute: its place among the study's attributes.
    code: of the value, or CLEARED; of the type that `cell_type` gives.
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
        """The cells at row numbers, where a mask is true, or in a slice."""
        return Cells(*(column[rows] for column in self.columns()))

    def columns(self) -> tuple[NDArray[Any], ...]:
        """The columns in the order of the fields."""
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
    def joined(parts: Sequence[Cells]) -> Cells:
        """All cells of the parts, in their order."""
        if not parts:
            return EMPTY
        columns = zip(*(part.columns() for part in parts), strict=True)
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
    """The narrowest type of the codes of an attribute with so many symbols."""
    if symbols <= 1 << 8:
        return np.uint8
    return np.uint16 if symbols <= 1 << 16 else np.uint32


def cell_type(symbols: int) -> type[np.signedinteger]:
    """The narrowest type of the codes of cells, given the symbols of the largest attribute."""
    return np.int16 if symbols <= 1 << 15 else np.int32


class WaitingCells:
    """Cells of periods that are still open, by partition, in the order of their offsets.

    Repeated cells of a partition are merged whenever its cells have doubled since the last merge,
    so memory stays bounded. The merge happens at the same cell however the partition was read in
    batches, so the state does not depend on the batches.
    """

    def __init__(self) -> None:
        self._parts: dict[int, list[Cells]] = {}
        self._counts: dict[int, int] = {}  # cells by partition
        self._merged: dict[int, int] = {}  # cells by partition after its last merge

    @classmethod
    def of(cls, cells: Cells) -> WaitingCells:
        """Waiting cells from those that `all` returned."""
        self = cls()
        for partition in np.unique(cells.partition).tolist():
            part = cells.take(cells.partition == partition)
            self._set(partition, [part], len(part))
        return self

    def _set(self, partition: int, parts: list[Cells], count: int) -> None:
        self._parts[partition], self._counts[partition] = parts, count
        self._merged[partition] = count

    def all(self) -> Cells:
        """Every waiting cell, by partition and offset."""
        return Cells.joined([part for key in sorted(self._parts) for part in self._parts[key]])

    def add(self, cells: Cells) -> None:
        """Add cells, and merge repeated ones where a partition has many."""
        counts = np.bincount(cells.partition)
        if np.count_nonzero(counts) > 1:
            cells = cells.take(np.argsort(cells.partition, kind="stable"))
        ends = np.cumsum(counts)
        for partition in np.flatnonzero(counts).tolist():
            part = cells.take(slice(ends[partition] - counts[partition], ends[partition]))
            # The decoder puts irregular reports last in a batch: restore the order of offsets.
            if (np.diff(part.offset) < 0).any():
                part = part.take(np.argsort(part.offset, kind="stable"))
            self._add(partition, part)

    def _add(self, partition: int, cells: Cells) -> None:
        """Add cells of one partition, merging wherever its limit is reached."""
        parts = self._parts.setdefault(partition, [])
        while len(cells):
            limit = 2 * self._merged.get(partition, 0) + _COMPACT
            room = limit - self._counts.get(partition, 0)
            if len(cells) < room:
                parts.append(cells)
                self._counts[partition] = self._counts.get(partition, 0) + len(cells)
                # Join small parts in pairs, so that many small batches are not many small arrays.
                while len(parts) > 1 and len(parts[-2]) <= len(parts[-1]) < _PART:
                    parts[-2:] = [Cells.joined(parts[-2:])]
                break
            rows = np.arange(len(cells))
            merged = latest_cells(Cells.joined([*parts, cells.take(rows[:room])]))
            self._set(partition, [merged], len(merged))
            parts, cells = self._parts[partition], cells.take(rows[room:])

    def pop(self, period: int) -> Cells:
        """Remove the cells of a period; returns them by partition and offset."""
        due = []
        for partition in sorted(self._parts):
            rest = []
            for part in self._parts[partition]:
                now = part.period == period
                if now.any():
                    due.append(part if now.all() else part.take(now))
                if not now.all():
                    rest.append(part.take(~now) if now.any() else part)
            self._set(partition, rest, sum(map(len, rest)))
        return Cells.joined(due)


def latest_cells(cells: Cells) -> Cells:
    """The last cell of each (person, period, attribute), sorted by the hash of the person.

    cells: in order of precedence, the one that prevails last.
    """
    # One cell a person is the usual case; it needs no stable sort, and the unstable is faster.
    ordered = cells.take(np.argsort(cells.hi))
    if (ordered.hi[1:] != ordered.hi[:-1]).all():
        return ordered
    order = np.argsort(cells.hi, kind="stable")
    ordered = cells.take(order)
    rest = ordered.attribute.astype(np.uint32) << np.uint32(16) | ordered.period
    same = ordered.hi[1:] == ordered.hi[:-1]
    # A finer sort is needed where a person has cells of several attributes or periods, or where
    # two people share half a hash.
    if (
        same.any()
        and (same & ((rest[1:] != rest[:-1]) | (ordered.lo[1:] != ordered.lo[:-1]))).any()
    ):
        order = np.lexsort((rest, ordered.lo, ordered.hi))
        ordered, rest = ordered.take(order), rest[order]
        same = ordered.hi[1:] == ordered.hi[:-1]
    last = np.ones(len(ordered), bool)
    last[:-1] = ~(same & (ordered.lo[1:] == ordered.lo[:-1]) & (rest[1:] == rest[:-1]))
    return ordered.take(last)
