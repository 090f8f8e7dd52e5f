"""Records as they were read, in columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, overload

from .base import Headers, Positions, Stored
from .texts import Texts

# Stored from a tuple of its fields; quicker than _make, which is a function of Python.
_STORED = partial(tuple.__new__, Stored)


class Records(Sequence[Stored]):
    """A list of records that is kept in columns of equal length.

    A tuple for each of many small records would take as long as fetching them: a `Stored` is made
    of those that are looked at one by one.

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
        """The same records in columns."""
        if isinstance(records, Records):
            return records
        self = cls()
        self.extend(records)
        return self

    def columns(self) -> tuple[Any, ...]:
        """The columns in the order of the fields."""
        return (
            self.partitions,
            self.offsets,
            self.times,
            self.keys,
            self.values,
            self.headers,
        )

    def extend(self, records: Iterable[Stored]) -> None:
        """Adds records behind the others."""
        if isinstance(records, Records):
            self.add(*records.columns())
        elif fields := list(zip(*records, strict=True)):
            self.add(*fields)

    def add(self, *columns: Iterable[Any]) -> None:
        """Adds columns of further records, in the order of the fields."""
        for column, more in zip(self.columns(), columns, strict=True):
            column.extend(more)

    def empty(self) -> list[int]:
        """The places of the records without a value."""
        return self.values.nulls()

    def take(self, rows: Iterable[int]) -> Records:
        """The records at these places."""
        chosen, places = Records(), list(rows)
        sources = (c.objects() if isinstance(c, Texts) else c for c in self.columns())
        chosen.add(*(list(map(source.__getitem__, places)) for source in sources))
        return chosen

    def below(self, ends: Positions) -> Records:
        """The records below the end of their partition."""
        pairs = zip(self.partitions, self.offsets, strict=True)
        rows = [row for row, (part, offset) in enumerate(pairs) if offset < ends[part]]
        return self if len(rows) == len(self) else self.take(rows)

    def beyond(self, partition: int, end: int) -> Records:
        """The records of a partition from this end on."""
        pairs = zip(self.partitions, self.offsets, strict=True)
        return self.take(
            row for row, (part, at) in enumerate(pairs) if part == partition and at >= end
        )

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[Stored]:
        return map(_STORED, zip(*self.columns(), strict=True))

    @overload
    def __getitem__(self, place: int) -> Stored: ...
    @overload
    def __getitem__(self, place: slice) -> Records: ...
    def __getitem__(self, place: int | slice) -> Stored | Records:
        if isinstance(place, int):
            return _STORED([column[place] for column in self.columns()])
        return self.take(range(*place.indices(len(self))))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]
