"""Figures of how well groups and members are answered, after Liu, Wu 2022, Figure 2. CONFIDENTIAL.

A column of panels for each class of queries, the largest and the mean error by budget, a line for
each method and answer. Needs matplotlib, the `plot` extra, which is imported only to draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import nan
from pathlib import Path
from typing import Any

from ..panels.figures import BLUE, GREEN, INK, ORANGE, WIDE, axes_grid, logarithmic, save, styled
from .report import CLASSES, MEASURED, DataSetReport, Quality, averaged

_COLOURS = (BLUE, ORANGE, GREEN, WIDE[1], INK)
_LOOKS = {"data set": "-o", "model": "--s", MEASURED: ":^"}


def write_quality_figures(
    reports: Iterable[DataSetReport], folder: Path, formats: Sequence[str] = ("svg",)
) -> list[Path]:
    """Save a figure for each release to `folder`, made if need be, in each format."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with styled():
        for report in reports:
            figure = draw_quality_figure(report)
            for form in formats:
                paths.append(folder / f"{report.release}-quality.{form}")
                save(figure, paths[-1], form)
    return paths


def draw_quality_figure(report: DataSetReport) -> Any:
    """The figure of one release."""
    with styled():
        held = averaged(report.found)
        classes = [name for name in CLASSES if any(q.queries == name for q in held)]
        figure, grid = axes_grid(2, len(classes), 3.3, 2.7)
        for place, axes in enumerate(grid):
            row, column = divmod(place, len(classes))
            measure, title = (("greatest", "largest error"), ("mean", "mean error"))[row]
            found = [q for q in held if q.queries == classes[column]]
            _panel(axes, report, found, measure)
            axes.set_title(f"{classes[column]}, {title}")
            if column == 0:
                axes.set_ylabel("error, percentage points")
        _legend(figure, grid)
        _caption(figure, report)
        return figure


def _panel(axes: Any, report: DataSetReport, found: Sequence[Quality], measure: str) -> None:
    """One line a method and answer; with a single budget, a point each, side by side."""
    methods = list(dict.fromkeys(q.method for q in report.found))
    lines = list(dict.fromkeys((q.method, q.answer) for q in found))
    some = any(getattr(q, measure) > 0 for q in found)
    for place, (method, answer) in enumerate(lines, 1):
        points = sorted(
            (float(report.rhos[q.budget]), 100 * float(getattr(q, measure)))
            for q in found
            if (q.method, q.answer) == (method, answer)
        )
        where = [rho for rho, _ in points] if len(report.rhos) > 1 else [float(place)]
        # An error of 0 has no place on a logarithmic axis: the line has a gap.
        heights = [nan if some and height == 0 else height for _, height in points]
        colour = _COLOURS[methods.index(method) % len(_COLOURS)]
        label = f"{method}: {answer}"
        axes.plot(where, heights, _LOOKS.get(answer, "-x"), color=colour, label=label)
    if some:
        logarithmic(axes, sorted(map(float, report.rhos.values())))
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel("rho of the release (zCDP)")
    if len(report.rhos) == 1:
        axes.set_xscale("linear")
        axes.set_xlim(0.3, len(lines) + 0.7)
        axes.set_xticks([])
        axes.set_xlabel(next(iter(report.rhos)))


def _legend(figure: Any, grid: Sequence[Any]) -> None:
    """Every line of any panel, once."""
    known: dict[str, Any] = {}
    for axes in grid:
        handles, labels = axes.get_legend_handles_labels()
        known |= {label: h for label, h in zip(labels, handles, strict=True) if label not in known}
    figure.legend(known.values(), known.keys(), loc="outside upper center", ncols=2)


def _caption(figure: Any, report: DataSetReport) -> None:
    text = (
        f"CONFIDENTIAL: computed from true data. {report.release} ({report.kind}) at "
        f"{report.period}:\n{report.groups:,} groups, {report.people:,} people, repetitions with "
        f"simulated noise: {report.repetitions}."
    )
    figure.supxlabel(text, fontsize=7.5, color=INK, x=0.01, ha="left")
