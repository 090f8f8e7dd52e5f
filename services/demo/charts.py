"""The charts of the demo's page: inline SVG with the colours and fonts of the page.

Charts are drawn without global state, and the same answers give the same bytes. Sizes are in
pixels. Colours are drawn as placeholders that become variables of the style sheet, so that one
chart serves light and dark. Needs matplotlib, the `plot` extra.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stream_dp.client import Estimate

# Placeholders: each becomes var(--role) of the style sheet.
INK, MUTED, GRID = "#010101", "#020202", "#030303"
ESTIMATE, PANEL, FIRST, SECOND = "#040404", "#050505", "#060606", "#070707"
_ROLES = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    ESTIMATE: "estimate",
    PANEL: "panel",
    FIRST: "first",
    SECOND: "second",
}
_STYLE: Any = {
    "font.size": 11,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "grid.color": GRID,
    "grid.linewidth": 1,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.major.pad": 5,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "svg.fonttype": "none",
    "svg.hashsalt": "stream-dp",
}


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True)
class Point:
    """One published answer beside the simulated truth.

    label: the period, as the page names it.
    """

    label: str
    answer: Estimate
    truth: float

    @property
    def covered(self) -> bool:
        """Whether the interval contains the truth."""
        low, high = self.answer.interval
        return low <= self.truth <= high

    @property
    def reach(self) -> float:
        """Half the width of the interval."""
        return (self.answer.interval[1] - self.answer.interval[0]) / 2


def shares(points: Sequence[Point], limits: tuple[float, float], name: str) -> str:
    """One statistic by quarter, in percent."""
    with _drawn(360, 236, left=34, right=8, top=24, bottom=24) as (figure, axes):
        where = range(len(points))
        for x, point in zip(where, points, strict=True):
            value = 100 * point.answer.value
            axes.plot([x - 0.27, x + 0.27], [100 * point.truth] * 2, color=INK, lw=1.6)
            _interval(axes, x, value, 100 * point.reach)
            _panel(axes, x + 0.27, 100 * point.answer.panel)
            axes.annotate(
                f"{value:.1f}",
                (x, min(value - 100 * point.reach, 100 * point.truth)),
                xytext=(0, -4),
                textcoords="offset points",
                color=ESTIMATE,
                ha="center",
                va="top",
            )
        axes.set_xlim(-0.55, len(points) - 0.45)
        axes.set_ylim(*limits)
        axes.set_xticks(where, [point.label for point in points])
        axes.yaxis.set_major_formatter("{x:g}")
        _unit(axes, "% of households")
        words = ", ".join(
            f"{p.label} {p.answer.value:.1%} plus or minus {p.reach:.1%}, truth {p.truth:.1%}"
            for p in points
        )
        return _svg(figure, name, f"Estimated share of households by quarter: {words}.")


def totals(
    lines: Mapping[str, Sequence[Point]],
    months: Sequence[str],
    name: str,
    size: tuple[float, float],
) -> str:
    """Households with at least b months in poverty so far; one line a threshold."""
    width, height = size
    wide = width > 600
    with _drawn(width, height, left=44, right=112 if wide else 64, top=24, bottom=24) as (
        figure,
        axes,
    ):
        ends = []
        for word, points in lines.items():
            start = len(months) - len(points)
            where = range(start, len(months))
            true = [p.truth for p in points]
            if start == len(months) - 1:  # one month alone: a dash, as no line can be drawn
                axes.plot([start - 0.25, start + 0.25], true * 2, color=INK, lw=1.4)
            axes.plot(where, true, color=INK, lw=1.4)
            for x, point in zip(where, points, strict=True):
                _panel(axes, x + 0.24, point.answer.panel)
                _interval(axes, x, point.answer.value, point.reach)
            ends.append((points[-1].answer.value, word))
        low = min(p.answer.interval[0] for points in lines.values() for p in points)
        axes.set_ylim(bottom=max(0.0, low // 500 * 500))
        axes.set_xlim(-0.5, len(months) - 0.4)
        _months(axes, months, every=1 if wide else 3)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        _unit(axes, "households")
        for value, word in ends:
            axes.annotate(
                f"{word if wide else _broken(word)}\n{value:,.0f}",
                (len(months) - 1, value),
                xytext=(24 if wide else 12, 0),
                textcoords="offset points",
                va="center",
                color=ESTIMATE,
            )
        words = ", ".join(f"{word} {value:,.0f}" for value, word in ends)
        return _svg(figure, name, f"Households with so many months in poverty at the end: {words}.")


def differences(points: Sequence[Point], months: Sequence[str], limit: float, name: str) -> str:
    """By how many households the answers of one threshold miss the simulated truth."""
    with _drawn(360, 214, left=38, right=8, top=24, bottom=24) as (figure, axes):
        start = len(months) - len(points)
        where = range(start, len(months))
        axes.axhline(0, color=INK, lw=1.4)
        for x, point in zip(where, points, strict=True):
            _panel(axes, x + 0.3, point.answer.panel - point.truth)
            _interval(axes, x, point.answer.value - point.truth, point.reach)
        axes.set_ylim(-limit, limit)
        axes.set_xlim(-0.6, len(months) - 0.4)
        _months(axes, months, every=3)
        axes.yaxis.set_major_formatter(lambda x, _: f"{x:+,.0f}".replace("-", "−") if x else "0")
        _unit(axes, "households off the truth")
        worst = max(abs(p.answer.value - p.truth) for p in points)
        return _svg(figure, name, f"The estimates miss the truth by at most {worst:,.0f}.")


def budget(
    spent: Mapping[str, Sequence[float]],
    epsilons: Sequence[str],
    *,
    months: Sequence[str],
    total: float,
    words: str,
    name: str,
    size: tuple[float, float],
) -> str:
    """rho by month, stacked by release: the month's charge in full colour on all before it.

    spent: by release, its charge in each month.
    epsilons: the epsilon spent by the end of each month.
    months: their labels.
    total: the budget's rho.
    words: the budget in words, beside its line.
    name: of the chart, a prefix of its ids.
    size: width and height in pixels.
    """
    width, height = size
    count = len(months)
    with _drawn(width, height, left=44, right=4, top=24, bottom=24) as (figure, axes):
        below = [0.0] * count
        for place, (release, charges) in enumerate(spent.items()):
            colour = (FIRST, SECOND)[place % 2]
            earlier = [sum(charges[:i]) for i in range(count)]
            axes.bar(range(count), earlier, 0.74, below, color=colour, alpha=0.28, lw=0)
            below = [a + b for a, b in zip(below, earlier, strict=True)]
            axes.bar(range(count), charges, 0.74, below, color=colour, lw=0)
            below = [a + b for a, b in zip(below, charges, strict=True)]
            axes.text(-0.4, total * (0.74 + 0.08 * place), release, color=colour, weight="bold")
        for i in range(2, count - 1, 3):
            axes.annotate(
                f"eps {epsilons[i]}",
                (i + 0.37, below[i]),
                xytext=(0, 4),
                textcoords="offset points",
                ha="right",
            )
        axes.axhline(total, color=INK, lw=1.4)
        axes.text(-0.4, total * 0.97, words, va="top")
        axes.set_xlim(-0.5, count - 0.5)
        axes.set_ylim(0, total * 1.03)
        _months(axes, months, every=1 if width > 600 else 3)
        _unit(axes, "rho (zCDP) spent so far")
        return _svg(figure, name, f"Budget spent by month, in all {words}.")


def _interval(axes: Axes, x: float, value: float, reach: float) -> None:
    axes.plot([x, x], [value - reach, value + reach], color=ESTIMATE, lw=1.8)
    axes.plot(x, value, "o", color=ESTIMATE, ms=5.5)


def _broken(word: str) -> str:
    """A threshold's words on two lines: 'at least' or 'all', and how many months."""
    start, number, unit = word.rsplit(" ", 2)
    return f"{start}\n{number} {unit}"


