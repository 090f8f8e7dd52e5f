"""Figures of the errors of releases of groups."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from stream_dp.services.evaluate import error_figures as quality_figures
from stream_dp.services.evaluate.table_report import DataSetReport, Quality


def report(budgets: tuple[str, ...] = ("1/100", "1/10", "1")) -> DataSetReport:
    rhos = {f"rho {b}": Fraction(b) for b in budgets}
    qualities = [
        Quality(
            method=method,
            budget=label,
            answer=answer,
            queries=name,
            number=9,
            greatest=0.3 / (place + 1),
            mean=0.02 / (place + 1),
        )
        for method, answer in (
            ("mwem", "data set"),
            ("mwem", "model"),
            ("mwem", "measurements"),
            ("independent", "data set"),
        )
        for place, label in enumerate(rhos)
        for name in ("groups", "people", "relations")
    ]
    return DataSetReport(
        study="s",
        release="homes",
        kind="mwem",
        period="2021-02",
        groups=60,
        people=90,
        repetitions=3,
        seed=0,
        rhos=rhos,
        qualities=tuple(qualities),
    )


@pytest.mark.parametrize("budgets", [("1/100", "1/10", "1"), ("1/10",)])
def test_a_panel_a_class_and_a_line_a_method(budgets: tuple[str, ...]) -> None:
    figure = quality_figures.draw_quality_figure(report(budgets))
    assert figure.description.startswith("CONFIDENTIAL")
    panels = quality_figures.quality_panels(report(budgets))
    assert [panel.title for panel in panels] == [
        f"{name}, {error} error"
        for error in ("largest", "mean")
        for name in ("groups", "people", "relations")
    ]
    for panel in panels:
        assert [line.label for line in panel.lines] == [
            "mwem: data set",
            "mwem: model",
            "mwem: measurements",
            "independent: data set",
        ]
        assert all(len(line.x) == len(budgets) for line in panel.lines)
    assert panels[0].lines[0].y == pytest.approx([30 / (i + 1) for i in range(len(budgets))])


def test_figures_are_the_same_again(tmp_path: Path) -> None:
    (one,) = quality_figures.write_quality_figures([report()], tmp_path / "a")
    (two,) = quality_figures.write_quality_figures([report()], tmp_path / "b")
    assert one.name == "homes-quality.svg"
    assert one.read_bytes() == two.read_bytes()


def test_an_error_of_nothing_is_drawn() -> None:
    ordinary = report()
    none = tuple(
        Quality(
            method=q.method,
            budget=q.budget,
            answer=q.answer,
            queries=q.queries,
            number=q.number,
            greatest=0.0,
            mean=0.0,
        )
        for q in ordinary.qualities
    )
    nothing = DataSetReport(**{**vars(ordinary), "qualities": none})
    assert not any(panel.log_y for panel in quality_figures.quality_panels(nothing))
    assert quality_figures.draw_quality_figure(nothing).svg().count('class="line') > 12
