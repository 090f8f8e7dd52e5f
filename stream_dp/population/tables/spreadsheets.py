"""Reads sheets of .xlsx files as batches of text, cell by cell."""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Collection, Iterator
from contextlib import closing
from datetime import date, datetime, time
from pathlib import Path
from typing import IO, Any

from stream_dp.errors import UserError, missing_extra

from .row_batches import TableRows
from .sheet_rows import chosen_sheet, number_text, sound_id, text_batches_of_sheet

MOST_UNPACKED = 4 << 30  # bytes of the parts of a spreadsheet
_MOST_XML = 1 << 24  # bytes of the XML of a row, or of a text that several cells share
_CHUNK = 1 << 20  # bytes of XML looked through at once
_CELLS = re.compile(r"sharedStrings\.xml$|worksheets/[^/]*\.xml$")
_ENDS = re.compile(rb"</(?:\w{1,16}:)?(?:row|si)>|<(?:\w{1,16}:)?row/>")
_BELOW = re.compile(rb"</(?:\w{1,16}:)?sheetData>")
_LONGEST_END = 32  # bytes of an end
_MOST_TEXTS = 1 << 30  # bytes of the part that openpyxl holds in memory: all texts of a book


def sheet_batches(
    path: Path, sheet: str | None, header_row: int | None, ids: Collection[str]
) -> Iterator[TableRows]:
    """Reads the rows of a sheet, every cell as text, after a batch without rows for the header.

    sheet: its name; if None, the only sheet that is not hidden.
    header_row: from 1; None: the first row with content.
    ids: the columns of ids. A number that is shown with zeros in front, by a format such as
        '00000', keeps them; a number that is not whole or has lost digits is damaged.

    Raises UserError.
    """
    try:
        import openpyxl
    except ImportError:
        raise missing_extra(f"{path}: needs openpyxl", "tables") from None
    try:
        check_unpacked(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            try:
                hidden = {s.title: s.sheet_state != "visible" for s in book.worksheets}
                chosen = book[chosen_sheet(path, hidden, sheet)]
                chosen.reset_dimensions()  # a row is as long as its cells, whatever the file says
                rows = (
                    (number, row)
                    for number, row in enumerate(chosen.iter_rows(), start=1)
                    if any(cell.value is not None for cell in row)
                )
                with closing(rows):  # they hold the file open, also after a refusal
                    yield from text_batches_of_sheet(
                        path, rows, _text, _id_text, header_row=header_row, ids=ids
                    )
            finally:
                book.close()
    except (UserError, GeneratorExit, MemoryError):
        raise
    except Exception:  # a damaged file raises whatever its reader stumbles over
        raise UserError(f"{path}: cannot be read as a spreadsheet; save it as .xlsx anew") from None


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


def _text(cell: Any) -> str | None:
    """Converts a cell to text: whole numbers without a fraction, dates in ISO 8601."""
    value = cell.value
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, datetime) and value.time() == time(0):
        return value.date().isoformat()
    return value.isoformat(" ") if isinstance(value, datetime) else _plain(value)


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _id_text(cell: Any) -> str | None:
    """Returns an id with the leading zeros of its number format."""
    text = _text(cell)
    zeros = re.fullmatch(r"0+", str(getattr(cell, "number_format", "")))
    return sound_id(cell.value, text, (text or "").zfill(len(zeros[0])) if zeros else "")
