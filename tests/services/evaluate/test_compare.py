"""Forms against the paper's: which there are, which is marked, and what a table says of them."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from comparison import Comparison
from comparison_text import comparison_text
from form_comparison import compare
from paper_trees import Trees
from small_study import PAPER, coming_and_going, study, together, truth
from variants import variants

from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.study import CounterKind

REPETITIONS = 20
WINDOW = ["paper: histogram, padded", "histogram, projected"]
WINDOW += ["residuals, padded", "residuals, projected"]

COUNTERS = ["paper: tree, cubic parts", "tree, equal parts", *CounterKind, "coupled"]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare(study(), truth(), REPETITIONS, jobs=1, progress=False, simulated=True)


@pytest.fixture(scope="module")
def open_() -> Comparison:
    return compare(*coming_and_going(), REPETITIONS, jobs=1, progress=False, data="some")


def test_every_form_stands_beside_the_paper_s(comparison: Comparison) -> None:
    window, totals = comparison.contests
    assert [form.label for form in window.forms] == WINDOW
    assert window.chosen.label == "residuals, projected"
    assert window.paper.quantity("every pattern", "panel").ratio == 1
    assert [form.label for form in totals.forms] == COUNTERS
    assert totals.chosen.label == "coupled"
    assert {form.rho for contest in comparison.contests for form in contest.forms} == {"1/50"}


def test_the_choice_is_what_the_plan_makes() -> None:
    declared = study(**PAPER)
    forms = variants(declared, declared.releases[0], truth())
    assert [v.label for v in forms if v.chosen] == ["paper: histogram, padded"]
    private = study()
    fields = {**private.__dict__, "neighbours": "add_remove"}
    loose = type(private).model_construct(
        **{k: fields[k] for k in type(private).model_fields}
        | {"population": private.population.model_copy(update={"size": None})}
    )
    labels = {v.label: v.chosen for v in variants(loose, loose.releases[0], truth())}
    assert labels == {WINDOW[0]: False, WINDOW[2]: True}


def test_better_forms_have_smaller_errors(comparison: Comparison) -> None:
    window = comparison.contest("pairs")
    ratios = [form.quantity("every pattern", "panel").ratio for form in window.forms]
    assert ratios[0] == 1
    assert max(ratios[1:]) < 0.97
    assert max(ratios[2:]) < ratios[1]
    once = window.chosen.quantity("at-least 1 of last 2", "panel")
    assert once.ratio < 0.75
    raw = window.chosen.quantity("every pattern", "raw")
    assert raw.theory is not None
    assert raw.rmse == pytest.approx(raw.theory, rel=0.1)


def test_a_padded_panel_is_judged_as_exported_and_less_its_padding(comparison: Comparison) -> None:
    window = comparison.contest("pairs")
    exported = window.paper.quantity("every pattern", "undebiased")
    debiased = window.paper.quantity("every pattern", "panel")
    assert exported.bias is not None
    assert debiased.bias is not None
    assert exported.bias > 3 * debiased.bias
    assert not [q for q in window.chosen.quantities if q.answer == "undebiased"]
    coarse = window.chosen.quantity("at-least 1 of last 1", "panel")
    assert coarse.rmse > 0
    assert "panel, exported" in comparison_text(comparison)


def test_ratios_have_error_bars_and_theory(comparison: Comparison) -> None:
    """Two sets of repetitions differ by about as much as the bars say."""
    other = compare(study(), truth(), REPETITIONS, seed=7, jobs=1, progress=False)
    distances = []
    for first, second in zip(comparison.contests, other.contests, strict=True):
        for form, again in zip(first.forms, second.forms, strict=True):
            a, b = (f.quantity("every", "raw") for f in (form, again))
            assert a.theory_ratio == b.theory_ratio is not None
            assert a.ratio_error is not None
            assert b.ratio_error is not None
            bar = np.hypot(a.chance * a.rmse, b.chance * b.rmse)
            distances.append((a.rmse - b.rmse) / bar)
    assert 0.2 < np.sqrt(np.mean(np.square(distances))) < 2
    assert comparison.contests[0].paper.quantity("every", "panel").ratio_error == 0


def test_one_panel_stands_beside_two_of_all_of_rho_two_of_half_and_one_as_estimated() -> None:
    declared = together()
    only = declared.model_copy(update={"releases": declared.releases[2:]})
    comparison = compare(only, truth(), 10, jobs=1, progress=False)
    assert [(c.release, c.kind) for c in comparison.contests] == [
        ("both", "window"),
        ("both", "cumulative"),
    ]
    for contest in comparison.contests:
        assert [form.rho for form in contest.forms] == ["1/50", "1/100", "1/50", "1/50"]
        assert [form.paper for form in contest.forms] == [True, False, False, False]
        assert contest.chosen.label == "one panel"
        best = contest.chosen.quantity("every", "best")
        assert best.rmse == best.theory
        assert best.rmse < 1.05 * contest.chosen.quantity("every", "raw").rmse


def test_trees_of_the_paper_have_the_errors_that_the_formulas_say() -> None:
    """Equal parts: RMSE 8.41, and 12.0 in the worst cell. And no split costs more than rho."""
    trees = Cumulative(
        horizon=12, rho=Fraction(1, 2), neighbours="add_remove", rows=9, counter="tree"
    )
    equal, cubic = (Trees.like(trees, power) for power in (0, 3))
    cells = [(b, t) for t in range(1, 13) for b in range(1, t + 1)]
    variances = [equal.variance(b, t) for b, t in cells]
    assert np.mean(variances) ** 0.5 == pytest.approx(8.41, abs=0.005)
    assert max(variances) ** 0.5 == pytest.approx(12.0, abs=0.005)
    assert max(cubic.variance(b, t) for b, t in cells) ** 0.5 > 20
    for split in (equal, cubic):
        assert sum(split.charges) == Fraction(1, 2)
        # A person who has the event always is in every counter, at its first entry.
        assert sum(1 / v * bits(12 - b) for b, v in enumerate(split.variances)) <= 1


def bits(n: int) -> int:
    return n.bit_length()


def test_where_people_come_and_go_the_paper_counts_absence(open_: Comparison) -> None:
    window = open_.contest("pairs")
    labels = [form.label for form in window.forms]
    assert labels == ["paper: histogram, padded, absence counted", *WINDOW[1::2]]
    # As many patterns are judged of each form, and noise of squared sensitivity 2 is its own.
    paper = window.paper.quantity("every pattern", "raw")
    plain = window.forms[1].quantity("every pattern", "raw")
    assert paper.theory is not None
    assert plain.theory is not None
    assert paper.theory / plain.theory == pytest.approx(2**0.5, rel=1e-3)
    assert window.chosen.quantity("every pattern", "panel").ratio < 0.8


def test_bias_is_net_of_chance(comparison: Comparison) -> None:
    for contest in comparison.contests:
        for form in contest.forms:
            raw = form.quantity("every", "raw")
            assert 0 <= raw.bias < 0.15 * raw.rmse
            assert raw.worst is not None
            assert raw.worst >= raw.rmse


def test_the_worst_cell_is_the_largest_rmse_of_any(comparison: Comparison) -> None:
    """And a query's is the largest of any period."""
    contest = comparison.contest("totals")
    every, third = (contest.paper.quantity(q, "panel") for q in ("every cell", "total at-least 3"))
    assert third.worst is not None
    assert every.worst is not None
    assert third.rmse <= third.worst <= every.worst


