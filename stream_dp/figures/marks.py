"""Marks in pixels, the frame around the marks of a chart, its axes, and pictures of charts.

An axis has round ticks of numbers, or labels of periods. A picture is a chart by itself, as SVG and
as PNG. resvg draws the PNG from the SVG, with the fonts of this package: a machine without fonts
draws the same bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from html import escape
from itertools import pairwise
from pathlib import Path as FilePath

from stream_dp.errors import missing_extra, visible

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH_STEPS = (1, 2, 3, 6, 12, 24, 60, 120)
_LETTER = 6.4  # pixels of a letter, on average
_BETWEEN = 12.0  # pixels between two labels of periods
_NARROW = 40.0  # pixels of a period below which the last label ends with its period


@dataclass(frozen=True)
class NumberAxis:
    """The vertical axis from `low` to `high`, with ticks at round numbers."""

    low: float
    high: float
    ticks: tuple[float, ...]


def number_axis(low: float, high: float) -> NumberAxis:
    """The axis over all numbers from `low` to `high`, with about five ticks.

    >>> number_axis(0.0, 10.0).ticks
    (0.0, 2.0, 4.0, 6.0, 8.0, 10.0)
    >>> number_axis(9.2, 13.9).ticks
    (9.0, 10.0, 11.0, 12.0, 13.0, 14.0)
    """
    if not high - low > 1e-9 * max(abs(low), abs(high), 1.0):
        room = max(abs(low) / 2, 1.0)
        low, high = low - room, high + room
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * min((1, 2, 5, 10), key=lambda s: abs(math.log(s * power / rough)))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(round(i * step, 12) + 0.0 for i in range(first, last + 1))
    return NumberAxis(ticks[0], ticks[-1], ticks)


def number_text(value: float, ticks: Sequence[float] = ()) -> str:
    """The text of a number on an axis: with the decimals of the ticks and a true minus sign.

    >>> number_text(1500.0), number_text(-0.5, (-0.5, 0.0, 0.5))
    ('1,500', '−0.5')
    """
    step = min((b - a for a, b in pairwise(ticks)), default=1.0)
    decimals = min(9, max(0, -math.floor(math.log10(step) + 1e-9))) if step > 0 else 0
    if max(map(abs, ticks), default=abs(value)) >= 1e9:
        return f"{value:.3g}".replace("-", "−")
    return f"{value:,.{decimals}f}".replace("-", "−")


def period_ticks(labels: Sequence[str], width: float) -> list[tuple[int, str]]:
    """The labelled periods of an axis of `width` pixels: indices and labels.

    Months have names, with the year at the first month of a year.

    >>> period_ticks([f"2021-{m:02}" for m in range(1, 13)], 300)
    [(2, 'Mar 2021'), (5, 'Jun'), (8, 'Sep'), (11, 'Dec')]
    >>> period_ticks(["1", "2", "3"], 300)
    [(0, '1'), (1, '2'), (2, '3')]
    >>> period_ticks([f"2021-10-31T{h:02}Z" for h in range(12)], 340)
    [(3, '2021-10-31T03Z'), (11, '2021-10-31T11Z')]
    """
    count = max(1, len(labels))
    period_width = width / count
    if all(re.fullmatch(r"\d+-\d\d", label) for label in labels):
        label_width = 54.0  # a month with its year, now and then
        step = next((s for s in _MONTH_STEPS if s * period_width >= label_width), 240)
        return _months(labels, step)
    letters = _LETTER * max(map(len, labels), default=1)
    step = math.ceil((letters + _BETWEEN) / period_width)
    shown = [*range(step - 1 if step <= count else 0, count, step)]
    if shown[-1:] == [count - 1] and period_width < _NARROW:
        # The last label ends with its period: it reaches further back than the others.
        room = step * period_width + period_width / 2 - 1.5 * letters
        shown = shown[:-2] + shown[-1:] if room < _BETWEEN / 2 else shown
    return [(i, labels[i]) for i in shown]


def period_words(label: str) -> str:
    """A period's label for a sentence: a month has its name.

    >>> period_words("2021-06"), period_words("2021-W05")
    ('Jun 2021', '2021-W05')
    """
    if re.fullmatch(r"\d+-\d\d", label):
        return f"{_MONTHS[(int(label[-2:]) - 1) % 12]} {label[:-3]}"
    return label


def _months(labels: Sequence[str], step: int) -> list[tuple[int, str]]:
    """Every `step`-th month by name, the first of a year with the year."""
    names, year = [], ""
    for i in range(min(step, len(labels)) - 1, len(labels), step):
        label = labels[i]
        month = _MONTHS[(int(label[-2:]) - 1) % 12]
        names.append((i, month if label[:-3] == year else f"{month} {label[:-3]}"))
        year = label[:-3]
    return names


@dataclass(frozen=True)
class Path:
    """A line or an area. d: the path in the notation of SVG. title: the text under a pointer."""

    style: str
    d: str
    title: str = ""

    @property
    def svg(self) -> str:
        return _element("path", {"class": self.style, "d": self.d}, title=self.title)


@dataclass(frozen=True)
class Dot:
    """A circle around a value. title: the text under a pointer."""

    style: str
    x: float
    y: float
    r: float
    title: str = ""

    @property
    def svg(self) -> str:
        attributes = {"class": self.style, "cx": self.x, "cy": self.y, "r": self.r}
        return _element("circle", attributes, title=self.title)


@dataclass(frozen=True)
class Box:
    """A rectangle, from its upper left corner."""

    style: str
    x: float
    y: float
    width: float
    height: float
    title: str = ""

    @property
    def svg(self) -> str:
        size = {"width": self.width, "height": self.height}
        attributes = {"class": self.style, "x": self.x, "y": self.y, **size}
        return _element("rect", attributes, title=self.title)


@dataclass(frozen=True)
class Text:
    """Words. anchor: start, middle or end."""

    style: str
    x: float
    y: float
    text: str
    anchor: str = "start"

    @property
    def svg(self) -> str:
        attributes = {"class": self.style, "x": self.x, "y": self.y}
        if self.anchor != "start":
            attributes["text-anchor"] = self.anchor
        return _element("text", attributes, self.text)


Mark = Path | Dot | Box | Text


def _element(
    name: str, attributes: Mapping[str, object], text: str = "", *, title: str = ""
) -> str:
    """An element of SVG. title: the text under a pointer."""
    start = "".join(f' {key}="{escaped(value)}"' for key, value in attributes.items())
    inside = (f"<title>{escaped(title)}</title>" if title else "") + escaped(text)
    return f"<{name}{start}>{inside}</{name}>" if inside else f"<{name}{start}/>"


_PLAIN = re.compile(r"[A-Za-z0-9 .,:%-]*")  # a text that needs no escape


def escaped(value: object) -> str:
    """A text of an element or an attribute, with control and direction marks spelled out."""
    text = str(value)
    return text if _PLAIN.fullmatch(text) else escape(visible(text))


@dataclass(frozen=True)
class Chart:
    """A drawing of `width` by `height` pixels. description: a text for screen readers."""

    width: float
    height: float
    description: str
    marks: tuple[Mark, ...]

    def __html__(self) -> str:
        """The chart as a part of a page, whose style sheet has the rules of the marks' classes."""
        marks = "\n".join(mark.svg for mark in self.marks)
        label = f'role="img" aria-label="{escaped(self.description)}"'
        return f'<svg viewBox="0 0 {self.width} {self.height}" {label}>\n{marks}\n</svg>'


