"""Reads sheets of .ods files as batches of text, row by row.

A file of OpenDocument says of a row or a cell how often it is repeated. A reader that repeats cells
in memory may need gigabytes for a file of a few kilobytes; here a row is held once.
"""

from __future__ import annotations

import zipfile
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple
from xml.parsers import expat

from stream_dp.errors import UserError

from ..celltext import DAMAGED
from .row_batches import TableRows
from .spreadsheets import (
    SHEET_ROWS,
    check_unpacked,
    chosen_sheet,
    number_text,
    percent_text,
    sound_id,
    text_batches_of_sheet,
)

_CHUNK = 1 << 16  # bytes of XML parsed at once
_MOST_SILENCE = 256  # chunks without an element
_MOST_COLUMNS = 1 << 14  # of the widest sheet that spreadsheets write
_MOST_TEXT = 1 << 24  # characters of a row
_OFFICE = "urn:oasis:names:tc:opendocument:xmlns:office:1.0 "
_TABLE = "urn:oasis:names:tc:opendocument:xmlns:table:1.0 "
_TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0 "
_STYLE = "urn:oasis:names:tc:opendocument:xmlns:style:1.0 "
_CELLS = (_TABLE + "table-cell", _TABLE + "covered-table-cell")
_PERCENT, _NO_RESULT = "percentage", "formula without a result"  # the second is no type of a file
_NUMBERS = ("float", _PERCENT, "currency")
_NO_IDS = ("date", "time", "boolean")
_MIDNIGHT = "T00:00:00"


class SheetCell(NamedTuple):
    """A cell: its type and value in the file, and the text that the sheet shows."""

    kind: str
    value: str
    shown: str

    def text(self) -> str | None:
        """Returns the text: whole numbers without a fraction, dates in ISO 8601."""
        if self.kind == _PERCENT:
            return percent_text(float(self.value))
        if self.kind in _NUMBERS:
            return number_text(float(self.value))
        if self.kind == _NO_RESULT:
            return DAMAGED
        if self.kind == "date":
            return self.value.removesuffix(_MIDNIGHT).replace("T", " ")
        return (self.value or self.shown) or None

    def id_text(self) -> str | None:
        """Returns an id with the leading zeros that the sheet shows. A date is no id."""
        if self.kind in _NO_IDS:
            return DAMAGED
        number = float(self.value) if self.kind in _NUMBERS else None
        return sound_id(number, self.text(), self.shown)


_EMPTY = SheetCell("", "", "")


def document_batches(
    path: Path,
    sheet: str | None,
    header_row: int | None,
    ids: Collection[str],
    *,
    as_written: bool = False,
) -> Iterator[TableRows]:
    """Reads the rows of a sheet like `workbook_batches`. Raises UserError."""
    try:
        check_unpacked(path)
        with zipfile.ZipFile(path) as archive:
            with archive.open("content.xml") as content:
                hidden = dict(_sheets(content))
            name = chosen_sheet(path, hidden, sheet)
            with archive.open("content.xml") as content:
                yield from text_batches_of_sheet(
                    path,
                    _rows(path, content, name),
                    SheetCell.text,
                    SheetCell.text if as_written else SheetCell.id_text,
                    header_row=header_row,
                    ids=ids,
                )
    except (KeyError, ValueError, expat.ExpatError, zipfile.BadZipFile, NotImplementedError):
        raise UserError(f"{path}: cannot be read as a spreadsheet; save it as .ods anew") from None


def _sheets(content: IO[bytes]) -> Iterator[tuple[str, bool]]:
    """Yields the names of sheets, and whether the sheet is hidden."""
    parser = _SheetParser(None)
    for _ in parser.parsed(content):
        yield from parser.sheets
        parser.sheets.clear()


def _rows(path: Path, content: IO[bytes], sheet: str) -> Iterator[tuple[int, list[SheetCell]]]:
    """Yields the rows of a sheet that have content, numbered from 1."""
    parser, number = _SheetParser(sheet), 0
    for _ in parser.parsed(content):
        while parser.rows:
            repeated, cells = parser.rows.popleft()
            if cells:
                if number + repeated > SHEET_ROWS:
                    raise UserError(f"{path}: the sheet has over {SHEET_ROWS:,} rows")
                yield from ((number + n, cells) for n in range(1, repeated + 1))
            number += repeated
        if parser.ended:
            return


