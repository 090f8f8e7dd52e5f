"""Charts as values: marks in pixels, rendered to inline SVG by `templates/charts.html`.

A chart is drawn once, on the server, without scripts, for pages that open offline and for pages
under a strict content security policy. Colours, light and dark, come from classes of the style
sheet; no element has a style attribute. Equal answers give equal bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stream_dp.client import Answer

from .axes import number_axis, number_text, period_ticks
from .marks import Box, Chart, Dot, Frame, Mark, Path, Text, px

_DENSE = 16  # periods from which estimates are a line in a band, not dots with bars


@dataclass(frozen=True)
class Point:
    """An answer at a position on the axis.

    position: the index of the period, from 0.
    label: the period in words.
    truth: the true value, known in a simulation alone.
    """

    position: int
    label: str
    answer: Answer
    truth: float | None = None

    @property
    def covered(self) -> bool:
        """Whether the interval contains the truth."""
        low, high = self.answer.ends
        return self.truth is not None and low <= self.truth <= high

    @property
    def panel(self) -> float:
        """The answer of the synthetic data; without one, the answer."""
        synthetic = self.answer.synthetic
        return self.answer.value if synthetic is None else synthetic

    @property
    def reach(self) -> float:
        """Half the width of the interval."""
        low, high = self.answer.ends
        return (high - low) / 2


@dataclass(frozen=True)
class Line:
    """The answers to one question, period by period."""

    title: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Look:
    """How curves are drawn.

    unit: the text above the vertical axis.
    scale: 100 for shares in percent.
    limits: the ends of the vertical axis, in `unit`; None for the range of the answers.
    values: whether each estimate is written below its interval.
    ends: whether each line is named at its end.
    as_errors: whether the truth is subtracted from every answer.
    """

    unit: str
    scale: float = 1.0
    limits: tuple[float, float] | None = None
    values: bool = False
    ends: bool = False
    as_errors: bool = False


def extent(
    lines: Sequence[Line], scale: float = 1.0, *, as_errors: bool = False
) -> tuple[float, float]:
    """The lowest and the highest number on a chart of the lines."""
    numbers = [
        n for line in lines for point in line.points for n in _numbers(point, scale, as_errors)
    ]
    return (min(numbers), max(numbers)) if numbers else (0.0, 1.0)


def _numbers(point: Point, scale: float, as_errors: bool) -> Iterator[float]:
    base = (point.truth or 0.0) if as_errors else 0.0
    for number in (*point.answer.ends, point.panel, point.truth):
        if number is not None:
            yield scale * (number - base)


def curves(
    lines: Sequence[Line], labels: Sequence[str], look: Look, size: tuple[float, float]
) -> Chart:
    """Estimates with their intervals over periods, the panel's answers beside them.

    labels: of the periods of the horizontal axis.
    size: width and height in pixels.
    """
    width, height = size
    low, high = look.limits or extent(lines, look.scale, as_errors=look.as_errors)
    wide = width > 600
    right = (118 if wide else 74) if look.ends else 10
    frame = Frame(width, height, number_axis(low, high), len(labels), right=right)
    inner = width - frame.left - frame.right
    marks: list[Mark] = list(frame.axes(period_ticks(labels, inner), look.unit))
    if look.as_errors:
        marks.append(Path("truth", f"M{frame.left} {frame.y(0)}H{width - right}"))
    draw = _dense if len(labels) > _DENSE else _sparse
    for line in lines:
        marks += draw(frame, line, look)
    for line in lines if look.ends else ():
        marks += _end(frame, line, look, wide=wide)
    return Chart(width, height, _description(lines, look), tuple(marks))


def _sparse(frame: Frame, line: Line, look: Look) -> Iterator[Mark]:
    """Draws a dot and a bar for each estimate, with a square for the panel."""
    positions = [point.position for point in line.points]
    if not look.as_errors:
        yield from _truth(frame, line, look, joined=frame.count > 4)
    for position, point in zip(positions, line.points, strict=True):
        base = (point.truth or 0.0) if look.as_errors else 0.0
        value, panel, low, high = (
            frame.y(look.scale * (number - base))
            for number in (point.answer.value, point.panel, *point.answer.ends)
        )
        x, title = frame.x(position), _title(point, look)
        beside = min(0.28 * frame.period_width, 24)
        yield Box("panel", px(x + beside - 2.8), px(panel - 2.8), 5.6, 5.6, title)
        yield Path("interval", f"M{x} {low}V{high}")
        yield Dot("estimate", x=x, y=value, r=3, title=title)
        if look.values:
            text = number_text(look.scale * point.answer.value, (0.0, 0.1))
            truth = low if point.truth is None else frame.y(look.scale * point.truth)
            yield Text("value", x=x, y=px(max(low, truth) + 14), text=text, anchor="middle")


def _truth(frame: Frame, line: Line, look: Look, *, joined: bool) -> Iterator[Mark]:
    """Draws the simulated truth: a line, or a dash at each position."""
    true_points = [p for p in line.points if p.truth is not None]
    heights = [frame.y(look.scale * (p.truth or 0.0)) for p in true_points]
    if joined and len(true_points) > 1:
        steps = (f"{frame.x(p.position)} {y}" for p, y in zip(true_points, heights, strict=True))
        yield Path("truth", "M" + "L".join(steps))
        return
    reach = min(0.27 * frame.period_width, 26)
    for point, y in zip(true_points, heights, strict=True):
        x = frame.x(point.position)
        yield Path("truth", f"M{px(x - reach)} {y}H{px(x + reach)}")


def _dense(frame: Frame, line: Line, look: Look) -> Iterator[Mark]:
    """Draws a line in a band, with a thin line for the panel; breaks at periods without answer."""
    for run in _runs(line.points):
        ends = [[frame.y(look.scale * end) for end in p.answer.ends] for p in run]
        xs = [frame.x(p.position) for p in run]
        lows = [f"{x} {y[0]}" for x, y in zip(xs, ends, strict=True)]
        highs = [f"{x} {y[1]}" for x, y in zip(xs, ends, strict=True)]
        yield Path("band", "M" + "L".join(highs + lows[::-1]) + "Z")
        panel, estimate = [p.panel for p in run], [p.answer.value for p in run]
        for style, numbers in (("panel-line", panel), ("estimate-line", estimate)):
            heights = (frame.y(look.scale * number) for number in numbers)
            yield Path(style, "M" + "L".join(f"{x} {y}" for x, y in zip(xs, heights, strict=True)))
    yield from _truth(frame, line, look, joined=True)
    for point in line.points:
        y = frame.y(look.scale * point.answer.value)
        yield Dot("estimate", x=frame.x(point.position), y=y, r=1.8, title=_title(point, look))


def _runs(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Splits points into runs of successive positions."""
    run: list[Point] = []
    for point in points:
        if run and point.position != run[-1].position + 1:
            yield run
            run = []
        run.append(point)
    if run:
        yield run


