"""Reads files of cells of fixed width, which a syntax file of SPSS beside them describes."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from stream_dp.errors import UserError

from ..table_bounds import MOST_RECORD
from .row_batches import TableRows, UnreadableRow, no_rows, text_rows
from .spss_syntax import FixedColumn, FixedTable, read_syntax
from .text_files import opened_text
from .text_records import MOST_TEXT

FIXED = ".dat"
_SYNTAX = ".sps"
_BATCH_CELLS = 1 << 20
_ENDS = {"LO": "-Infinity", "LOWEST": "-Infinity", "HI": "Infinity", "HIGHEST": "Infinity"}


def syntax_of(path: Path, encoding: str | None) -> FixedTable:
    """The description of a file, from the syntax file of its name. Raises UserError."""
    beside = (path.with_suffix(suffix) for suffix in (_SYNTAX, _SYNTAX.upper()))
    syntax = next((file for file in beside if file.is_file()), None)
    if syntax is None:
        raise UserError(
            f"{path}: has cells of fixed width: put the syntax file of SPSS with its DATA LIST"
            f" beside it, as {path.with_suffix(_SYNTAX).name}; or save the table as .sav or .csv"
        )
    return read_syntax(syntax, encoding)


def labels_of(table: FixedTable) -> dict[str, dict[str, str]]:
    """By column, the labels by code; without codes that are missing values."""
    values = {}
    for column in table.columns:
        text = _texts_of(table, column)
        labels = table.values.get(column.name, {})
        kept = {text(code): label for code, label in labels.items() if label}
        values[column.name] = {code: label for code, label in kept.items() if code is not None}
    return {name: labels for name, labels in values.items() if labels}


def fixed_batches(path: Path, encoding: str | None) -> Iterator[TableRows]:
    """Reads the rows of a file, every cell as text, after a batch without rows for the header.

    A missing value is an empty cell. A line that ends early has empty cells. Positions count
    characters; a row of UTF-8 with a character of several bytes, which programs count otherwise, is
    unreadable. Raises UserError.
    """
    table = syntax_of(path, encoding)
    encoding = encoding or table.encoding
    schema = pa.schema([(column.name, pa.string()) for column in table.columns])
    yield TableRows(no_rows(schema), np.zeros(0, np.int64))
    cells = [(c.line, slice(c.start, c.end), _texts_of(table, c)) for c in table.columns]
    is_wide = codecs.lookup(encoding or "utf-8").name.startswith("utf")
    most, number = max(1, _BATCH_CELLS // len(cells)), 1
    with opened_text(path, encoding) as file:
        rows = _rows(file.readline, table)
        while batch := dict(enumerate(islice(rows, most), number)):
            broken = {
                n: "".join(lines)
                for n, lines in batch.items()
                if len(lines) < table.lines
                or any(len(line) == MOST_RECORD for line in lines)
                or (is_wide and not all(map(str.isascii, lines)))
            }
            fitting = {
                n: [text(lines[line][place]) for line, place, text in cells]
                for n, lines in batch.items()
                if n not in broken
            }
            unreadable = [UnreadableRow(n, text[:MOST_TEXT]) for n, text in broken.items()]
            yield text_rows(schema, list(fitting.values()), list(fitting), unreadable)
            number += len(batch)


def _rows(readline: Callable[[int], str], table: FixedTable) -> Iterator[list[str]]:
    """The lines of every row."""
    for _ in range(table.skipped):
        readline(MOST_RECORD)
    while lines := _lines(readline, table.lines):
        yield lines


def _lines(readline: Callable[[int], str], count: int) -> list[str]:
    lines = list[str]()
    while len(lines) < count and (line := readline(MOST_RECORD)):
        if len(line) == MOST_RECORD and not line.endswith("\n"):
            while (rest := readline(MOST_RECORD)) and not rest.endswith("\n"):
                pass
        lines.append(line.rstrip("\n"))
    return lines


def _texts_of(table: FixedTable, column: FixedColumn) -> Callable[[str], str | None]:
    """How a cell of a column becomes text: without blanks, numbers without zeros in front."""
    ranges = table.missing.get(column.name, [])

    def text(cell: str) -> str | None:
        plain = cell.rstrip() if column.decimals is None else _number(cell, column.decimals)
        missing = any(_within(plain, low, high) for low, high in ranges)
        return None if missing else plain or None

    return text


def _number(cell: str, decimals: int) -> str:
    """The text of a number; a period becomes an empty text, and any remaining text stays."""
    plain = cell.strip()
    number = _decimal(plain)
    if number is None or not number.is_finite():
        return "" if plain == "." else plain
    if plain.lstrip("+-").isdecimal():
        number = number.scaleb(-decimals)
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _decimal(text: str) -> Decimal | None:
    with suppress(InvalidOperation):
        # Nothing but digits: no exponent that makes a text of a thousand zeros.
        return Decimal(text) if text.strip("+-.0123456789") == "" and text.isascii() else None
    return None


def _within(text: str, low: str, high: str) -> bool:
    """Whether a text is in a range of missing values."""
    numbers = [_decimal(text), *(_bound(end) for end in (low, high))]
    if any(number is None for number in numbers):
        return low == high == text.strip()
    value, least, most = numbers
    return least <= value <= most  # type: ignore[operator]


def _bound(text: str) -> Decimal | None:
    end = _ENDS.get(text.upper())
    return _decimal(text) if end is None else Decimal(end)
