"""Charts as values: marks in pixels, which `templates/charts.html` writes as inline SVG.

A chart is drawn once, on the server, without scripts: the same in a page that opens offline and
in one under a strict content security policy, for colours come from classes of the style sheet,
light and dark, and no element has a style of its own. The same answers give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stream_dp.client import Estimate

from .axes import number_axis, number_text, period_ticks
from .marks import Box, Chart, Dot, Frame, Mark, Path, Text, px

_DENSE = 16  # periods from which estimates are a line in a band, not dots with bars


@dataclass(frozen=True)
class Point:
    """An answer at a place on the axis.

    label: its period, in words.
    truth: what a simulation knows beside it.
    """

    place: int
    label: str
    answer: Estimate
    truth: float | None = None

    @property
    def covered(self) -> bool:
        """Whether the interval contains the truth."""
        low, high = self.answer.interval
        return self.truth is not None and low <= self.truth <= high

    @property
    def reach(self) -> float:
        """Half the width of the interval."""
        return (self.answer.interval[1] - self.answer.interval[0]) / 2


@dataclass(frozen=True)
class Line:
    """The answers to one question, period by period."""

    title: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Look:
    """How curves are drawn.

    unit: above the vertical axis.
    scale: 100 where shares are shown as percent.
    limits: of the vertical axis, in its unit; those of the answers where None.
    values: whether each estimate is written below its interval.
    ends: whether each line is named at its end.
    off: whether the truth is taken off every answer.
    """

    unit: str
    scale: float = 1.0
    limits: tuple[float, float] | None = None
    values: bool = False
    ends: bool = False
    off: bool = False


def extent(lines: Sequence[Line], scale: float = 1.0, *, off: bool = False) -> tuple[float, float]:
    """The lowest and highest number that curves of these lines show."""
    numbers = [n for line in lines for point in line.points for n in _numbers(point, scale, off)]
    return (min(numbers), max(numbers)) if numbers else (0.0, 1.0)


def _numbers(point: Point, scale: float, off: bool) -> Iterator[float]:
    base = (point.truth or 0.0) if off else 0.0
    for number in (*point.answer.interval, point.answer.panel, point.truth):
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
    low, high = look.limits or extent(lines, look.scale, off=look.off)
    wide = width > 600
    right = (118 if wide else 74) if look.ends else 10
    frame = Frame(width, height, number_axis(low, high), len(labels), right=right)
    inner = width - frame.left - frame.right
    marks: list[Mark] = list(frame.axes(period_ticks(labels, inner), look.unit))
    if look.off:
        marks.append(Path("truth", f"M{frame.left} {frame.y(0)}H{width - right}"))
    draw = _dense if len(labels) > _DENSE else _sparse
    for line in lines:
        marks += draw(frame, line, look)
    for line in lines if look.ends else ():
        marks += _end(frame, line, look, wide=wide)
    return Chart(width, height, _words(lines, look), tuple(marks))


def _sparse(frame: Frame, line: Line, look: Look) -> Iterator[Mark]:
    """A dot and a bar for each estimate, a square beside it for the panel."""
    places = [point.place for point in line.points]
    if not look.off:
        yield from _truth(frame, line, look, joined=frame.count > 4)
    for place, point in zip(places, line.points, strict=True):
        base = (point.truth or 0.0) if look.off else 0.0
        value, panel, low, high = (
            frame.y(look.scale * (number - base))
            for number in (point.answer.value, point.answer.panel, *point.answer.interval)
        )
        x, title = frame.x(place), _title(point, look)
        beside = min(0.28 * frame.each, 24)
        yield Box(
            "panel", x=px(x + beside - 2.8), y=px(panel - 2.8), width=5.6, height=5.6, title=title
        )
        yield Path("interval", f"M{x} {low}V{high}")
        yield Dot("estimate", x=x, y=value, r=3, title=title)
        if look.values:
            text = number_text(look.scale * point.answer.value, (0.0, 0.1))
            truth = low if point.truth is None else frame.y(look.scale * point.truth)
            yield Text("value", x=x, y=px(max(low, truth) + 14), text=text, anchor="middle")


def _truth(frame: Frame, line: Line, look: Look, *, joined: bool) -> Iterator[Mark]:
    """The simulated truth: a line, or a dash at each place."""
    known = [p for p in line.points if p.truth is not None]
    heights = [frame.y(look.scale * (p.truth or 0.0)) for p in known]
    if joined and len(known) > 1:
        steps = (f"{frame.x(p.place)} {y}" for p, y in zip(known, heights, strict=True))
        yield Path("truth", "M" + "L".join(steps))
        return
    reach = min(0.27 * frame.each, 26)
    for point, y in zip(known, heights, strict=True):
        x = frame.x(point.place)
        yield Path("truth", f"M{px(x - reach)} {y}H{px(x + reach)}")


def _dense(frame: Frame, line: Line, look: Look) -> Iterator[Mark]:
    """A line in a band, and the panel as a thin one; a break where a period has no answer."""
    for run in _runs(line.points):
        ends = [[frame.y(look.scale * end) for end in p.answer.interval] for p in run]
        xs = [frame.x(p.place) for p in run]
        lows = [f"{x} {y[0]}" for x, y in zip(xs, ends, strict=True)]
        highs = [f"{x} {y[1]}" for x, y in zip(xs, ends, strict=True)]
        yield Path("band", "M" + "L".join(highs + lows[::-1]) + "Z")
        for style, of in (("panel-line", "panel"), ("estimate-line", "value")):
            heights = (frame.y(look.scale * getattr(p.answer, of)) for p in run)
            yield Path(style, "M" + "L".join(f"{x} {y}" for x, y in zip(xs, heights, strict=True)))
    yield from _truth(frame, line, look, joined=True)
    for point in line.points:
        y = frame.y(look.scale * point.answer.value)
        yield Dot("estimate", x=frame.x(point.place), y=y, r=1.8, title=_title(point, look))


def _runs(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Points of successive places."""
    run: list[Point] = []
    for point in points:
        if run and point.place != run[-1].place + 1:
            yield run
            run = []
        run.append(point)
    if run:
        yield run


