"""Reads sheets of .xlsx files as batches of text, cell by cell."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from datetime import date, datetime, time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from stream_dp.celltext import DAMAGED
from stream_dp.errors import UserError

from .row_batches import TableRows, UnreadableRow, no_rows, text_rows

_MOST_DIGITS = 15  # precision of a number in a spreadsheet


def sheet_batches(path: Path, sheet: str | None, ids: str, count: int) -> Iterator[TableRows]:
    """Reads the rows of a sheet, every cell as text, after a batch without rows for the header.

    sheet: its name; if None, the only sheet.
    ids: the column of ids. A number that is shown with zeros in front, by a format such as
        '00000', keeps them; a number that is not whole or has lost digits is `DAMAGED`.
    count: rows of a batch.

    Raises UserError.
    """
    try:
        import openpyxl
    except ImportError:
        raise UserError(f"{path}: needs openpyxl: pip install 'stream-dp[tables]'") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            try:
                yield from _batches(path, _chosen(path, book, sheet), ids, count)
            finally:
                book.close()
    except (UserError, GeneratorExit):
        raise
    except Exception:  # a damaged file raises whatever its reader stumbles over
        raise UserError(f"{path}: cannot be read as a spreadsheet; save it as .xlsx anew") from None


def _chosen(path: Path, book: Any, name: str | None) -> Any:
    """Returns the sheet with this name, or the only sheet. Raises UserError."""
    if name is None and len(book.worksheets) == 1:
        return book.worksheets[0]
    names = [sheet.title for sheet in book.worksheets]
    if name in names:
        return book.worksheets[names.index(name)]
    why = "there are several sheets" if name is None else f"no sheet '{name}'"
    raise UserError(f"{path}: {why}; name one with --sheet: {', '.join(names[:12])}")


def _batches(path: Path, sheet: Any, ids: str, count: int) -> Iterator[TableRows]:
    rows = sheet.iter_rows()
    header = next((row for row in rows if any(c.value is not None for c in row)), ())
    names = [_text(cell.value) or "" for cell in header]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise UserError(f"{path}: the sheet is empty")
    id_column = names.index(ids) if ids in names else None
    schema = pa.schema([(name, pa.string()) for name in names])
    yield TableRows(no_rows(schema), np.zeros(0, np.int64))
    rest = enumerate(rows, start=1)
    while several := list(islice(rest, count)):
        fitting: dict[int, list[str | None]] = {}
        unreadable = []
        for number, row in several:
            cells = [_text(cell.value) for cell in row]
            if any(cell is not None for cell in cells[len(names) :]):
                unreadable.append(UnreadableRow(number, "\t".join(cell or "" for cell in cells)))
                continue
            if id_column is not None and len(row) > id_column:
                cells[id_column] = _id_text(row[id_column], cells[id_column])
            cells += [None] * (len(names) - len(cells))
            fitting[number] = cells[: len(names)]
        yield text_rows(schema, list(fitting.values()), list(fitting), unreadable)


def _text(value: object) -> str | None:
    """Converts a cell to text: whole numbers without a fraction, dates in ISO 8601."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, datetime) and value.time() == time(0):
        return value.date().isoformat()
    return value.isoformat(" ") if isinstance(value, datetime) else _plain(value)


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _id_text(cell: Any, text: str | None) -> str | None:
    """Returns an id with the leading zeros of its number format."""
    if isinstance(cell.value, (int, float)) and not isinstance(cell.value, bool) and text:
        if not text.isdigit() or len(text) > _MOST_DIGITS:
            return DAMAGED
        if re.fullmatch(r"0+", str(cell.number_format)):
            return text.zfill(len(str(cell.number_format)))
    return text
