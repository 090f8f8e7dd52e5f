"""Plots of errors: panels of lines and points over periods or budgets, in a picture.

Equal results give equal bytes.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path as FilePath

from stream_dp.figures.marks import (
    Box,
    Dot,
    Mark,
    NumberAxis,
    Path,
    Picture,
    Placed,
    Text,
    number_axis,
    number_text,
    px,
)

# Colours by number, distinct with any colour vision; markers and dashes differ as well.
BLUE, ORANGE, GREEN, PURPLE, INK = range(5)
_LETTER = 6.6  # pixels of a letter, on average
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 14.0, 46.0, 46.0  # around the inside of a panel
_MARGIN, _ROW = 18.0, 18.0
_MOST_TICKS = 8
_MOST_BUDGETS = 6  # that get a tick each


@dataclass(frozen=True)
class Line:
    """Points with a label in the legend.

    dashes: "solid", "dashed" or "dotted" for a line through the points; empty for none.
    marker: "dot", "box", "triangle" or "dash"; empty for none.
    reach: half the length of the bar of each point; none without bars.
    band: whether the bars are drawn as an area.
    end: a text beside the last point.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int
    dashes: str = "solid"
    marker: str = ""
    reach: Sequence[float] = ()
    band: bool = False
    end: str = ""


@dataclass(frozen=True)
class Panel:
    """A plot with axes of its own.

    unit: the text above the vertical axis.
    below: the name of the horizontal axis.
    ticks: positions on the horizontal axis, with their names.
    span: the ends of the horizontal axis.
    log_x, log_y: whether an axis is logarithmic.
    from_zero: whether the vertical axis begins at 0.
    """

    title: str
    unit: str
    lines: Sequence[Line]
    below: str
    ticks: Sequence[tuple[float, str]]
    span: tuple[float, float]
    log_x: bool = False
    log_y: bool = False
    from_zero: bool = False


