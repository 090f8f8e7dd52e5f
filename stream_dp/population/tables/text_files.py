"""Text files of tables: CSV and its relatives, packed or not, in any encoding, read as text.

The separator is declared, or read from the header; the encoding is declared, or that of the
byte-order mark, or UTF-8: no row decides how another is read.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import pyarrow as pa
import pyarrow.csv

from stream_dp.errors import UserError

CSV_BYTES = 1 << 20  # read at once
_START = 200  # bytes of a file in which null bytes say that it is not UTF-8
SEPARATORS = ",;\t|"
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# What a packed file that is cut short or damaged raises.
UNPACKING = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, NotImplementedError)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked where it ends in .gz or .zip. Raises UserError."""
    if path.suffix == ".gz":
        with gzip.open(path) as unpacked:
            yield cast(IO[bytes], unpacked)
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            with archive.open(_zipped_table(path, archive)) as member:
                yield member
    else:
        with path.open("rb") as file:
            yield file


def _zipped_table(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """The one file of an archive. Raises UserError."""
    files = [
        info
        for info in archive.infolist()
        if not info.is_dir() and not info.filename.startswith("__MACOSX/")
    ]
    if len(files) != 1 or files[0].flag_bits & 1:
        what = f"{len(files)} files" if len(files) != 1 else "a file with a password"
        raise UserError(f"{path}: holds {what}; unpack it and send the table that is meant")
    return files[0]


def text_batches(
    path: Path, separator: str | None, encoding: str | None, keys: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """The rows of a text file, every cell as text, after a batch without rows for the header.

    separator: read from the header where None.
    encoding: that of the file's byte-order mark, or UTF-8, where None.
    keys: columns that the header must have, which decide its separator.

    07 stays 07 and no type is guessed. Raises UserError, ArrowException, OSError and `UNPACKING`.
    """
    encoding = encoding or _marked_encoding(path)
    # Checked first: pyarrow prints a traceback for a row that is not UTF-8 before refusing it.
    header = _check_encoding(path, encoding)
    separator = separator or _separator(header, keys)
    faults: list[tuple[int, str]] = []

    def stop(row: pyarrow.csv.InvalidRow) -> str:
        words = f"has {row.actual_columns} cells, and the header has {row.expected_columns}"
        faults.append((row.number - 1, words))
        return "error"

    names = _names(path, separator, encoding)
    as_text = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        strings_can_be_null=True,
        null_values=[""],
    )
    # Only one thread numbers the rows. Without newlines_in_values a block could end inside a
    # quoted cell, depending on the rows before it.
    read = pyarrow.csv.ReadOptions(use_threads=False, block_size=CSV_BYTES, encoding=encoding)
    parse = pyarrow.csv.ParseOptions(
        delimiter=separator, newlines_in_values=True, invalid_row_handler=stop
    )
    try:
        with opened(path) as file, pyarrow.csv.open_csv(file, read, parse, as_text) as reader:
            yield no_rows(reader.schema)
            yield from reader
    except pa.ArrowException:
        if not faults:
            raise
        row, words = faults[0]
        line = _line_of(path, row, separator, encoding)
        where = f" (line {line})" if line else ""
        raise UserError(
            f"{path}: cannot be read as a table: row {row} below the header {words}{where}"
        ) from None


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows, so that the header of an empty table is checked too."""
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _marked_encoding(path: Path) -> str:
    """The encoding by the file's first bytes: its byte-order mark, or UTF-8."""
    with opened(path) as file:
        start = file.read(3)
    return next((name for mark, name in _MARKS.items() if start.startswith(mark)), "utf-8")


def _check_encoding(path: Path, encoding: str) -> str:
    """That the file is text of that encoding; its first line that is not blank.

    Raises UserError with the line of the first fault.
    """
    decoder, lines, header = codecs.getincrementaldecoder(encoding)(), 1, ""
    with opened(path) as file:
        while True:
            block = file.read(CSV_BYTES)
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                if b"\0" in error.object[:_START]:
                    raise _null_bytes(path) from None
                lines += error.object[: error.start].decode(encoding, "ignore").count("\n")
                raise UserError(
                    f"{path}: cannot be read as a table: line {lines} is not {encoding.upper()};"
                    " name the file's encoding: --encoding cp1252 (what Windows writes in Western"
                    " Europe), latin-1 or another"
                ) from None
            header = header or next((x for x in text.splitlines() if x.strip("\ufeff")), "")
            lines += text.count("\n")
            if not block:
                break
    if "\0" in header:
        raise _null_bytes(path)
    return header.lstrip("\ufeff")


def _null_bytes(path: Path) -> UserError:
    return UserError(
        f"{path}: cannot be read as a table: its header has null bytes; if it is UTF-16 without a"
        " mark: --encoding utf-16-le"
    )


def _separator(header: str, keys: Collection[str]) -> str:
    """The separator that gives the header these columns, and most columns where several do."""

    def rank(separator: str) -> tuple[int, int]:
        names = next(csv.reader([header], delimiter=separator), [])
        return sum(key in names for key in keys), len(names)

    return max(SEPARATORS, key=rank)


def _names(path: Path, separator: str, encoding: str) -> list[str]:
    """The header of a text file, as the reader of its rows sees it. Raises ArrowException."""
    read = pyarrow.csv.ReadOptions(encoding=encoding)
    parse = pyarrow.csv.ParseOptions(
        delimiter=separator, newlines_in_values=True, invalid_row_handler=lambda row: "skip"
    )
    with opened(path) as file, pyarrow.csv.open_csv(file, read, parse) as reader:
        return list(reader.schema.names)


def _line_of(path: Path, row: int, separator: str, encoding: str) -> int | None:
    """The line in which a row below the header ends; None where it is unknown."""
    with opened(path) as file, io.TextIOWrapper(file, encoding, newline="") as text:
        reader = csv.reader(text, delimiter=separator)
        try:
            rows = (cells for cells in reader if cells)
            for _ in range(row + 1):
                next(rows)
        except (csv.Error, StopIteration):
            return None
        return reader.line_num