def _end(frame: Frame, line: Line, look: Look, *, wide: bool) -> Iterator[Mark]:
    """The name of a line and its last value, at its end."""
    last = line.points[-1]
    x, y = frame.width - frame.right + (10 if wide else 6), frame.y(look.scale * last.answer.value)
    words = [line.title] if wide else list(_broken(line.title))
    value = number_text(look.scale * last.answer.value, (0.0, 1.0))
    for i, text in enumerate([*words, value]):
        yield Text("value", x, px(y + 4 + 13 * (i - len(words) / 2)), text)


def _broken(words: str) -> tuple[str, ...]:
    """A name on two lines: 'at least' or 'all', and how many."""
    start, _, rest = words.rpartition(" ")
    first, _, number = start.rpartition(" ")
    return (first, f"{number} {rest}") if first else (words,)


def _title(point: Point, look: Look) -> str:
    value, low, high = (
        figure(number, look) for number in (point.answer.value, *point.answer.interval)
    )
    words = f"{point.label}: {value}, 95% interval {low} to {high}; panel "
    return words + figure(point.answer.panel, look)


def figure(number: float, look: Look) -> str:
    """A number as texts beside the charts write it."""
    if look.scale == 100:
        return f"{number:.2%}"
    return f"{number:,.0f}".replace("-", "−")


