"""Charts of budgets, shares and curves, as values: marks in pixels, rendered to inline SVG.

A curve has estimates over periods as a line in a fan of intervals.

A chart is drawn once, on the server, without scripts, for pages that open offline and for pages
under a strict content security policy. Colours, light and dark, come from classes of the style
sheet; no element has a style attribute. Equal answers give equal bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import wrap

from stream_dp.client import Answer
from stream_dp.figures.marks import (
    Box,
    Chart,
    Dot,
    Frame,
    Mark,
    Path,
    Text,
    number_axis,
    number_text,
    period_ticks,
    px,
)

from .answers_for_people import LEVELS, FanEnds, feasible_fan, feasible_range, for_people

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


def cut(text: str, letters: int) -> str:
    """A text within so many letters; a longer one ends in an ellipsis."""
    return text if len(text) <= letters else f"{text[: letters - 1].rstrip()}…"


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


_DENSE = 16  # periods from which estimates are small dots
_LABEL = 13.0  # units of a line of text
_GAP = 5.0  # units between two labels


@dataclass(frozen=True)
class Point:
    """An answer at a position on the axis.

    position: the index of the period, from 0.
    label: the period in words.
    truth: the true value, known in a simulation alone.
    fan: the intervals of `answers_for_people.LEVELS`; empty for an answer without an interval.
    """

    position: int
    label: str
    answer: Answer
    truth: float | None = None
    fan: FanEnds = ()

    @property
    def covered(self) -> bool:
        """Whether the interval contains the truth."""
        low, high = self.answer.ends
        return self.truth is not None and low <= self.truth <= high

    @property
    def reach(self) -> float:
        """Half the width of the interval."""
        low, high = self.answer.ends
        return (high - low) / 2

    def for_people(self, size: int | None) -> Point:
        """The point with its numbers inside of the feasible range (`answers_for_people.py`)."""
        feasible = feasible_range(self.answer, size)
        fan = feasible_fan(self.fan, feasible)
        return replace(self, answer=for_people(self.answer, size), fan=fan)


@dataclass(frozen=True)
class Line:
    """The answers to one question, period by period.

    simultaneous: whether the fan contains all true answers together.
    """

    title: str
    points: tuple[Point, ...]
    simultaneous: bool = False

    def for_people(self, size: int | None) -> Line:
        """The line with its numbers inside of the feasible range."""
        return replace(self, points=tuple(point.for_people(size) for point in self.points))


@dataclass(frozen=True)
class Look:
    """How curves are drawn.

    unit: the text above the vertical axis.
    scale: 100 for shares in percent.
    limits: the ends of the vertical axis, in `unit`; None for the range of the answers.
    values: whether each estimate is written below its interval.
    ends: whether each line is named at its end.
    as_errors: whether the truth is subtracted from every answer.
    panel: whether the synthetic panel's own answers are drawn.
    """

    unit: str
    scale: float = 1.0
    limits: tuple[float, float] | None = None
    values: bool = False
    ends: bool = False
    as_errors: bool = False
    panel: bool = False


def extent(lines: Sequence[Line], look: Look) -> tuple[float, float]:
    """The lowest and the highest number on a chart of the lines."""
    numbers = [n for line in lines for point in line.points for n in _numbers(point, look)]
    return (min(numbers), max(numbers)) if numbers else (0.0, 1.0)


def _numbers(point: Point, look: Look) -> Iterator[float]:
    """Every drawn number of a point; as errors, less the truth."""
    base = (point.truth or 0.0) if look.as_errors else 0.0
    panel = point.answer.synthetic if look.panel else None
    fan = [end for ends in point.fan for end in ends]
    for number in (*point.answer.ends, point.answer.value, *fan, panel, point.truth):
        if number is not None:
            yield look.scale * (number - base)


def curves(
    lines: Sequence[Line], labels: Sequence[str], look: Look, size: tuple[float, float]
) -> Chart:
    """Estimates with their fans over periods.

    labels: of the periods of the horizontal axis.
    size: width and height in pixels.
    """
    width, height = size
    low, high = look.limits or extent(lines, look)
    wide = width > 500
    right = (118 if wide else 74) if look.ends else 10
    axis = number_axis(low, high)
    frame = Frame(width, height, axis, len(labels), right=right)
    inner = width - frame.left - frame.right
    cut = f"; axis from {number_text(axis.low, axis.ticks)}" if axis.low > 0 else ""
    bands = "; bands of 50, 80 and 95%" if wide else ""
    marks: list[Mark] = list(frame.axes(period_ticks(labels, inner), look.unit + cut + bands))
    if look.as_errors:
        marks.append(Path("truth", f"M{frame.left} {frame.y(0)}H{width - right}"))
    for line in lines:
        marks += _Curve(frame, look).marks(line)
    if look.ends:
        marks += _ends(frame, lines, look, wide=wide)
    return Chart(width, height, _description(lines, look), tuple(marks))


@dataclass(frozen=True)
class _Curve:
    """A line in a frame."""

    frame: Frame
    look: Look
    radius: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", 1.8 if self.frame.count > _DENSE else 3.0)

    def y(self, point: Point, number: float) -> float:
        base = (point.truth or 0.0) if self.look.as_errors else 0.0
        return self.frame.y(self.look.scale * (number - base))

    def marks(self, line: Line) -> Iterator[Mark]:
        """A line: its fan, the truth, the panel's answers, and the estimates on top."""
        for run in _runs(line.points):
            yield from self._fan(run)
        if not self.look.as_errors:
            yield from self._truth(line)
        for run in _runs(line.points) if self.look.panel else ():
            yield from self._panel(run)
        for run in _runs(line.points):
            if len(run) > 1:
                yield Path("estimate-line", self._joined((p, p.answer.value) for p in run))
        for point in line.points:
            x, y = self.frame.x(point.position), self.y(point, point.answer.value)
            title = _title(point, self.look)
            yield Dot("estimate", x=x, y=y, r=self.radius, title=title)
            if self.look.values:
                yield self._value(point)

    def _joined(self, numbers: Iterator[tuple[Point, float]]) -> str:
        return "M" + "L".join(f"{self.frame.x(p.position)} {self.y(p, n)}" for p, n in numbers)

    def _fan(self, run: Sequence[Point]) -> Iterator[Mark]:
        """Draws nested bands, the widest first; bars at a single period. Nothing for no fan."""
        if not all(point.fan for point in run):
            return
        for i in reversed(range(len(LEVELS))):
            style = f"{LEVELS[i]:.0%}"[:-1]
            if len(run) == 1:
                (point,) = run
                low, high = (self.y(point, end) for end in point.fan[i])
                yield Path(f"bar-{style}", f"M{self.frame.x(point.position)} {low}V{high}")
                continue
            high_ends = self._joined((p, p.fan[i][1]) for p in run)
            low_ends = self._joined((p, p.fan[i][0]) for p in reversed(run))
            yield Path(f"band-{style}", f"{high_ends}L{low_ends[1:]}Z")

    def _panel(self, run: Sequence[Point]) -> Iterator[Mark]:
        """The panel's answers as a line, with boxes for short curves."""
        answers = [(p, p.answer.synthetic) for p in run]
        counted = [(p, number) for p, number in answers if number is not None]
        if len(counted) > 1:
            yield Path("panel-line", self._joined(iter(counted)))
        if self.frame.count <= _DENSE:
            for point, number in counted:
                x, y = self.frame.x(point.position), self.y(point, number)
                title = _title(point, self.look)
                yield Box("panel", px(x - 2.8), px(y - 2.8), 5.6, 5.6, title)

    def _truth(self, line: Line) -> Iterator[Mark]:
        """Draws the simulated truth: a line, or a dash at each of few positions."""
        true_points = [(p, p.truth) for p in line.points if p.truth is not None]
        if self.frame.count > 4 and len(true_points) > 1:
            yield Path("truth", self._joined(iter(true_points)))
            return
        reach = min(0.27 * self.frame.period_width, 26)
        for point, truth in true_points:
            x, y = self.frame.x(point.position), self.y(point, truth)
            yield Path("truth", f"M{px(x - reach)} {y}H{px(x + reach)}")

    def _value(self, point: Point) -> Text:
        """The number of an estimate, below its interval."""
        numbers = [point.answer.ends[0], *([] if point.truth is None else [point.truth])]
        y = max(self.y(point, number) for number in numbers)
        text = number_text(self.look.scale * point.answer.value, (0.0, 0.1))
        x = self.frame.x(point.position)
        return Text("value", x=x, y=px(y + 14), text=text, anchor="middle")


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


