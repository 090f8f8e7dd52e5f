"""The cumulative synthesizer for any noise: sums are monotone, rows' totals are the sums."""

from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.walks import drawn_between, released
from scipy.stats import chi2

from stream_dp.continual.cumulative.cumulative import Cumulative, in_order, monotone, random_rises
from stream_dp.privacy.noise import Draw, SeededNoise, exact_variance
from stream_dp.study import CounterKind


def at_least(events, t):
    """S_0..S_T at t of a panel of events."""
    totals = events[:, :t].sum(axis=1, dtype=np.int64)
    return np.array([(totals >= b).sum() for b in range(events.shape[1] + 1)])


@st.composite
def runs(draw):
    horizon, people = draw(st.integers(1, 7)), draw(st.sampled_from([0, 1, 40]))
    counter = draw(st.sampled_from([None, *CounterKind]))
    rng = np.random.default_rng(draw(st.integers(0, 10**9)))
    if draw(st.booleans()):
        mechanism = Cumulative(
            horizon=horizon, rho=Fraction(1), neighbours="replace_one", rows=people, counter=counter
        )
    else:
        mechanism = Cumulative(
            horizon=horizon,
            rho=Fraction(1),
            neighbours="add_remove",
            rows=None,
            size_share=Fraction(1, 10),
            counter=counter,
        )
    low = draw(st.sampled_from([0, -5, -(10**9)]))
    high = draw(st.sampled_from([0, 9, 10**9]))
    draws = [
        drawn_between(mechanism.demand(t), rng, low, high if mechanism.rows is not None else 9)
        for t in range(1, horizon + 1)
    ]
    events = (rng.random((people, horizon)) < rng.random()).astype(np.int64)
    return mechanism, events, draws


def noise_of(mechanism, draws, place, t):
    """The noise of a counter up to t: a counter has one or more rows a step, in their order."""
    rows = []
    for number in range(place + 1, t + 1):
        sizes = [
            np.count_nonzero(counter.times == number - b)
            for b, counter in enumerate(mechanism.counters[:number])
        ]
        start = sum(sizes[:place])
        rows.append(np.concatenate(draws[number - 1].noise)[start : start + sizes[place]])
    return np.concatenate(rows)


@given(runs())
def test_sums_are_monotone_and_the_rows_have_these_totals(run):
    mechanism, events, draws = run
    horizon, before = mechanism.horizon, None
    sums_before, dumps = np.zeros(horizon + 1, np.int64), []
    for t, state, step, panel in released(mechanism, events, draws):
        sums = state.sums
        assert step.columns.shape == (panel.rows, 1)
        assert (sums >= sums_before).all()
        assert (np.diff(sums) <= 0).all()
        assert not sums[t + 1 :].any()
        totals = panel.symbols.sum(axis=1, dtype=np.int64)
        assert np.array_equal(state.totals, totals)
        assert [int(s) for s in sums] == [(totals >= b).sum() for b in range(horizon + 1)]
        if before is None:
            n = mechanism.rows
            assert panel.rows == (max(0, step.measurements.values[-1]) if n is None else n)
        else:
            assert np.array_equal(panel.symbols[:, :-1], before.symbols)
        before, sums_before = panel, sums
        dumps.append(mechanism.dump(state))
    again = mechanism.load(dumps, panel)
    assert all(np.array_equal(value, vars(again)[name]) for name, value in vars(state).items())


