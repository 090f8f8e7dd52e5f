"""Figures of an evaluation, after Bun24, Figures 1-8. CONFIDENTIAL: they show true values.

Needs matplotlib, the `plot` extra, which is imported only when a figure is drawn. Figures are
drawn without global state and saved without a date: the same evaluation gives the same file.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stream_dp.errors import UserError

from .report import Evaluation, QueryErrors, ReleaseErrors, Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart with any colour vision; markers and dashes differ as well.
INK, GREY, BLUE, ORANGE, GREEN = "#222222", "#767676", "#0072B2", "#D55E00", "#009E73"
NARROW, WIDE = (BLUE, GREEN), (ORANGE, "#9F3A86")
BAND = 1.96
_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.7,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "text.parse_math": False,
    "svg.hashsalt": "stream-dp",
}


def write_panel_figures(
    result: Evaluation | Sweep, folder: Path, formats: Sequence[str] = ("svg",)
) -> list[Path]:
    """Save every figure to `folder`, made if need be, in each format ("svg", "png")."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with styled():
        for name, figure in draw_panel_figures(result).items():
            for form in formats:
                paths.append(folder / f"{name}.{form}")
                save(figure, paths[-1], form)
    return paths


def svg_texts(result: Evaluation | Sweep) -> dict[str, str]:
    """Every figure as the text of an SVG file, by name."""
    texts = {}
    with styled():
        for name, figure in draw_panel_figures(result).items():
            held = io.BytesIO()
            save(figure, held, "svg")
            texts[name] = held.getvalue().decode()
    return texts


