"""Figures of the result pages, drawn from the rows of a result table."""

from __future__ import annotations

from functools import cache
from typing import Any

from drawings import COLOURS, MARKERS, TEXT, Drawing, drawn, plain, settings
from matplotlib import pyplot
from result_tables import ResultTable, read


@cache
def drawing(name: str) -> Drawing:
    """The figure of a result table. Raises ValueError if the table declares none."""
    table = read(name)
    if table.figure is None:
        raise ValueError(f"{name}.json declares no figure")
    with settings():
        draw = _lines if table.figure.get("lines") else _dots
        return drawn(draw(table, table.figure), table.caption)


def _dots(table: ResultTable, form: dict[str, Any]) -> Any:
    """A row of the table is a row of the figure; each series has a marker in it."""
    rows = list(table.rows)
    figure, axes = pyplot.subplots(figsize=(5.2, 0.9 + 0.3 * len(rows)))
    for series, column in enumerate(form["columns"]):
        index = table.columns.index(column)
        points = [(table.rows[row][index], y) for y, row in enumerate(rows)]
        drawn = [(x, y) for x, y in points if isinstance(x, float | int)]
        axes.plot(
            [x for x, _ in drawn],
            [y for _, y in drawn],
            MARKERS[series],
            color=COLOURS[series],
            label=plain(column),
            markersize=7,
        )
    axes.set_yticks(range(len(rows)), [plain(row) for row in rows])
    axes.invert_yaxis()
    axes.grid(axis="y", color=TEXT, alpha=0.15)
    _finish(axes, form)
    return figure


def _lines(table: ResultTable, form: dict[str, Any]) -> Any:
    """The names of the rows are numbers and lie along the axis; each series is a line."""
    figure, axes = pyplot.subplots(figsize=(6.4, 3.4))
    for series, column in enumerate(form["columns"]):
        index = table.columns.index(column)
        points = [(float(row.replace(",", "")), cells[index]) for row, cells in table.rows.items()]
        drawn = [(x, y) for x, y in points if isinstance(y, float | int)]
        axes.plot(
            [x for x, _ in drawn],
            [y for _, y in drawn],
            marker=MARKERS[series],
            color=COLOURS[series],
            label=plain(column),
        )
    if form.get("log"):
        axes.set_yscale("log")
    axes.set_ylabel(form["label"])
    axes.set_xlabel(table.first)
    if form.get("log x"):
        axes.set_xscale("log")
    axes.legend(frameon=False)
    return figure


def _finish(axes: Any, form: dict[str, Any]) -> None:
    if form.get("log"):
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
    if "line" in form:
        axes.axvline(form["line"], color=TEXT, linestyle="--", linewidth=1)
    axes.set_xlabel(form["label"])
    if len(form["columns"]) > 1:
        axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
