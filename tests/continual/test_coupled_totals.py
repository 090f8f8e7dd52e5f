"""The coupled measurement of totals: exact costs by enumeration, and errors."""

import hashlib
import json
import time
from fractions import Fraction
from itertools import accumulate, product

import numpy as np
import pytest
from kit import totals_bounds
from kit.counter_contract import exact_costs
from kit.coupled_costs import HistoryCosts
from kit.coupled_gains import rounded_up
from kit.totals_bounds import MEASURES, bound

from stream_dp.continual.cumulative.coupled_budget import table_cost
from stream_dp.continual.cumulative.coupled_strategy import (
    BITS,
    PERIODS,
    PRIVATE_PAIR,
    PRIVATE_SINGLE,
    PUBLIC_PAIR,
    coupled_gains,
    coupled_strategy,
)
from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.cumulative.cumulative_design import LEAST_RMSE
from stream_dp.continual.mechanism_interface import NONE
from stream_dp.study.panel_releases import MOST_TOTALS

RHO = Fraction(1, 200)
SIZES = pytest.mark.parametrize("public_size", [False, True])


def cumulative(horizon, relation="add_remove", **more):
    return Cumulative(horizon=horizon, rho=RHO, neighbours=relation, rows=50, **more)


def matrix(strategy, periods):
    """All rows of all thresholds on all entries, threshold after threshold."""
    cells = [(b, t) for b in range(1, periods + 1) for t in range(b, periods + 1)]
    place = {cell: i for i, cell in enumerate(cells)}
    rows = np.zeros((len(cells),) * 2, np.int64)
    for (b, t), i in place.items():
        own, before = strategy.row(b, t)
        rows[i, place[b, b] : place[b, b] + own.size] = own
        if before.size:
            first = place[b - 1, b - 1]
            rows[i, first : first + before.size] = before
    return rows, cells


def histories(cells, periods):
    """The entries of every history of one person, (2^periods, cells)."""
    place = {cell: i for i, cell in enumerate(cells)}
    entries = np.zeros((2**periods, len(cells)), np.int64)
    for i, history in enumerate(product((0, 1), repeat=periods)):
        times = [t for t, event in enumerate(history, 1) if event]
        entries[i, [place[b, t] for b, t in enumerate(times, 1)]] = 1
    return entries


@SIZES
def test_the_costs_of_programme_and_table_are_those_of_all_histories(public_size):
    periods = 9
    strategy = coupled_strategy(public_size=public_size, periods=periods)
    rows, cells = matrix(strategy, periods)
    answers = histories(cells, periods) @ rows.T
    for t in range(1, periods + 1):
        seen = answers[:, [i for i, (_, time) in enumerate(cells) if time <= t]]
        squares = (seen**2).sum(axis=1)
        single = int(squares.max())
        assert HistoryCosts(strategy).single(t) == single
        if not public_size:
            assert table_cost(PRIVATE_SINGLE, t, entries=False) == single
        pair = int((squares[:, None] + squares - 2 * seen @ seen.T).max())
        assert HistoryCosts(strategy).pair(t) == pair
        table = PUBLIC_PAIR if public_size else PRIVATE_PAIR
        assert table_cost(table, t, entries=False) == pair


@pytest.mark.parametrize("entries", [False, True])
def test_the_table_has_the_costs_of_the_programme(entries):
    private, public = (coupled_strategy(public_size=size, periods=41) for size in (False, True))
    for t in (1, 2, 3, 7, 12, 24, 40):
        check_table(private, public, t, entries=entries)


@pytest.mark.slow
@pytest.mark.parametrize("entries", [False, True])
def test_the_table_has_the_costs_of_the_programme_up_to_40_periods(entries):
    private, public = (coupled_strategy(public_size=size, periods=121) for size in (False, True))
    for t in (*range(1, 41), 120):
        check_table(private, public, t, entries=entries)