@given(runs())
def test_estimates_are_the_true_sums_and_the_decoded_noise(run):
    mechanism, events, draws = run
    nobody, nothing = mechanism.init(), np.zeros(mechanism.horizon + 1, np.int64)
    for t, _, step, _ in released(mechanism, events, draws):
        nobody, _ = mechanism.observe(nobody, nothing, draws[t - 1].noise)
        noise = mechanism.sums(nobody)
        for b, counter in enumerate(mechanism.counters[:t] if mechanism.counter else ()):
            rows = noise_of(mechanism, draws, b, t)
            decoded = counter.decode[t - b - 1, : rows.size] @ rows / counter.scale
            assert abs(noise[b] - decoded) <= 1e-10 * (np.abs(rows).max(initial=0) + 1)
        truth, estimates, measured = (
            at_least(events, t)[1 : t + 1],
            step.estimates,
            step.measurements,
        )
        size = max((np.abs(one).max() for d in draws for one in d.noise), default=1)
        assert np.abs(estimates.values[:t] - truth - np.array(noise)).max() <= 1e-10 * (size + 1e3)
        assert estimates.queries[:t] == tuple(f"total at-least {b}" for b in range(1, t + 1))
        assert len(measured.queries) == len(set(measured.queries)) == measured.values.size
        people = t == 1 and mechanism.rows is None
        assert ("people" in estimates.queries) == ("people" in measured.queries) == people
        for b in range(1, t + 1):
            assert estimates.errors[b - 1] == pytest.approx(mechanism.variance(b, t) ** 0.5)
            if mechanism.counter == "tree":
                place = measured.queries.index(f"counter {b} node {t}")
                assert measured.variances[place] == mechanism.variances[b - 1]
                popcount = (t - b + 1).bit_count()
                own = exact_variance(mechanism.variances[b - 1])
                assert mechanism.variance(b, t) == pytest.approx(popcount * own)
    assert mechanism.variance(mechanism.horizon, mechanism.horizon - 1) == 0


@given(st.integers(1, 8), st.integers(0, 10**9), st.sampled_from([None, *CounterKind]))
def test_without_noise_the_panel_has_the_true_sums(horizon, seed, counter):
    rng = np.random.default_rng(seed)
    events = rng.integers(0, 2, (30, horizon))
    mechanism = Cumulative(
        horizon=horizon, rho=Fraction(1), neighbours="replace_in_place", rows=30, counter=counter
    )
    draws = [drawn_between(mechanism.demand(t), rng, 0, 0) for t in range(1, horizon + 1)]
    for t, state, step, _ in released(mechanism, events, draws):
        assert np.array_equal(state.sums, at_least(events, t))
        assert step.notes == {"moved_by_monotonization": 0}


@given(
    st.integers(1, 8), st.integers(0, 30), st.integers(0, 10**9), st.sampled_from([1, 10, 10**6])
)
def test_the_clamp_never_raises_the_largest_error(horizon, people, seed, size):
    """Bun24, Lemma 4.2, exactly: for true sums of real histories and estimates of any kind."""
    rng = np.random.default_rng(seed)
    events = rng.integers(0, 2, (people, horizon))
    sums = np.append([people], np.zeros(horizon, np.int64))
    ordered = sums
    raw = clamped = fitted = 0
    for t in range(1, horizon + 1):
        truth = at_least(events, t)
        estimates = truth[1 : t + 1] + rng.integers(-size, size, t, endpoint=True)
        sums = monotone(estimates, sums)
        raw = max(raw, int(np.abs(estimates - truth[1 : t + 1]).max()))
        clamped = max(clamped, int(np.abs(sums - truth).max()))
        better = in_order(estimates.astype(float), rng.random(t) * size)
        ordered = monotone(np.rint(better).astype(np.int64), ordered)
        fitted = max(fitted, int(np.abs(ordered - truth).max()))
        assert clamped <= raw
        assert fitted <= raw


def test_estimates_that_are_monotone_already_stay():
    before = np.array([10, 6, 3, 0, 0])
    assert monotone(np.array([7, 4, 2]), before).tolist() == [10, 7, 4, 2, 0]
    assert monotone(np.array([5, 99, -4]), before).tolist() == [10, 6, 6, 0, 0]


def test_sums_in_order_are_weighted_means_of_those_out_of_order():
    assert in_order(np.array([9.0, 4.0, 4.0]), np.ones(3)).tolist() == [9, 4, 4]
    assert in_order(np.array([3.0, 9.0, 4.0]), np.array([1.0, 2.0, 1.0])).tolist() == [5, 5, 4]
    assert in_order(np.array([1.0, 2.0]), np.zeros(2)).tolist() == [1.5, 1.5]