def _ends(frame: Frame, lines: Sequence[Line], look: Look, *, wide: bool) -> Iterator[Mark]:
    """Draws the name and the last value of every line at the line's end, without overlaps.

    The values are left out if they do not fit.
    """
    x = frame.width - frame.right + (10 if wide else 6)
    labels = []
    for line in lines:
        value = line.points[-1].answer.value
        names = [line.title] if wide else list(_broken(line.title))
        labels.append((look.scale * value, [*names, number_text(look.scale * value, (0.0, 1.0))]))
    inner = frame.height - frame.top - frame.bottom
    if _room(labels) > inner:
        labels = [(height, texts[:-1]) for height, texts in labels]
    labels.sort(key=lambda label: -label[0])
    room = _room(labels)  # of this and of all later labels
    end = -math.inf
    for height, texts in labels:
        tall = _LABEL * len(texts)
        top = max(min(frame.y(height) - tall / 2, frame.height - room), end)
        room -= tall + _GAP
        end = top + tall + _GAP
        for i, text in enumerate(texts):
            yield Text("value", x, px(top + _LABEL * (i + 0.8)), text)


def _room(labels: Sequence[tuple[float, list[str]]]) -> float:
    """The height of labels with gaps between them."""
    return _LABEL * sum(len(texts) for _, texts in labels) + _GAP * (len(labels) - 1)


def _broken(name: str) -> tuple[str, ...]:
    """Splits a name into two lines: 'at least' or 'all', then the number."""
    start, _, noun = name.rpartition(" ")
    first, _, number = start.rpartition(" ")
    return (first, f"{number} {noun}") if first else (name,)


def _title(point: Point, look: Look) -> str:
    value, low, high = (figure(number, look) for number in (point.answer.value, *point.answer.ends))
    title = f"{point.label}: {value}{_of_whom(point)}, 95% interval {low} to {high}"
    panel = point.answer.synthetic if look.panel else None
    return title if panel is None else f"{title}; panel {figure(panel, look)}"


def _of_whom(point: Point) -> str:
    """' of respondents', of a share; empty for other measures."""
    return f" of {point.answer.base}" if point.answer.measure == "share" else ""


def figure(number: float, look: Look) -> str:
    """The text of a number outside of a chart."""
    if look.scale == 100:
        return f"{number:.2%}".replace("-", "−")
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
            low, high = (figure(end, look) for end in last.answer.ends)
            value = figure(last.answer.value, look)
            of_whom = _of_whom(last)
            ends.append(
                f"{line.title}: {value}{of_whom}, interval {low} to {high}, at {last.label}"
            )
    return "; ".join(ends) + "." if ends else "No answers yet."