@dataclass(frozen=True)
class Frame:
    """The inside of a chart between the margins, with the scales of the axes.

    count: the number of periods on the horizontal axis.
    """

    width: float
    height: float
    axis: NumberAxis
    count: int
    left: float = 44
    right: float = 10
    top: float = 26
    bottom: float = 24

    def x(self, position: float) -> float:
        """The horizontal middle of the period at a position, in pixels."""
        return px(self.left + (position + 0.5) * self.period_width)

    def y(self, value: float) -> float:
        low, high = self.axis.low, self.axis.high
        inside = min(max((value - low) / (high - low), -0.02), 1.02)
        return px(self.height - self.bottom - inside * (self.height - self.top - self.bottom))

    @cached_property
    def period_width(self) -> float:
        """The width of a period in pixels."""
        return (self.width - self.left - self.right) / max(1, self.count)

    def axes(self, periods: Sequence[tuple[int, str]], unit: str) -> Iterator[Mark]:
        """Grid lines with their numbers, the names of periods, and the unit above the axis."""
        end = self.width - self.right
        for tick in self.axis.ticks:
            y = self.y(tick)
            yield Path("grid", f"M{px(self.left)} {y}H{px(end)}")
            text = number_text(tick, self.axis.ticks)
            yield Text("tick", x=self.left - 6, y=y + 4, text=text, anchor="end")
        for position, name in periods:
            last = position == self.count - 1 and self.period_width < _NARROW
            anchor, shift = ("end", self.period_width / 2) if last else ("middle", 0.0)
            yield Text("tick", px(self.x(position) + shift), self.height - 6, name, anchor)
        yield Text("tick", 0, 11, unit)


def px(value: float) -> float:
    """A length to a tenth of a pixel."""
    return round(value, 1) + 0.0


_PIXELS_PER_UNIT = 2
_FONTS = FilePath(__file__).with_name("fonts")


@dataclass(frozen=True)
class Placed:
    """Marks, moved by x and y."""

    x: float
    y: float
    marks: Sequence[Mark]


@dataclass(frozen=True)
class Picture:
    """Marks on white. description: the sentence that reads the picture aloud."""

    title: str
    description: str
    width: float
    height: float
    parts: tuple[Placed, ...]

    def svg(self) -> str:
        """The picture as a self-contained SVG in the light colours."""
        size = f'width="{self.width}" height="{self.height}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}'
            f' viewBox="0 0 {self.width} {self.height}"'
            ' font-family="DejaVu Sans, Verdana, sans-serif" role="img">',
            f"<title>{escaped(self.title)}</title>",
            f"<desc>{escaped(self.description)}</desc>",
            f"<style>\n{_light_rules()}</style>",
            f'<rect {size} fill="#ffffff"/>',
        ]
        for placed in self.parts:
            lines.append(f'<g transform="translate({placed.x} {placed.y})">')
            lines += [mark.svg for mark in placed.marks]
            lines.append("</g>")
        return "\n".join([*lines, "</svg>", ""])

    def png(self) -> bytes:
        """The picture as PNG, two pixels per unit. Raises UserError without resvg."""
        try:
            from resvg_py import svg_to_bytes
        except ImportError:
            raise missing_extra("PNG: needs resvg", "monitor") from None
        drawn = svg_to_bytes(
            svg_string=self.svg(),
            zoom=_PIXELS_PER_UNIT,
            skip_system_fonts=True,
            font_files=[str(_FONTS / name) for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")],
        )
        return bytes(drawn)


def mark_rules() -> str:
    """The style sheet of marks: their colours, as variables, and a rule for each class."""
    return FilePath(__file__).with_name("marks.css").read_text("utf-8")


@cache
def _light_rules() -> str:
    """The rules of marks, with the light colours filled in."""
    colours, _, rules = mark_rules().partition("}\n")
    light = dict(re.findall(r"--([\w-]+): (#\w+)", colours))
    return re.sub(r"var\(--([\w-]+)\)", lambda match: light[match[1]], rules)
