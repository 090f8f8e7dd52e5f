"""A picture of the result of `stream-dp plan`: half-widths over the periods, and alternatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from stream_dp.figures.marks import (
    Box,
    Dot,
    Frame,
    Mark,
    Path,
    Text,
    number_axis,
    period_ticks,
    px,
)
from stream_dp.figures.pictures import Picture, Placed

_PERCENT = 100.0
_STEP, _TOP = 40.0, 26.0  # pixels of an alternative, and above the first
_MARGIN, _WIDTH, _HEIGHT = 20.0, 520.0, 280.0
Row = Mapping[str, Any]


def plan_picture(data: Row) -> Picture:
    """The charts of a plan in a column, below their titles and a key.

    data: the result of `Planned.as_dict`.
    """
    needed = data.get("needed")
    alternatives = {
        _release_and_query(rows[0]): rows for rows in _groups(data.get("alternatives", ()))
    }
    placed = [Placed(_MARGIN, _MARGIN, _key(asked=needed is not None))]
    y = 2.4 * _MARGIN

    def place(title: str, height: float, marks: Sequence[Mark]) -> None:
        nonlocal y
        placed.append(Placed(_MARGIN, y, [Text("heading", 0, 12, title)]))
        placed.append(Placed(_MARGIN, y + 24, marks))
        y = px(y + 24 + height + 2 * _MARGIN)

    for rows in _groups(data["errors"]):
        release, query = _release_and_query(rows[0])
        title = f"{release}: {query}"
        share = rows[0]["share"] is not None
        goal = None
        if needed is not None and (data["of"] == "share") == share:
            goal = needed["error"]
        place(title, _HEIGHT, _half_widths(data, rows, share=share, goal=goal))
        if alternative_rows := alternatives.get((release, query)):
            height = _TOP + _STEP * len(alternative_rows)
            place(f"{title}: declared otherwise", height, _bars(alternative_rows, data))
    title = f"{data['study']}: errors to expect of the privacy noise"
    return Picture(title, title, _WIDTH + 2 * _MARGIN, y, tuple(placed))


def _key(*, asked: bool) -> list[Mark]:
    rows = [
        (0, "estimate-line", "when the period is published"),
        (210, "panel-line", "once all periods are"),
        *([(380, "truth", "the error asked for")] if asked else []),
    ]
    marks: list[Mark] = []
    for x, style, label in rows:
        marks += [Path(style, f"M{x} 0h22"), Text("tick", x + 28, 4, label)]
    return marks


def _release_and_query(row: Row) -> tuple[str, str]:
    return row["release"], row["query"]


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    return [list(group) for _, group in groupby(rows, _release_and_query)]


def _half_widths(data: Row, rows: Sequence[Row], *, share: bool, goal: float | None) -> list[Mark]:
    """Draws half-widths at publication and after the last period; the goal as a line."""
    kind, scale = ("share", _PERCENT) if share else ("count", 1.0)
    labels = data["periods"]
    at_release = [scale * row[f"{kind}_half_width"] for row in rows]
    final = [scale * row[f"final_{kind}_half_width"] for row in rows]
    top = max(*at_release, *final, scale * (goal or 0.0))
    frame = Frame(_WIDTH, _HEIGHT, number_axis(0.0, top), len(labels))
    unit = f"half-width, % of {data['unit']}s" if share else f"half-width, {data['unit']}s"
    marks: list[Mark] = list(frame.axes(period_ticks(labels, _WIDTH - 54), unit))
    positions = [labels.index(row["period"]) for row in rows]
    for style, values in (("panel-line", final), ("estimate-line", at_release)):
        ends = (f"{frame.x(x)} {frame.y(y)}" for x, y in zip(positions, values, strict=True))
        marks.append(Path(style, "M" + "L".join(ends)))
    for position, value, row in zip(positions, at_release, rows, strict=True):
        title = f"{row['period']}: {_shown(value / scale, share=share)}"
        marks.append(Dot("estimate", frame.x(position), frame.y(value), 2.2, title=title))
    if goal is not None:
        y = frame.y(scale * goal)
        marks.append(Path("truth", f"M{frame.left} {y}H{px(_WIDTH - frame.right)}"))
    return marks


def _shown(half_width: float, *, share: bool) -> str:
    return f"{half_width:.2%}" if share else f"{half_width:,.1f}"


def _bars(rows: Sequence[Row], data: Row) -> list[Mark]:
    """Draws bars of half-widths, a bar a declaration, the most precise first."""
    count = data["of"] == "count"
    largest = max(row["half_width"] for row in rows)
    unit = f"{data['unit']}s" if count else f"% of {data['unit']}s"
    marks: list[Mark] = [Text("tick", 0, 11, f"largest half-width, {unit}")]
    for index, row in enumerate(rows):
        y, declaration = _TOP + _STEP * index, _declaration(row)
        value = _shown(row["half_width"], share=not count)
        length = px((_WIDTH - 70.0) * row["half_width"] / largest)
        marks += [
            Text("name", 0, y + 10, declaration),
            Box("bar", x=0, y=y + 15, width=length, height=12, title=f"{declaration}: {value}"),
            Text("value-ink", length + 6, y + 25, value),
        ]
    return marks


def _declaration(row: Row) -> str:
    """The declaration of an alternative: the kind, the number of periods, the number of waves."""
    waves = f", {row['waves']} waves of" if row["waves"] > 1 else ","
    return f"{row['declaration']}{waves} {row['periods']} periods"
