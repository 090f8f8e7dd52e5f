"""Panels that a call published: their records, their answers with intervals, and their figure.

The figure has answers over periods with their intervals, printed or in a notebook.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stream_dp.answers.query import value_of_interest
from stream_dp.client import PublicLog
from stream_dp.errors import UserError, missing_extra
from stream_dp.figures.marks import (
    Dot,
    Frame,
    Mark,
    Path,
    Picture,
    Placed,
    Text,
    escaped,
    number_axis,
    period_ticks,
)
from stream_dp.notebook_html import html_facts
from stream_dp.panel import Panel
from stream_dp.privacy.zcdp import epsilon
from stream_dp.release.answer import Answer
from stream_dp.release.certificate import SEEDED_NOISE, SYSTEM_NOISE, relation_words
from stream_dp.release.published_panels import long_table
from stream_dp.study import Release, Study

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

_TOTALS = (1, 3, 6, 12)  # periods of the totals in a figure


@dataclass(frozen=True)
class FittedPanel:
    """The result of `window`, `cumulative` or `joint`: a panel for each column of answers.

    `fitted["work"]` is the panel of the column `work` alone. The methods about a panel need it
    where there are several columns.

    public: the releases, as a public log in memory, with certificates and `verify`.
    names: the columns of answers; their releases have the same names.
    reading: how the table was read, in lines, and what was declared about it.
    """

    public: PublicLog
    names: tuple[str, ...]
    reading: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> FittedPanel:
        """The panel of a column. Raises UserError."""
        if name not in self.names:
            raise UserError(f"panel: no column '{name}'; there are {', '.join(self.names)}")
        return FittedPanel(self.public, (name,), self.reading)

    def __repr__(self) -> str:
        periods = self.study.periods
        return (
            f"<FittedPanel of {', '.join(self.names)}: {periods.count} periods from"
            f" {periods.labels[0]}, rho {float(self.rho):.6g}{' SIMULATED' * self.simulated}>"
        )

    @property
    def study(self) -> Study:
        """The declaration behind the panels."""
        return self.public.study

    @property
    def rho(self) -> Fraction:
        """The cost in zCDP of the call, which all of its columns share."""
        return self.study.rho

    @property
    def epsilon(self) -> Decimal:
        """The epsilon of the cost at the declared delta."""
        return epsilon(self.study.rho, self.study.delta)

    @property
    def guarantee(self) -> str:
        """What is protected, in words."""
        return relation_words(self.study)

    @property
    def simulated(self) -> bool:
        """Whether the noise came from a seed."""
        return self.public.releases[0].certificate.noise == SEEDED_NOISE

    @property
    def panel(self) -> Panel:
        """The synthetic records. Raises UserError where there are several columns."""
        return self.public.panel(self._name)

    def long(self) -> pandas.DataFrame:
        """The synthetic records as a long table of pandas, indexed by person and period.

        A period is a date, its first day, or the number of a step, as packages for panel data
        take it. Raises UserError where there are several columns.
        """
        table = long_table(self.study.periods, self.panel)
        renamed = {"value": self._name} if "value" in table.column_names else {}
        frame: pandas.DataFrame = table.rename_columns(renamed).to_pandas()
        return frame.set_index(["row", "period"]).sort_index()

    @property
    def queries(self) -> list[str]:
        """Examples of queries. Raises UserError where there are several columns."""
        return self.public.queries(self._name)

    def estimate(
        self, query: str, period: str | int | None = None, *, count: bool = False
    ) -> Answer:
        """The answer to a query in words, like `at-least 1 of last 3 work=yes`.

        The answer has the error of the noise and a 95 % interval. It is from the noisy
        measurements, and so better than a count of the panel's records.

        period: by default the last one.
        count: whether as a number of people, not as a share.

        Raises UserError.
        """
        at = None if period is None else str(period)
        return self.public.answer(self._name, query, at, count=count)

    def estimates(self, query: str, *, count: bool = False) -> pa.Table:
        """The answers to a query at every period that has one.

        Columns period, value, standard_error, low and high. Raises UserError.
        """
        answers = self._answers(query, count=count)
        rows = {
            "period": [answer.period for answer in answers],
            "value": [answer.value for answer in answers],
            "standard_error": [answer.standard_error for answer in answers],
            "low": [answer.ends[0] for answer in answers],
            "high": [answer.ends[1] for answer in answers],
        }
        return pa.table(rows)

    def plot(
        self, *queries: str, count: bool = False, labels: bool = True, ax: Axes | None = None
    ) -> Axes:
        """Draws answers over the periods with matplotlib, with their 95 % intervals.

        queries: by default how many had the value of interest in the period, or the totals.
        count: whether as numbers of people, not as shares.
        labels: whether the lines are named, where there are several.
        ax: the axes to draw in; by default those of a new figure.

        Raises UserError, also where matplotlib, the `plot` extra, is not installed.
        """
        return self._figure(queries, count=count).drawn(ax, labels=labels)

    def _figure(self, queries: tuple[str, ...] = (), *, count: bool = False) -> PanelFigure:
        shown = queries or self._usual_queries()
        curves = [Curve(query, tuple(self._answers(query, count=count))) for query in shown]
        cost = (
            f"rho {float(self.rho):.4g}, eps {self.epsilon:.3g} at delta"
            f" {float(self.study.delta):.1g}; {self.study.neighbours}, {self.study.unit}"
        )
        return PanelFigure(curves, self.study.periods.labels, cost, self.simulated)

    def _answers(self, query: str, *, count: bool) -> list[Answer]:
        periods = self.public.periods_with(self._name, query)
        return [self.public.answer(self._name, query, p, count=count) for p in periods]

    def _usual_queries(self) -> tuple[str, ...]:
        declared = self._declared
        if declared.patterns is not None:
            return (f"{self._name}={value_of_interest(self.study, declared)}",)
        last = self.study.periods.count
        return tuple(f"total at-least {b}" for b in _TOTALS if b <= last)

    @cached_property
    def _declared(self) -> Release:
        return self.study.release(self._name)

    @property
    def _name(self) -> str:
        if len(self.names) > 1:
            raise UserError(f"panel: choose a column, such as fitted['{self.names[0]}']")
        return self.names[0]

    def _repr_html_(self) -> str:
        facts: list[tuple[str, Any]] = [
            ("columns", "; ".join(self.reading[1:])),
            ("guarantee", self.guarantee),
            ("cost", f"rho {float(self.rho):.6g}, eps {self.epsilon} at this delta"),
            ("noise", SEEDED_NOISE if self.simulated else SYSTEM_NOISE),
        ]
        fans = [self[name]._figure().html for name in self.names]
        return html_facts("Synthetic panels of people by period", facts) + "".join(fans)


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
