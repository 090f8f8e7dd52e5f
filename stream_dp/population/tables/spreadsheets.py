"""Reads the rows of sheets of every kind of spreadsheet, and files .xlsx, as batches of text.

What a sheet says of itself is not believed: it may state another size than it has, its rows may
stand in another order than their numbers, and a formula may be stored without its result.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from stream_dp.errors import UserError, missing_extra

from ..celltext import DAMAGED
from ..table_bounds import MOST_CELL
from .row_batches import TableRows, text_batches_of
from .text_records import MOST_TEXT

SHEET_ROWS = 1 << 20  # of the largest sheet that spreadsheets write
_MOST_CELLS = 1 << 26  # of a sheet in the columns of its header
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

    def numbered() -> Iterator[tuple[int, list[str | None] | str]]:
        """The rows; one with a cell beyond the header's, or with too long a cell, is unreadable."""
        for count, (row, cells) in enumerate(rows, start=1):
            texts = [text(cell) for cell in cells[: len(names)]]
            for index in id_columns:
                if index < len(cells):
                    texts[index] = id_text(cells[index])
            more = (text(cell) for cell in cells[len(names) :])
            beyond = next((one for one in more if one is not None), None)
            if beyond is not None or any(len(cell) > MOST_CELL for cell in texts if cell):
                line = "\t".join((cell or "")[:MOST_TEXT] for cell in (*texts, beyond))
                yield row - header_number, line
            else:
                yield row - header_number, texts + [None] * (len(names) - len(texts))
            if count * len(names) > _MOST_CELLS:
                raise UserError(f"{path}: the sheet has over {_MOST_CELLS:,} cells; save it as CSV")

    yield from text_batches_of(names, numbered())


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
