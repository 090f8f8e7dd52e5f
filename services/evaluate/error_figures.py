"""Draws the figures of an evaluation. CONFIDENTIAL: they show true values.

Those of panels are after Bun et al. 2024, Figures 1 to 8. Those of data sets are after Liu, Wu
2022, Figure 2: a column of panels for each class of queries, with the largest and the mean error by
budget, and a line for each method and answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import nan
from pathlib import Path

from stream_dp.figures.marks import Picture

from .panel_report import Evaluation, QueryErrors, ReleaseErrors, Sweep
from .plots import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    Line,
    Panel,
    budget_names,
    period_names,
    plotted,
    write_pictures,
)
from .table_report import CLASSES, DATA_SET, MEASURED, MODEL, DataSetReport, Quality, averaged

# Colours of queries narrower and wider than the window, in turn.
_NARROW, _WIDE = (BLUE, GREEN), (ORANGE, PURPLE)
# Standard deviations on each side of a mean that hold 95% of a normal law.
_BAND = 1.96
_MOST_PERIODS = 12  # of a figure of shares
_RMSE = "root mean square error, people"


def write_panel_figures(result: Evaluation | Sweep, folder: Path) -> list[Path]:
    """Saves every figure to `folder`; creates the folder."""
    return write_pictures(draw_panel_figures(result), folder)


def draw_panel_figures(result: Evaluation | Sweep) -> dict[str, Picture]:
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


def share_figure(result: Evaluation, errors: ReleaseErrors) -> Picture:
    """Draws named queries every k periods: true, debiased and undebiased shares.

    After Bun et al. 2024, Figures 1 to 4.
    """
    named = errors.of_kind("named", "panel")
    return plotted(
        f"{errors.release}: shares of named queries",
        [_shares(result, errors, line) for line in named],
        _caption(result, errors, "Bars: mean and 95% of repetitions."),
        columns=min(2, len(named)),
        size=(374, 250),
    )


def _shares(result: Evaluation, errors: ReleaseErrors, query: QueryErrors) -> Panel:
    """The true share of a query at some periods, and the panel's mean with a 95% band."""
    rows = [i for i, t in enumerate(query.periods) if t % (errors.width or 1) == 0]
    rows = rows[:: -(-len(rows) // _MOST_PERIODS)]
    percent = 100 / result.people
    x = [float(i) for i in range(len(rows))]
    true = [percent * query.truth[i] for i in rows]
    lines = [Line("true", x, true, INK, dashes="", marker="dash")]
    looks = [("panel, debiased", BLUE, "dot", -0.12, query)]
    plain = errors.line(query.query, "undebiased")
    if plain is not None:
        looks.append(("panel, undebiased", ORANGE, "box", 0.12, plain))
    for label, colour, marker, shift, answer in looks:
        lines.append(
            Line(
                label,
                [position + shift for position in x],
                [percent * answer.mean[i] for i in rows],
                colour,
                dashes="",
                marker=marker,
                reach=[percent * _BAND * answer.deviation[i] for i in rows],
            )
        )
    names = period_names(x, [result.periods[query.periods[i] - 1] for i in rows])
    span = (-0.6, len(rows) - 0.4)
    return Panel(query.query, "share of people, %", lines, "period", names, span)


def count_figure(result: Evaluation, errors: ReleaseErrors) -> Picture:
    """Draws people with at least b events so far, true and released, and the error.

    After Bun et al. 2024, Figures 5 to 8.
    """
    threshold = min(3, len(result.periods))
    panel = errors.line(f"total at-least {threshold}", "panel")
    raw = errors.line(f"total at-least {threshold}", "raw")
    assert panel is not None
    assert raw is not None
    assert raw.theory is not None
    x, raw_x = list(map(float, panel.periods)), list(map(float, raw.periods))
    names = period_names(x, [result.periods[t - 1] for t in panel.periods])
    span = (x[0] - 0.5, x[-1] + 0.5)
    reach = [_BAND * deviation for deviation in panel.deviation]
    label = "panel, mean and 95% band"
    counts = [
        Line(label, x, panel.mean, BLUE, marker="dot", reach=reach, band=True),
        Line("true", x, panel.truth, INK, "dashed"),
    ]
    root_mean_squares = [
        Line("raw, theory", raw_x, raw.theory, INK, "dotted"),
        Line("raw, measured", raw_x, raw.rmse, GREEN, "", "triangle"),
        Line("panel", x, panel.rmse, BLUE, marker="dot"),
    ]
    title = f"at least {threshold} periods of the event so far"
    panels = [
        Panel(title, "people", counts, "period", names, span),
        Panel(
            "error of the same count",
            _RMSE,
            root_mean_squares,
            "period",
            names,
            span,
            from_zero=True,
        ),
    ]
    caption = _caption(result, errors, "Panel: sums made monotone.")
    return plotted(f"{errors.release}: counts", panels, caption, columns=2, size=(374, 310))


def error_by_width(result: Evaluation, errors: ReleaseErrors) -> Picture:
    """Draws the error through time of queries of the window's width, narrower and wider."""
    width = errors.width or 1
    lines = [x for x in errors.lines if x.answer == "panel" and x.kind != "bin"]
    all_of = [x for x in lines if x.query.startswith(f"at-least {x.width} of last {x.width} ")]
    once = [x for x in lines if x.query.startswith("at-least 1 of ") and x.width >= width]
    first, last = width, len(result.periods)
    names = period_names(
        [float(t) for t in range(first, last + 1)],
        [result.periods[t - 1] for t in range(first, last + 1)],
    )
    span = (first - 0.3, last + 0.22 * max(last - first, 1))
    titles = ("all of the last w periods", "at least 1 of the last w periods")
    panels = []
    for queries, title in zip((all_of, once), titles, strict=True):
        drawn = []
        for query in sorted(queries, key=lambda x: x.width):
            x, (colour, marker) = list(map(float, query.periods)), _width_look(query.width, width)
            end = f"w = {query.width}"
            drawn.append(Line("", x, query.rmse, colour, marker=marker, end=end))
            if query.theory is not None:
                drawn.append(Line("", x, query.theory, colour, "dotted"))
        panels.append(Panel(title, _RMSE, drawn, "period", names, span, from_zero=True))
    note = f"Window k = {width}. Dots: theory for w up to k; wider queries have none."
    caption = _caption(result, errors, note)
    return plotted(f"{errors.release}: error by width", panels, caption, columns=2, size=(374, 330))


def error_by_rho(sweep: Sweep) -> Picture:
    """Draws the error over all cells against each release's rho, on logarithmic axes."""
    base = sweep.evaluations[0]
    looks = {
        "raw": (GREEN, "", "triangle", "raw"),
        "panel": (BLUE, "solid", "dot", "panel"),
        "undebiased": (ORANGE, "solid", "box", "panel, undebiased"),
    }
    panels = []
    for index, release in enumerate(base.releases):
        by_rho = sorted(
            (evaluation.releases[index] for evaluation in sweep.evaluations),
            key=lambda errors: Fraction(errors.rho),
        )
        rhos = [float(Fraction(errors.rho)) for errors in by_rho]
        theory = [errors.cells[0].theory for errors in by_rho]
        lines = [Line("raw, theory", rhos, theory, INK, "dashed")]
        for i, cells in enumerate(by_rho[0].cells):
            colour, dashes, marker, label = looks[cells.answer]
            rmse = [errors.cells[i].rmse for errors in by_rho]
            lines.append(Line(label, rhos, rmse, colour, dashes, marker))
        axis_title, span = "rho of the release (zCDP)", (rhos[0], rhos[-1])
        names = budget_names(rhos)
        panels.append(
            Panel(release.release, _RMSE, lines, axis_title, names, span, log_x=True, log_y=True)
        )
    caption = _caption(base, None, "Over all cells and periods.")
    columns = min(2, len(panels))
    return plotted("error by rho", panels, caption, columns=columns, size=(374, 310))


def _width_look(w: int, k: int) -> tuple[int, str]:
    """Returns the colour and the marker of a query of width w for a window of width k."""
    if w == k:
        return INK, "dot"
    pair = _NARROW if w < k else _WIDE
    return pair[abs(w - k) % 2 == 0], "" if w < k else "box"


def _caption(result: Evaluation, errors: ReleaseErrors | None, note: str) -> str:
    rho = "" if errors is None else f", {errors.release}: rho {float(Fraction(errors.rho)):g}"
    return (
        f"CONFIDENTIAL: shows true values. {result.repetitions} repetitions with simulated noise, "
        f"{result.people:,} people{rho}, {result.neighbours}.\n{note}"
    )


_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, INK)
# By answer, the dashes and the marker.
_STYLES = {DATA_SET: ("solid", "dot"), MODEL: ("dashed", "box"), MEASURED: ("dotted", "triangle")}


def write_quality_figures(reports: Iterable[DataSetReport], folder: Path) -> list[Path]:
    """Saves the figures of releases to `folder`; creates the folder."""
    figures = {f"{report.release}-quality": draw_quality_figure(report) for report in reports}
    return write_pictures(figures, folder)


def draw_quality_figure(report: DataSetReport) -> Picture:
    """The figure of a release."""
    panels = quality_panels(report)
    caption = (
        f"CONFIDENTIAL: computed from true data. {report.release} ({report.kind}) at "
        f"{report.period}:\n{report.population}, repetitions with simulated noise: "
        f"{report.repetitions}."
    )
    title = f"{report.release}: errors of data sets"
    return plotted(title, panels, caption, columns=len(panels) // 2, size=(320, 270))


def quality_panels(report: DataSetReport) -> list[Panel]:
    """The largest errors of every class of queries, then the mean errors."""
    means = averaged(report.qualities)
    classes = sorted(dict.fromkeys(q.queries for q in means), key=_rank)
    panels = []
    for index, title in enumerate(("largest error", "mean error")):
        for name in classes:
            errors = [(q, (q.greatest, q.mean)[index]) for q in means if q.queries == name]
            panels.append(_panel(f"{name}, {title}", report, errors))
    return panels


def _rank(name: str) -> tuple[int, str]:
    """The rank of a class: classes of groups in their order, then classes of people."""
    return (CLASSES.index(name), "") if name in CLASSES else (len(CLASSES), name)


def _panel(title: str, report: DataSetReport, errors: Sequence[tuple[Quality, float]]) -> Panel:
    """Lines by method and answer; for a single budget, points side by side.

    errors: of a class of queries, with their rows.
    """
    methods = list(dict.fromkeys(q.method for q in report.qualities))
    keys = list(dict.fromkeys((q.method, q.answer) for q, _ in errors))
    has_errors, several = any(error > 0 for _, error in errors), len(report.rhos) > 1
    lines = []
    for position, (method, answer) in enumerate(keys, 1):
        points = sorted(
            (float(report.rhos[q.budget]), 100 * error)
            for q, error in errors
            if (q.method, q.answer) == (method, answer)
        )
        # An error of 0 has no height on a logarithmic axis: the line has a gap.
        heights = [nan if has_errors and height == 0 else height for _, height in points]
        across = [rho for rho, _ in points] if several else [float(position)]
        dashes, marker = _STYLES.get(answer, ("solid", "box"))
        colour = _COLOURS[methods.index(method) % len(_COLOURS)]
        lines.append(Line(f"{method}: {answer}", across, heights, colour, dashes, marker))
    rhos = sorted(map(float, report.rhos.values()))
    return Panel(
        title,
        "error, percentage points",
        lines,
        "rho of the release (zCDP)" if several else next(iter(report.rhos)),
        budget_names(rhos) if several else (),
        (rhos[0], rhos[-1]) if several else (0.3, len(keys) + 0.7),
        log_x=has_errors and several,
        log_y=has_errors,
        from_zero=True,
    )
