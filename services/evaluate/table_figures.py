"""Figures of the errors of data sets, after Liu, Wu 2022, Figure 2.

CONFIDENTIAL. There is a column of panels for each class of queries, with the largest and the mean
error by budget, and a line for each method and answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import nan
from pathlib import Path

from stream_dp.figures.pictures import Picture

from .plots import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    Line,
    Panel,
    budget_names,
    plotted,
    write_pictures,
)
from .table_report import CLASSES, DATA_SET, MEASURED, MODEL, DataSetReport, Quality, averaged

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