@pytest.mark.parametrize("counter", [None, "tree"])
def test_sums_in_order_have_smaller_errors_than_clamped_ones(counter):
    """Sums near to each other, which are out of order by chance: by 2 % at least."""
    rng = np.random.default_rng(3)
    events = (rng.random((1500, 12)) < 0.9 * (rng.random((1500, 1)) < 0.2)).astype(np.int64)
    truth = np.array([at_least(events, t) for t in range(1, 13)])
    totals = events.cumsum(axis=1)
    rises = [np.bincount(totals[events[:, t] == 1, t], minlength=13)[1:] for t in range(12)]
    squares = {}
    for ordered in (True, False):
        mechanism = Cumulative(
            horizon=12,
            rho=Fraction(1, 100),
            neighbours="replace_one",
            rows=1500,
            counter=counter,
            ordered=ordered,
        )
        source, errors = SeededNoise(5), []
        for _ in range(60):
            state = mechanism.init()
            for t in range(1, 13):
                counts = np.append(rises[t - 1], 1500)
                state, _ = mechanism.step(state, counts, source.draw(mechanism.demand(t)))
                errors.append(state.sums - truth[t - 1])
        squares[ordered] = float(np.mean(np.square(errors)))
    assert squares[True] < 0.98**2 * squares[False]


def test_the_event_goes_to_every_row_of_the_right_total_equally_often():
    totals = np.array([0, 0, 1, 0, 1, 0, 2])
    coins = np.random.default_rng(4)
    draws = 6000
    columns = np.stack([random_rises(totals, np.array([2, 1, 0]), coins) for _ in range(draws)])
    assert not columns[:, 6].any()
    assert (columns[:, totals == 0].sum(axis=1) == 2).all()
    assert (columns[:, totals == 1].sum(axis=1) == 1).all()
    _, seen = np.unique(columns, axis=0, return_counts=True)
    outcomes = 6 * 2
    assert len(seen) == outcomes
    expected = draws / outcomes
    assert chi2.sf(((seen - expected) ** 2 / expected).sum(), outcomes - 1) > 1e-4


def test_noise_that_leaves_no_row_and_one_period_alone():
    mechanism = Cumulative(
        horizon=4, rho=Fraction(1), neighbours="add_remove", rows=None, size_share=Fraction(1, 2)
    )
    rng = np.random.default_rng(1)
    draws = [drawn_between(mechanism.demand(t), rng, -(10**9), -(10**6)) for t in range(1, 5)]
    for t, state, _, panel in released(mechanism, np.ones((5, 4), int), draws):
        assert panel.symbols.shape == (0, t)
        assert not state.sums.any()
    alone = Cumulative(
        horizon=1, rho=Fraction(1, 2), neighbours="replace_one", rows=3, counter="tree"
    )
    assert alone.variances == (1,)
    draw = Draw((np.array([0]),), rng)
    (_, state, _, panel), *rest = released(alone, np.array([[1], [0], [1]]), [draw])
    assert rest == []
    assert state.sums.tolist() == [3, 2]
    assert panel.symbols.sum() == 2


def test_the_demand_has_a_row_for_each_counter_that_has_begun():
    mechanism = Cumulative(
        horizon=4, rho=Fraction(1), neighbours="add_remove", rows=None, size_share=Fraction(1, 2)
    )
    assert [sum(n for _, n in mechanism.demand(t)) for t in range(1, 5)] == [2, 2, 3, 4]
    assert mechanism.demand(1)[-1] == (mechanism.size_variance, 1)
    assert mechanism.demand(4) == ((mechanism.variances[0], 4),)
    declared = Cumulative(horizon=4, rho=Fraction(1), neighbours="add_remove", rows=100)
    assert [sum(n for _, n in declared.demand(t)) for t in range(1, 5)] == [1, 2, 3, 4]


def test_the_error_bound_is_a_union_over_all_cells():
    mechanism = Cumulative(horizon=12, rho=Fraction(1, 200), neighbours="replace_one", rows=100)
    cells = len([*accumulate(range(1, 13))]) * 13 // 2
    assert cells == 78
    worst = max(mechanism.variance(b, t) for t in range(1, 13) for b in range(1, t + 1))
    assert float(mechanism.worst_variance) == pytest.approx(worst)
    bound = 0.5 + (2 * worst * np.log(2 * 78 / 0.05)) ** 0.5  # sums are rounded
    assert mechanism.error_bound == pytest.approx(bound)
