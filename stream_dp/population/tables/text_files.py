"""Reads text files of tables: CSV and its relatives, packed or not, in any encoding.

The separator is declared, or read from the header; the encoding is declared, or that of the
byte-order mark, or UTF-8: no row decides how another row is read. Only a quote that is opened and
not closed stops the reading.

Of a file with a JSON object in every line, the columns are the members of all objects, in order of
appearance. No line changes another one.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import re
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa

from stream_dp.errors import UserError
from stream_dp.study.id_forms import text_of_number

from ..celltext import DAMAGED
from ..table_bounds import MOST_CELL, MOST_RECORD, bounded, readable
from .row_batches import TableRows, UnreadableRow, column_rows, no_rows, text_batches_of, text_rows
from .text_records import OpenQuoteError, TextRecords, bounded_text

_MEMORY = 1 << 27  # bytes of a dictionary; the largest that xz writes by itself has 64 MiB
_CHUNK = 1 << 16  # bytes read at once


class XzFile(io.RawIOBase):
    """The content of a file of one or more streams.

    `lzma.open` takes as much memory as a file asks for, up to 4 GiB.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._begin()

    def _begin(self) -> None:
        self._stream = lzma.LZMADecompressor(memlimit=_MEMORY)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._stream.eof or self._further():
            packed = self._file.read(_CHUNK) if self._stream.needs_input else b""
            if self._stream.needs_input and not packed:
                raise EOFError("the file is cut short")
            data = self._stream.decompress(packed, len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)
        return 0

    def _further(self) -> bool:
        """Begins the next stream. Returns False at the end."""
        rest = self._stream.unused_data or self._file.read(_CHUNK)
        while rest and not rest.strip(b"\0"):  # padding between streams
            rest = self._file.read(_CHUNK)
        if not rest:
            return False
        self._file.seek(-len(rest.lstrip(b"\0")), io.SEEK_CUR)
        self._begin()
        return True

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        """Goes to the beginning, or forward from there."""
        assert whence == io.SEEK_SET
        self._file.seek(0)
        self._begin()
        skipped = 0
        while skipped < position and (data := self.read(min(_CHUNK, position - skipped))):
            skipped += len(data)
        return skipped

    def close(self) -> None:
        self._file.close()
        super().close()


