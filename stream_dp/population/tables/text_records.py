"""Reads records of text with separators: a line, or more with cells in quotes (RFC 4180).

Each record is read alone. Only a quote that is opened and not closed takes in the following lines;
a program that doubles the quotes inside of cells never writes such a quote.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import IO, NamedTuple

import numpy as np
import pyarrow as pa

from ..table_bounds import MOST_RECORD

_LINE_END, _QUOTE = ord("\n"), ord('"')
MOST_TEXT = 8000  # characters, at most, in the text of a record with too long a cell


def bounded_text(file: IO[str]) -> Iterator[tuple[str, bool]]:
    """Reads lines, each with whether it is too long; the rest of a long line is skipped."""
    while line := file.readline(MOST_RECORD):
        is_long = len(line) == MOST_RECORD and not line.endswith("\n")
        while is_long and (rest := file.readline(MOST_RECORD)) and not rest.endswith("\n"):
            pass
        yield line, is_long


class OpenQuoteError(Exception):
    """A quote is opened and not closed. line: the first line of the record, from 1."""

    def __init__(self, line: int) -> None:
        self.line = line
        super().__init__(line)


class ParsedRecords(NamedTuple):
    """A batch of records of a file, without blank lines.

    cells: of each record; None for a record with a cell that is longer than the csv module reads.
    texts: the beginnings of the records without cells, by index.
    over_lines: the indices of the records with several lines.
    columns: of plain lines, all with the header's number of cells; `cells` is empty then.
    """

    cells: Sequence[list[str] | None]
    texts: dict[int, str]
    over_lines: list[int]
    columns: Sequence[pa.Array] = ()

    def __bool__(self) -> bool:
        return bool(self.cells or self.columns)

    def all_have(self, columns: int) -> bool:
        """Tells whether every record is a single line with this number of cells."""
        return not self.over_lines and {columns} == {
            -1 if c is None else len(c) for c in self.cells
        }


class TextRecords:
    """Reads the records of a file. line: the number of lines already read."""

    def __init__(self, file: IO[str], separator: str, line: int = 0) -> None:
        self._file, self._separator, self._line = file, separator, line
        self._width = 0

    def first_record(self, line: str) -> list[str] | None:
        """Returns the cells of the record with this first line, which is not blank.

        Returns None if a cell is too long. Raises OpenQuoteError.
        """
        cells = self._record_by_record([line]).cells[0]
        self._width = 0 if cells is None else len(cells)
        return cells

    def read(self, characters: int) -> ParsedRecords | None:
        """Reads the next records, of about `characters` characters. Raises OpenQuoteError.

        Returns None at the end.
        """
        while text := self._file.read(characters) + self._line_of_file():
            if not text.strip("\n"):
                self._line += len(text)
                continue
            records = self._column_by_column(text)
            if records is None:
                lines = io.StringIO(text, newline="\n").readlines()
                records = self._line_by_line(lines) or self._record_by_record(lines)
            if records:
                return records
        return None

    def _line_of_file(self) -> str:
        """The rest of the line. One of too many characters is cut, and gets too long a cell."""
        line = self._file.readline(MOST_RECORD)
        if len(line) < MOST_RECORD or line.endswith("\n"):
            return line
        quotes = 0
        while rest := self._file.readline(MOST_RECORD):
            quotes += rest.count('"')
            if rest.endswith("\n"):
                break
        return line + '"' * (quotes % 2) + self._too_long() + "\n"

    def _too_long(self) -> str:
        """An end of a line that no reader of cells takes."""
        return self._separator + "\ufdd0" * (csv.field_size_limit() + 1)

    def _column_by_column(self, text: str) -> ParsedRecords | None:
        """Divides lines at their separators. A quote may begin and end a cell, and be in none.

        Returns None if another quote, a blank line, or another number of cells than the header's is
        among the lines, or a cell is longer than the csv module reads.
        """
        width = self._width
        if width < 2:
            return None
        try:
            data = text.encode() if text.endswith("\n") else text.encode() + b"\n"
        except UnicodeEncodeError:
            return None
        codes = np.frombuffer(data, np.uint8)
        line_ends = codes == _LINE_END
        ends = np.flatnonzero((codes == ord(self._separator)) | line_ends)
        count = int(np.count_nonzero(line_ends))
        if len(ends) != count * width or not line_ends[ends[width - 1 :: width]].all():
            return None
        starts = np.append(0, ends[:-1] + 1)
        if (ends - starts).max() > csv.field_size_limit():
            return None
        if '"' in text:
            quote = codes == _QUOTE
            quoted = quote[starts] & quote[ends - 1] & (ends - starts > 1)
            if np.count_nonzero(quote) != 2 * np.count_nonzero(quoted):
                return None
            starts, ends = starts + quoted, ends - quoted
        bounds = np.append(np.column_stack([starts, ends]).ravel(), len(data))  # cells, separators
        pieces = pa.Array.from_buffers(
            pa.large_string(), 2 * len(ends), [None, pa.py_buffer(bounds), pa.py_buffer(data)]
        )
        rows = 2 * width * np.arange(count)
        columns = [pieces.take(pa.array(rows + 2 * k)).cast(pa.string()) for k in range(width)]
        self._line += count
        return ParsedRecords([], {}, [], columns)

    def _line_by_line(self, lines: list[str]) -> ParsedRecords | None:
        """Parses lines with a record each.

        Returns None if a record has several lines.
        """
        # A blank line at the end makes a further record unless a quote is open there.
        try:
            records = list(csv.reader(chain(lines, ["\n"]), delimiter=self._separator))
        except csv.Error:
            return None
        if len(records) != len(lines) + 1:
            return None
        self._line += len(lines)
        return ParsedRecords([cells for cells in records if cells], {}, [])

    def _record_by_record(self, lines: list[str]) -> ParsedRecords:
        """Parses the records in these lines; the last record may continue in the file."""
        parsed: list[list[str] | None] = []
        records, remaining, raw = ParsedRecords(parsed, {}, []), len(lines), list[str]()

        def taken() -> Iterator[str]:
            room = MOST_RECORD
            for line in chain(lines, iter(self._line_of_file, ""), ["\n"]):
                raw.append(line)
                before = MOST_RECORD if len(raw) == 1 else room
                room = before - len(line)
                ends = len(raw) > 1 and room < 0 <= before
                yield line.rstrip("\n") + self._too_long() + "\n" if ends else line

        source = taken()
        reader = csv.reader(source, delimiter=self._separator)
        while remaining > 0:
            cells: list[str] | None
            try:
                cells = next(reader)
                count = len(raw)
                if count > 1 and not self._is_quoted_well(raw):
                    raise OpenQuoteError(self._line + 1)
            except csv.Error:
                cells, count = None, self._skip(raw, source)
                records.texts[len(parsed)] = "".join(raw)[:MOST_TEXT]
            if count > 1:
                records.over_lines.append(len(parsed))
            if cells != []:
                parsed.append(cells)
            remaining -= count
            self._line += count
            raw.clear()
        return records

    def _is_quoted_well(self, raw: list[str]) -> bool:
        """Tells whether lines are a single record and all closing quotes end a cell."""
        try:
            return len(list(csv.reader(raw, delimiter=self._separator, strict=True))) == 1
        except csv.Error:
            return False

    def _skip(self, raw: list[str], source: Iterator[str]) -> int:
        """Skips a record with too long a cell. Returns its number of lines.

        raw: the lines of it that have been read. Lines that `source` adds are dropped.

        Raises OpenQuoteError.
        """
        begun, is_open = list(raw), False
        for count, line in enumerate(chain(begun, source), start=1):
            del raw[len(begun) :]
            is_open = self._left_open(line, is_open, after_others=count > 1)
            if count >= len(begun) and not is_open:
                return count
        raise OpenQuoteError(self._line + 1)

    def _left_open(self, line: str, is_open: bool, after_others: bool) -> bool:
        """Tells whether a quote is open at the end of a line.

        is_open: whether a quote is open at its beginning. after_others: whether the record began
        before.

        Raises OpenQuoteError.
        """
        separator, position = self._separator, 0
        if not is_open:
            is_open = line.startswith('"')
            position = int(is_open)
        while True:
            if is_open:
                position = line.find('"', position)
                if position < 0:
                    return True
                if line.startswith('"', position + 1):
                    position += 2
                    continue
                position += 1
                if after_others and line[position : position + 1] not in ("", "\n", separator):
                    raise OpenQuoteError(self._line + 1)
            position = line.find(separator, position) + 1
            if position == 0:
                return False
            is_open = line.startswith('"', position)
            position += is_open
