"""Panels that a call published: their records, their answers with intervals, and their figure.

The figure has answers over periods with their intervals, printed or in a notebook.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from stream_dp.answers.query import value_of_interest
from stream_dp.client import PublicLog
from stream_dp.errors import UserError, missing_extra
from stream_dp.figures.marks import Picture, Placed, Text, escaped
from stream_dp.notebook_html import html_facts
from stream_dp.panel import Panel
from stream_dp.privacy.zcdp import epsilon
from stream_dp.release.answer import Answer
from stream_dp.release.certificate import SEEDED_NOISE, SYSTEM_NOISE, relation_words
from stream_dp.release.published_panels import long_table
from stream_dp.study import Release, Study

from ..monitor.answers_for_people import pointwise
from ..monitor.charts import Line, Look, Point, curves, extent

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
        lines = [
            Line(query, tuple(self._points(query, count=count))).for_people(None)
            for query in queries or self._usual_queries()
        ]
        cost = (
            f"rho {float(self.rho):.4g}, eps {self.epsilon:.3g} at delta"
            f" {float(self.study.delta):.1g}; {self.study.neighbours}, {self.study.unit}"
        )
        return PanelFigure(lines, self.study.periods.labels, cost, self.simulated)

    def _points(self, query: str, *, count: bool) -> Iterator[Point]:
        for answer in self._answers(query, count=count):
            position = self.study.periods.numbers[answer.period] - 1
            yield Point(position, answer.period, answer, fan=pointwise(answer))

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
class PanelFigure:
    """Lines with what a reader has to know about them.

    labels: of all periods.
    cost: in words.
    simulated: whether the noise came from a seed.
    """

    lines: Sequence[Line]
    labels: tuple[str, ...]
    cost: str
    simulated: bool

    @property
    def title(self) -> str:
        """The query, or the base alone of several."""
        return self.lines[0].title if len(self.lines) == 1 else ""

    @property
    def look(self) -> Look:
        """The measure and its base, and how the lines are drawn."""
        answer, ends = self.lines[0].points[-1].answer, len(self.lines) > 1
        if answer.measure == "share":
            return Look(f"% of {answer.base}", 100.0, ends=ends)
        return Look(f"number of {answer.unit}", ends=ends)

    @property
    def notes(self) -> tuple[str, ...]:
        """The lines below the axes."""
        noise = f"{SIMULATED}. " if self.simulated else ""
        return (
            f"{noise}Estimates under differential privacy, from noisy measurements.",
            f"Bands: 95 % intervals of the noise. {self.cost}.",
            *(["The axis does not begin at 0."] if extent(self.lines, self.look)[0] > 0 else []),
        )

    def drawn(self, axes: Axes | None, *, labels: bool) -> Axes:
        """Draws with matplotlib. Raises UserError without it."""
        try:
            from matplotlib import pyplot
        except ImportError:
            raise missing_extra("plot: needs matplotlib", "plot") from None
        if axes is None:
            _, axes = pyplot.subplots(figsize=(6.5, 3.8), layout="constrained")
        look = self.look
        for line in self.lines:
            at = [point.position for point in line.points]
            numbers = [(point.answer.value, *point.answer.ends) for point in line.points]
            values, lows, highs = look.scale * np.transpose(numbers)
            (curve,) = axes.plot(at, values, marker="o", markersize=3, label=line.title)
            axes.fill_between(at, lows, highs, alpha=0.25, linewidth=0, color=curve.get_color())
            if len(at) == 1:
                axes.vlines(at, lows, highs, color=curve.get_color())
        step = -(-len(self.labels) // _TICKS)
        ticks = range(0, len(self.labels), step)
        axes.set_xticks(ticks, [self.labels[i] for i in ticks])
        axes.set_xlim(-0.5, len(self.labels) - 0.5)
        axes.set_ylabel(look.unit)
        axes.set_title(self.title, loc="left")
        axes.grid(axis="y", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel("\n".join(self.notes), fontsize="x-small", loc="left")
        if labels and len(self.lines) > 1:
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
        size = (_WIDTH, _HEIGHT - _TOP - _FOOT)
        chart = curves(self.lines, self.labels, self.look, size)
        title = self.title or "; ".join(line.title for line in self.lines)
        texts = [Text("title", 0, 20, title)]
        texts += [
            Text("caption", 0, _HEIGHT - 36 + 14 * i, line) for i, line in enumerate(self.notes)
        ]
        parts = (Placed(0, 0, texts), Placed(0, _TOP, chart.marks))
        return Picture(title, chart.description, _WIDTH, _HEIGHT, parts)
