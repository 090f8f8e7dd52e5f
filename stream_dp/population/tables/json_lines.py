"""Reads files with a JSON object in every line, as Arrow batches of text.

The columns are the members of all objects, in order of appearance. No line changes another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from stream_dp.errors import UserError
from stream_dp.study.id_forms import text_of_number

from ..celltext import DAMAGED
from ..table_bounds import MOST_CELL, MOST_RECORD
from .row_batches import TableRows, UnreadableRow, no_rows, text_rows
from .text_files import opened_text
from .text_records import MOST_TEXT

_MOST_MEMBERS = 1 << 14  # different ones of a file
_BATCH_CELLS, _BATCH_CHARACTERS = 1 << 21, 1 << 22
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
    schema = pa.schema([(name, pa.string()) for name in names])
    yield TableRows(no_rows(schema), np.zeros(0, np.int64))
    rows, unreadable, characters = dict[int, list[str | None]](), list[UnreadableRow](), 0
    most = max(1, _BATCH_CELLS // len(names))
    for number, (line, row) in enumerate(_rows(path, encoding), start=1):
        characters += len(line)
        if row is None:
            unreadable.append(UnreadableRow(number, line[:MOST_TEXT]))
        else:
            rows[number] = [row.get(name) for name in names]
        if len(rows) + len(unreadable) >= most or characters > _BATCH_CHARACTERS:
            yield text_rows(schema, list(rows.values()), list(rows), unreadable)
            rows, unreadable, characters = {}, [], 0
    yield text_rows(schema, list(rows.values()), list(rows), unreadable)


def _members(path: Path, encoding: str | None) -> list[str]:
    """The names of members, in order of appearance. Raises UserError."""
    names = dict[str, None]()
    for _, row in _rows(path, encoding):
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


def _rows(path: Path, encoding: str | None) -> Iterator[tuple[str, _Row | None]]:
    """The lines with text, and their cells; None for a line without a valid object."""
    with opened_text(path, encoding) as file:
        while line := file.readline(MOST_RECORD):
            long = len(line) == MOST_RECORD and not line.endswith("\n")
            while long and (rest := file.readline(MOST_RECORD)):
                if rest.endswith("\n"):
                    break
            if text := line.strip(" \t\r\n\ufeff"):
                yield text, None if long else _row(text)


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
