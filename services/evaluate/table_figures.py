"""Figures of the errors of data sets, after Liu, Wu 2022, Figure 2.

CONFIDENTIAL. There is a column of panels for each class of queries, with the largest and the mean
error by budget, and a line for each method and answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .drawing import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    axes_grid,
    caption,
    logarithmic,
    save_all,
    styled,
)
from .table_report import CLASSES, DATA_SET, MEASURED, MODEL, DataSetReport, Quality, averaged

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, INK)
_STYLES = {DATA_SET: "-o", MODEL: "--s", MEASURED: ":^"}


def write_quality_figures(reports: Iterable[DataSetReport], folder: Path) -> list[Path]:
    """Saves the figures of releases to `folder`; creates the folder."""
    with styled():
        figures = {f"{report.release}-quality": draw_quality_figure(report) for report in reports}
        return save_all(figures, folder)


def draw_quality_figure(report: DataSetReport) -> Figure:
    """The figure of a release."""
    with styled():
        means = averaged(report.qualities)
        classes = sorted(dict.fromkeys(q.queries for q in means), key=_rank)
        figure, grid = axes_grid(2, len(classes), 3.3, 2.7)
        for index, axes in enumerate(grid):
            row, column = divmod(index, len(classes))
            title = ("largest error", "mean error")[row]
            errors = [(q, (q.greatest, q.mean)[row]) for q in means if q.queries == classes[column]]
            _panel(axes, report, errors)
            axes.set_title(f"{classes[column]}, {title}")
            if column == 0:
                axes.set_ylabel("error, percentage points")
        _legend(figure, grid)
        _caption(figure, report)
        return figure


def _rank(name: str) -> tuple[int, str]:
    """The rank of a class: classes of groups in their order, then classes of people."""
    return (CLASSES.index(name), "") if name in CLASSES else (len(CLASSES), name)


def _panel(axes: Axes, report: DataSetReport, errors: Sequence[tuple[Quality, float]]) -> None:
    """Draws lines by method and answer; for a single budget, points side by side.

    errors: of a class of queries, with their rows.
    """
    methods = list(dict.fromkeys(q.method for q in report.qualities))
    lines = list(dict.fromkeys((q.method, q.answer) for q, _ in errors))
    has_errors = any(error > 0 for _, error in errors)
    for position, (method, answer) in enumerate(lines, 1):
        points = sorted(
            (float(report.rhos[q.budget]), 100 * error)
            for q, error in errors
            if (q.method, q.answer) == (method, answer)
        )
        across = [rho for rho, _ in points] if len(report.rhos) > 1 else [float(position)]
        # An error of 0 has no height on a logarithmic axis: the line has a gap.
        heights = [nan if has_errors and height == 0 else height for _, height in points]
        colour = _COLOURS[methods.index(method) % len(_COLOURS)]
        label = f"{method}: {answer}"
        axes.plot(across, heights, _STYLES.get(answer, "-x"), color=colour, label=label)
    if has_errors:
        logarithmic(axes, sorted(map(float, report.rhos.values())))
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel("rho of the release (zCDP)")
    if len(report.rhos) == 1:
        axes.set_xscale("linear")
        axes.set_xlim(0.3, len(lines) + 0.7)
        axes.set_xticks([])
        axes.set_xlabel(next(iter(report.rhos)))


def _legend(figure: Figure, grid: Sequence[Axes]) -> None:
    """Names every line of any panel, once, above everything else."""
    handle_by_label: dict[str, Any] = {}
    for axes in grid:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handle_by_label.setdefault(label, handle)
    handles, labels = list(handle_by_label.values()), list(handle_by_label)
    figure.legend(handles, labels, loc="outside upper center", ncols=2)


def _caption(figure: Figure, report: DataSetReport) -> None:
    text = (
        f"CONFIDENTIAL: computed from true data. {report.release} ({report.kind}) at "
        f"{report.period}:\n{report.population}, repetitions with simulated noise: "
        f"{report.repetitions}."
    )
    caption(figure, text)
