"""Tables and numbers of the result pages, from `docs/results/data`.

A file of that folder is one table: a caption, the command that measures its rows, the conditions,
the columns and the rows by their names. `benchmarks/result_file.py` writes the rows. A page has

    <!-- table: NAME -->              the table with its caption and its command
    <!-- figure: NAME -->             the figure of the table
    {{ NAME | ROW | COLUMN }}         one number
    {{ least NAME | COLUMN }}         the smallest number of a column; `greatest` likewise
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "results" / "data"
_NUMBER = re.compile(r"\{\{ (?:(least|greatest) )?([a-z-]+) \| ([^{}]+?) \}\}")

Cell = float | int | str | None


@dataclass(frozen=True)
class ResultTable:
    """A measured table. `rows` has the cells of each named row, in the order of `columns`."""

    name: str
    caption: str
    command: str
    conditions: str
    first: str
    columns: tuple[str, ...]
    formats: tuple[str, ...]
    rows: dict[str, tuple[Cell, ...]]
    figure: dict[str, Any] | None

    def cell(self, row: str, column: str) -> str:
        """The formatted cell. Raises KeyError for a row or a column that is not in the table."""
        if row not in self.rows or column not in self.columns:
            raise KeyError(f"{self.name}.json has no cell {row!r}, {column!r}")
        index = self.columns.index(column)
        return _formatted(self.rows[row][index], self.formats[index])

    def extreme(self, column: str, which: str) -> str:
        """The smallest (`least`) or largest (`greatest`) number of a column, formatted."""
        index = self.columns.index(column)
        numbers = [c for row in self.rows.values() if isinstance(c := row[index], float | int)]
        return _formatted((min if which == "least" else max)(numbers), self.formats[index])

    def markdown(self) -> str:
        lines = [f"| {self.first} | {' | '.join(self.columns)} |", "|---" * (1 + len(self.columns))]
        lines[1] += "|"
        for row, cells in self.rows.items():
            formatted = map(_formatted, cells, self.formats)
            lines.append(f"| {row} | {' | '.join(formatted)} |")
        about = f"*{self.caption}* {self.conditions} Command: `{self.command}`."
        return "\n".join([*lines, "", about])


def _formatted(cell: Cell, form: str) -> str:
    if cell is None or isinstance(cell, str):
        return cell or ""
    if form.endswith("%"):
        return f"{100 * cell:{form[:-1]}f} %"
    return f"{cell:{form}}"


@cache
def read(name: str) -> ResultTable:
    """The table of `NAME.json`. Raises OSError if the file cannot be read, ValueError for a row of
    another length than the columns."""
    data = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    columns = tuple(data["columns"])
    rows = {row: tuple(cells) for row, cells in data["rows"].items()}
    for row, cells in rows.items():
        if len(cells) != len(columns):
            raise ValueError(f"{name}.json: row {row!r} has {len(cells)} of {len(columns)} cells")
    return ResultTable(
        name,
        data["caption"],
        data["command"],
        data["conditions"],
        data["first"],
        columns,
        tuple(data["columns"].values()),
        rows,
        data.get("figure"),
    )


def with_numbers(markdown: str) -> str:
    """The page with the numbers of the tables that it cites."""

    def number(match: re.Match[str]) -> str:
        which, name, cell = match.groups()
        table = read(name)
        if which:
            return table.extreme(cell, which)
        row, _, column = cell.rpartition(" | ")
        return table.cell(row, column)

    return _NUMBER.sub(number, markdown)
