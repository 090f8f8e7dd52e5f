"""Marks in pixels, and the frame around the marks of a chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from .axes import NumberAxis, number_text


@dataclass(frozen=True)
class Path:
    """A line or an area. d: the path in the notation of SVG. title: the text under a pointer."""

    style: str
    d: str
    title: str = ""
    kind: ClassVar[str] = "path"


@dataclass(frozen=True)
class Dot:
    """A circle around a value. title: the text under a pointer."""

    style: str
    x: float
    y: float
    r: float
    title: str = ""
    kind: ClassVar[str] = "dot"


@dataclass(frozen=True)
class Box:
    """A rectangle, from its upper left corner."""

    style: str
    x: float
    y: float
    width: float
    height: float
    title: str = ""
    kind: ClassVar[str] = "box"


@dataclass(frozen=True)
class Text:
    """Words. anchor: start, middle or end."""

    style: str
    x: float
    y: float
    text: str
    anchor: str = "start"
    kind: ClassVar[str] = "text"


Mark = Path | Dot | Box | Text


@dataclass(frozen=True)
class Chart:
    """A drawing of `width` by `height` pixels. description: a text for screen readers."""

    width: float
    height: float
    description: str
    marks: tuple[Mark, ...]


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

    @property
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
            last = position == self.count - 1 and self.period_width < 40
            anchor, shift = ("end", self.period_width / 2) if last else ("middle", 0.0)
            yield Text("tick", px(self.x(position) + shift), self.height - 6, name, anchor)
        yield Text("tick", 0, 11, unit)


def px(value: float) -> float:
    """A length to a tenth of a pixel."""
    return round(value, 1) + 0.0