def _words(lines: Sequence[Line], look: Look) -> str:
    """What curves show, in a sentence."""
    ends = []
    for line in lines:
        if look.off:
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
    words: str,
    size: tuple[float, float],
) -> Chart:
    """rho by period, stacked by release: the period's charge in full colour on all before it.

    spent: by release, its charge in each period.
    epsilons: the epsilon spent by the end of each period; empty where nothing is released.
    labels: of the periods.
    total: the budget's rho.
    words: the budget in words, beside its line.
    size: width and height in pixels.
    """
    width, height = size
    frame = Frame(width, height, number_axis(0.0, total), len(labels), left=50)
    marks: list[Mark] = list(
        frame.axes(period_ticks(labels, width - 60), "rho (zCDP) spent so far")
    )
    below = [0.0] * len(labels)
    floor = frame.y(0.0)
    for order, (release, charges) in enumerate(spent.items()):
        style, earlier = f"release-{order % 4}", 0.0
        for place, charge in enumerate(charges):
            if epsilons[place]:
                marks += _bars(frame, style, place, (below[place], earlier, charge))
                below[place] += earlier + charge
            earlier += charge
        if len(spent) <= 8:
            y = px(frame.top + 34 + 16 * order)
            marks += [
                Box(f"{style} full", x=frame.left + 8, y=y - 9, width=10, height=10),
                Text("name", frame.left + 24, y, release),
            ]
    every = max(1, math.ceil(64 / frame.each))
    for place in range(every - 1, len(labels), every):
        if epsilons[place] and frame.y(below[place]) > frame.top + 26 + 16 * len(spent):
            text = f"eps {epsilons[place]}"
            marks.append(
                Text(
                    "tick",
                    x=frame.x(place),
                    y=frame.y(below[place]) - 5,
                    text=text,
                    anchor="middle",
                )
            )
    line = frame.y(total)
    marks.append(Path("truth", f"M{frame.left} {line}H{width - frame.right}"))
    marks.append(Text("value-ink", frame.left + 8, px(line + 15), words))
    marks.append(Path("truth", f"M{frame.left} {floor}H{width - frame.right}"))
    return Chart(width, height, f"Budget spent by period; {words}.", tuple(marks))


def _bars(
    frame: Frame, style: str, place: int, stack: tuple[float, float, float]
) -> Iterator[Mark]:
    """The pale bar of earlier charges and the full one of this period's, on what is below."""
    below, earlier, charge = stack
    width = 0.74 * frame.each
    x = px(frame.x(place) - width / 2)
    for tone, start, amount in (("pale", below, earlier), ("full", below + earlier, charge)):
        if amount:
            top, bottom = frame.y(start + amount), frame.y(start)
            yield Box(f"{style} {tone}", x=x, y=top, width=px(width), height=px(bottom - top))


@dataclass(frozen=True)
class Bar:
    """A value of a column with its share of rows, and the noisy answer where one was measured."""

    name: str
    share: float
    low: float | None = None
    high: float | None = None


def bars(rows: Sequence[Bar], unit: str, words: str, width: float = 360) -> Chart:
    """Shares as horizontal bars, one a value."""
    height = 24 + 26.0 * len(rows) + 4
    most = max([0.01, *(row.share for row in rows), *(row.high or 0.0 for row in rows)])
    left, right = 110.0, 52.0
    marks: list[Mark] = [Text("tick", 0, 11, unit)]

    def x(share: float) -> float:
        return px(left + max(0.0, share) / most * (width - left - right))

    for i, row in enumerate(rows):
        y = 24 + 26.0 * i
        name = row.name if len(row.name) <= 16 else row.name[:15] + "…"
        marks.append(Text("name", x=left - 8, y=y + 14, text=name, anchor="end"))
        marks.append(
            Box("bar", x=left, y=y + 2, width=px(x(row.share) - left), height=16, title=row.name)
        )
        end = x(row.share)
        if row.low is not None and row.high is not None:
            marks.append(Path("interval", f"M{x(row.low)} {y + 10}H{x(row.high)}"))
            end = max(end, x(row.high))
        marks.append(Text("value-ink", end + 6, y + 14, f"{row.share:.1%}"))
    return Chart(width, height, words, tuple(marks))


def twice(draw: Callable[[tuple[float, float]], Chart], height: float) -> tuple[Chart, Chart]:
    """A chart for wide screens and one for narrow, where its letters would shrink."""
    return draw((780, height)), draw((340, max(236.0, 0.75 * height)))