CSV_CHARACTERS = 1 << 20  # read at once
_MOST_ABOVE = 1 << 20  # lines above a header
_STATED = re.compile(r'"?sep=([^"])"?[,;\t]*', re.IGNORECASE)  # a line for spreadsheets
_HANDLER = "stream-dp-damaged"  # of errors in decoding
SEPARATORS = ",;\t|"
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # it begins like the next
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_UNPACKED: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": XzFile,
}
PACKED = (*_UNPACKED, ".zip")


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file, unpacked if its name ends like a packed one. Raises UserError."""
    suffix = path.suffix.lower()
    if suffix in _UNPACKED:
        with _UNPACKED[suffix](path) as unpacked:
            yield bounded(path, cast(IO[bytes], unpacked))
    elif suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            with archive.open(_zipped_table(path, archive)) as member:
                yield bounded(path, member)
    else:
        with path.open("rb") as file:
            yield file


@contextmanager
def opened_text(path: Path, encoding: str | None) -> Iterator[IO[str]]:
    """Opens a text file. Bytes outside of the encoding are `DAMAGED`. Raises UserError."""
    encoding = encoding or _marked_encoding(path)
    with opened(path) as file, io.TextIOWrapper(file, encoding, _HANDLER, newline=None) as text:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8 or codecs.lookup(
            encoding
        ).name.startswith("utf"):
            file.seek(0)
        yield text


def _zipped_table(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """Returns the only file of an archive. Raises UserError."""
    files = [
        info
        for info in archive.infolist()
        if not info.is_dir() and not info.filename.startswith("__MACOSX/")
    ]
    if len(files) != 1 or files[0].flag_bits & 1:
        contents = f"{len(files)} files" if len(files) != 1 else "a file with a password"
        raise UserError(f"{path}: holds {contents}; unpack it and send the table that is meant")
    return files[0]


def text_batches(
    path: Path,
    separator: str | None,
    encoding: str | None,
    header_row: int | None,
    keys: Collection[str],
    *,
    row_names: bool = False,
) -> Iterator[TableRows]:
    """Reads the rows of a text file, every cell as text, after a batch without rows for the header.

    separator: None: read from the header.
    encoding: None: from the file's byte-order mark, else UTF-8.
    header_row: the line of the header, from 1; None: the first line that is not blank, after a line
        such as `sep=;`, which states the separator.
    keys: columns that the header must have, which decide its separator.
    row_names: whether rows begin with a name for which the header has no cell.

    07 stays 07 and no type is guessed. Bytes outside of the encoding make the cell `DAMAGED`.
    Raises
    UserError, OSError and `table_bounds.UNPACKING`.
    """
    encoding = encoding or _marked_encoding(path)
    with opened_text(path, encoding) as text:
        try:
            yield from _rows(path, text, separator, encoding, header_row, keys, row_names)
        except OpenQuoteError as error:
            raise UserError(
                f"{path}: cannot be read as a table: the quote that is opened in line {error.line}"
                " is not closed as it should be; write each quote inside of a cell twice"
            ) from None


def _rows(
    path: Path,
    file: IO[str],
    separator: str | None,
    encoding: str,
    header_row: int | None,
    keys: Collection[str],
    row_names: bool,
) -> Iterator[TableRows]:
    line_count, first = _header_line(path, file, header_row)
    if header_row is None and (stated := _STATED.fullmatch(first)) is not None:
        separator = separator or stated[1]
        above, first = _header_line(path, file, header_row)
        line_count += 1 + above
    _check_header(path, first, encoding)
    separator = separator or likely_separator(first, keys)
    records = TextRecords(file, separator, line_count)
    # An empty cell stands for the name of the column of names.
    header = records.first_record(row_names * separator + first + "\n")
    if header is None:
        raise UserError(
            f"{path}: cannot be read as a table: its header has a cell that is too long"
        )
    _check_header(path, "".join(header), encoding)
    schema = pa.schema([(name, pa.string()) for name in header])
    yield TableRows(no_rows(schema), np.zeros(0, np.int64))
    width, row = len(header), 1
    while (chunk := records.read(CSV_CHARACTERS)) is not None:
        if chunk.columns:
            yield column_rows(schema, chunk.columns, row)
            row += len(chunk.columns[0])
            continue
        numbers = range(row, row + len(chunk.cells))
        if chunk.all_have(width):
            yield text_rows(schema, chunk.cells, numbers)
        else:
            cells = list(zip(numbers, chunk.cells, strict=True))
            fitting = {n: c for n, c in cells if c is not None and len(c) == width}
            unreadable = [
                UnreadableRow(n, chunk.texts[n - row] if c is None else separator.join(c))
                for n, c in cells
                if n not in fitting
            ]
            over_lines = [numbers[i] for i in chunk.over_lines]
            yield text_rows(schema, list(fitting.values()), list(fitting), unreadable, over_lines)
        row = numbers.stop


def _header_line(path: Path, file: IO[str], header_row: int | None) -> tuple[int, str]:
    """The line of the header and the number of lines before it. Raises UserError."""
    for number in range(_MOST_ABOVE):
        read = file.readline(MOST_RECORD + 1)
        line = read.lstrip("\ufeff").rstrip("\n")
        if len(line) > MOST_RECORD:
            raise UserError(
                f"{path}: cannot be read as a table: line {number + 1} has over {MOST_RECORD:,}"
                " characters"
            )
        if not read or (line if header_row is None else number == header_row - 1):
            return (number, line) if read else (0, "")
    raise UserError(f"{path}: cannot be read as a table: its first {_MOST_ABOVE:,} lines are blank")


def _damaged(error: UnicodeError) -> tuple[str, int]:
    """Handles a decoding error: the undecodable byte damages its cell alone."""
    assert isinstance(error, UnicodeDecodeError)
    return DAMAGED, error.end


codecs.register_error(_HANDLER, _damaged)


def is_decodable(path: Path) -> bool:
    """Tells whether all bytes of a file are text in the encoding of its mark, or in UTF-8.

    Raises UserError.
    """
    with readable(path), opened(path) as file:
        decoder = codecs.getincrementaldecoder(_marked_encoding(path))()
        try:
            while chunk := file.read(CSV_CHARACTERS):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeError:
            return False
    return True


def _marked_encoding(path: Path) -> str:
    """Returns the encoding of the file's byte-order mark, or UTF-8."""
    with opened(path) as file:
        start = file.read(4)
    return next((name for mark, name in _MARKS.items() if start.startswith(mark)), "utf-8")


