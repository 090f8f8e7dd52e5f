"""Bounds of files of tables: of a cell, of a record, and of a file once it is unpacked.

A packed file, or one of columns that repeat, may hold a thousand times its size. Each bound is a
line that names the file, and none depends on what a person reports about another one.
"""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from numpy.typing import NDArray

from stream_dp.errors import UserError

MOST_CELL = 1 << 17  # characters; the csv module's limit is the same
MOST_RECORD = 1 << 22  # characters of a line, and of a record over several lines
_FREE = 1 << 26  # bytes that a file of any size may hold
_PACKED_TIMES, _COLUMNS_TIMES = 100, 1000  # times a file's size that it may hold
_BATCH = 1 << 26  # bytes of the texts of a batch
PARQUET_ROWS = 1 << 16  # read at once
_MOST_BYTES = 4 * MOST_CELL  # of a text
_OFFSETS = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
_VIEWS = (pa.string_view(), pa.binary_view())
# Errors of a packed file that is cut short or damaged.
UNPACKING = (
    EOFError,
    zlib.error,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zipfile.BadZipFile,
    NotImplementedError,
)


@contextmanager
def readable(source: object) -> Iterator[None]:
    """Turns any error of a damaged or too large table into a UserError with the name of its source.

    source: a file or a `NamedTable`.
    """
    try:
        yield
    except MemoryError:
        raise UserError(
            f"{source}: there is not enough memory to read it; divide it into several files"
        ) from None
    except (pa.ArrowException, UnicodeError, OSError, csv.Error, *UNPACKING):
        raise UserError(
            f"{source}: cannot be read as a table: check its header, its rows and its kind"
        ) from None


def bounded(path: Path, unpacked: IO[bytes]) -> io.BufferedReader:
    """A packed file's content, up to its bound. Reading raises UserError beyond."""
    return io.BufferedReader(_Unpacked(path, unpacked), 1 << 16)


class _Unpacked(io.RawIOBase):
    """The content of a packed file, which counts its bytes."""

    def __init__(self, path: Path, unpacked: IO[bytes]) -> None:
        self._content = _Content(path, _PACKED_TIMES)
        self._unpacked = unpacked

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._unpacked.read(len(buffer))
        self._content.add(len(data))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        """Goes to a position from the beginning."""
        assert whence == io.SEEK_SET
        self._content.size = position
        return self._unpacked.seek(position)

    def tell(self) -> int:
        return self._content.size


class _Content:
    """The bytes that a file has held so far."""

    def __init__(self, path: Path, times: int) -> None:
        self.size = 0
        self._path, self._times = path, times
        self._most = max(_FREE, times * path.stat().st_size)

    def add(self, size: int) -> None:
        """Raises UserError beyond the file's bound."""
        self.size += size
        if self.size > self._most:
            raise UserError(
                f"{self._path}: holds over {self._times} times its size; if that is right, write"
                " it as a text file that is not packed"
            )


def bounded_lines(path: Path, file: Iterable[str]) -> Iterator[str]:
    """The lines of an open text file. Raises UserError for a line that is too long."""
    assert isinstance(file, io.TextIOBase)
    while line := file.readline(MOST_RECORD + 1):
        if len(line) > MOST_RECORD:
            raise UserError(f"{path}: cannot be read as a table: a line is too long")
        yield line


def parquet_batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file within bounds, after a batch without rows.

    Texts are read as dictionaries, which are as small as in the file, and taken apart within a
    batch's bound. columns: to be read, all of them by default. Raises UserError, ArrowException.
    """
    with pyarrow.parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
        groups = [file.metadata.row_group(n).total_byte_size for n in range(file.num_row_groups)]
    _Content(path, _COLUMNS_TIMES).add(sum(groups))
    yield pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
    texts = [field.name for field in schema if field.type in _OFFSETS]
    with pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
        batches = file.iter_batches(PARQUET_ROWS, columns=columns)
        for batch in bounded_batches(path, batches):
            fields = [schema.field(name) for name in batch.schema.names]
            columns_of_batch = [
                _decoded(column) if field.type in _OFFSETS else column
                for field, column in zip(fields, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns_of_batch, names=batch.schema.names)


def bounded_batches(path: Path, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of at most 64 MiB each, once their dictionaries are taken apart.

    A text of too many characters is cut, and is still too long. Raises UserError for a file that
    holds too much.
    """
    content = _Content(path, _COLUMNS_TIMES)
    for batch in batches:
        columns = [_cut(column) for column in batch.columns]
        bounded_batch = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        ends = np.cumsum(sum((_sizes(c) for c in columns), np.zeros(len(batch), np.int64)))
        content.add(int(ends[-1]) if len(batch) else 0)
        if not len(batch):
            yield bounded_batch
        start = 0
        while start < len(batch):
            start_size = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, start_size + _BATCH, side="right")))
            yield bounded_batch.slice(start, stop - start)
            start = stop


def _decoded(column: pa.Array) -> pa.Array:
    """A column of texts, taken apart if it is a dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _cut(column: pa.Array) -> pa.Array:
    """The column with its longest texts cut."""
    if pa.types.is_dictionary(column.type):
        dictionary = _cut(column.dictionary)
        if dictionary is column.dictionary:
            return column
        return pa.DictionaryArray.from_arrays(column.indices, dictionary)
    lengths = _lengths(column)
    if lengths is None or not (lengths > _MOST_BYTES).any():
        return column
    kind = _OFFSETS.get(column.type, pa.large_binary())
    texts = column.view(kind) if column.type in _OFFSETS else column.cast(kind)
    cut = pc.binary_slice(texts, 0, _MOST_BYTES + 1)
    return cut.view(column.type) if column.type in _OFFSETS else cut.cast(column.type)


def _sizes(column: pa.Array) -> NDArray[np.int64]:
    """(rows,) bytes of the cells of a column, once its dictionary is taken apart."""
    if pa.types.is_dictionary(column.type):
        if not len(column.dictionary):
            return np.ones(len(column), np.int64)
        indices = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        sizes: NDArray[np.int64] = _sizes(column.dictionary)[indices]
        return sizes
    lengths = _lengths(column)
    if lengths is not None:
        return lengths + 1
    return np.full(len(column), column.nbytes // max(1, len(column)) + 1, np.int64)


def _lengths(column: pa.Array) -> NDArray[np.int64] | None:
    """(rows,) bytes of the texts of a column; None for a column of another type."""
    lengths: NDArray[np.int64]
    if column.type in _VIEWS:  # a view begins with its length
        views = np.frombuffer(column.buffers()[1], np.int32).reshape(-1, 4)
        lengths = views[column.offset : column.offset + len(column), 0].astype(np.int64)
        return np.where(column.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    if column.type not in _OFFSETS and column.type not in _OFFSETS.values():
        return None
    texts = column.view(_OFFSETS[column.type]) if column.type in _OFFSETS else column
    filled = pc.fill_null(pc.binary_length(texts), 0)
    lengths = filled.to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths
