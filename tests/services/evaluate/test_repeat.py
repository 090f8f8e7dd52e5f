"""Repeated mechanisms: errors follow theory, a wrong variance shows, results repeat exactly."""

from __future__ import annotations

import json
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from small_study import PAPER, coming_and_going, study, together, truth

from stream_dp.answers.query import WindowQuery, parse_query
from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.mechanisms import mechanism
from stream_dp.continual.window.window import FixedWindow
from stream_dp.errors import UserError
from stream_dp.panel import Panel
from stream_dp.privacy.noise import SeededNoise
from stream_dp.services.evaluate.panel_report import (
    Evaluation,
    disagreements,
    evaluation_text,
    sweep_text,
)
from stream_dp.services.evaluate.repeated_panels import evaluate_panels, sweep, trial_plan

REPETITIONS = 80


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    """The best forms, and the paper's window beside them."""
    return evaluate_panels(study(), truth(), REPETITIONS, seed=5, jobs=1, progress=False)


@pytest.fixture(scope="module")
def paper() -> Evaluation:
    return evaluate_panels(study(**PAPER), truth(), REPETITIONS, seed=5, jobs=1, progress=False)


@pytest.fixture(scope="module")
def open_() -> Evaluation:
    return evaluate_panels(*coming_and_going(), REPETITIONS, seed=5, jobs=1, progress=False)


@pytest.mark.parametrize("name", ["evaluation", "paper", "open_"])
def test_raw_answers_have_the_theory_s_error(name: str, request: pytest.FixtureRequest) -> None:
    evaluation: Evaluation = request.getfixturevalue(name)
    assert disagreements(evaluation) == []
    for errors in evaluation.releases:
        raw = errors.cells[0]
        assert raw.answer == "raw"
        assert raw.rmse / raw.theory == pytest.approx(1, abs=0.05)
        for line in errors.lines:
            if line.answer == "raw":
                assert line.ratio is not None
                spread = 5 / math.sqrt(2 * REPETITIONS)
                assert np.allclose(line.ratio, 1, atol=spread), line.query


def test_theory_is_the_declared_noise(evaluation: Evaluation, paper: Evaluation) -> None:
    window, total = (mechanism(study(**PAPER), release) for release in study(**PAPER).releases)
    best = mechanism(study(), study().releases[0])
    assert isinstance(window, FixedWindow)
    assert isinstance(best, FixedWindow)
    assert isinstance(total, Cumulative)
    assert best.strategy == "residuals"
    for code in range(4):
        bin_ = evaluation.releases[0].line(best.query(code), "raw")
        assert bin_ is not None
        assert bin_.theory == pytest.approx(
            [math.sqrt(best.bin_variances(t)[code]) for t in range(2, 7)]
        )
    once = paper.releases[0].line("at-least 1 of last 2 poor=1", "raw")
    narrow = paper.releases[0].line("at-least 1 of last 1 poor=1", "raw")
    assert once is not None
    assert narrow is not None
    assert once.theory == pytest.approx([math.sqrt(3 * window.scale)] * 5)
    assert narrow.theory == pytest.approx([math.sqrt(2 * window.scale)] * 5)
    line = evaluation.releases[1].line("total at-least 2", "raw")
    assert line is not None
    assert line.periods == (2, 3, 4, 5, 6)
    assert line.theory == pytest.approx([math.sqrt(total.variance(2, t)) for t in range(2, 7)])


@pytest.mark.parametrize(("kind", "factor"), [(FixedWindow, "1.15"), (Cumulative, "1.7")])
def test_a_wrong_variance_is_noticed(
    monkeypatch: pytest.MonkeyPatch, kind: Any, factor: str
) -> None:
    honest = kind.demand

    def with_more_noise(self: Any, t: int) -> Any:
        return tuple((variance * Fraction(factor), size) for variance, size in honest(self, t))

    monkeypatch.setattr(kind, "demand", with_more_noise)
    wrong = evaluate_panels(study(**PAPER), truth(), 150, jobs=1, progress=False)
    name = "pairs" if kind is FixedWindow else "totals"
    faults = disagreements(wrong)
    assert faults
    assert all(fault.startswith(name) for fault in faults)
    assert "DISAGREE" in evaluation_text(wrong)


def test_a_bias_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = SeededNoise.draw

    def shifted(self: SeededNoise, demand: Any) -> Any:
        honest = draw(self, demand)
        return type(honest)(tuple(noise + 12 for noise in honest.noise), honest.coins)

    monkeypatch.setattr(SeededNoise, "draw", shifted)
    wrong = evaluate_panels(study(), truth(), REPETITIONS, jobs=1, progress=False)
    assert any("biased" in fault for fault in disagreements(wrong))