def _check_header(path: Path, header: str, encoding: str) -> None:
    """Checks that the header is text in this encoding. Raises UserError."""
    if "\0" in header:
        raise UserError(
            f"{path}: cannot be read as a table: its header has null bytes; if it is UTF-16 without"
            " a mark: --encoding utf-16-le; if it is UTF-32: utf-32-le"
        )
    if DAMAGED in header:
        raise UserError(
            f"{path}: cannot be read as a table: its header is not {encoding.upper()}; name the"
            " file's encoding: --encoding cp1252 (what Windows writes in Western Europe), latin-1"
            " or another"
        )
    if not header:
        raise UserError(f"{path}: cannot be read as a table: it has no header")


def likely_separator(header: str, keys: Collection[str] = ()) -> str:
    """Finds the separator with most of the given keys in the header, then with most columns."""

    def rank(separator: str) -> tuple[int, int]:
        names = line_cells(header, separator)
        return sum(key in names for key in keys), len(names)

    return max(SEPARATORS, key=rank)


def line_cells(line: str, separator: str) -> list[str]:
    """Returns the cells of a line; none if a cell is too long."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []


def first_lines(path: Path, encoding: str | None, count: int) -> list[str]:
    """Returns the first lines of a text file that are not blank. Raises UserError."""
    encoding = encoding or _marked_encoding(path)
    with readable(path), opened(path) as file:
        text = io.TextIOWrapper(file, encoding, _HANDLER, newline=None)
        lines = (_header_line(path, text, None)[1].rstrip() for _ in range(count))
        return [line for line in lines if line]


_MOST_MEMBERS = 1 << 14  # different ones of a file
_VALUES = "values"  # the member of a report with its answers
_HALVES = re.compile("[\ud800-\udfff]")
_BOOLEANS = {True: "true", False: "false"}
_Row = dict[str, str | None]


class _Number(str):
    """The digits of a number, unchanged."""

    __slots__ = ()


def json_batches(path: Path, encoding: str | None) -> Iterator[TableRows]:
    """Reads the rows of a file, every cell as text, after a batch without rows for the header.

    The answers in the member `values` of a report are members of their own. A member that is null
    or absent is an empty cell, and one that is a list or an object is damaged. Raises UserError.
    """
    names = _members(path, encoding)
    rows = (
        line if row is None else [row.get(name) for name in names]
        for line, row in _objects(path, encoding)
    )
    yield from text_batches_of(names, enumerate(rows, start=1))


def _members(path: Path, encoding: str | None) -> list[str]:
    """The names of members, in order of appearance. Raises UserError."""
    names = dict[str, None]()
    for _, row in _objects(path, encoding):
        names |= dict.fromkeys(row or ())
        if len(names) > _MOST_MEMBERS:
            raise UserError(
                f"{path}: cannot be read as a table: its objects have over {_MOST_MEMBERS:,}"
                " different members"
            )
    if not names:
        raise UserError(
            f"{path}: cannot be read as a table: write a JSON object in each line, such as"
            ' {"person": "1", "period": "2021-01", "work": "yes"}'
        )
    return list(names)


def _objects(path: Path, encoding: str | None) -> Iterator[tuple[str, _Row | None]]:
    """The lines with text, and their cells; None for a line without a valid object."""
    with opened_text(path, encoding) as file:
        for line, is_long in bounded_text(file):
            if text := line.strip(" \t\r\n\ufeff"):
                yield text, None if is_long else _row(text)


def _row(line: str) -> _Row | None:
    """The cells of an object; None for a value of another type or a duplicate member."""
    try:
        members = _DECODER.decode(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(members, _Members):
        return None
    pairs = list[tuple[str, Any]]()
    for name, value in members.pairs:
        pairs += value.pairs if name == _VALUES and isinstance(value, _Members) else [(name, value)]
    cells = {_text(name): _cell(value) for name, value in pairs}
    too_long = any(len(text) > MOST_CELL for cell in cells.items() for text in cell if text)
    return None if len(cells) < len(pairs) or too_long else cells


class _Members:
    """The members of an object, duplicates included."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Members,
    parse_int=_Number,
    parse_float=_Number,
    parse_constant=lambda text: None if text == "NaN" else text,
)


def _cell(value: object) -> str | None:
    """The text of a member; None for an empty one."""
    if isinstance(value, _Number):
        return text_of_number(value)
    if value is None or isinstance(value, str):
        return value if value is None else _text(value)
    return _BOOLEANS[value] if isinstance(value, bool) else DAMAGED


def _text(text: str) -> str:
    """A text with damaged surrogate halves replaced, so that UTF-8 can hold the text."""
    return text if text.isascii() else _HALVES.sub(DAMAGED, text)
