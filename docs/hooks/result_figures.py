"""Figures of the result pages: SVG from the rows of a result table, drawn by matplotlib.

A figure is part of the page, so that its texts and lines have the page's colours, light or dark.
"""

from __future__ import annotations

import io
import re
from functools import cache
from typing import Any

import matplotlib
from result_tables import ResultTable, read

matplotlib.use("svg")
from matplotlib import pyplot

# Each series has a colour of the page's style sheet and a marker, so that colour is never alone.
COLOURS = ("#00796b", "#c2410c", "#5b21b6", "#6b7280")
MARKERS = ("o", "s", "^", "D")
TEXT = "#123456"
_PLAIN = re.compile(r"[`*]")
_HEAD = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_META = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "result",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": TEXT,
    "axes.labelcolor": TEXT,
    "axes.edgecolor": TEXT,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@cache
def svg(name: str) -> str:
    """The figure of a result table, as an element of a page with a text alternative."""
    table = read(name)
    if table.figure is None:
        raise ValueError(f"{name}.json declares no figure")
    with matplotlib.rc_context(_SETTINGS):
        draw = _lines if table.figure.get("lines") else _dots
        figure = draw(table, table.figure)
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, bbox_inches="tight")
        pyplot.close(figure)
    drawn = _META.sub("", _HEAD.sub("", file.getvalue()))
    drawn = re.sub(
        r"(?<=<svg) ", f' role="img" aria-label="{_PLAIN.sub("", table.caption)}" ', drawn
    )
    # Several figures of one page must not share identifiers.
    drawn = re.sub(r'(?<=id=")|(?<=href="#)|(?<=url\(#)', f"{name}-", drawn)
    return f'<figure class="result">{drawn.replace(TEXT, "currentColor").strip()}</figure>'


def _dots(table: ResultTable, settings: dict[str, Any]) -> Any:
    """A row of the table is a row of the figure; each series has a marker in it."""
    rows = list(table.rows)
    figure, axes = pyplot.subplots(figsize=(5.2, 0.9 + 0.3 * len(rows)))
    for series, column in enumerate(settings["columns"]):
        index = table.columns.index(column)
        points = [(table.rows[row][index], y) for y, row in enumerate(rows)]
        drawn = [(x, y) for x, y in points if isinstance(x, float | int)]
        axes.plot(
            [x for x, _ in drawn],
            [y for _, y in drawn],
            MARKERS[series],
            color=COLOURS[series],
            label=_PLAIN.sub("", column),
            markersize=7,
        )
    axes.set_yticks(range(len(rows)), [_PLAIN.sub("", row) for row in rows])
    axes.invert_yaxis()
    axes.grid(axis="y", color=TEXT, alpha=0.15)
    _finish(axes, settings)
    return figure


def _lines(table: ResultTable, settings: dict[str, Any]) -> Any:
    """The names of the rows are numbers and lie along the axis; each series is a line."""
    figure, axes = pyplot.subplots(figsize=(6.4, 3.4))
    for series, column in enumerate(settings["columns"]):
        index = table.columns.index(column)
        points = [(float(row.replace(",", "")), cells[index]) for row, cells in table.rows.items()]
        drawn = [(x, y) for x, y in points if isinstance(y, float | int)]
        axes.plot(
            [x for x, _ in drawn],
            [y for _, y in drawn],
            marker=MARKERS[series],
            color=COLOURS[series],
            label=_PLAIN.sub("", column),
        )
    if settings.get("log"):
        axes.set_yscale("log")
    axes.set_ylabel(settings["label"])
    axes.set_xlabel(table.first)
    if settings.get("log x"):
        axes.set_xscale("log")
    axes.legend(frameon=False)
    return figure


def _finish(axes: Any, settings: dict[str, Any]) -> None:
    if settings.get("log"):
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
    if "line" in settings:
        axes.axvline(settings["line"], color=TEXT, linestyle="--", linewidth=1)
    axes.set_xlabel(settings["label"])
    if len(settings["columns"]) > 1:
        axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
