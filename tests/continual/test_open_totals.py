"""Totals without a horizon: their cost at every period, their errors, and the study."""

from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from kit.counter_contract import exact_costs
from kit.coupled_gains import rounded_up
from kit.studies import STEPS, attribute, cumulative, small_study, window

from stream_dp.continual.cumulative.coupled_strategy import (
    OpenStrategy,
    coupled_gains,
    coupled_strategy,
    open_costs,
    weight,
)
from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.mechanisms import mechanism
from stream_dp.errors import UserError
from stream_dp.planning.plan import plan_study
from stream_dp.study.panel_releases import MOST_TOTALS

RHO = Fraction(1, 200)
OPEN = STEPS | {"count": "open"}


def totals(relation="add_remove", *, is_open=True, horizon=MOST_TOTALS, **more):
    fields = {"rows": 50, "open": is_open, **more}
    return Cumulative(horizon=horizon, rho=RHO, neighbours=relation, **fields)


def study(*releases, **more):
    relation = more.pop("neighbours", "replace_one")
    return small_study(
        rho="1/100",
        periods=OPEN,
        neighbours=relation,
        size=100 if relation == "replace_one" else None,
        attributes={"x": attribute([0, 1], missing=0)},
        releases=releases or [cumulative("c", "x", [1], "1/200")],
        **more,
    )


@pytest.mark.parametrize("crossed", [0, 2])
@pytest.mark.parametrize("present", [False, True])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_charges_are_at_least_the_exact_cost_of_every_prefix(relation, present, crossed):
    """Over all pairs of histories, through what the mechanism measures."""
    horizon = 3 if present else 5
    chosen = totals(relation, horizon=horizon, present=present, crossed=crossed)
    costs = exact_costs(chosen, relation)
    if crossed and relation != "add_remove":
        alone = exact_costs(chosen, "add_remove")
        costs = [max(pair, crossed * one) for pair, one in zip(costs, alone, strict=True)]
    stated = [*accumulate(chosen.charges)]
    assert all(exact <= bound for exact, bound in zip(costs, stated, strict=True))
    assert all(
        bound <= Fraction(13, 10) * exact for exact, bound in zip(costs, stated, strict=True)
    )
    assert stated[-1] == RHO


def test_a_bound_that_is_too_small_by_a_twentieth_is_found():
    """The exact cost of two periods of one person exceeds 95 % of what is stated for them."""
    chosen = totals(horizon=2)
    assert exact_costs(chosen, "add_remove")[1] > Fraction(19, 20) * sum(chosen.charges)


def test_weights_fall_and_need_no_floats():
    weights = [weight(t) for t in range(1, MOST_TOTALS + 2)]
    assert weights == sorted(weights, reverse=True)
    assert weights[-2:] == [64, 64]
    assert weights[0] == 212
    exact = 64 * (MOST_TOTALS / np.arange(1, MOST_TOTALS + 1)) ** (3 / 16)
    assert (np.abs(np.array(weights[:-1]) - exact) < 1.01).all()
    assert open_costs([7, 10]) == (7 * weight(1) ** 2, 7 * weight(1) ** 2 + 3 * weight(2) ** 2)


@pytest.mark.parametrize("present", [False, True])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_no_variance_is_over_one_and_a_half_of_the_longest_study(relation, present):
    bounded = totals(relation, is_open=False, present=present)
    chosen = totals(relation, present=present)
    worst, first = 0.0, 0.0
    for own, other in zip(chosen.placed_counters, bounded.placed_counters, strict=True):
        ratio = own.gains / other.gains * float(own.variance / other.variance)
        worst = max(worst, float(ratio.max()))
        if own.threshold == 1:
            first = float(ratio[0])
    assert worst < 1.5
    assert first < 0.3


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_noise_depends_on_no_number_of_periods(relation):
    """The charge of a period is the same share of rho whenever the study stops."""
    charges = totals(relation).charges
    assert len(charges) == MOST_TOTALS
    assert sum(charges) == RHO
    assert min(charges) >= 0
    assert 0.02 < sum(charges[:12]) / RHO < 0.12


@pytest.mark.parametrize("public_size", [False, True])
def test_the_table_of_gains_is_rounded_up(public_size):
    periods = 12
    closed = coupled_strategy(public_size=public_size, periods=periods)
    computed = OpenStrategy(closed, entries=False).variances()
    stored = coupled_gains(public_size=public_size, open=True)
    for own, table in zip(computed, stored, strict=False):
        assert np.allclose(rounded_up(own), table[: own.size], rtol=1e-4)
        assert (own <= table[: own.size] * (1 + 1e-12)).all()
    with_entries = OpenStrategy(closed, entries=True).variances()
    for own, table in zip(with_entries, stored, strict=False):
        assert (own <= table[: own.size] * (1 + 1e-12)).all()


def test_a_study_declares_no_horizon():
    declared = study()
    assert declared.periods.open
    assert declared.periods.horizon == "at most 600 steps"
    chosen = mechanism(declared, declared.releases[0])
    assert chosen.open
    assert "without a horizon" in chosen.title
    plan = plan_study(declared)
    plan.check()
    assert plan.total == RHO
    assert "without a horizon" in plan.text()
    again = type(declared).model_validate_json(declared.model_dump_json(exclude_none=True))
    assert again.periods == declared.periods
    last = study(cumulative("c", "x", [1], "1/200", last="12"))
    assert not mechanism(last, last.releases[0]).open


@pytest.mark.parametrize(
    ("release", "message"),
    [
        (window("w", "x", 2, "1/200"), r"\.last: .* has no last period; declare"),
        (cumulative("c", "x", [1], "1/200", counter="tree"), r"\.counter: .* has no last period"),
    ],
)
def test_releases_that_need_an_end_are_refused(release, message):
    with pytest.raises(UserError, match=message):
        study(release)


def test_a_gate_of_a_study_without_a_horizon_is_refused():
    with pytest.raises(UserError, match=r"study\.gate: .* has no last period"):
        study(gate={"rho": "1/1000", "least": "1/2"})


def test_patterns_with_a_last_period_may_stand_beside_open_totals():
    both = study(cumulative("c", "x", [1], "1/200"), window("w", "x", 2, "1/200", last="12"))
    assert plan_study(both).total == Fraction(1, 100)
