"""Reads the rows of sheets of every kind of spreadsheet as batches of text."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import IO, TypeVar

import numpy as np
import pyarrow as pa

from stream_dp.errors import UserError

from ..celltext import DAMAGED
from ..table_bounds import MOST_CELL
from .row_batches import TableRows, UnreadableRow, no_rows, text_rows
from .text_records import MOST_TEXT

SHEET_ROWS = 1 << 20  # of the largest sheet that spreadsheets write
_MOST_CELLS = 1 << 26  # of a sheet in the columns of its header
_BATCH_CELLS, _BATCH_CHARACTERS = 1 << 21, 1 << 25
_MOST_DIGITS = 15  # precision of a number in a spreadsheet
NO_RESULT = "open the sheet in a spreadsheet program and save it, to store the formulas' results"
_Cell = TypeVar("_Cell")
SheetRows = Iterator[tuple[int, Sequence[_Cell]]]  # rows with content, numbered from 1


def text_batches_of_sheet(
    path: Path,
    rows: SheetRows[_Cell],
    text: Callable[[_Cell], str | None],
    id_text: Callable[[_Cell], str | None],
    *,
    header_row: int | None,
    ids: Collection[str],
) -> Iterator[TableRows]:
    """Reads the rows of a sheet, every cell as text, after a batch without rows for the header.

    text: of a cell; None for an empty one. id_text: of a cell in a column of ids.
    header_row: from 1; None: the first row with content.
    ids: the columns of ids.

    Raises UserError for a sheet without a header, and for a sheet that is too large.
    """
    header_number, header = next((row for row in rows if row[0] >= (header_row or 1)), (0, ()))
    if header_row is not None and header_number != header_row:
        raise UserError(
            f"{path}: row {header_row} is empty; name the row of the header with --header-row"
        )
    names = [text(cell) or "" for cell in header]
    while names and not names[-1]:
        names.pop()
    if DAMAGED in names:
        raise UserError(f"{path}: a name in row {header_number} is a formula; {NO_RESULT}")
    if not names:
        raise UserError(f"{path}: the sheet is empty")
    id_columns = [index for index, name in enumerate(names) if name in ids]
    schema = pa.schema([(name, pa.string()) for name in names])
    yield TableRows(no_rows(schema), np.zeros(0, np.int64))
    batch, total = _SheetBatch(schema), 0
    for row, cells in rows:
        total += len(names)
        texts = [text(cell) for cell in cells[: len(names)]]
        for index in id_columns:
            if index < len(cells):
                texts[index] = id_text(cells[index])
        more = (text(cell) for cell in cells[len(names) :])
        beyond = next((one for one in more if one is not None), None)
        batch.add(row - header_number, texts, beyond)
        if total > _MOST_CELLS:
            raise UserError(f"{path}: the sheet has over {_MOST_CELLS:,} cells; save it as CSV")
        if batch.is_full:
            yield batch.rows()
            batch = _SheetBatch(schema)
    yield batch.rows()


@dataclass
class _SheetBatch:
    """Rows after reading, before the next batch."""

    schema: pa.Schema
    fitting: dict[int, list[str | None]] = field(default_factory=dict)
    unreadable: list[UnreadableRow] = field(default_factory=list)
    cells: int = 0
    characters: int = 0

    @property
    def is_full(self) -> bool:
        return self.cells >= _BATCH_CELLS or self.characters >= _BATCH_CHARACTERS

    def add(self, row: int, texts: list[str | None], beyond: str | None) -> None:
        """Adds a row. A row with a cell beyond the header's, or too long a cell, is unreadable.

        beyond: the first cell with content beyond the header's, or None.
        """
        lengths = [len(text) for text in texts if text]
        if beyond is not None or max(lengths, default=0) > MOST_CELL:
            line = "\t".join((text or "")[:MOST_TEXT] for text in (*texts, beyond))
            self.unreadable.append(UnreadableRow(row, line[:MOST_TEXT]))
            self.characters += MOST_TEXT
        else:
            self.fitting[row] = texts + [None] * (len(self.schema) - len(texts))
            self.characters += sum(lengths)
        self.cells += len(self.schema)

    def rows(self) -> TableRows:
        rows = list(self.fitting.values())
        return text_rows(self.schema, rows, list(self.fitting), self.unreadable)


class UnknownSheet(UserError):
    """No sheet is chosen, or the chosen sheet is missing. sheets: the names to choose from."""

    def __init__(self, path: Path, sheets: Sequence[str], name: str | None) -> None:
        why = "there are several sheets" if name is None else f"no sheet '{name}'"
        super().__init__(f"{path}: {why}; name one with --sheet: {', '.join(sheets[:12])}")
        self.sheets = sheets


def chosen_sheet(path: Path, hidden: dict[str, bool], name: str | None) -> str:
    """Returns the sheet with the name, or the only visible sheet.

    hidden: by name, whether a sheet is hidden.

    Raises UnknownSheet if there is none.
    """
    shown = [sheet for sheet, is_hidden in hidden.items() if not is_hidden] or list(hidden)
    if name is None and len(shown) == 1:
        return shown[0]
    if name in hidden:
        return name
    raise UnknownSheet(path, [*hidden], name)


def sound_id(value: object, text: str | None, shown: str) -> str | None:
    """Returns an id with its leading zeros, and letters in front, as displayed in a sheet.

    A number that is not whole or has lost digits is `DAMAGED`.

    value: of the cell. text: of the value. shown: the text that the sheet shows, or none.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool) and text:
        if not text.isdigit() or len(text) > _MOST_DIGITS:
            return DAMAGED
        if re.fullmatch(rf"(?:[^\W\d_]+[-_]?)?0*{text}", shown):
            return shown
    return text


