"""The figure of a panel: answers over periods with their intervals, printed or in a notebook."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stream_dp.errors import missing_extra
from stream_dp.figures.marks import Dot, Frame, Mark, Path, Text, escaped, number_axis, period_ticks
from stream_dp.figures.pictures import Picture, Placed
from stream_dp.release.answer import Answer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _HEIGHT, _TOP, _FOOT = 620.0, 314.0, 34.0, 54.0
_TICKS = 8  # labels of periods, at most
SIMULATED = "SIMULATED NOISE: protects nobody"


@dataclass(frozen=True)
class Curve:
    """The answers to a query, in the order of the periods."""

    query: str
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class PanelFigure:
    """Curves with what a reader has to know about them.

    labels: of all periods.
    cost: in words.
    simulated: whether the noise came from a seed.
    """

    curves: Sequence[Curve]
    labels: tuple[str, ...]
    cost: str
    simulated: bool

    @property
    def title(self) -> str:
        """The query, or the base alone of several."""
        return self.curves[0].query if len(self.curves) == 1 else ""

    @property
    def axis_title(self) -> str:
        """The measure and its base."""
        answer = self.curves[0].answers[-1]
        return f"% of {answer.base}" if self._shares else f"number of {answer.unit}"

    @property
    def notes(self) -> tuple[str, ...]:
        """The lines below the axes."""
        noise = f"{SIMULATED}. " if self.simulated else ""
        return (
            f"{noise}Estimates under differential privacy, from noisy measurements.",
            f"Bands: 95 % intervals of the noise. {self.cost}.",
            *(["The axis does not begin at 0."] if self._lowest > 0 else []),
        )

    @property
    def _lowest(self) -> float:
        return min(low for curve in self.curves for _, _, low, _ in self._points(curve))

    @property
    def _shares(self) -> bool:
        return self.curves[0].answers[-1].measure == "share"

    def _points(self, curve: Curve) -> Iterator[tuple[int, float, float, float]]:
        """Position, estimate and ends of every answer, in the possible range; shares in percent."""
        scale, most = (100.0, 100.0) if self._shares else (1.0, math.inf)
        for answer in curve.answers:
            low, high = answer.ends
            at = self.labels.index(answer.period)
            value, low, high = (min(max(scale * n, 0.0), most) for n in (answer.value, low, high))
            yield at, value, low, high

    def drawn(self, axes: Axes | None, *, labels: bool) -> Axes:
        """Draws with matplotlib. Raises UserError without it."""
        try:
            from matplotlib import pyplot
        except ImportError:
            raise missing_extra("plot: needs matplotlib", "plot") from None
        if axes is None:
            _, axes = pyplot.subplots(figsize=(6.5, 3.8), layout="constrained")
        for curve in self.curves:
            at, values, lows, highs = zip(*self._points(curve), strict=True)
            (line,) = axes.plot(at, values, marker="o", markersize=3, label=curve.query)
            axes.fill_between(at, lows, highs, alpha=0.25, linewidth=0, color=line.get_color())
            if len(at) == 1:
                axes.vlines(at, lows, highs, color=line.get_color())
        step = -(-len(self.labels) // _TICKS)
        ticks = range(0, len(self.labels), step)
        axes.set_xticks(ticks, [self.labels[i] for i in ticks])
        axes.set_xlim(-0.5, len(self.labels) - 0.5)
        axes.set_ylabel(self.axis_title)
        axes.set_title(self.title, loc="left")
        axes.grid(axis="y", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel("\n".join(self.notes), fontsize="x-small", loc="left")
        if labels and len(self.curves) > 1:
            axes.legend(frameon=False, fontsize="small")
        return axes

    @property
    def html(self) -> str:
        """The figure as an image for a notebook."""
        picture = self.picture
        source = "data:image/svg+xml;base64," + base64.b64encode(picture.svg().encode()).decode()
        return f'<img alt="{escaped(picture.description)}" src="{source}">'

    @property
    def picture(self) -> Picture:
        """The figure as SVG."""
        last = self.curves[0].answers[-1]
        points = [list(self._points(curve)) for curve in self.curves]
        ends = [end for curve in points for _, *numbers in curve for end in numbers]
        height = _HEIGHT - _TOP - _FOOT
        frame = Frame(_WIDTH, height, number_axis(min(ends), max(ends)), len(self.labels))
        marks: list[Mark] = [*frame.axes(period_ticks(self.labels, _WIDTH - 54), self.axis_title)]
        for curve in points:
            marks += _fan(frame, curve)
        title = self.title or "; ".join(curve.query for curve in self.curves)
        texts = [Text("title", 0, 20, title)]
        texts += [
            Text("caption", 0, _HEIGHT - 36 + 14 * i, line) for i, line in enumerate(self.notes)
        ]
        reading = f"{title}: {self.axis_title} from {self.labels[0]} to {last.period}"
        parts = (Placed(0, 0, texts), Placed(0, _TOP, marks))
        return Picture(title, reading, _WIDTH, _HEIGHT, parts)


def _fan(frame: Frame, points: Sequence[tuple[int, float, float, float]]) -> Iterator[Mark]:
    """A band of intervals, and the estimates in it."""
    places = [(frame.x(at), *map(frame.y, numbers)) for at, *numbers in points]
    if len(places) > 1:
        upper = "L".join(f"{x} {high}" for x, _, _, high in places)
        lower = "L".join(f"{x} {low}" for x, _, low, _ in reversed(places))
        yield Path("band-95", f"M{upper}L{lower}Z")
        yield Path("estimate-line", "M" + "L".join(f"{x} {y}" for x, y, _, _ in places))
    for x, y, low, high in places:
        if len(places) == 1:
            yield Path("bar-95", f"M{x} {low}V{high}")
        yield Dot("estimate", x, y, 2.5)
