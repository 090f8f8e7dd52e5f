"""Tables and numbers of the result pages, from `docs/results/data`.

A file of that folder is one table: a caption, the command that measures its rows and what it needs
beside stream-dp, the conditions, the columns and the rows by their names.
`benchmarks/result_file.py` writes the rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from drawings import plain

FOLDER = Path(__file__).parents[1] / "results" / "data"

Cell = float | int | str | None


@dataclass(frozen=True)
class ResultTable:
    """A measured table. `rows` has the cells of each named row, in the order of `columns`.

    needs: what the command needs beside stream-dp, words of `result_commands.NEEDS`.
    """

    name: str
    caption: str
    command: str
    needs: tuple[str, ...]
    conditions: str
    first: str
    columns: tuple[str, ...]
    formats: tuple[str, ...]
    rows: dict[str, tuple[Cell, ...]]
    figure: dict[str, Any] | None

    def titled(self, title: str) -> str:
        """The formatted number that a link's title names: `ROW: COLUMN`, `least COLUMN` or
        `greatest COLUMN`, without marks of Markdown. Raises KeyError where there is none."""
        for column, form in zip(self.columns, self.formats, strict=True):
            cells = {row: cells[self.columns.index(column)] for row, cells in self.rows.items()}
            numbers = [cell for cell in cells.values() if isinstance(cell, float | int)]
            for which, extreme in (("least", min), ("greatest", max)):
                if numbers and title == f"{which} {plain(column)}":
                    return _formatted(extreme(numbers), form)
            for row, cell in cells.items():
                if title == f"{plain(row)}: {plain(column)}":
                    return _formatted(cell, form)
        raise KeyError(f"{self.name}.json has no cell '{title}'")

    def markdown(self) -> str:
        lines = [f"| {self.first} | {' | '.join(self.columns)} |", "|---" * (1 + len(self.columns))]
        lines[1] += "|"
        for row, cells in self.rows.items():
            formatted = map(_formatted, cells, self.formats)
            lines.append(f"| {row} | {' | '.join(formatted)} |")
        about = f"*{self.caption}*\n\n{self.conditions} Command: `{self.command}`."
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
        tuple(data["needs"].split(", ")) if "needs" in data else (),
        data["conditions"],
        data["first"],
        columns,
        tuple(data["columns"].values()),
        rows,
        data.get("figure"),
    )
