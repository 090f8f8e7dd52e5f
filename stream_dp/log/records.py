"""Records in columns, before writing and after reading.

A column of byte strings is stored as lists or Arrow arrays in the order of arrival.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, repeat
from typing import Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .log import Headers, Positions, Record, Stored

_FEW = 8  # pieces that are searched for a single string
_SMALL = 1000  # strings of a column that is not worth the import of pandas


class Texts(Sequence[bytes | None]):
    """A growing sequence of byte strings and nulls.

    Arrow arrays take a third of the memory of as many small Python objects. Python objects are made
    when a caller first asks for them.
    """

    def __init__(self) -> None:
        self._pieces: list[Any] = []
        self._objects: list[bytes | None] | None = None

    @classmethod
    def of(cls, strings: Iterable[bytes | None]) -> Texts:
        """Returns the same byte strings. See `extend`."""
        if isinstance(strings, Texts):
            return strings
        self = cls()
        self.extend(strings)
        return self

    def extend(self, strings: Iterable[bytes | None]) -> None:
        """Appends byte strings. An array of `large_binary` or another `Texts` is stored without a
        copy.
        """
        self._objects = None
        if isinstance(strings, Texts):
            self._pieces += [p if isinstance(p, pa.Array) else list(p) for p in strings._pieces]
        elif isinstance(strings, pa.Array):
            self._pieces.append(strings)
        elif self._pieces and isinstance(self._pieces[-1], list):
            self._pieces[-1].extend(strings)
        else:
            self._pieces.append(list(strings))

    def array(self) -> pa.Array:
        """Returns the column in an array of `large_binary`."""
        pieces = [p if isinstance(p, pa.Array) else binary_array(p) for p in self._pieces]
        if len(pieces) == 1:
            return pieces[0]
        return pa.concat_arrays(pieces) if pieces else binary_array([])

    def objects(self) -> list[bytes | None]:
        """Returns the column in a cached list: callers must not change the list."""
        if self._objects is None:
            lists = [p.to_pylist() if isinstance(p, pa.Array) else p for p in self._pieces]
            self._objects = lists[0] if len(lists) == 1 else list(chain.from_iterable(lists))
        return self._objects

    def take(self, rows: Sequence[int]) -> Texts:
        """Returns the strings at the rows. Arrays stay arrays."""
        chosen = Texts()
        if self._objects is None and any(isinstance(p, pa.Array) for p in self._pieces):
            chosen.extend(self.array().take(pa.array(rows, pa.int64())))
        else:
            chosen.extend(list(map(self.objects().__getitem__, rows)))
        return chosen

    def lengths(self) -> NDArray[np.int64]:
        """Returns the strings' lengths in bytes, 0 for a null."""
        lengths = [np.zeros(0, np.int64)]
        for piece in self._pieces:
            if isinstance(piece, pa.Array):
                lengths.append(np.diff(string_bounds(piece)))  # a null has no bytes
            else:
                lengths.append(
                    np.fromiter([len(string or b"") for string in piece], np.int64, len(piece))
                )
        return np.concatenate(lengths)

    def nulls(self) -> list[int]:
        """Returns the rows with a null."""
        rows, start = list[int](), 0
        for piece in self._pieces:
            if isinstance(piece, pa.Array):
                if piece.null_count:
                    null_rows = piece.is_null().to_numpy(zero_copy_only=False).nonzero()[0]
                    rows += (start + null_rows).tolist()
            elif not all(piece):  # quicker than comparisons with None
                rows += [start + row for row, string in enumerate(piece) if string is None]
            start += len(piece)
        return rows

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    def __iter__(self) -> Iterator[bytes | None]:
        return iter(self.objects())

    @overload
    def __getitem__(self, row: int) -> bytes | None: ...
    @overload
    def __getitem__(self, row: slice) -> list[bytes | None]: ...
    def __getitem__(self, row: int | slice) -> bytes | list[bytes | None] | None:
        if self._objects is None and isinstance(row, int) and len(self._pieces) <= _FEW:
            row += len(self) if row < 0 else 0
            for piece in self._pieces:
                if 0 <= row < len(piece):
                    string: bytes | None = (
                        piece[row].as_py() if isinstance(piece, pa.Array) else piece[row]
                    )
                    return string
                row -= len(piece)
        return self.objects()[row]


def string_bounds(array: pa.Array) -> NDArray[np.int64]:
    """Returns the bounds of an array's strings in its content.

    Arrow's own functions for lengths import pandas at their first call, if it is installed.
    """
    if not (count := len(array)):
        return np.zeros(1, np.int64)
    return np.frombuffer(array.buffers()[1], np.int64, count + 1, 8 * array.offset)


def binary_array(column: Sequence[bytes | None]) -> pa.Array:
    """Converts byte strings to an array of `large_binary`.

    Arrow's own function is twice as fast, but imports pandas at its first call, if it is installed.
    """
    is_small = len(column) <= _SMALL
    strings = [string for string in column if string is not None] if is_small else []
    if len(strings) < len(column):
        return pa.array(column, pa.large_binary())
    bounds = np.cumsum([0, *map(len, strings)], dtype=np.int64)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(b"".join(strings))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(strings), buffers)


def packed(column: list[bytes | None]) -> tuple[pa.Array, int]:
    """Returns the column as an array, and its size in bytes."""
    array = binary_array(column)
    return array, sum(buffer.size for buffer in array.buffers()[2:] if buffer is not None)


@dataclass(frozen=True)
class RecordColumns:
    """Records to be written to a topic, in columns; the log chooses partitions and times.

    keys, values: of equal length.
    headers: of every record.
    varying: by name, the values of further headers, a value for each record.
    """

    topic: str
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Headers = ()
    varying: Mapping[str, Sequence[bytes]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Record]:
        for key, value, headers in zip(self.keys, self.values, self.all_headers(), strict=True):
            yield Record(self.topic, value, key, headers)

    def all_headers(self) -> Iterator[Headers]:
        """Yields the headers of each record."""
        if not self.varying:
            yield from repeat(self.headers, len(self))
            return
        for contents in zip(*self.varying.values(), strict=True):
            yield (*self.headers, *zip(self.varying, contents, strict=True))

    def most_bytes(self) -> int:
        """Returns a bound on the `payload_bytes` of every record."""
        columns = (self.keys, self.values, *self.varying.values())
        most = sum(int(Texts.of(column).lengths().max(initial=0)) for column in columns)
        return most + sum(len(value) for _, value in self.headers)


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
        chosen, positions = Records(), indices.tolist()
        columns = list[Any]()
        for column in self.columns():
            if isinstance(column, array):
                columns.append(memoryview(np.array(column)[indices].tobytes()))
            elif isinstance(column, Texts):
                columns.append(column.take(positions))
            else:
                columns.append(list(map(column.__getitem__, positions)))
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
