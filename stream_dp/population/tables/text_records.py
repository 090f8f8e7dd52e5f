"""Records of text with separators: a line each, unless a cell in quotes goes over lines (RFC 4180).

A record is read by itself. Only a quote that is opened and not closed as it should be takes in what
follows; a program that doubles the quotes inside of cells never writes one.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import IO, NamedTuple

MOST_TEXT = 8000  # characters that are kept of a record that cannot be taken apart


class OpenQuoteError(Exception):
    """A quote is opened and not closed. line: in which the record begins, from 1."""

    def __init__(self, line: int) -> None:
        self.line = line
        super().__init__(line)


class Records(NamedTuple):
    """Some records of a file, without blank lines.

    cells: of each; None for one with a cell that is longer than the csv module reads.
    texts: the beginnings of the latter, by their index.
    over_lines: the indices of those that have several lines.
    """

    cells: Sequence[list[str] | None]
    texts: dict[int, str]
    over_lines: list[int]

    def have(self, columns: int) -> bool:
        """Whether each of them is one line of so many cells."""
        return not self.over_lines and {columns} == {
            -1 if c is None else len(c) for c in self.cells
        }


class TextRecords:
    """Reads the records of a file. line: how many of its lines were read before."""

    def __init__(self, file: IO[str], separator: str, line: int = 0) -> None:
        self._file, self._separator, self._line = file, separator, line

    def begun_by(self, line: str) -> list[str] | None:
        """The cells of the record that begins with this line, which is not blank.

        None where one of them is too long. Raises OpenQuoteError.
        """
        return self._one_by_one([line]).cells[0]

    def read(self, characters: int) -> Records | None:
        """The next records, of about so many characters; None at the end. Raises OpenQuoteError."""
        while lines := self._file.readlines(characters):
            records = self._alone(lines) or self._one_by_one(lines)
            if records.cells:
                return records
        return None

    def _alone(self, lines: list[str]) -> Records | None:
        """The records of lines of which each is one; None where one of them is not."""
        # A blank line at the end is a record of its own unless a quote is open there.
        try:
            records = list(csv.reader(chain(lines, ["\n"]), delimiter=self._separator))
        except csv.Error:
            return None
        if len(records) != len(lines) + 1:
            return None
        self._line += len(lines)
        return Records([cells for cells in records if cells], {}, [])

    def _one_by_one(self, lines: list[str]) -> Records:
        """The records that begin in these lines, of which the last may go on in the file."""
        found: list[list[str] | None] = []
        records, left, raw = Records(found, {}, []), len(lines), list[str]()

        def taken() -> Iterator[str]:
            for line in chain(lines, self._file, ["\n"]):
                raw.append(line)
                yield line

        source = taken()
        reader = csv.reader(source, delimiter=self._separator)
        while left > 0:
            cells: list[str] | None
            try:
                cells = next(reader)
                count = len(raw)
                if count > 1 and not self._is_quoted_well(raw):
                    raise OpenQuoteError(self._line + 1)
            except csv.Error:
                cells, count = None, self._skip(raw, source)
                records.texts[len(found)] = "".join(raw)[:MOST_TEXT]
            if count > 1:
                records.over_lines.append(len(found))
            if cells != []:
                found.append(cells)
            left -= count
            self._line += count
            raw.clear()
        return records

    def _is_quoted_well(self, raw: list[str]) -> bool:
        """Whether lines are one record, in which each quote that closes ends its cell."""
        try:
            return len(list(csv.reader(raw, delimiter=self._separator, strict=True))) == 1
        except csv.Error:
            return False

    def _skip(self, raw: list[str], source: Iterator[str]) -> int:
        """Goes to the end of a record with a cell that is too long; returns its number of lines.

        raw: the lines that have been read of it. Those that `source` adds are not kept.

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
        """Whether a quote is open at the end of a line.

        is_open: whether one is at its beginning. after_others: whether the record began before.

        Raises OpenQuoteError.
        """
        separator, at = self._separator, 0
        if not is_open:
            is_open = line.startswith('"')
            at = int(is_open)
        while True:
            if is_open:
                at = line.find('"', at)
                if at < 0:
                    return True
                if line.startswith('"', at + 1):
                    at += 2
                    continue
                at += 1
                if after_others and line[at : at + 1] not in ("", "\n", separator):
                    raise OpenQuoteError(self._line + 1)
            at = line.find(separator, at) + 1
            if at == 0:
                return False
            is_open = line.startswith('"', at)
            at += is_open
