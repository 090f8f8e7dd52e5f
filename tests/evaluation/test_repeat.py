"""Repeated mechanisms: errors follow theory, a wrong variance shows, results repeat exactly."""

from __future__ import annotations

import json
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from small_study import study, truth

from stream_dp.continual import Cumulative, FixedWindow, mechanism
from stream_dp.errors import UserError
from stream_dp.evaluation import repeat, report
from stream_dp.evaluation.report import Evaluation
from stream_dp.evaluation.trial import cumulative_plan, window_plan
from stream_dp.panel import Panel
from stream_dp.privacy.noise import Seeded
from stream_dp.query import WindowQuery, parse

REPETITIONS = 300


@pytest.fixture(scope="module")
def found() -> Evaluation:
    return repeat.evaluate(study(), truth(), REPETITIONS, seed=5, jobs=1, progress=False)


def test_raw_answers_have_the_theory_s_error(found: Evaluation) -> None:
    assert found.disagreements() == []
    for errors in found.releases:
        raw = errors.cells[0]
        assert raw.answer == "raw"
        assert raw.rmse / raw.theory == pytest.approx(1, abs=0.04)
        for line in errors.lines:
            if line.answer == "raw":
                assert line.ratio is not None
                spread = 5 / math.sqrt(2 * REPETITIONS)
                assert np.allclose(line.ratio, 1, atol=spread), line.query


def test_theory_is_the_declared_noise(found: Evaluation) -> None:
    window, total = (mechanism(study(), release) for release in study().releases)
    assert isinstance(window, FixedWindow)
    assert isinstance(total, Cumulative)
    once = found.releases[0].line("at-least 1 of last 2 poor=1", "raw")
    narrow = found.releases[0].line("at-least 1 of last 1 poor=1", "raw")
    assert once is not None
    assert narrow is not None
    assert once.theory == pytest.approx([math.sqrt(3 * window.variance)] * 5)
    assert narrow.theory == pytest.approx([math.sqrt(2 * window.variance)] * 5)
    line = found.releases[1].line("total at-least 2", "raw")
    assert line is not None
    assert line.periods == (2, 3, 4, 5, 6)
    assert line.theory == pytest.approx([math.sqrt(total.variance(2, t)) for t in range(2, 7)])


@pytest.mark.parametrize(("kind", "factor"), [(FixedWindow, "1.15"), (Cumulative, "1.7")])
def test_a_wrong_variance_is_noticed(
    monkeypatch: pytest.MonkeyPatch, kind: Any, factor: str
) -> None:
    honest = kind.demand

    def louder(self: Any, t: int) -> Any:
        return tuple((variance * Fraction(factor), size) for variance, size in honest(self, t))

    monkeypatch.setattr(kind, "demand", louder)
    wrong = repeat.evaluate(study(), truth(), REPETITIONS, jobs=1, progress=False)
    name = "pairs" if kind is FixedWindow else "totals"
    faults = wrong.disagreements()
    assert faults
    assert all(fault.startswith(name) for fault in faults)
    assert "DISAGREE" in wrong.table()


def test_a_bias_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Seeded.draw

    def shifted(self: Seeded, demand: Any) -> Any:
        given = draw(self, demand)
        return type(given)(tuple(noise + 12 for noise in given.noise), given.coins)

    monkeypatch.setattr(Seeded, "draw", shifted)
    wrong = repeat.evaluate(study(), truth(), REPETITIONS, jobs=1, progress=False)
    assert any("biased" in fault for fault in wrong.disagreements())


def test_the_panel_is_as_good_as_the_raw_answers_up_to_its_width(found: Evaluation) -> None:
    for line in found.releases[0].lines:
        if line.answer == "panel" and line.kind != "wider":
            assert line.ratio is not None
            assert np.mean(line.ratio) == pytest.approx(1, abs=0.12), line.query


def test_wider_queries_have_larger_errors(found: Evaluation) -> None:
    window = found.releases[0]
    alike = window.line("at-least 2 of last 2 poor=1", "panel")
    wider = window.line("at-least 4 of last 4 poor=1", "panel")
    assert alike is not None
    assert wider is not None
    assert wider.theory is None
    assert wider.periods == (4, 5, 6)
    assert min(wider.rmse) > 1.5 * max(alike.rmse)
    assert window.line("at-least 4 of last 4 poor=1", "raw") is None


def test_padding_biases_the_plain_share(found: Evaluation) -> None:
    name = "at-least 2 of last 2 poor=1"
    held = {a: found.releases[0].line(name, a) for a in ("panel", "undebiased")}
    assert held["panel"] is not None
    assert held["undebiased"] is not None
    assert abs(np.mean(held["panel"].bias)) < 5
    padding, true = found.releases[0].padding, np.array(held["undebiased"].truth)
    assert padding is not None
    expected = 2000 * (true + padding) / (2000 + 4 * padding) - true
    assert (np.abs(expected) > 30).all()
    assert np.allclose(held["undebiased"].bias, expected, rtol=0.1)


def test_monotone_sums_never_raise_the_largest_error() -> None:
    declared, panel = study(), truth()["poor"]
    made = mechanism(declared, declared.releases[1])
    assert isinstance(made, Cumulative)
    plan = cumulative_plan(made, (1,), panel)
    for seed in range(100):
        raw, released = plan.run(seed).cell_worst[0]
        assert released <= raw


def test_true_counts_are_those_of_the_definitions() -> None:
    declared, panel = study(), truth()["poor"]
    window, total = (mechanism(declared, release) for release in declared.releases)
    assert isinstance(window, FixedWindow)
    assert isinstance(total, Cumulative)
    counts = window_plan(window, "poor", 1, panel).counts
    for t in range(2, 7):
        codes = 2 * panel[:, t - 2].astype(int) + panel[:, t - 1]
        assert counts[t - 2].tolist() == [int((codes == c).sum()) for c in range(4)]
    totals = panel.cumsum(axis=1)
    held = cumulative_plan(total, (1,), panel).counts
    for t in range(1, 7):
        now, event = totals[:, t - 1], panel[:, t - 1] == 1
        wanted = [int(((now == b) & event).sum()) for b in range(1, 7)]
        assert held[t - 1].tolist() == [*wanted, 2000]


def test_panel_answers_are_those_of_the_released_panel() -> None:
    declared, people = study(count=5), truth(count=5)["poor"]
    made = mechanism(declared, declared.releases[0])
    assert isinstance(made, FixedWindow)
    plan = window_plan(made, "poor", 1, people)
    answers = plan.run(42).total + plan.truth
    state, source = made.init(), Seeded(42)
    panel = Panel(np.zeros((0, 0), np.uint8), (), made.values)
    for t, label in enumerate(declared.periods.labels, 1):
        counts = plan.counts[t - 2] if t >= 2 else np.zeros(0, np.int64)
        state, step = made.step(state, counts, source.draw(made.demand(t)))
        if step is None:
            continue
        if t == 2:
            panel = Panel(step.columns, declared.periods.labels[:2], made.values)
        else:
            panel = panel.extended(step.columns, (label,))
        for number, asked in enumerate(plan.queries):
            query = parse(asked.text, "poor", made.values)
            assert isinstance(query, WindowQuery)
            if asked.width > t:
                assert np.isnan(answers[:, number, t - 2]).all()
                continue
            count = int(query.mask[panel.codes(asked.width)].sum())
            padded = made.padding * 4 * query.mask.mean()
            assert answers[1, number, t - 2] == pytest.approx(count - padded)
            assert answers[2, number, t - 2] == pytest.approx(count * 2000 / panel.rows)


def test_processes_change_nothing(found: Evaluation) -> None:
    few = repeat.evaluate(study(), truth(), 25, seed=5, jobs=1, progress=False)
    assert repeat.evaluate(study(), truth(), 25, seed=5, jobs=2, progress=False) == few
    assert repeat.evaluate(study(), truth(), 25, seed=6, jobs=1, progress=False) != few
    assert found.seed == 5


def test_json_round_trip(found: Evaluation) -> None:
    text = json.dumps(found.as_dict(), allow_nan=False)
    again = report.from_dict(json.loads(text))
    assert again == found
    assert again.table() == found.table()
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301


def test_everything_says_that_it_is_confidential(found: Evaluation) -> None:
    assert found.table().startswith("CONFIDENTIAL")
    assert found.as_dict()["confidential"] is True
    assert all(row["confidential"] for row in found.rows())


def test_sweep_scales_every_rho() -> None:
    swept = repeat.sweep(study(), truth(), [0.5, 2], 40, jobs=1, progress=False)
    low, high = swept.evaluations
    assert [e.rho for e in swept.evaluations] == ["1/2", "2"]
    assert [e.releases[0].rho for e in swept.evaluations] == ["1/100", "1/25"]
    for a, b in zip(low.releases, high.releases, strict=True):
        assert a.cells[0].theory / b.cells[0].theory == pytest.approx(2, abs=0.01)
        assert a.cells[0].rmse > 1.5 * b.cells[0].rmse
    assert swept.table().startswith("CONFIDENTIAL")
    assert json.loads(json.dumps(swept.as_dict()))["confidential"] is True


@pytest.mark.parametrize(
    ("panel", "says"),
    [
        ({}, "is missing"),
        ({"poor": np.zeros((2000, 5), np.uint8)}, "6 columns"),
        ({"poor": np.full((2000, 6), 2, np.uint8)}, "none of its symbols"),
        ({"poor": np.zeros((1999, 6), np.uint8)}, "declares 2000 people"),
    ],
)
def test_a_panel_that_does_not_fit_is_refused(panel: Any, says: str) -> None:
    with pytest.raises(UserError, match=says):
        repeat.evaluate(study(), panel, 2, jobs=1, progress=False)


@pytest.mark.parametrize(("count", "width"), [(1, 1), (3, 1), (3, 3)])
def test_the_smallest_horizons_work(count: int, width: int) -> None:
    small = repeat.evaluate(study(300, count, width), truth(300, count), 30, jobs=1, progress=False)
    assert small.disagreements() == []
    assert report.from_dict(json.loads(json.dumps(small.as_dict()))) == small
