"""Figures of the errors of releases of groups."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from stream_dp.services.evaluate import table_figures as quality_figures
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
    assert figure.get_supxlabel().startswith("CONFIDENTIAL")
    panels = figure.get_axes()
    assert [axes.get_title(loc="left") for axes in panels] == [
        f"{name}, {error} error"
        for error in ("largest", "mean")
        for name in ("groups", "people", "relations")
    ]
    for axes in panels:
        assert [line.get_label() for line in axes.lines] == [
            "mwem: data set",
            "mwem: model",
            "mwem: measurements",
            "independent: data set",
        ]
        assert all(len(line.get_xdata()) == len(budgets) for line in axes.lines)
    first = panels[0].lines[0].get_ydata()
    assert first == pytest.approx([30 / (i + 1) for i in range(len(budgets))])


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
    figure = quality_figures.draw_quality_figure(
        DataSetReport(**{**vars(ordinary), "qualities": none})
    )
    assert {axes.get_yscale() for axes in figure.get_axes()} == {"linear"}