@pytest.mark.slow
def test_large_costs_of_the_table():
    private, public = (coupled_strategy(public_size=size, periods=350) for size in (False, True))
    check_table(private, public, 225, entries=False)
    assert HistoryCosts(private).single(350) == table_cost(PRIVATE_SINGLE, 350, entries=False)


def check_table(private, public, t, *, entries):
    """The costs of one person, and of a pair, of the programme are those of the table."""
    mine, yours = HistoryCosts(private, entries), HistoryCosts(public, entries)
    assert mine.single(t) == table_cost(PRIVATE_SINGLE, t, entries=entries)
    assert mine.pair(t) == table_cost(PRIVATE_PAIR, t, entries=entries)
    assert yours.pair(t) == table_cost(PUBLIC_PAIR, t, entries=entries)


@pytest.mark.parametrize("table", [PRIVATE_SINGLE, PRIVATE_PAIR, PUBLIC_PAIR])
def test_beyond_the_exact_costs_of_the_table_a_cost_is_that_of_more_periods(table):
    exact, with_entries = table.without_entries, table.with_entries
    assert len(exact) == len(PERIODS)
    for costs in (exact, with_entries):
        assert list(costs) == sorted(set(costs))
    for t in (301, 313, 325):
        assert table_cost(table, t, entries=False) == exact[PERIODS.index(325)]
    assert all(own <= exact[t] for t, own in enumerate(with_entries, 1))
    for t in (121, 299, 300, 349, MOST_TOTALS):
        assert table_cost(table, t, entries=True) == table_cost(table, t + 1, entries=False)


def test_costs_at_some_periods():
    assert table_cost(PRIVATE_SINGLE, 12, entries=False) == 46619849113
    assert table_cost(PUBLIC_PAIR, 12, entries=False) == 57051480334
    assert table_cost(PUBLIC_PAIR, 300, entries=False) == 3446328418210
    assert table_cost(PUBLIC_PAIR, 350, entries=False) == 4203037463365
    assert table_cost(PRIVATE_PAIR, 350, entries=False) == 5915996448659
    private = [1.5903, 2.3550, 3.1849, 4.0057, 5.6221, 7.3092, 10.8545, 22.6396, 35.7274, 64.6876]
    public = [0.8650, 1.7136, 2.5880, 3.5536, 5.6933, 8.0846, 13.2833, 31.7616, 52.7676, 101.4629]
    for t, one, two in zip((1, 2, 3, 4, 6, 8, 12, 24, 36, 60), private, public, strict=True):
        for table, cost in ((PRIVATE_SINGLE, one), (PUBLIC_PAIR, two)):
            units = table_cost(table, t, entries=False)
            assert units / 4**BITS == pytest.approx(cost, abs=6e-5)


def test_the_factors_are_the_same_on_every_machine():
    """The tables are of these numbers."""
    digests = {}
    for public_size in (False, True):
        factors = coupled_strategy(public_size=public_size, periods=MOST_TOTALS + 1).factors
        digests[public_size] = hashlib.sha256(factors.astype("<i8").tobytes()).hexdigest()
    assert digests == {
        False: "024faa6c7d5777181072d4025c1026a973dcfbc4ea0e65bd8e127869c9a84717",
        True: "55bd6a006c2b6c4cb2ef4d14b636f8127d4c3ea087017da6637d640c38758a31",
    }


