"""Reads sheets of .xlsx files as batches of text.

What a sheet says of itself is not believed: it may state another size than it has, its rows may
stand in another order than their numbers, and a formula may be stored without its result.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from datetime import date, datetime, time, timedelta
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from stream_dp.errors import UserError, missing_extra

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

_NO_NUMBER = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]')  # of a number format
_QUOTES = re.compile(r'"|\\(?=.)')
_ZEROS = re.compile(r'((?:"[^"]*"|\\.)*)(0+)')  # letters, and the number of digits
_Value = str | int | float | date | time | timedelta | None


class WorkbookCell(NamedTuple):
    """A cell: its value in the file, and its number format."""

    value: _Value = None
    number_format: str = ""

    def text(self) -> str | None:
        """Returns the text: whole numbers without a fraction, percents as shown, ISO dates."""
        value = self.value
        if value is None or value == "":
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (int, float)) and _is_percent(self.number_format):
            return percent_text(value)
        if isinstance(value, float):
            return number_text(value)
        if isinstance(value, datetime) and value.time() == time(0):
            return value.date().isoformat()
        if isinstance(value, datetime):
            return value.isoformat(" ")
        return value.isoformat() if isinstance(value, date) else str(value)

    def id_text(self) -> str | None:
        """Returns an id with the zeros and letters of its number format. A date is no id."""
        if not isinstance(self.value, str | int | float | None):
            return DAMAGED
        text, shown = self.text(), ""
        if (zeros := _ZEROS.fullmatch(self.number_format)) is not None:
            shown = _QUOTES.sub("", zeros[1]) + (text or "").zfill(len(zeros[2]))
        return sound_id(self.value, text, shown)


_EMPTY = WorkbookCell()


def workbook_batches(
    path: Path,
    sheet: str | None,
    header_row: int | None,
    ids: Collection[str],
    *,
    as_written: bool = False,
) -> Iterator[TableRows]:
    """Reads the rows of a sheet, every cell as text, after a batch without rows for the header.

    sheet: its name; if None, the only sheet that is not hidden.
    header_row: from 1; None: the first row with content.
    ids: the columns of ids. A number keeps the zeros and letters that its format shows in front,
        such as '00000' and '"P"0000'. A number that is not whole or has lost digits is damaged.
    as_written: whether an id may be a date.

    A formula without a stored result is damaged. Raises UserError.
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
                rows = _rows(path, book, book[chosen_sheet(path, hidden, sheet)])
                id_text = WorkbookCell.text if as_written else WorkbookCell.id_text
                with closing(rows):  # they hold the file open, also after a refusal
                    yield from text_batches_of_sheet(
                        path, rows, WorkbookCell.text, id_text, header_row=header_row, ids=ids
                    )
            finally:
                book.close()
    except (UserError, GeneratorExit, MemoryError):
        raise
    except Exception:  # a damaged file raises whatever its reader stumbles over
        raise UserError(f"{path}: cannot be read as a spreadsheet; save it as .xlsx anew") from None


def _rows(
    path: Path, book: Any, sheet: Any
) -> Generator[tuple[int, list[WorkbookCell]], None, None]:
    """Yields the rows with content in the order of the file, whatever size the sheet states.

    Raises UserError for a sheet with rows of one number, or below the last row of a sheet.
    """
    format_of, last = _formats(book), 0
    with book._archive.open(sheet._worksheet_path) as content:
        for number, cells in _parser(book, sheet, content).parse():
            row: list[WorkbookCell] = []
            for cell in cells:
                if cell["value"] is not None:
                    column = cell["column"] - 1
                    row += [_EMPTY] * (column + 1 - len(row))
                    if row[column] is not _EMPTY:
                        raise ValueError("a cell stands there twice")
                    row[column] = WorkbookCell(cell["value"], format_of(cell["style_id"]))
            if number > SHEET_ROWS:
                raise UserError(f"{path}: the sheet has over {SHEET_ROWS:,} rows")
            if row and number <= last:
                raise UserError(
                    f"{path}: row {number} of the sheet stands below row {last}; save it as .xlsx"
                    " anew"
                )
            if row:
                last = number
                yield number, row


def _parser(book: Any, sheet: Any, content: Any) -> Any:
    """Returns openpyxl's parser of a sheet, with formulas without a stored result as `DAMAGED`."""
    from openpyxl.worksheet._reader import FORMULA_TAG, WorkSheetParser

    class Parser(WorkSheetParser):  # type: ignore[misc]
        def parse_cell(self, element: Any) -> dict[str, Any]:
            cell: dict[str, Any] = super().parse_cell(element)
            # A result that is an empty text is stored as such.
            has_no_result = cell["value"] is None and element.get("t") != "str"
            if has_no_result and element.find(FORMULA_TAG) is not None:
                cell["value"] = DAMAGED
            return cell

    return Parser(
        content,
        sheet._shared_strings,
        data_only=True,
        epoch=book.epoch,
        date_formats=book._date_formats,
        timedelta_formats=book._timedelta_formats,
    )


def _formats(book: Any) -> Callable[[int], str]:
    """Returns the function from a style to its number format."""
    from openpyxl.styles.numbers import BUILTIN_FORMATS, BUILTIN_FORMATS_MAX_SIZE

    @cache
    def format_of(style: int) -> str:
        number = book._cell_styles[style].numFmtId
        if number < BUILTIN_FORMATS_MAX_SIZE:
            return str(BUILTIN_FORMATS.get(number, "General"))
        return str(book._number_formats[number - BUILTIN_FORMATS_MAX_SIZE])

    return format_of


@lru_cache(maxsize=256)
def _is_percent(number_format: str) -> bool:
    return "%" in _NO_NUMBER.sub("", number_format)