def number_text(value: float) -> str:
    """Converts a number to text, a whole number without a fraction."""
    if value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def percent_text(value: float) -> str:
    """Converts a share to the number of the percent that a sheet shows.

    >>> percent_text(0.07), percent_text(1)
    ('7', '100')
    """
    return number_text(float(Decimal(repr(value)) * 100))


MOST_UNPACKED = 4 << 30  # bytes of the parts of a spreadsheet
_MOST_XML = 1 << 24  # bytes of the XML of a row, or of a text that several cells share
_CHUNK = 1 << 20  # bytes of XML looked through at once
_CELLS = re.compile(r"sharedStrings\.xml$|worksheets/[^/]*\.xml$")
_ENDS = re.compile(rb"</(?:\w{1,16}:)?(?:row|si)>|<(?:\w{1,16}:)?row/>")
_BELOW = re.compile(rb"</(?:\w{1,16}:)?sheetData>")
_LONGEST_END = 32  # bytes of an end
_MOST_TEXTS = 1 << 30  # bytes of the part that openpyxl holds in memory: all texts of a book


def check_unpacked(path: Path) -> None:
    """Raises UserError for a spreadsheet that would be too large once unpacked.

    Neither the file, a part of it nor the XML of a row and of a text may be too large.
    """
    with zipfile.ZipFile(path) as archive:
        for part in archive.infolist():
            texts = part.filename.endswith("sharedStrings.xml")
            most = _MOST_TEXTS if texts else MOST_UNPACKED
            if part.file_size > most:
                raise UserError(
                    f"{path}: its part {part.filename} has over {most >> 30} GiB once it is"
                    " unpacked; save the sheet as CSV"
                )
            if part.file_size > _MOST_XML and _CELLS.search(part.filename):
                with archive.open(part) as content:
                    _check_rows(path, content)


def _check_rows(path: Path, content: IO[bytes]) -> None:
    """Raises UserError if over 16 MiB of XML lie between two ends of rows or of shared texts.

    Below the rows of a sheet it is between two ends of any element.
    """
    tail, size, below = b"", 0, False
    while chunk := content.read(_CHUNK):
        text = tail + chunk
        ends = [text.rfind(b">") + 1] if below else [m.end() for m in _ENDS.finditer(text)]
        below = below or _BELOW.search(text) is not None
        size = len(text) - ends[-1] if any(ends) else size + len(chunk)
        if size > _MOST_XML:
            raise UserError(
                f"{path}: a row or a text has over {_MOST_XML >> 20} MiB; save the sheet as CSV"
            )
        tail = text[-_LONGEST_END:]