def test_rows_of_three_periods():
    private, public = (coupled_strategy(public_size=size, periods=3) for size in (False, True))
    (a1, _), (a2, b2), (a3, _) = (private.block(b, 4 - b) for b in (1, 2, 3))
    a1_rows = [[1.2611, 0, 0], [0.5801, 1.3855, 0], [0.4235, 0.6373, 1.4811]]
    assert np.allclose(a1 / 2**BITS, a1_rows, atol=6e-5)
    assert np.allclose(a2 / 2**BITS, [[1.2828, 0], [1.0983, 1.3594]], atol=6e-5)
    assert np.allclose(b2 / 2**BITS, [[-0.6543, 0], [-0.6621, -0.6725]], atol=6e-5)
    assert np.allclose(a3 / 2**BITS, [[1.3323]], atol=6e-5)
    (a1, _), (a2, b2) = (public.block(b, 4 - b) for b in (1, 2))
    a1_rows = [[0.9300, 0, 0], [0.6794, 1.0127, 0], [0.6035, 0.7224, 1.0758]]
    assert np.allclose(a1 / 2**BITS, a1_rows, atol=6e-5)
    assert np.allclose(a2 / 2**BITS, [[1.0636, 0], [0.7740, 1.1207]], atol=6e-5)
    assert np.allclose(b2 / 2**BITS, [[-0.4414, 0], [-0.4578, -0.4539]], atol=6e-5)


@SIZES
def test_a_row_does_not_depend_on_how_many_follow(public_size):
    short, long = (coupled_strategy(public_size=public_size, periods=n) for n in (9, 40))
    for b in (1, 2, 5, 9):
        own, before = long.block(b, 41 - b)
        for t in range(b, 10):
            rows = [s.row(b, t) for s in (short, long)]
            for row, other in rows:
                assert np.array_equal(row, own[t - b, : t - b + 1])
                assert np.array_equal(other, before[t - b, : other.size])


@pytest.mark.parametrize("crossed", [0, 1, 2])
@pytest.mark.parametrize("present", [False, True])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_charges_are_the_exact_cost_of_every_prefix(relation, present, crossed):
    """Over all pairs of histories, through what the mechanism measures."""
    for horizon in (1, 2, 3) if present else (1, 2, 3, 4, 5):
        mechanism = cumulative(horizon, relation, present=present, crossed=crossed)
        costs = exact_costs(mechanism, relation)
        if crossed and relation != "add_remove":
            alone = exact_costs(mechanism, "add_remove")
            costs = [max(pair, crossed * one) for pair, one in zip(costs, alone, strict=True)]
        assert costs == list(accumulate(mechanism.charges))
        assert sum(mechanism.charges) == RHO


@pytest.mark.parametrize(
    ("horizon", "relation", "rms", "worst"),
    [
        (12, "add_remove", 2.8466, 2.9306),
        (24, "add_remove", 4.0182, 4.2324),
        (60, "add_remove", 6.5035, 7.1542),
        (12, "replace_one", 3.4954, 3.9188),
        (24, "replace_one", 5.1693, 6.0597),
        (60, "replace_one", 8.7201, 10.8306),
    ],
)
def test_errors_of_the_closed_form(horizon, relation, rms, worst):
    """In units of 1 / sqrt(2 rho)."""
    public = relation != "add_remove"
    cost = (PUBLIC_PAIR if public else PRIVATE_SINGLE).without_entries[horizon - 1]
    every = coupled_gains(public_size=public)[:horizon]
    gains = np.concatenate([of[: horizon - b] for b, of in enumerate(every)])
    assert (gains.mean() * cost) ** 0.5 == pytest.approx(rms, rel=5e-5)
    assert (gains.max() * cost) ** 0.5 == pytest.approx(worst, rel=5e-5)


@pytest.mark.parametrize("present", [False, True])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("horizon", [1, 2, 3, 5, 12, 24, 40])
def test_no_sum_is_worse_than_with_separate_counters(horizon, relation, present):
    coupled = cumulative(horizon, relation, present=present)
    separate = cumulative(horizon, relation, present=present, counter="tree")
    for t in range(1, horizon + 1):
        for b in range(0 if present else 1, t + 1):
            assert coupled.variance(b, t) <= separate.variance(b, t) * (1 + 1e-4), (b, t)


