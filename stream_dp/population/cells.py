"""Cells: what people said for a period and an attribute, in columns, and where they wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CLEARED = 254  # the code of a cell that clears
_COMPACT = 1 << 20  # cells that wait in a partition before repeated ones are merged
_PART = 1 << 16  # cells of a part that is large enough to stay as it is


@dataclass(frozen=True)
class Cells:
    """Columns of equal length, a row for each cell (person, period, attribute).

    hi, lo: the 128-bit keyed hash of the person's id; code: of the value, or NULL; partition,
    offset: of the record.
    """

    hi: NDArray[np.uint64]
    lo: NDArray[np.uint64]
    period: NDArray[np.uint16]
    attribute: NDArray[np.uint16]
    code: NDArray[np.uint8]
    partition: NDArray[np.uint16]
    offset: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.hi.shape[0])

    def take(self, rows: NDArray[Any]) -> Cells:
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
        if not parts:
            return EMPTY
        columns = zip(*(part.columns() for part in parts), strict=True)
        return Cells(*(np.concatenate(column) for column in columns))


EMPTY = Cells(
    np.zeros(0, np.uint64),
    np.zeros(0, np.uint64),
    np.zeros(0, np.uint16),
    np.zeros(0, np.uint16),
    np.zeros(0, np.uint8),
    np.zeros(0, np.uint16),
    np.zeros(0, np.int64),
)


class WaitingCells:
    """Cells of periods that are not closed, by partition, in the order of their offsets.

    Repeated cells are merged when those that wait have doubled, so that repeats use no memory.
    That happens at the same cell however a partition was cut into batches.
    """

    def __init__(self) -> None:
        self._parts: dict[int, list[Cells]] = {}
        self._held: dict[int, int] = {}  # cells that wait
        self._merged: dict[int, int] = {}  # how many they were after the last merge

    @classmethod
    def of(cls, cells: Cells) -> WaitingCells:
        """What `all` gave."""
        self = cls()
        for partition in np.unique(cells.partition).tolist():
            part = cells.take(cells.partition == partition)
            self._set(partition, [part], len(part))
        return self

    def _set(self, partition: int, parts: list[Cells], count: int) -> None:
        self._parts[partition], self._held[partition] = parts, count
        self._merged[partition] = count

    def all(self) -> Cells:
        return Cells.joined([part for key in sorted(self._parts) for part in self._parts[key]])

    def hold(self, cells: Cells) -> int:
        """Let more cells wait; how many of those waiting a later one has superseded."""
        partitions = np.unique(cells.partition).tolist()
        superseded = 0
        for partition in partitions:
            part = cells if len(partitions) == 1 else cells.take(cells.partition == partition)
            # A batch may hold its odd reports last: order is by offset, not by place.
            if (np.diff(part.offset) < 0).any():
                part = part.take(np.argsort(part.offset, kind="stable"))
            superseded += self._hold(partition, part)
        return superseded

    def _hold(self, partition: int, cells: Cells) -> int:
        parts, superseded = self._parts.setdefault(partition, []), 0
        while len(cells):
            limit = 2 * self._merged.get(partition, 0) + _COMPACT
            room = limit - self._held.get(partition, 0)
            if len(cells) < room:
                parts.append(cells)
                self._held[partition] = self._held.get(partition, 0) + len(cells)
                # Small batches are joined in pairs, so that a trickle is not many tiny arrays.
                while len(parts) > 1 and len(parts[-2]) <= len(parts[-1]) < _PART:
                    parts[-2:] = [Cells.joined(parts[-2:])]
                break
            rows = np.arange(len(cells))
            kept = latest_cells(Cells.joined([*parts, cells.take(rows[:room])]))
            superseded += limit - len(kept)
            self._set(partition, [kept], len(kept))
            parts, cells = self._parts[partition], cells.take(rows[room:])
        return superseded

    def due(self, period: int) -> Cells:
        """Cells of a period, taken out, in order of partition and offset."""
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
    """The last of the cells of each (person, period, attribute), sorted by person.

    The cells must stand in order of precedence.
    """
    # The usual case, one cell a person, needs no stable sort, and the unstable one is faster.
    ordered = cells.take(np.argsort(cells.hi))
    if (ordered.hi[1:] != ordered.hi[:-1]).all():
        return ordered
    order = np.argsort(cells.hi, kind="stable")
    ordered = cells.take(order)
    rest = ordered.attribute.astype(np.uint32) << np.uint32(16) | ordered.period
    same = ordered.hi[1:] == ordered.hi[:-1]
    # Only people with several cells (or, hardly ever, half a hash in common) need a finer sort.
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