def _end(frame: Frame, line: Line, look: Look, *, wide: bool) -> Iterator[Mark]:
    """Draws the name and the last value of a line at the line's end."""
    last = line.points[-1]
    x, y = frame.width - frame.right + (10 if wide else 6), frame.y(look.scale * last.answer.value)
    name_lines = [line.title] if wide else list(_broken(line.title))
    value = number_text(look.scale * last.answer.value, (0.0, 1.0))
    for i, text in enumerate([*name_lines, value]):
        yield Text("value", x, px(y + 4 + 13 * (i - len(name_lines) / 2)), text)


def _broken(name: str) -> tuple[str, ...]:
    """Splits a name into two lines: 'at least' or 'all', then the number."""
    start, _, noun = name.rpartition(" ")
    first, _, number = start.rpartition(" ")
    return (first, f"{number} {noun}") if first else (name,)


def _title(point: Point, look: Look) -> str:
    value, low, high = (figure(number, look) for number in (point.answer.value, *point.answer.ends))
    interval_text = f"{point.label}: {value}, 95% interval {low} to {high}; panel "
    return interval_text + figure(point.panel, look)


def figure(number: float, look: Look) -> str:
    """The text of a number outside of a chart."""
    if look.scale == 100:
        return f"{number:.2%}"
    return f"{number:,.0f}".replace("-", "−")


def _description(lines: Sequence[Line], look: Look) -> str:
    """Describes the curves in a sentence, for screen readers."""
    ends = []
    for line in lines:
        if look.as_errors:
            worst = max((abs(p.answer.value - (p.truth or 0)) for p in line.points), default=0)
            ends.append(f"{line.title}: the estimates miss the truth by at most {worst:,.0f}")
        elif line.points:
            last = line.points[-1]
            reach = figure(last.reach, look)
            value = figure(last.answer.value, look)
            ends.append(f"{line.title}: {value} plus or minus {reach} at {last.label}")
    return "; ".join(ends) + ". The numbers are in a table below." if ends else "No answers yet."


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
                marks += _bars(frame, style, index, (stacked[index], earlier, charge))
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
    frame: Frame, style: str, index: int, stack: tuple[float, float, float]
) -> Iterator[Mark]:
    """Draws the pale bar of earlier charges and the full bar of the period's charge, stacked."""
    stacked, earlier, charge = stack
    width = 0.74 * frame.period_width
    x = px(frame.x(index) - width / 2)
    for tone, start, amount in (("pale", stacked, earlier), ("full", stacked + earlier, charge)):
        if amount:
            top, bottom = frame.y(start + amount), frame.y(start)
            yield Box(f"{style} {tone}", x=x, y=top, width=px(width), height=px(bottom - top))


@dataclass(frozen=True)
class Bar:
    """A value of a column with the share of rows, and the interval of a measured answer."""

    name: str
    share: float
    low: float | None = None
    high: float | None = None


def bars(rows: Sequence[Bar], unit: str, description: str, width: float = 360) -> Chart:
    """Shares as horizontal bars, one a value."""
    height = 24 + 26.0 * len(rows) + 4
    largest_share = max([0.01, *(row.share for row in rows), *(row.high or 0.0 for row in rows)])
    left_margin, right_margin = 110.0, 52.0
    marks: list[Mark] = [Text("tick", 0, 11, unit)]

    def x(share: float) -> float:
        bar_width = max(0.0, share) / largest_share * (width - left_margin - right_margin)
        return px(left_margin + bar_width)

    for i, row in enumerate(rows):
        y = 24 + 26.0 * i
        name = row.name if len(row.name) <= 16 else row.name[:15] + "…"
        marks.append(Text("name", x=left_margin - 8, y=y + 14, text=name, anchor="end"))
        end = x(row.share)
        marks.append(Box("bar", left_margin, y + 2, px(end - left_margin), 16, title=row.name))
        if row.low is not None and row.high is not None:
            marks.append(Path("interval", f"M{x(row.low)} {y + 10}H{x(row.high)}"))
            end = max(end, x(row.high))
        marks.append(Text("value-ink", end + 6, y + 14, f"{row.share:.1%}"))
    return Chart(width, height, description, tuple(marks))


def wide_and_narrow(
    draw: Callable[[tuple[float, float]], Chart], height: float
) -> tuple[Chart, Chart]:
    """Draws a chart twice, for wide and for narrow screens."""
    return draw((780, height)), draw((340, max(236.0, 0.75 * height)))
