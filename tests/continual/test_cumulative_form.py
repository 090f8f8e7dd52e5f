"""The form of a cumulative release: charges against all histories, errors against theory."""

from fractions import Fraction
from itertools import accumulate, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.walks import counts_of

from stream_dp.continual import Cumulative
from stream_dp.continual.budgets import COUNTERS
from stream_dp.continual.factorizations import MOST_GAMMA2
from stream_dp.continual.paths import MOST_PREFIXES
from stream_dp.errors import UserError

RHO = Fraction(1, 200)
RELATIONS = ["add_remove", "replace_one", "replace_in_place"]
NAMES = list(COUNTERS)


def cumulative(horizon, relation="add_remove", rows=5, share=Fraction(0), **more):
    return Cumulative(
        horizon=horizon, rho=RHO, neighbours=relation, rows=rows, size_share=share, **more
    )


def histories(mechanism):
    """Everything that one person's periods may say: with absences, these come first."""
    for history in product((0, 1), repeat=mechanism.horizon):
        for gone in range(mechanism.horizon + 1) if mechanism.present else [0]:
            yield np.array([[2] * gone + list(history[gone:])])


def measured(mechanism, symbols):
    """Everything that meets noise for one population, period by period."""
    vectors, streams = [], mechanism.init().streams
    for t in range(1, mechanism.horizon + 1):
        streams, vector = mechanism.measure(streams, t, counts_of(mechanism, symbols, t))
        vectors.append(vector)
    return vectors


def exact_costs(mechanism, relation):
    """The worst cost of periods 1..t over all pairs of neighbours, through `measure`."""
    horizon = mechanism.horizon
    others = np.random.default_rng(5).integers(0, 2, (3, horizon))
    people = [measured(mechanism, np.concatenate([others, h])) for h in histories(mechanism)]
    nobody = [measured(mechanism, others)]
    weights = [
        np.array([1 / (2 * v) for v, size in mechanism.demand(t) for _ in range(size)])
        for t in range(1, horizon + 1)
    ]
    worst = [Fraction(0)] * horizon
    for here, there in product(people, nobody if relation == "add_remove" else people):
        total = Fraction(0)
        for t in range(horizon):
            change = (here[t] - there[t]).astype(object)
            assert len(change) == len(weights[t])
            total += sum(change * change * weights[t])
            worst[t] = max(worst[t], total)
    return worst


@pytest.mark.parametrize("present", [False, True])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", NAMES)
def test_charges_are_the_exact_worst_cost_of_every_prefix(name, relation, present):
    for horizon in (1, 2, 3, 4) if present else (1, 4, 5):
        mechanism = cumulative(horizon, relation, counter=name, present=present)
        assert exact_costs(mechanism, relation) == list(accumulate(mechanism.charges))
        if name == "unbounded":
            assert sum(mechanism.charges) < RHO
        else:
            assert sum(mechanism.charges) == RHO