def draw_panel_figures(result: Evaluation | Sweep) -> dict[str, Figure]:
    """Every figure that the result has data for, by name."""
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
    """Named queries every k periods: true, debiased and undebiased shares (Bun24, Figures 1-4)."""
    with styled():
        named = errors.of_kind("named", "panel")
        columns = min(2, len(named))
        figure, grid = axes_grid(-(-len(named) // columns), columns, 3.9, 2.5)
        for axes, line in zip(grid, named, strict=False):
            at = [i for i, t in enumerate(line.periods) if t % (errors.width or 1) == 0]
            at = at[:: -(-len(at) // 12)]
            where = np.arange(len(at))
            true = [100 * line.truth[i] / result.people for i in at]
            axes.hlines(true, where - 0.32, where + 0.32, color=INK, lw=1.6, label="true")
            _draw_shares(axes, where - 0.12, line, at, result.people, BLUE, "o", "panel, debiased")
            plain = errors.line(line.query, "undebiased")
            if plain is not None:
                word = "panel, undebiased"
                _draw_shares(axes, where + 0.12, plain, at, result.people, ORANGE, "s", word)
            axes.set_title(line.query)
            axes.set_ylabel("share of people, %")
            axes.set_xlim(-0.6, len(at) - 0.4)
            _ticks(axes, where, [result.periods[line.periods[i] - 1] for i in at])
        for axes in grid[len(named) :]:
            axes.set_visible(False)
        legend(figure, grid[0])
        _caption(figure, result, errors, "Bars: mean and 95% of repetitions.")
        return figure


def count_figure(result: Evaluation, errors: ReleaseErrors) -> Figure:
    """People with at least b events so far, true and released, and the error (Figures 5-8)."""
    with styled():
        least = min(3, len(result.periods))
        panel = errors.line(f"total at-least {least}", "panel")
        raw = errors.line(f"total at-least {least}", "raw")
        assert panel is not None
        assert raw is not None
        assert raw.theory is not None
        figure, (left, right) = axes_grid(1, 2, 3.9, 3.1)
        where = np.array(panel.periods)
        mean, reach = np.array(panel.mean), BAND * np.array(panel.deviation)
        left.fill_between(where, mean - reach, mean + reach, color=BLUE, alpha=0.22, lw=0)
        left.plot(where, mean, "-o", color=BLUE, label="panel, mean and 95% band")
        left.plot(where, panel.truth, "--", color=INK, label="true")
        left.set_title(f"at least {least} periods of the event so far")
        left.set_ylabel("people")
        left.yaxis.set_major_formatter("{x:,.0f}")
        left.legend(loc="lower right")
        right.plot(raw.periods, raw.theory, "--", color=INK, label="raw, theory")
        right.plot(raw.periods, raw.rmse, "^", color=GREEN, label="raw, measured")
        right.plot(where, panel.rmse, "-o", color=BLUE, label="panel")
        right.set_title("root mean square error of the same count")
        right.set_ylabel("people")
        right.set_ylim(bottom=0)
        right.legend(loc="lower right")
        for axes in (left, right):
            _ticks(axes, where, [result.periods[t - 1] for t in panel.periods])
        _caption(figure, result, errors, "Panel: sums made monotone.")
        return figure


def error_by_width(result: Evaluation, errors: ReleaseErrors) -> Figure:
    """Error through time of queries as wide as, narrower and wider than the window."""
    with styled():
        width = errors.width or 1
        lines = [x for x in errors.lines if x.answer == "panel" and x.kind != "bin"]
        all_of = [x for x in lines if x.query.startswith(f"at-least {x.width} of last {x.width} ")]
        once = [x for x in lines if x.query.startswith("at-least 1 of ") and x.width >= width]
        figure, grid = axes_grid(1, 2, 3.9, 3.4)
        first, last = width, len(result.periods)
        titles = ("all of the last w periods", "at least 1 of the last w periods")
        for axes, held, title in zip(grid, (all_of, once), titles, strict=True):
            ends = []
            for line in sorted(held, key=lambda x: x.width):
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
    """Error over all cells against each release's rho, both on logarithmic axes."""
    with styled():
        base = sweep.evaluations[0]
        columns = min(2, len(base.releases))
        figure, grid = axes_grid(-(-len(base.releases) // columns), columns, 3.9, 3.2)
        looks = {
            "raw": ("^", GREEN, "raw"),
            "panel": ("-o", BLUE, "panel"),
            "undebiased": ("-s", ORANGE, "panel, undebiased"),
        }
        for place, axes in enumerate(grid):
            axes.set_visible(place < len(base.releases))
            if place >= len(base.releases):
                continue
            held = [e.releases[place] for e in sweep.evaluations]
            found = sorted(held, key=lambda x: Fraction(x.rho))
            rhos = [float(Fraction(x.rho)) for x in found]
            axes.plot(
                rhos, [x.cells[0].theory for x in found], "--", color=INK, label="raw, theory"
            )
            for i, cells in enumerate(found[0].cells):
                style, colour, word = looks[cells.answer]
                axes.plot(rhos, [x.cells[i].rmse for x in found], style, color=colour, label=word)
            logarithmic(axes, rhos)
            axes.set_title(found[0].release)
            axes.set_xlabel("rho of the release (zCDP)")
            axes.set_ylabel("root mean square error, people")
        legend(figure, max(grid, key=lambda axes: len(axes.lines)))
        _caption(figure, base, None, "Over all cells and periods.")
        return figure


def _draw_shares(
    axes: Axes,
    where: Any,
    line: QueryErrors,
    at: Sequence[int],
    people: int,
    colour: str,
    marker: str,
    label: str,
) -> None:
    mean = [100 * line.mean[i] / people for i in at]
    reach = [100 * BAND * line.deviation[i] / people for i in at]
    axes.errorbar(where, mean, reach, fmt=marker, color=colour, elinewidth=1.6, label=label)


def _width_style(w: int, k: int) -> tuple[str, str]:
    if w == k:
        return INK, "-o"
    pair = NARROW if w < k else WIDE
    return pair[abs(w - k) % 2 == 0], "-" if w < k else "-s"


def _end_labels(axes: Axes, where: float, ends: Sequence[tuple[float, str, str]]) -> None:
    """A label at the end of each line, moved up where two would touch."""
    gap = 0.055 * axes.get_ylim()[1]
    low = -np.inf
    for height, text, colour in sorted(ends):
        low = max(height, low + gap)
        axes.annotate(text, (where, low), color=colour, va="center", fontsize=8)


def _ticks(axes: Axes, where: Any, labels: Sequence[str]) -> None:
    """At most 5 period labels, evenly spaced."""
    step = -(-len(labels) // 5)
    axes.set_xticks(where[::step], labels[::step])
    axes.set_xlabel("period")


def logarithmic(axes: Axes, rhos: Sequence[float]) -> None:
    """Both axes logarithmic, with plain numbers: the rhos below, 1, 2, 5, 10, ... at the left."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    if len(rhos) <= 6:
        axes.set_xticks(rhos, [f"{rho:g}" for rho in rhos])
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))


def _caption(figure: Figure, result: Evaluation, errors: ReleaseErrors | None, note: str) -> None:
    rho = "" if errors is None else f", {errors.release}: rho {float(Fraction(errors.rho)):g}"
    text = (
        f"CONFIDENTIAL: shows true values. {result.repetitions} repetitions with simulated noise, "
        f"{result.people:,} people{rho}, {result.neighbours}.\n{note}"
    )
    figure.supxlabel(text, fontsize=7.5, color=INK, x=0.01, ha="left")


def axes_grid(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    size = (max(width * columns, 5.5), height * rows + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    return figure, [axes for row in grid for axes in row]


def styled() -> AbstractContextManager[None]:
    try:
        import matplotlib
    except ImportError:
        raise UserError("figures need matplotlib: pip install 'stream-dp[plot]'") from None
    return matplotlib.rc_context(_STYLE)


def save(figure: Figure, target: Path | io.BytesIO, form: str) -> None:
    figure.savefig(target, format=form, dpi=150, metadata={"Date": None} if form == "svg" else None)