@dataclass
class _SheetParser:
    """Collects the rows of a sheet from XML.

    sheet: its name; None for the names of all sheets.
    rows: complete rows that nobody has taken, with the number of their repetitions.
    sheets: names of sheets that nobody has taken, with whether each is hidden.
    ended: whether the sheet is complete.
    """

    sheet: str | None
    rows: deque[tuple[int, list[SheetCell]]] = field(default_factory=deque)
    sheets: list[tuple[str, bool]] = field(default_factory=list)
    ended: bool = False
    _hidden_styles: set[str] = field(default_factory=set)
    _style: str = ""
    _tables: int = 0  # that are open, one in the other
    _inside: bool = False  # the sheet
    _row: tuple[int, list[SheetCell]] | None = None
    _blank: int = 0  # cells after the last one with content
    _cell: tuple[int, str, str] | None = None
    _shown: list[str] = field(default_factory=list)
    _paragraphs: int = 0  # of the cell
    _depth_of_text: int = 0
    _note: int = 0  # elements of a comment that are open
    _size: int = 0  # characters of the row
    _events: int = 0

    def parsed(self, content: IO[bytes]) -> Iterator[None]:
        """Parses XML, chunk by chunk. Raises ValueError for what no spreadsheet writes."""
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = _refuse
        silence = 0
        while chunk := content.read(_CHUNK):
            events = self._events
            parser.Parse(chunk)
            silence = silence + 1 if events == self._events else 0
            if silence > _MOST_SILENCE:
                raise ValueError
            yield
        parser.Parse(b"", True)
        yield

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        self._events += 1
        if name == _STYLE + "style":
            self._style = attributes.get(_STYLE + "name", "")
        elif name == _STYLE + "table-properties":
            if attributes.get(_TABLE + "display") == "false":
                self._hidden_styles.add(self._style)
        elif name == _TABLE + "table":
            self._begin_table(attributes)
        elif not self._inside or self._tables != 1:
            return
        elif self._note or name == _OFFICE + "annotation":
            self._note += 1
        elif name == _TABLE + "table-row":
            repeated = _count(attributes, _TABLE + "number-rows-repeated")
            self._row, self._blank, self._size = (repeated, []), 0, 0
        elif name in _CELLS and self._row is not None:
            kind = attributes.get(_OFFICE + "value-type", "")
            value = attributes.get(_OFFICE + "value") if kind in _NUMBERS else None
            value = value or attributes.get(f"{_OFFICE}{kind}-value", "")
            if _TABLE + "formula" in attributes and not kind:
                kind = _NO_RESULT
            self._cell = _count(attributes, _TABLE + "number-columns-repeated"), kind, value
            self._shown, self._paragraphs = [], 0
        elif self._cell is not None and name == _TEXT + "p":
            self._shown += ["\n"] * bool(self._paragraphs)
            self._paragraphs += 1
            self._depth_of_text += 1
        elif self._depth_of_text:
            self._shown += {
                _TEXT + "s": [" "] * _count(attributes, _TEXT + "c"),
                _TEXT + "tab": ["\t"],
                _TEXT + "line-break": ["\n"],
            }.get(name, [])

    def _begin_table(self, attributes: dict[str, str]) -> None:
        self._tables += 1
        if self._tables == 1:
            name = attributes.get(_TABLE + "name", "")
            style = attributes.get(_TABLE + "style-name", "")
            self.sheets.append((name, style in self._hidden_styles))
            self._inside = name == self.sheet

    def _characters(self, text: str) -> None:
        self._events += 1
        if self._depth_of_text and not self._note:
            self._size += len(text)
            if self._size > _MOST_TEXT:
                raise ValueError
            self._shown.append(text)

    def _end(self, name: str) -> None:
        self._events += 1
        if name == _TABLE + "table":
            self._tables -= 1
            if self._tables == 0:
                self.ended, self._inside = self.ended or self._inside, False
        elif not self._inside or self._tables != 1:
            return
        elif self._note:
            self._note -= 1
        elif name == _TEXT + "p" and self._depth_of_text:
            self._depth_of_text -= 1
        elif name in _CELLS and self._row is not None and self._cell is not None:
            self._end_cell(self._row[1], *self._cell)
            self._cell = None
        elif name == _TABLE + "table-row" and self._row is not None:
            self.rows.append(self._row)
            self._row = None

    def _end_cell(self, cells: list[SheetCell], repeated: int, kind: str, value: str) -> None:
        shown = "".join(self._shown)
        if not (kind or shown):
            self._blank += repeated
            return
        cells += [_EMPTY] * min(self._blank, _MOST_COLUMNS - len(cells))
        cells += [SheetCell(kind, value, shown)] * min(repeated, _MOST_COLUMNS - len(cells))
        self._blank = 0


def _count(attributes: dict[str, str], name: str) -> int:
    """Reads how often something is repeated. Raises ValueError."""
    text = attributes.get(name, "1")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError
    return int(text)


def _refuse(*_: object) -> None:
    """Refuses a declaration of entities: spreadsheets have none."""
    raise ValueError