def _panel(axes: Axes, x: float, value: float) -> None:
    """A square for the panel's own answer, to be drawn beside the estimate, often its equal."""
    axes.plot(x, value, "s", color=PANEL, mfc="none", ms=5.5, mew=1)


def _months(axes: Axes, months: Sequence[str], every: int) -> None:
    """Ticks at every month, or at the last of every few; the first names the year."""
    shown = range(every - 1, len(months), every)
    names = [_MONTHS[int(months[i][5:7]) - 1] for i in shown]
    axes.set_xticks(shown, [f"{names[0]} {months[0][:4]}", *names[1:]])


def _unit(axes: Axes, words: str) -> None:
    """The unit of the vertical axis, written horizontally above it."""
    axes.annotate(
        words, (0, 1), (2, -10), xycoords="figure fraction", textcoords="offset points", color=MUTED
    )


@contextmanager
def _drawn(
    width: float, height: float, *, left: float, right: float, top: float, bottom: float
) -> Iterator[tuple[Figure, Axes]]:
    """A figure of that many pixels with one pair of axes inside the margins."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width / 72, height / 72))
        across, up = (width - left - right) / width, (height - top - bottom) / height
        yield figure, figure.add_axes((left / width, bottom / height, across, up))


def _svg(figure: Figure, name: str, words: str) -> str:
    """The figure as an inline element.

    name: a prefix of its ids, which makes them unique on the page.
    words: what it shows, for screen readers.
    """
    drawing = io.StringIO()
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(drawing, format="svg", transparent=True, metadata=no_metadata)
    text = drawing.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    box = re.search(r'viewBox="[^"]*"', text)
    assert box is not None
    opening = f'<svg {box[0]} role="img" aria-label="{html.escape(words)}">'
    text = re.sub(r"<svg[^>]*>", lambda _: opening, text, count=1)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    # The font is the page's; only size and weight are the chart's.
    text = re.sub(r"font-family:[^;]*; ?", "", text)
    text = re.sub(r"font: (\d+ )?([\d.]+px)[^;]*", _font, text)
    for colour, role in _ROLES.items():
        text = text.replace(colour, f"var(--{role})")
    return text.strip()


def _font(match: re.Match[str]) -> str:
    """The shorthand of a font as its size and weight."""
    return f"font-weight: {(match[1] or '400').strip()}; font-size: {match[2]}"
