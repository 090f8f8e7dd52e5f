"""Charts of budgets and of shares, as values: marks in pixels, rendered to inline SVG.

A chart is drawn once, on the server, without scripts, for pages that open offline and for pages
under a strict content security policy. Colours, light and dark, come from classes of the style
sheet; no element has a style attribute. Equal answers give equal bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from stream_dp.client import Answer
from stream_dp.figures.marks import (
    Box,
    Chart,
    Frame,
    Mark,
    Path,
    Text,
    number_axis,
    period_ticks,
    px,
)

_LETTER = 6.2  # pixels of a letter, on average
_LINE = 12.0  # pixels between two lines of a name


def budget(
    spent: Mapping[str, Sequence[float]],
    epsilons: Sequence[str],
    *,
    labels: Sequence[str],
    total: float,
    total_text: str,
    size: tuple[float, float],
) -> Chart:
    """Draws rho by period, stacked by release, the period's charge in full colour.

    spent: by release, its charge in each period.
    epsilons: the epsilon spent by the end of each period; empty for unreleased periods.
    labels: the periods' labels.
    total: the budget's rho.
    total_text: the budget in words.
    size: width and height in pixels, without the key.
    """
    names = [*spent] if len(spent) <= 8 else []
    top = 44 + 16 * len(names)  # the key is above the bars
    width, height = size[0], size[1] + top - 26
    frame = Frame(width, height, number_axis(0.0, total), len(labels), left=50, top=top)
    ticks = period_ticks(labels, width - 60)
    marks: list[Mark] = list(frame.axes(ticks, "rho (zCDP) spent so far"))
    marks.append(Text("value-ink", frame.left, 28, total_text))
    stacked = [0.0] * len(labels)
    floor = frame.y(0.0)
    for release_number, charges in enumerate(spent.values()):
        style, earlier = f"release-{release_number % 4}", 0.0
        for index, charge in enumerate(charges):
            if epsilons[index]:
                marks += _bars(
                    frame, style, index, floor=stacked[index], earlier=earlier, charge=charge
                )
                stacked[index] += earlier + charge
            earlier += charge
    label_step = max(1, math.ceil(64 / frame.period_width))
    line = frame.y(total)
    for index in range(label_step - 1, len(labels), label_step):
        y = frame.y(stacked[index]) - 5
        y = px(line - 5) if y - 12 < line else y  # not through the budget's line
        if epsilons[index]:
            marks.append(Text("tick", frame.x(index), y, f"eps {epsilons[index]}", anchor="middle"))
    for number, name in enumerate(names):
        y = 44 + 16 * number
        marks += [
            Box(f"release-{number % 4} full", x=frame.left, y=y - 9, width=10, height=10),
            Text("name", frame.left + 16, y, name),
        ]
    marks.append(Path("truth", f"M{frame.left} {line}H{width - frame.right}"))
    marks.append(Path("truth", f"M{frame.left} {floor}H{width - frame.right}"))
    return Chart(width, height, f"Budget spent by period; {total_text}.", tuple(marks))


def _bars(
    frame: Frame, style: str, index: int, *, floor: float, earlier: float, charge: float
) -> Iterator[Mark]:
    """Draws the pale bar of earlier charges, from `floor` up, and above it the period's charge."""
    width = 0.74 * frame.period_width
    x = px(frame.x(index) - width / 2)
    for tone, start, amount in (("pale", floor, earlier), ("full", floor + earlier, charge)):
        if amount:
            top, bottom = frame.y(start + amount), frame.y(start)
            yield Box(f"{style} {tone}", x=x, y=top, width=px(width), height=px(bottom - top))


@dataclass(frozen=True)
class Bar:
    """A value of a column with the share of rows, and the interval of a measured answer.

    unbiased: the share as it is for programs; None if nobody measured it.
    """

    name: str
    share: float
    low: float | None = None
    high: float | None = None
    unbiased: Answer | None = None


def bars(
    rows: Sequence[Bar], unit: str, description: str, width: float = 360, height: float = math.inf
) -> Chart:
    """Shares as horizontal bars, one a value, within a height."""
    step = min(26.0, (height - 28) / max(1, len(rows)))
    thickness = px(0.62 * step)
    largest_share = max([0.01, *(row.share for row in rows), *(row.high or 0.0 for row in rows)])
    longest = max([0, *(len(row.name) for row in rows)])
    left_margin = px(min(max(110.0, _LETTER * longest + 14), 0.5 * width))
    right_margin = 52.0
    letters = int((left_margin - 14) / _LETTER)
    marks: list[Mark] = [Text("tick", 0, 11, unit)]

    def x(share: float) -> float:
        bar_width = max(0.0, share) / largest_share * (width - left_margin - right_margin)
        return px(left_margin + bar_width)

    for i, row in enumerate(rows):
        middle = px(24 + step * i + 2 + thickness / 2)
        lines = _name_lines(row.name, letters, 2 if step >= 2 * _LINE else 1)
        top = middle + 4 - _LINE / 2 * (len(lines) - 1)
        for number, line in enumerate(lines):
            y = px(top + _LINE * number)
            marks.append(Text("name", x=left_margin - 8, y=y, text=line, anchor="end"))
        end = x(row.share)
        top = px(middle - thickness / 2)
        marks.append(Box("bar", left_margin, top, px(end - left_margin), thickness, title=row.name))
        if row.low is not None and row.high is not None:
            marks.append(Path("whisker", f"M{x(row.low)} {middle}H{x(row.high)}"))
            end = max(end, x(row.high))
        marks.append(Text("value-ink", end + 6, middle + 4, f"{row.share:.1%}"))
    return Chart(width, 28 + step * len(rows), description, tuple(marks))


def _name_lines(name: str, letters: int, most: int) -> list[str]:
    """A name in at most so many lines of so many letters; the last line is cut if it must be."""
    lines = wrap(name, letters)[:most] or [name]
    shown = sum(map(len, lines)) + len(lines) - 1
    if shown < len(" ".join(name.split())):
        lines[-1] = lines[-1][: letters - 1] + "…"
    return lines


def wide_and_narrow(
    draw: Callable[[tuple[float, float]], Chart], height: float
) -> tuple[Chart, Chart]:
    """Draws a chart twice, for wide and for narrow screens."""
    return draw((780, height)), draw((340, max(236.0, 0.75 * height)))
