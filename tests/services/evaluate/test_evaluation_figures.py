"""Figures: files that are not empty, the same every time, and drawn only when asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_study import study, together, truth

from stream_dp.services.evaluate import error_figures, repeated_panels
from stream_dp.services.evaluate.panel_report import Evaluation, Sweep


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return repeated_panels.evaluate_panels(study(), truth(), 20, jobs=1, progress=False)


@pytest.fixture(scope="module")
def swept() -> Sweep:
    return repeated_panels.sweep(study(), truth(), ["1/5", 1, 5], 10, jobs=1, progress=False)


def test_every_figure_is_written(evaluation: Evaluation, swept: Sweep, tmp_path: Path) -> None:
    paths = error_figures.write_panel_figures(evaluation, tmp_path / "new")
    paths += error_figures.write_panel_figures(swept, tmp_path / "new")
    names = {path.name for path in paths}
    assert {"pairs-shares.svg", "pairs-error-by-width.svg", "totals-counts.svg"} <= names
    assert "error-by-rho.svg" in names
    assert all(path.stat().st_size > 5000 for path in paths)


def svg_texts(result: Evaluation | Sweep, folder: Path) -> dict[str, str]:
    """Every figure as the text of its SVG file, by name."""
    paths = error_figures.write_panel_figures(result, folder)
    return {path.stem: path.read_text() for path in paths}


def test_figures_repeat_and_parse_as_svg(evaluation: Evaluation, tmp_path: Path) -> None:
    first = svg_texts(evaluation, tmp_path / "first")
    assert first == svg_texts(evaluation, tmp_path / "second")
    assert all("<svg" in text for text in first.values())


def test_every_figure_says_that_it_is_confidential(evaluation: Evaluation, swept: Sweep) -> None:
    for figure in (
        error_figures.draw_panel_figures(evaluation) | error_figures.draw_panel_figures(swept)
    ).values():
        assert figure.description.startswith("CONFIDENTIAL")


@pytest.mark.parametrize(("count", "width"), [(1, 1), (3, 3), (30, 2)])
def test_short_and_long_horizons_are_drawn(count: int, width: int, tmp_path: Path) -> None:
    result = repeated_panels.evaluate_panels(
        study(300, count, width), truth(300, count), 4, jobs=1, progress=False
    )
    assert len(svg_texts(result, tmp_path)) == 3


def test_a_joint_release_has_the_figures_of_both(tmp_path: Path) -> None:
    result = repeated_panels.evaluate_panels(together(300), truth(300), 4, jobs=1, progress=False)
    drawn = svg_texts(result, tmp_path)
    assert {"both patterns-shares", "both totals-counts"} <= drawn.keys()
