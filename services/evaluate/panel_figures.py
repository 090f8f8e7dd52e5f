"""Draws the figures of an evaluation, after Bun et al. 2024, Figures 1 to 8.

CONFIDENTIAL: they show true values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .drawing import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    axes_grid,
    caption,
    legend,
    logarithmic,
    save_all,
    styled,
)
from .panel_report import Evaluation, QueryErrors, ReleaseErrors, Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours of queries narrower and wider than the window, in turn.
NARROW, WIDE = (BLUE, GREEN), (ORANGE, PURPLE)
# Standard deviations on each side of a mean that hold 95% of a normal law.
BAND = 1.96


def write_panel_figures(result: Evaluation | Sweep, folder: Path) -> list[Path]:
    """Saves every figure to `folder`; creates the folder."""
    with styled():
        return save_all(draw_panel_figures(result), folder)


def draw_panel_figures(result: Evaluation | Sweep) -> dict[str, Figure]:
    """Draws every figure with data in the result. Returns the figures by name."""
    if isinstance(result, Sweep):
        return {"error-by-rho": error_by_rho(result)}
    figures = {}
    for errors in result.releases:
        if errors.kind == "window":
            figures[f"{errors.release}-shares"] = share_figure(result, errors)
            figures[f"{errors.release}-error-by-width"] = error_by_width(result, errors)
        elif errors.kind == "cumulative":
            figures[f"{errors.release}-counts"] = count_figure(result, errors)
    return figures


def share_figure(result: Evaluation, errors: ReleaseErrors) -> Figure:
    """Draws named queries every k periods: true, debiased and undebiased shares.

    After Bun et al. 2024, Figures 1 to 4.
    """
    with styled():
        named = errors.of_kind("named", "panel")
        columns = min(2, len(named))
        figure, grid = axes_grid(-(-len(named) // columns), columns, 3.9, 2.5)
        for axes, line in zip(grid, named, strict=False):
            rows = [i for i, t in enumerate(line.periods) if t % (errors.width or 1) == 0]
            rows = rows[:: -(-len(rows) // 12)]  # at most 12 of them
            x = np.arange(len(rows))
            true = [100 * line.truth[i] / result.people for i in rows]
            axes.hlines(true, x - 0.32, x + 0.32, color=INK, lw=1.6, label="true")
            looks = [(_Look("o", BLUE, "panel, debiased"), -0.12, line)]
            plain = errors.line(line.query, "undebiased")
            if plain is not None:
                looks.append((_Look("s", ORANGE, "panel, undebiased"), 0.12, plain))
            for look, shift, answer in looks:
                points = _SharePoints(x + shift, rows, result.people)
                _draw_shares(axes, points, answer, look)
            axes.set_title(line.query)
            axes.set_ylabel("share of people, %")
            axes.set_xlim(-0.6, len(rows) - 0.4)
            _ticks(axes, x, [result.periods[line.periods[i] - 1] for i in rows])
        for axes in grid[len(named) :]:
            axes.set_visible(False)
        legend(figure, grid[0])
        _caption(figure, result, errors, "Bars: mean and 95% of repetitions.")
        return figure


def count_figure(result: Evaluation, errors: ReleaseErrors) -> Figure:
    """Draws people with at least b events so far, true and released, and the error.

    After Bun et al. 2024, Figures 5 to 8.
    """
    with styled():
        threshold = min(3, len(result.periods))
        panel = errors.line(f"total at-least {threshold}", "panel")
        raw = errors.line(f"total at-least {threshold}", "raw")
        assert panel is not None
        assert raw is not None
        assert raw.theory is not None
        figure, (count_axes, error_axes) = axes_grid(1, 2, 3.9, 3.1)
        x = np.array(panel.periods)
        mean, reach = np.array(panel.mean), BAND * np.array(panel.deviation)
        count_axes.fill_between(x, mean - reach, mean + reach, color=BLUE, alpha=0.22, lw=0)
        count_axes.plot(x, mean, "-o", color=BLUE, label="panel, mean and 95% band")
        count_axes.plot(x, panel.truth, "--", color=INK, label="true")
        count_axes.set_title(f"at least {threshold} periods of the event so far")
        count_axes.set_ylabel("people")
        count_axes.yaxis.set_major_formatter("{x:,.0f}")
        count_axes.legend(loc="lower right")
        error_axes.plot(raw.periods, raw.theory, "--", color=INK, label="raw, theory")
        error_axes.plot(raw.periods, raw.rmse, "^", color=GREEN, label="raw, measured")
        error_axes.plot(x, panel.rmse, "-o", color=BLUE, label="panel")
        error_axes.set_title("root mean square error of the same count")
        error_axes.set_ylabel("people")
        error_axes.set_ylim(bottom=0)
        error_axes.legend(loc="lower right")
        for axes in (count_axes, error_axes):
            _ticks(axes, x, [result.periods[t - 1] for t in panel.periods])
        _caption(figure, result, errors, "Panel: sums made monotone.")
        return figure


def error_by_width(result: Evaluation, errors: ReleaseErrors) -> Figure:
    """Draws the error through time of queries of the window's width, narrower and wider."""
    with styled():
        width = errors.width or 1
        lines = [x for x in errors.lines if x.answer == "panel" and x.kind != "bin"]
        all_of = [x for x in lines if x.query.startswith(f"at-least {x.width} of last {x.width} ")]
        once = [x for x in lines if x.query.startswith("at-least 1 of ") and x.width >= width]
        figure, grid = axes_grid(1, 2, 3.9, 3.4)
        first, last = width, len(result.periods)
        titles = ("all of the last w periods", "at least 1 of the last w periods")
        for axes, queries, title in zip(grid, (all_of, once), titles, strict=True):
            ends = []
            for line in sorted(queries, key=lambda x: x.width):
                colour, style = _width_style(line.width, width)
                axes.plot(line.periods, line.rmse, style, color=colour)
                if line.theory is not None:
                    axes.plot(line.periods, line.theory, ":", color=colour, lw=1)
                ends.append((line.rmse[-1], f"w = {line.width}", colour))
            axes.set_title(title)
            axes.set_ylim(bottom=0)
            axes.set_xlim(first - 0.3, last + 0.22 * max(last - first, 1))
            _end_labels(axes, last + 0.03 * max(last - first, 1), ends)
            labels = [result.periods[t - 1] for t in range(first, last + 1)]
            _ticks(axes, np.arange(first, last + 1), labels)
            axes.set_ylabel("root mean square error, people")
        note = f"Window k = {width}. Dots: theory for w up to k; wider queries have none."
        _caption(figure, result, errors, note)
        return figure