def test_a_padded_panel_is_as_good_as_the_raw_answers_up_to_its_width(paper: Evaluation) -> None:
    for line in paper.releases[0].lines:
        if line.answer == "panel" and line.kind != "wider":
            assert line.ratio is not None
            assert np.mean(line.ratio) == pytest.approx(1, abs=0.12), line.query


def test_a_panel_without_padding_is_about_as_good_as_the_raw_answers(
    evaluation: Evaluation,
) -> None:
    window = evaluation.releases[0]
    raw, panel = window.cells
    assert panel.answer == "panel"
    assert panel.rmse < 1.02 * raw.rmse
    assert window.padding == 0


def test_one_panel_answers_both_classes() -> None:
    declared = together(600)
    only = declared.model_copy(update={"releases": declared.releases[2:]})
    evaluation = evaluate_panels(only, truth(600), 50, seed=5, jobs=1, progress=False)
    patterns, totals = evaluation.releases
    assert (patterns.release, totals.release) == ("both patterns", "both totals")
    assert patterns.width == 2
    assert disagreements(evaluation) == []
    for errors in (patterns, totals):
        raw, panel = errors.cells
        assert raw.rmse / raw.theory == pytest.approx(1, abs=0.1)
        assert panel.rmse < 1.2 * raw.rmse
    # The panel begins at t = 2, and says then what there was at t = 1.
    raw_line, panel_line = (totals.line("total at-least 1", a) for a in ("raw", "panel"))
    assert raw_line is not None
    assert panel_line is not None
    assert raw_line.periods == (2, 3, 4, 5, 6)
    assert panel_line.periods == (1, 2, 3, 4, 5, 6)
    assert [cells.number for cells in totals.cells] == [20, 21]


def test_those_who_are_absent_throughout_are_not_judged(open_: Evaluation) -> None:
    """Nine patterns, one of them of absences alone; shares are of those present."""
    declared, people = coming_and_going()
    window = open_.releases[0]
    bins = window.of_kind("bin", "raw")
    assert len(bins) == 8
    assert not any("absent absent" in line.query for line in window.lines)
    assert all(cells.number == 8 * 5 for cells in window.cells)
    symbols = people["poor"]
    for line in bins:
        codes = [2 if w == "absent" else int(w) for w in line.query.split()[1:]]
        true = [(symbols[:, t - 2 : t] == codes).all(axis=1).sum() for t in range(2, 7)]
        assert list(line.truth) == true
    raw, panel, share = (
        np.array([x.bias for x in window.of_kind("named", a)])
        for a in ("raw", "panel", "undebiased")
    )
    assert raw.shape == panel.shape == share.shape
    assert np.abs(panel).max() < 60
    assert np.abs(share).max() < 60
    assert declared.releases[0].rows == 700


def test_wider_queries_have_larger_errors(paper: Evaluation) -> None:
    window = paper.releases[0]
    alike = window.line("at-least 2 of last 2 poor=1", "panel")
    wider = window.line("at-least 4 of last 4 poor=1", "panel")
    assert alike is not None
    assert wider is not None
    assert wider.theory is None
    assert wider.periods == (4, 5, 6)
    assert min(wider.rmse) > 1.5 * max(alike.rmse)
    assert window.line("at-least 4 of last 4 poor=1", "raw") is None


def test_padding_biases_the_plain_share(paper: Evaluation) -> None:
    name = "at-least 2 of last 2 poor=1"
    lines = {a: paper.releases[0].line(name, a) for a in ("panel", "undebiased")}
    assert lines["panel"] is not None
    assert lines["undebiased"] is not None
    assert abs(np.mean(lines["panel"].bias)) < 5
    padding, true = paper.releases[0].padding, np.array(lines["undebiased"].truth)
    assert padding is not None
    expected = 2000 * (true + padding) / (2000 + 4 * padding) - true
    assert (np.abs(expected) > 30).all()
    assert np.allclose(lines["undebiased"].bias, expected, rtol=0.1)


def test_monotone_sums_never_raise_the_largest_error() -> None:
    declared, panel = study(), truth()["poor"]
    plan = trial_plan(declared, declared.releases[1], panel)
    for seed in range(100):
        (trial,) = plan.run(seed)
        raw, released = trial.cell_worst[0]
        assert released <= raw + 0.5  # the panel's are rounded


def test_true_counts_are_those_of_the_definitions() -> None:
    declared, panel = study(), truth()["poor"]
    window, total = (trial_plan(declared, release, panel) for release in declared.releases)
    for t in range(2, 7):
        codes = 2 * panel[:, t - 2].astype(int) + panel[:, t - 1]
        assert window.counts[t - 1].tolist() == [int((codes == c).sum()) for c in range(4)]
    totals = panel.cumsum(axis=1)
    for t in range(1, 7):
        now, event = totals[:, t - 1], panel[:, t - 1] == 1
        wanted = [int(((now == b) & event).sum()) for b in range(1, 7)]
        assert total.counts[t - 1].tolist() == [*wanted, 2000 if t == 1 else 0]


