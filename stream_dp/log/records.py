"""Records in columns, before writing and after reading, and in blocks.

A column of byte strings is stored as lists or Arrow arrays in the order of arrival.

A block has consecutive records of a partition in a single row of an SQLite file: a row for each
report would take most of the time of writing and reading it. The row of a block has the offset of
the block's last record, and in place of a key the number of records. A block begins with the number
of its columns. The lengths of their strings follow, column by column, as 32-bit little-endian
integers with -1 for a null, and then the strings in the same order.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, pairwise, repeat
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


# SQL: the offset of the first record of a row.
FIRST_OFFSET = "offset - CASE typeof(key) WHEN 'integer' THEN key - 1 ELSE 0 END"
_BLOCK = 1 << 16  # bytes after which the next record begins another block
_LENGTH = np.dtype("<i4")


def encode_blocks(columns: Sequence[Sequence[bytes | None]]) -> Iterator[tuple[int, bytes]]:
    """Yields the blocks of records with the number of records in each.

    columns: keys, values and, if the records' headers differ, encoded headers.
    """
    arrays = [Texts.of(column).array() for column in columns]
    bounds = [string_bounds(array) for array in arrays]
    lengths = np.stack([np.diff(ranges) for ranges in bounds])
    sizes = lengths.sum(axis=0) + len(columns) * _LENGTH.itemsize
    starts = np.cumsum(sizes) - sizes
    begins = np.flatnonzero(np.diff(starts // _BLOCK, prepend=-1))
    for row, texts in zip(lengths, arrays, strict=True):
        if texts.null_count:
            row[texts.is_null().to_numpy(zero_copy_only=False)] = -1
    lengths = lengths.astype(_LENGTH)
    contents = [memoryview(array.buffers()[2] or b"") for array in arrays]
    for start, end in pairwise([*begins.tolist(), len(sizes)]):
        strings = [
            content[ranges[start] : ranges[end]]
            for content, ranges in zip(contents, bounds, strict=True)
        ]
        yield (
            end - start,
            b"".join((bytes([len(columns)]), lengths[:, start:end].tobytes(), *strings)),
        )


def decode_block(count: object, block: object) -> list[Texts] | None:
    """Returns the columns of a block; None if it is damaged.

    count: the number of its records.
    """
    if not isinstance(count, int) or not isinstance(block, bytes):
        return None
    width = block[0] if block else 0
    if count <= 0 or width not in (2, 3):
        return None
    begin = 1 + width * count * _LENGTH.itemsize
    if begin > min(len(block), _BLOCK + width * _LENGTH.itemsize):
        return None
    lengths = np.frombuffer(block, _LENGTH, width * count, 1).astype(np.int64)
    present = lengths >= 0
    bounds = np.cumsum(np.append(begin, np.where(present, lengths, 0)))
    if lengths.min() < -1 or bounds[-1] != len(block):
        return None
    columns, content = [], pa.py_buffer(block)
    for first in range(0, width * count, count):
        mask = present[first : first + count]
        nulls = None if mask.all() else pa.py_buffer(np.packbits(mask, bitorder="little"))
        buffers = [nulls, pa.py_buffer(bounds[first : first + count + 1]), content]
        columns.append(Texts.of(pa.Array.from_buffers(pa.large_binary(), count, buffers)))
    return columns