def error_by_rho(sweep: Sweep) -> Figure:
    """Draws the error over all cells against each release's rho, on logarithmic axes."""
    with styled():
        base = sweep.evaluations[0]
        columns = min(2, len(base.releases))
        figure, grid = axes_grid(-(-len(base.releases) // columns), columns, 3.9, 3.2)
        looks = {
            "raw": _Look("^", GREEN, "raw"),
            "panel": _Look("-o", BLUE, "panel"),
            "undebiased": _Look("-s", ORANGE, "panel, undebiased"),
        }
        for index, axes in enumerate(grid):
            axes.set_visible(index < len(base.releases))
            if index >= len(base.releases):
                continue
            by_rho = sorted(
                (evaluation.releases[index] for evaluation in sweep.evaluations),
                key=lambda errors: Fraction(errors.rho),
            )
            rhos = [float(Fraction(errors.rho)) for errors in by_rho]
            theory = [errors.cells[0].theory for errors in by_rho]
            axes.plot(rhos, theory, "--", color=INK, label="raw, theory")
            for i, cells in enumerate(by_rho[0].cells):
                look, rmse = looks[cells.answer], [errors.cells[i].rmse for errors in by_rho]
                axes.plot(rhos, rmse, look.style, color=look.colour, label=look.label)
            logarithmic(axes, rhos)
            axes.set_title(by_rho[0].release)
            axes.set_xlabel("rho of the release (zCDP)")
            axes.set_ylabel("root mean square error, people")
        legend(figure, max(grid, key=lambda axes: len(axes.lines)))
        _caption(figure, base, None, "Over all cells and periods.")
        return figure


@dataclass(frozen=True)
class _Look:
    """The look of an answer: matplotlib's format of its marker and line, colour and label."""

    style: str
    colour: str
    label: str


@dataclass(frozen=True, eq=False)
class _SharePoints:
    """The points of shares.

    x: horizontal positions.
    rows: the indices of their periods in a `QueryErrors`.
    people: the number of people that shares refer to.
    """

    x: Any
    rows: Sequence[int]
    people: int


def _draw_shares(axes: Axes, points: _SharePoints, line: QueryErrors, look: _Look) -> None:
    """Draws mean shares with bars of 95% of the repetitions."""
    mean = [100 * line.mean[i] / points.people for i in points.rows]
    reach = [100 * BAND * line.deviation[i] / points.people for i in points.rows]
    axes.errorbar(
        points.x,
        mean,
        reach,
        fmt=look.style,
        color=look.colour,
        elinewidth=1.6,
        label=look.label,
    )


def _width_style(w: int, k: int) -> tuple[str, str]:
    """Returns the colour and the line style of a query of width w for a window of width k."""
    if w == k:
        return INK, "-o"
    pair = NARROW if w < k else WIDE
    return pair[abs(w - k) % 2 == 0], "-" if w < k else "-s"


def _end_labels(axes: Axes, x: float, ends: Sequence[tuple[float, str, str]]) -> None:
    """Puts a label at the end of each line, moved up if two would touch."""
    gap = 0.055 * axes.get_ylim()[1]
    low = -np.inf
    for height, text, colour in sorted(ends):
        low = max(height, low + gap)
        axes.annotate(text, (x, low), color=colour, va="center", fontsize=8)


def _ticks(axes: Axes, x: Any, labels: Sequence[str]) -> None:
    """Labels at most 5 periods, evenly spaced."""
    step = -(-len(labels) // 5)
    axes.set_xticks(x[::step], labels[::step])
    axes.set_xlabel("period")


def _caption(figure: Figure, result: Evaluation, errors: ReleaseErrors | None, note: str) -> None:
    rho = "" if errors is None else f", {errors.release}: rho {float(Fraction(errors.rho)):g}"
    text = (
        f"CONFIDENTIAL: shows true values. {result.repetitions} repetitions with simulated noise, "
        f"{result.people:,} people{rho}, {result.neighbours}.\n{note}"
    )
    caption(figure, text)