def test_panel_answers_are_those_of_the_released_panel() -> None:
    declared, people = study(count=5, **PAPER), truth(count=5)["poor"]
    window = mechanism(declared, declared.releases[0])
    assert isinstance(window, FixedWindow)
    plan = trial_plan(declared, declared.releases[0], people)
    (judge,) = plan.judges
    answers = plan.run(42)[0].total + judge.truth
    state, source = window.init(), SeededNoise(42)
    panel = Panel(np.zeros((0, 0), np.uint8), (), window.values)
    for t, label in enumerate(declared.periods.labels, 1):
        state, step = window.step(state, plan.counts[t - 1], source.draw(window.demand(t)))
        if step is None:
            continue
        if t == 2:
            panel = Panel(step.columns, declared.periods.labels[:2], window.values)
        else:
            panel = panel.extended(step.columns, (label,))
        for number, (text, _, width) in enumerate(judge.labels):
            query = parse_query(text, "poor", window.values)
            assert isinstance(query, WindowQuery)
            if width > t:
                assert np.isnan(answers[:, number, t - 2]).all()
                continue
            count = int(query.mask[panel.codes(width)].sum())
            padded = window.padding * 4 * query.mask.mean()
            assert answers[1, number, t - 2] == pytest.approx(count - padded)
            assert answers[2, number, t - 2] == pytest.approx(count * 2000 / panel.rows)


def test_processes_change_nothing(evaluation: Evaluation) -> None:
    declared = study()
    window = declared.model_copy(update={"releases": declared.releases[:1]})
    few = evaluate_panels(window, truth(), 8, seed=5, jobs=1, progress=False)
    assert evaluate_panels(window, truth(), 8, seed=5, jobs=2, progress=False) == few
    assert evaluate_panels(window, truth(), 8, seed=6, jobs=1, progress=False) != few
    assert evaluation.seed == 5


def test_json_is_complete(evaluation: Evaluation) -> None:
    """JSON has every field of the evaluation, of its releases, cells and queries."""
    values = json.loads(json.dumps(evaluation.as_dict(), allow_nan=False))
    for data, errors in zip(values["releases"], evaluation.releases, strict=True):
        nested = [*zip(data["cells"], errors.cells, strict=True)]
        nested += zip(data["lines"], errors.lines, strict=True)
        for written, fields in nested:
            for name, value in vars(fields).items():
                assert written[name] == (list(value) if isinstance(value, tuple) else value)
        assert data.keys() == vars(errors).keys()
    assert values.keys() == {*vars(evaluation), "confidential", "warning"}
    assert pickle.loads(pickle.dumps(evaluation)) == evaluation  # noqa: S301


def test_everything_says_that_it_is_confidential(evaluation: Evaluation) -> None:
    assert evaluation_text(evaluation).startswith("CONFIDENTIAL")
    assert evaluation.as_dict()["confidential"] is True


def test_sweep_scales_every_rho() -> None:
    swept = sweep(study(), truth(), [0.5, 2], 40, jobs=1, progress=False)
    low, high = swept.evaluations
    assert [e.rho for e in swept.evaluations] == ["1/2", "2"]
    assert [e.releases[0].rho for e in swept.evaluations] == ["1/100", "1/25"]
    for a, b in zip(low.releases, high.releases, strict=True):
        assert a.cells[0].theory / b.cells[0].theory == pytest.approx(2, abs=0.01)
        assert a.cells[0].rmse > 1.5 * b.cells[0].rmse
    assert sweep_text(swept).startswith("CONFIDENTIAL")
    assert json.loads(json.dumps(swept.as_dict()))["confidential"] is True


@pytest.mark.parametrize(
    ("panel", "message"),
    [
        ({}, "is missing"),
        ({"poor": np.zeros((2000, 5), np.uint8)}, "6 columns"),
        ({"poor": np.full((2000, 6), 2, np.uint8)}, "none of its symbols"),
        ({"poor": np.zeros((1999, 6), np.uint8)}, "declares 2000 people"),
    ],
)
def test_a_panel_that_does_not_fit_is_refused(panel: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        evaluate_panels(study(), panel, 2, jobs=1, progress=False)


@pytest.mark.parametrize(("count", "width"), [(1, 1), (3, 1), (3, 3)])
def test_the_smallest_horizons_work(count: int, width: int) -> None:
    small = evaluate_panels(study(300, count, width), truth(300, count), 30, jobs=1, progress=False)
    assert disagreements(small) == []
    assert json.loads(json.dumps(small.as_dict(), allow_nan=False))["people"] == 300