@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(2, 3)])
@pytest.mark.parametrize("name", ["tree", "gamma2", "unbounded"])
def test_charges_are_exact_where_people_have_a_share(name, share):
    sized = cumulative(4, rows=None, share=share, counter=name)
    assert exact_costs(sized, "add_remove") == list(accumulate(sized.charges))
    assert 1 / (2 * sized.design.size_variance) == RHO * share
    entering = cumulative(4, share=share, counter=name, present=True)
    assert exact_costs(entering, "add_remove") == list(accumulate(entering.charges))
    if name != "unbounded":
        assert sum(sized.charges) == sum(entering.charges) == RHO
        lane = entering.design.people
        alone = Fraction(lane.counter.column2) / (2 * lane.variance)
        assert float(alone / RHO) == pytest.approx(float(share), rel=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_one_who_moves_between_strata_is_paid_for(name):
    """As a replacement in one, and as a removal here and an addition there."""
    mechanism = cumulative(4, "replace_one", counter=name, moves=True)
    pairs, one = exact_costs(mechanism, "replace_one"), exact_costs(mechanism, "add_remove")
    worst = [max(pair, 2 * single) for pair, single in zip(pairs, one, strict=True)]
    assert worst == list(accumulate(mechanism.charges))
    assert worst[-1] <= RHO
    sized = cumulative(4, "replace_one", None, Fraction(1, 10), counter=name, moves=True)
    one = exact_costs(sized, "add_remove")
    assert [2 * single for single in one][-1] <= sum(sized.charges) <= RHO


def test_noise_for_another_relation_does_not_do():
    for name in NAMES[:-1]:
        mechanism = cumulative(4, "add_remove", counter=name)
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
    streams = [m.init().streams for m in (short, long)]
    for t in range(1, horizon + 1):
        assert short.demand(t) == long.demand(t)
        counts = rng.integers(0, 99, horizon + 1)
        padded = np.concatenate([counts[:-1], np.zeros(more, np.int64), counts[-1:]])
        streams[0], here = short.measure(streams[0], t, counts)
        streams[1], there = long.measure(streams[1], t, padded)
        assert np.array_equal(here, there)
        for b in range(1, t + 1):
            assert short.design.variance(b, t) == pytest.approx(
                long.design.variance(b, t), rel=1e-12
            )


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
    ("relation", "counter", "rmse", "worst", "ratio"),
    [
        ("add_remove", "tree", 7.645, 9.695, 1.974),
        ("add_remove", "gamma2", 4.912, 4.913, 1.0001),
        ("replace_one", "tree", 8.674, 11.000, 2.240),
        ("replace_one", "sqrt", 5.593, 6.042, 1.230),
        ("replace_one", "normalised", 5.551, 5.778, 1.176),
        ("replace_one", "gamma2", 5.513, 5.513, 1.122),
    ],
)
def test_errors_in_theory_at_T_12(relation, counter, rmse, worst, ratio):
    """In units of 1 / sqrt(2 rho); the noise is large, so that it is nearly Gaussian."""
    mechanism = cumulative(12, relation, counter=counter)
    unit = float(2 * RHO) ** 0.5
    cells = [mechanism.design.variance(b, t) for t in range(1, 13) for b in range(1, t + 1)]
    assert mechanism.design.rmse * unit == pytest.approx(rmse, abs=2e-3)
    assert np.mean(cells) ** 0.5 == pytest.approx(mechanism.design.rmse)
    assert max(cells) ** 0.5 * unit == pytest.approx(worst, abs=2e-3)
    assert float(mechanism.worst_variance) == pytest.approx(max(cells))
    assert mechanism.design.lower_bound_ratio == pytest.approx(ratio, abs=1e-3)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("horizon", [1, 2, 12, 40])
def test_the_best_has_the_smallest_worst_cell(horizon, relation):
    best = Cumulative.best(horizon=horizon, rho=RHO, neighbours=relation, rows=100)
    for name in NAMES:
        other = cumulative(horizon, relation, 100, counter=name)
        assert best.worst_variance <= other.worst_variance
        assert other.design.lower_bound_ratio >= 1 - 1e-9
    asked = Cumulative.best(
        horizon=horizon, rho=RHO, neighbours=relation, rows=100, counter="honaker", moves=True
    )
    assert (asked.counter, asked.moves) == ("honaker", True)


def test_long_horizons_get_the_normalised_root():
    best = Cumulative.best(horizon=MOST_GAMMA2 + 2, rho=RHO, neighbours="add_remove", rows=100)
    assert best.counter == "normalised"
    assert sum(best.charges) == RHO


def test_what_cannot_be_is_refused():
    with pytest.raises(UserError, match="for up to 128 periods, not 129"):
        cumulative(MOST_GAMMA2 + 1, counter="gamma2")
    with pytest.raises(UserError, match="rows: where people come and go"):
        cumulative(4, rows=None, share=Fraction(1, 10), present=True)
    with pytest.raises(ValueError, match="nobody measured"):
        cumulative(4).design.variance(0, 1)


def test_titles_say_which_counter():
    titles = {cumulative(3, counter=name).title for name in NAMES}
    assert len(titles) == len(NAMES)
    assert (
        cumulative(3).title
        == "cumulative, binary tree counters (Bun et al. 2024, Algorithms 2 and 3)"
    )
    assert cumulative(3, present=True).title.endswith("with people who enter")


@pytest.mark.slow
def test_the_longest_horizon_can_be_planned():
    for relation in ("add_remove", "replace_one"):
        mechanism = Cumulative.best(horizon=500, rho=RHO, neighbours=relation, rows=100)
        assert sum(mechanism.charges) == RHO
        assert mechanism.design.lower_bound_ratio < 1.5
