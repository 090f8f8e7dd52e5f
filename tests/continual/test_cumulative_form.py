"""The form of a cumulative release: charges against all histories, errors against theory."""

from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.counter_contract import exact_costs

from stream_dp.continual.cumulative.budgets import MOST_PREFIXES
from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.errors import UserError
from stream_dp.study import CounterKind
from stream_dp.study.panel_releases import MOST_TOTALS

RHO = Fraction(1, 200)
RELATIONS = ["add_remove", "replace_one", "replace_in_place"]
NAMES = list(CounterKind)


def cumulative(horizon, relation="add_remove", rows=5, share=Fraction(0), **more):
    return Cumulative(
        horizon=horizon, rho=RHO, neighbours=relation, rows=rows, size_share=share, **more
    )


@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(2, 3)])
@pytest.mark.parametrize("name", ["tree", "unbounded"])
def test_charges_are_exact_where_people_have_a_share(name, share):
    sized = cumulative(4, rows=None, share=share, counter=name)
    assert exact_costs(sized, "add_remove") == list(accumulate(sized.charges))
    assert 1 / (2 * sized.size_variance) == RHO * share
    entering = cumulative(4, share=share, counter=name, present=True)
    assert exact_costs(entering, "add_remove") == list(accumulate(entering.charges))
    if name != "unbounded":
        assert sum(sized.charges) == sum(entering.charges) == RHO
        lane = entering.people
        alone = Fraction(lane.counter.column2) / (2 * lane.variance)
        assert float(alone / RHO) == pytest.approx(float(share), rel=0.02)


@pytest.mark.parametrize("crossed", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_one_who_moves_between_strata_is_paid_for(name, crossed):
    """As a replacement in one, and as a removal here and an addition there."""
    mechanism = cumulative(4, "replace_one", counter=name, crossed=crossed)
    pairs, one = exact_costs(mechanism, "replace_one"), exact_costs(mechanism, "add_remove")
    worst = [max(pair, crossed * single) for pair, single in zip(pairs, one, strict=True)]
    assert worst == list(accumulate(mechanism.charges))
    assert worst[-1] <= RHO
    sized = cumulative(4, "replace_one", None, Fraction(1, 10), counter=name, crossed=crossed)
    one = exact_costs(sized, "add_remove")
    assert [crossed * single for single in one][-1] <= sum(sized.charges) <= RHO


def test_noise_for_another_relation_does_not_do():
    for counter in (None, "tree"):
        mechanism = cumulative(4, "add_remove", counter=counter)
        assert RHO < exact_costs(mechanism, "replace_one")[-1] < 2 * RHO


@settings(max_examples=30)
@given(st.integers(1, 12), st.integers(1, 20), st.sampled_from(RELATIONS), st.booleans())
def test_without_a_horizon_nothing_depends_on_what_is_to_come(horizon, more, relation, present):
    """Noise, what is measured and what is charged are those of every longer run."""
    short = cumulative(horizon, relation, counter="unbounded", present=present)
    long = cumulative(horizon + more, relation, counter="unbounded", present=present)
    assert short.charges == long.charges[:horizon]
    assert sum(long.charges) <= RHO
    rng = np.random.default_rng(horizon)
    early, late = short.init(), long.init()
    for t in range(1, horizon + 1):
        assert short.demand(t) == long.demand(t)
        counts = rng.integers(0, 99, horizon + 1)
        padded = np.concatenate([counts[:-1], np.zeros(more, np.int64), counts[-1:]])
        early, late = short.recorded(early, counts), long.recorded(late, padded)
        here = short.measure(early.streams, t)
        assert np.array_equal(here, long.measure(late.streams, t))
        for b in range(1, t + 1):
            assert short.variance(b, t) == pytest.approx(long.variance(b, t), rel=1e-12)


@pytest.mark.parametrize("relation", RELATIONS)
def test_without_a_horizon_the_cost_stays_below_rho_however_long(relation):
    totals = [sum(cumulative(t, relation, counter="unbounded").charges) for t in (1, 12, 30, 60)]
    assert totals == sorted(totals)
    assert totals[-1] < RHO
    share = cumulative(40, relation, share=Fraction(1, 5), counter="unbounded", present=True)
    assert sum(share.charges) < RHO


def test_without_a_horizon_costs_grow_on_by_a_bound():
    """Where the exact cost takes too long, the charges stay those of longer runs, and below rho."""
    short, long = (cumulative(MOST_PREFIXES + n, counter="unbounded") for n in (0, 300))
    assert long.charges[:MOST_PREFIXES] == short.charges
    assert min(long.charges) > 0
    assert sum(long.charges) < RHO


@pytest.mark.parametrize(
    ("relation", "counter", "rmse", "worst"),
    [
        ("add_remove", "tree", 7.645, 9.695),
        ("add_remove", None, 2.705, 2.883),
        ("replace_one", "tree", 8.674, 11.000),
        ("replace_one", None, 3.368, 3.918),
    ],
)
def test_errors_in_theory_at_T_12(relation, counter, rmse, worst):
    """In units of 1 / sqrt(2 rho); the noise is large, so that it is nearly Gaussian."""
    mechanism = cumulative(12, relation, counter=counter)
    unit = float(2 * RHO) ** 0.5
    cells = [mechanism.variance(b, t) for t in range(1, 13) for b in range(1, t + 1)]
    assert mechanism.rmse * unit == pytest.approx(rmse, abs=2e-3)
    assert np.mean(cells) ** 0.5 == pytest.approx(mechanism.rmse)
    assert max(cells) ** 0.5 * unit == pytest.approx(worst, abs=2e-3)
    assert float(mechanism.worst_variance) == pytest.approx(max(cells))


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("horizon", [1, 2, 12, 40])
def test_the_best_has_the_smallest_worst_cell(horizon, relation):
    best = cumulative(horizon, relation, 100)
    for name in NAMES:
        other = cumulative(horizon, relation, 100, counter=name)
        # The gains of the coupled measurement are rounded up.
        assert float(best.worst_sum_variance) <= float(other.worst_sum_variance) * (1 + 1e-4)


def test_what_cannot_be_is_refused():
    with pytest.raises(UserError, match="rows: where people come and go"):
        cumulative(4, rows=None, share=Fraction(1, 10), present=True)
    with pytest.raises(ValueError, match="nobody measured"):
        cumulative(4).variance(0, 1)


def test_titles_say_which_counter():
    titles = {cumulative(3, counter=name).title for name in NAMES}
    assert len(titles) == len(NAMES)
    assert (
        cumulative(3, counter="tree").title
        == "cumulative, binary tree counters (Bun et al. 2024, Algorithms 2 and 3)"
    )
    assert cumulative(3).title == "cumulative, all totals in one coupled measurement"
    assert cumulative(3, present=True).title.endswith("with people who enter")


@pytest.mark.slow
def test_the_longest_horizon_can_be_planned():
    for relation in ("add_remove", "replace_one"):
        mechanism = cumulative(MOST_TOTALS, relation, 100)
        assert sum(mechanism.charges) == RHO
        assert mechanism.worst_sum_variance > 0