@SIZES
def test_variances_are_those_of_the_inverse(public_size):
    periods = 8
    strategy = coupled_strategy(public_size=public_size, periods=periods)
    rows, cells = matrix(strategy, periods)
    sums = np.array([[b == c and s <= t for c, s in cells] for b, t in cells], float)
    decode = sums @ np.linalg.inv(rows)
    assert np.allclose(np.concatenate(list(strategy.variances())), (decode**2).sum(axis=1))


def test_the_lower_bound_is_below_every_measurement():
    for horizon in (1, 2, 6, 12):
        for relation in ("add_remove", "replace_one"):
            for counter in (None, "unbounded", "tree"):
                assert cumulative(horizon, relation, counter=counter).lower_bound_ratio >= 1 - 1e-9
            for crossed in (1, 2):
                moving = cumulative(horizon, relation, crossed=crossed)
                assert moving.lower_bound_ratio >= 1 - 1e-9
    assert cumulative(37).lower_bound_ratio is None
    assert 1 < cumulative(60).lower_bound_ratio < 1.25
    assert 1 < cumulative(120).lower_bound_ratio < 1.2
    assert 1 < cumulative(120, "replace_one").lower_bound_ratio < 1.32


@pytest.mark.parametrize("pairs", [False, True])
def test_lower_bounds_are_those_of_their_measures(pairs):
    measures = json.loads(MEASURES.read_text())["pairs" if pairs else "single"]
    for periods in (1, 3, 12):
        least = max(bound(periods, measures[n], pairs=pairs) for n in ("12", "24"))
        assert least - 1e-4 <= LEAST_RMSE[pairs][periods] <= least


def test_the_moments_of_a_measure_are_those_over_all_histories():
    periods = 6
    theta = np.random.default_rng(4).normal(0, 1, 12)
    cells = [(b, t) for b in range(1, periods + 1) for t in range(b, periods + 1)]
    chances = 0.02 + 0.96 / (1 + np.exp(-np.tensordot(theta, totals_bounds._features(periods), 1)))
    entries = histories(cells, periods)
    weights = []
    for events in product((0, 1), repeat=periods):
        before = np.cumsum((0, *events[:-1]))
        chance = chances[before, range(periods)]
        weights.append(np.where(events, chance, 1 - chance).prod())
    means, moments = totals_bounds._moments(periods, theta)
    assert sum(weights) == pytest.approx(1)
    assert np.allclose(means, weights @ entries)
    assert np.allclose(moments, (entries * np.array(weights)[:, None]).T @ entries)


@pytest.mark.parametrize("public", [False, True])
def test_the_table_of_gains_is_rounded_up(public):
    """It begins with what fewer periods have; `kit.coupled_gains` computes all of it."""
    periods = 70
    computed = list(coupled_strategy(public_size=public, periods=periods).variances())
    table = coupled_gains(public_size=public)
    for own, stated in zip(computed, table, strict=False):
        assert np.array_equal(rounded_up(own), stated[: own.size])
        excess = stated[: own.size] / own - 1
        assert excess.min() >= 0
        assert excess.max() < 2.0**-14
    assert [gains.size for gains in table] == [*range(len(table), 0, -1)]


@pytest.mark.parametrize(("relation", "crossed"), [("add_remove", 0), ("replace_one", 2)])
@pytest.mark.parametrize("present", [False, True])
def test_the_gains_of_a_release_are_of_its_sums(relation, crossed, present):
    horizon = 6
    release = cumulative(horizon, relation, present=present, crossed=crossed)
    computed = [*release.budget.strategy.variances()]
    for b in range(0 if present else 1, horizon + 1):
        own = computed[b - (not present)][: horizon - max(b, 1) + 1]
        assert np.array_equal(release.budget.gains(b), rounded_up(own))


def test_a_long_release_has_its_design_at_once():
    """Seconds were the variances of 500 periods, and a megabyte their copy in the journal."""
    begin = time.process_time()
    release = cumulative(500)
    assert release.worst_variance > 0
    assert release.as_stored() == NONE
    assert time.process_time() - begin < 2