@pytest.mark.parametrize("name", ["comparison", "open_"])
def test_tables_are_confidential_and_say_what_is_simulated(
    name: str, request: pytest.FixtureRequest
) -> None:
    comparison: Comparison = request.getfixturevalue(name)
    text = comparison_text(comparison)
    assert text.startswith("CONFIDENTIAL")
    assert ("SIMULATED people" in text) is (name == "comparison")
    assert text.count("* ") >= 2
    data: Any = json.loads(json.dumps(comparison.as_dict(), allow_nan=False))
    assert data["confidential"] is True
    assert data["simulated"] is (name == "comparison")
    forms = data["contests"][0]["forms"]
    assert sum(form["paper"] for form in forms) == sum(form["chosen"] for form in forms) == 1


def test_a_comparison_repeats_exactly() -> None:
    declared = study()
    window = declared.model_copy(update={"releases": declared.releases[:1]})
    few = compare(window, truth(), 3, jobs=1, progress=False, simulated=True)
    assert compare(window, truth(), 3, jobs=1, progress=False, simulated=True) == few
    other = compare(window, truth(), 3, seed=1, jobs=1, progress=False)
    assert not np.isclose(
        other.contests[0].paper.quantity("every", "raw").rmse,
        few.contests[0].paper.quantity("every", "raw").rmse,
        rtol=1e-9,
    )
