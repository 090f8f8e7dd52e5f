"""The result of `stream-dp plan`: charts with tables, and a picture for a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Any

from .axes import number_axis, period_ticks
from .figure_picture import light_rules
from .marks import Box, Chart, Dot, Frame, Mark, Path, Text, px
from .release_figures import SMALL, Figure, Numbers
from .render import render

_PERCENT = 100.0
_STEP, _TOP = 40.0, 26.0  # pixels of an alternative, and above the first
_MARGIN = 20.0
_WIDE = (520.0, 280.0)
Row = Mapping[str, Any]


def plan_figures(data: Row, size: tuple[float, float] = SMALL) -> list[Figure]:
    """Draws a figure of half-widths over the periods for each query, then a figure of alternatives.

    data: the result of `Planned.as_dict`.
    size: width and height of a chart in pixels.
    """
    needed = data.get("needed")
    alternatives = {
        _release_and_query(rows[0]): rows for rows in _groups(data.get("alternatives", ()))
    }
    figures = []
    for rows in _groups(data["errors"]):
        release, query = _release_and_query(rows[0])
        title = f"{release}: {query}"
        share = rows[0]["share"] is not None
        goal = None
        if needed is not None and (data["of"] == "share") == share:
            goal = needed["error"]
        chart = _half_widths(data, rows, share=share, goal=goal, size=size)
        figures.append(Figure(title, query, (chart,), (_numbers(data, rows),), count=not share))
        if alternative_rows := alternatives.get((release, query)):
            figures.append(_alternatives(title, alternative_rows, data, size))
    return figures


def _release_and_query(row: Row) -> tuple[str, str]:
    return row["release"], row["query"]


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    return [list(group) for _, group in groupby(rows, _release_and_query)]


def _half_widths(
    data: Row, rows: Sequence[Row], *, share: bool, goal: float | None, size: tuple[float, float]
) -> Chart:
    """Draws half-widths at publication and after the last period; the goal as a line."""
    kind, scale = ("share", _PERCENT) if share else ("count", 1.0)
    labels, (width, height) = data["periods"], size
    at_release = [scale * row[f"{kind}_half_width"] for row in rows]
    final = [scale * row[f"final_{kind}_half_width"] for row in rows]
    top = max(*at_release, *final, scale * (goal or 0.0))
    frame = Frame(width, height, number_axis(0.0, top), len(labels))
    unit = f"half-width, % of {data['unit']}s" if share else f"half-width, {data['unit']}s"
    marks: list[Mark] = list(frame.axes(period_ticks(labels, width - 54), unit))
    positions = [labels.index(row["period"]) for row in rows]
    for style, values in (("panel-line", final), ("estimate-line", at_release)):
        ends = (f"{frame.x(x)} {frame.y(y)}" for x, y in zip(positions, values, strict=True))
        marks.append(Path(style, "M" + "L".join(ends)))
    for position, value, row in zip(positions, at_release, rows, strict=True):
        title = f"{row['period']}: {_shown(value / scale, share=share)}"
        marks.append(Dot("estimate", frame.x(position), frame.y(value), 2.2, title=title))
    if goal is not None:
        y = frame.y(scale * goal)
        marks.append(Path("truth", f"M{frame.left} {y}H{px(width - frame.right)}"))
    worst = _shown(max(at_release) / scale, share=share)
    summary = f"Half-widths to expect over {len(rows)} periods, at most {worst}."
    return Chart(width, height, f"{summary} The numbers are in a table below.", tuple(marks))


def _shown(half_width: float, *, share: bool) -> str:
    return f"{half_width:.2%}" if share else f"{half_width:,.1f}"


def _numbers(data: Row, rows: Sequence[Row]) -> Numbers:
    title = f"Half-widths at {data['confidence']:.4g}"
    columns = ("period", "as a share", f"{data['unit']}s", "share, at the end", "at the end")
    return Numbers(
        title,
        columns,
        tuple(
            (
                row["period"],
                *(
                    "" if row[key] is None else _shown(row[key], share="share" in key)
                    for key in (
                        "share_half_width",
                        "count_half_width",
                        "final_share_half_width",
                        "final_count_half_width",
                    )
                ),
            )
            for row in rows
        ),
    )


def _alternatives(title: str, rows: Sequence[Row], data: Row, size: tuple[float, float]) -> Figure:
    """Draws bars of half-widths, a bar a declaration, the most precise first."""
    count = data["of"] == "count"
    width, largest = size[0], max(row["half_width"] for row in rows)
    bar_width = width - 70.0
    unit = f"{data['unit']}s" if count else f"% of {data['unit']}s"
    marks: list[Mark] = [Text("tick", 0, 11, f"largest half-width, {unit}")]
    cells = []
    for index, row in enumerate(rows):
        y, declaration = _TOP + _STEP * index, declaration_text(row)
        value = _shown(row["half_width"], share=not count)
        length = px(bar_width * row["half_width"] / largest)
        marks += [
            Text("name", 0, y + 10, declaration),
            Box("bar", x=0, y=y + 15, width=length, height=12, title=f"{declaration}: {value}"),
            Text("value-ink", length + 6, y + 25, value),
        ]
        rho = row["rho_needed"]
        cells.append((declaration, value, "" if rho is None else f"{float(Fraction(rho)):.4g}"))
    chart = Chart(
        width,
        _TOP + _STEP * len(rows),
        f"Half-widths of {len(rows)} declarations, the least {cells[0][1]} with {cells[0][0]}.",
        tuple(marks),
    )
    numbers = Numbers("Alternatives", ("declared as", "half-width", "rho needed"), tuple(cells))
    return Figure(f"{title}: declared otherwise", "", (chart,), (numbers,), count=count)


def declaration_text(row: Row) -> str:
    """The declaration of an alternative: the kind, the number of periods, the number of waves."""
    waves = f", {row['waves']} waves of" if row["waves"] > 1 else ","
    return f"{row['declaration']}{waves} {row['periods']} periods"


def picture(data: Row) -> str:
    """The figures of a plan in a column, as a self-contained SVG."""
    figures, y, placed = plan_figures(data, _WIDE), 2.4 * _MARGIN, []
    for figure in figures:
        (chart,) = figure.charts
        placed.append((figure.title, y, chart))
        y += 24 + chart.height + 2 * _MARGIN
    return render(
        "picture.svg",
        title=f"{data['study']}: errors to expect of the privacy noise",
        width=_WIDE[0] + 2 * _MARGIN,
        height=px(y),
        margin=_MARGIN,
        placed=placed,
        asked="needed" in data,
        style="\n".join(light_rules()),
    )
