"""Records in columns, after reading."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, overload

import numpy as np

from .byte_columns import Texts
from .log import Headers, Positions, Stored

# Stored from a tuple of its fields; quicker than _make, which is a function of Python.
_STORED = partial(tuple.__new__, Stored)


class Records(Sequence[Stored]):
    """A list of records, stored in columns of equal length.

    A tuple for each of many small records would take as long as fetching them: a `Stored` is made
    only for a record that is looked at alone.

    partitions, offsets, times, keys, values, headers: the fields of `Stored`.
    """

    def __init__(self) -> None:
        self.partitions = array("q")
        self.offsets = array("q")
        self.times = array("q")
        self.keys = Texts()
        self.values = Texts()
        self.headers: list[Headers | None] = []

    @classmethod
    def of(cls, records: Sequence[Stored]) -> Records:
        """Returns the same records in columns."""
        if isinstance(records, Records):
            return records
        self = cls()
        self.extend(records)
        return self

    def columns(self) -> tuple[Any, ...]:
        """Returns the columns in the order of the fields."""
        return (
            self.partitions,
            self.offsets,
            self.times,
            self.keys,
            self.values,
            self.headers,
        )

    def extend(self, records: Iterable[Stored]) -> None:
        """Appends records."""
        if isinstance(records, Records):
            self.add(*records.columns())
        elif fields := list(zip(*records, strict=True)):
            self.add(*fields)

    def add(self, *columns: Iterable[Any]) -> None:
        """Appends columns of further records, in the order of the fields.

        A column of numbers may be the memory of 64-bit integers, as bytes.
        """
        for column, values in zip(self.columns(), columns, strict=True):
            if isinstance(values, memoryview):
                column.frombytes(values)
            else:
                column.extend(values)

    def empty(self) -> list[int]:
        """Returns the rows without a value."""
        return self.values.nulls()

    def take(self, rows: Iterable[int]) -> Records:
        """Returns the records at the rows."""
        indices = np.fromiter(rows, np.int64)
        chosen, places = Records(), indices.tolist()
        columns = list[Any]()
        for column in self.columns():
            if isinstance(column, array):
                columns.append(memoryview(np.array(column)[indices].tobytes()))
            elif isinstance(column, Texts):
                columns.append(column.take(places))
            else:
                columns.append(list(map(column.__getitem__, places)))
        chosen.add(*columns)
        return chosen

    def below(self, ends: Positions) -> Records:
        """Returns the records below the end of their partition."""
        pairs = zip(self.partitions, self.offsets, strict=True)
        rows = [row for row, (partition, offset) in enumerate(pairs) if offset < ends[partition]]
        return self if len(rows) == len(self) else self.take(rows)

    def beyond(self, partition: int, end: int) -> Records:
        """Returns the records of a partition from the offset `end` on."""
        pairs = zip(self.partitions, self.offsets, strict=True)
        return self.take(
            row
            for row, (number, offset) in enumerate(pairs)
            if number == partition and offset >= end
        )

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[Stored]:
        return map(_STORED, zip(*self.columns(), strict=True))

    @overload
    def __getitem__(self, row: int) -> Stored: ...
    @overload
    def __getitem__(self, row: slice) -> Records: ...
    def __getitem__(self, row: int | slice) -> Stored | Records:
        if isinstance(row, int):
            return _STORED([column[row] for column in self.columns()])
        return self.take(range(*row.indices(len(self))))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]