def plotted(
    title: str, panels: Sequence[Panel], caption: str, *, columns: int, size: tuple[float, float]
) -> Picture:
    """A picture with a legend, panels row by row, and a caption. size: of a panel, in pixels."""
    width = max(columns * size[0], 520.0) + 2 * _MARGIN
    legend = list(_legend(panels, width - 2 * _MARGIN))
    top = _MARGIN + (max(mark.y for mark in legend if isinstance(mark, Text)) if legend else 0.0)
    pictures = [Placed(_MARGIN, _MARGIN, legend)]
    for index, panel in enumerate(panels):
        row, column = divmod(index, columns)
        marks = list(_Plot(panel, *size).marks())
        pictures.append(Placed(_MARGIN + column * size[0], px(top + 12 + row * size[1]), marks))
    y = top + 12 + -(-len(panels) // columns) * size[1]
    letters = int((width - 2 * _MARGIN) / 6)
    lines = [row for text in caption.split("\n") for row in textwrap.wrap(text, letters)]
    rows = [Text("caption", 0, 14.0 * i, text) for i, text in enumerate(lines, 1)]
    pictures.append(Placed(_MARGIN, px(y), rows))
    height = px(y + 14 * len(rows) + _MARGIN)
    return Picture(title, caption.replace("\n", " "), width, height, tuple(pictures))


def write_pictures(pictures: Mapping[str, Picture], folder: FilePath) -> list[FilePath]:
    """Writes pictures by their names to a folder, and returns the paths. Creates the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {folder / f"{name}.svg": picture for name, picture in pictures.items()}
    for path, picture in paths.items():
        path.write_text(picture.svg(), "utf-8")
    return list(paths)


def period_names(x: Sequence[float], labels: Sequence[str]) -> list[tuple[float, str]]:
    """Ticks of at most 5 periods, evenly spaced."""
    step = -(-len(labels) // 5)
    return list(zip(x[::step], labels[::step], strict=True))


def budget_names(rhos: Sequence[float]) -> list[tuple[float, str]]:
    """Ticks of a logarithmic axis of budgets: every budget if they are few, otherwise 1, 2, 5."""
    if len(rhos) > _MOST_BUDGETS:
        rhos = [n for n in _round_numbers(min(rhos), max(rhos)) if min(rhos) <= n <= max(rhos)]
    return [(rho, f"{rho:g}") for rho in rhos]


def _round_numbers(low: float, high: float) -> list[float]:
    """The numbers 1, 2, 5, 10, ... from one below `low` to one above `high`; powers if many."""
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 5), (1,)):
        numbers = [digit * 10.0**power for power in powers for digit in digits]
        first = max(i for i, n in enumerate(numbers) if n <= low * (1 + 1e-9))
        last = min((i for i, n in enumerate(numbers) if n >= high * (1 - 1e-9)), default=None)
        shown = numbers[first : None if last is None else last + 1]
        if len(shown) <= _MOST_TICKS:
            return shown
    return shown


def _legend(panels: Sequence[Panel], width: float) -> Iterator[Mark]:
    """Names every line of any panel, once."""
    by_label = {line.label: line for panel in panels for line in panel.lines if line.label}
    x, y = 0.0, 0.0
    for label, line in by_label.items():
        length = 34 + _LETTER * len(label) + 16
        if x and x + length > width:
            x, y = 0.0, y + _ROW
        yield from _sample(line, x, y)
        yield Text("name", x + 34, y + 4, label)
        x = px(x + length)


def _sample(line: Line, x: float, y: float) -> Iterator[Mark]:
    """A line's entry in the legend, from x on at the height y."""
    if line.band:
        yield Box(f"area fill-{line.colour}", x, y - 6, 28, 12)
    if line.dashes:
        yield Path(f"line line-{line.colour} {line.dashes}", f"M{x} {y}h28")
    if line.reach and not line.band:
        yield Path(f"line line-{line.colour}", f"M{x + 14} {y - 6}v12")
    if line.marker:
        yield _marker(line, x + 14, y)


def _marker(line: Line, x: float, y: float) -> Mark:
    """The mark of a point of a line."""
    fill = f"fill-{line.colour}"
    match line.marker:
        case "box":
            return Box(fill, px(x - 2.6), px(y - 2.6), 5.2, 5.2)
        case "triangle":
            left, right, foot = px(x - 3.2), px(x + 3.2), px(y + 2.6)
            return Path(fill, f"M{left} {foot}L{right} {foot}L{px(x)} {px(y - 3.4)}Z")
        case "dash":
            return Path(f"line line-{line.colour}", f"M{px(x - 9)} {px(y)}h18")
        case _:
            return Dot(fill, px(x), px(y), 2.7)


@dataclass(frozen=True)
class _Scale:
    """Numbers from `low` to `high` as pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool

    def __call__(self, number: float) -> float:
        low, high, value = self.low, self.high, number
        if self.logarithmic:
            low, high, value = math.log10(low), math.log10(high), math.log10(number)
        return px(self.start + (value - low) / (high - low) * (self.end - self.start))


@dataclass(frozen=True)
class _Plot:
    panel: Panel
    width: float
    height: float

    @property
    def _numbers(self) -> list[float]:
        """All numbers on the vertical axis, with the ends of bars."""
        lines = self.panel.lines
        numbers = [y for line in lines for y in line.y]
        for line in lines:
            pairs = list(zip(line.y, line.reach, strict=False))
            numbers += [y + sign * reach for y, reach in pairs for sign in (-1, 1)]
        return [y for y in numbers if not math.isnan(y)] or [0.0, 1.0]

    def _axis(self) -> NumberAxis:
        """The vertical axis, over all numbers of the lines."""
        low, high = min(self._numbers), max(self._numbers)
        if self.panel.log_y:
            ticks = _round_numbers(low, high)
            if len(ticks) == 1:
                ticks = [ticks[0] / 2, *ticks, ticks[0] * 2]
            return NumberAxis(min(ticks[0], low), max(ticks[-1], high), tuple(ticks))
        return number_axis(0.0 if self.panel.from_zero else low, high)

    def marks(self) -> Iterator[Mark]:
        """The panel: its title, axes and lines."""
        panel, axis = self.panel, self._axis()
        floor, end = self.height - _BOTTOM, self.width - _RIGHT
        y = _Scale(axis.low, axis.high, floor, _TOP, panel.log_y)
        x = _Scale(*self._span(), _LEFT, end, panel.log_x)
        yield Text("heading", 0, 12, panel.title)
        yield Text("tick", 0, 30, panel.unit)
        for tick in axis.ticks:
            yield Path("grid", f"M{_LEFT} {y(tick)}H{end}")
            text = f"{tick:,g}" if panel.log_y else number_text(tick, axis.ticks)
            yield Text("tick", _LEFT - 6, px(y(tick) + 4), text, "end")
        for position, name in panel.ticks:
            yield Text("tick", x(position), px(floor + 16), name, "middle")
        yield Text("tick", px((_LEFT + end) / 2), px(floor + 34), panel.below, "middle")
        for line in panel.lines:
            yield from self._line(line, x, y)
        yield from self._ends(x, y)

    def _span(self) -> tuple[float, float]:
        """The ends of the horizontal axis, with room beside the points on a logarithmic one."""
        low, high = self.panel.span
        if not self.panel.log_x:
            return low, high
        room = max((high / low) ** 0.05, 1.05)
        return low / room, high * room

    def _line(self, line: Line, x: _Scale, y: _Scale) -> Iterator[Mark]:
        """A line with its band or bars and its points; numbers that are NaN leave gaps."""
        points = list(zip(line.x, line.y, strict=True))
        if line.band:
            rows = list(zip(line.x, line.y, line.reach, strict=True))
            high = "L".join(f"{x(a)} {y(b + reach)}" for a, b, reach in rows)
            low = "L".join(f"{x(a)} {y(b - reach)}" for a, b, reach in reversed(rows))
            yield Path(f"area fill-{line.colour}", f"M{high}L{low}Z")
        elif line.reach:
            for (a, b), reach in zip(points, line.reach, strict=True):
                bar = f"M{x(a)} {y(b - reach)}V{y(b + reach)}"
                yield Path(f"line line-{line.colour}", bar)
        for missing, run in groupby(points, lambda point: math.isnan(point[1])):
            shown = list(run)
            if line.dashes and not missing and len(shown) > 1:
                joined = "M" + "L".join(f"{x(a)} {y(b)}" for a, b in shown)
                yield Path(f"line line-{line.colour} {line.dashes}", joined)
        if line.marker:
            yield from (_marker(line, x(a), y(b)) for a, b in points if not math.isnan(b))

    def _ends(self, x: _Scale, y: _Scale) -> Iterator[Mark]:
        """The texts at the ends of lines, moved up where two would touch."""
        named = [line for line in self.panel.lines if line.end]
        above = math.inf
        for line in sorted(named, key=lambda line: line.y[-1]):
            above = min(y(line.y[-1]), above - 13)
            yield Text(f"tick fill-{line.colour}", px(x(line.x[-1]) + 8), px(above + 4), line.end)
