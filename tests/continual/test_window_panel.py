"""The fixed-window synthesizer for any noise: histories only grow, histograms are the targets."""

from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from kit.walks import drawn_between, extreme_draws, released, window_counts
from scipy.stats import chi2

from stream_dp.continual import FixedWindow, window_targets
from stream_dp.continual.splits import project_nonnegative, shift_to_totals


def projection(values, total):
    """Euclidean projection onto {x >= 0, sum x = total}: a level to subtract, by bisection."""
    low, high = values.min() - total - 1.0, values.max() + 1.0
    for _ in range(100):
        middle = (low + high) / 2
        if np.maximum(values - middle, 0).sum() > total:
            low = middle
        else:
            high = middle
    return np.maximum(values - high, 0)


@st.composite
def runs(draw):
    """A mechanism, people's symbols, and noise of any size and sign."""
    q, width = draw(st.integers(2, 3)), draw(st.integers(1, 3))
    horizon = draw(st.integers(width, 5))
    mechanism = FixedWindow(
        values=tuple(range(q)),
        width=width,
        horizon=horizon,
        rho=Fraction(1),
        neighbours="replace_one",
        strategy="histogram",
    )
    rng = np.random.default_rng(draw(st.integers(0, 10**9)))
    people = draw(st.sampled_from([0, 1, 30]))
    draws = extreme_draws(draw, mechanism, rng)
    return mechanism, rng.integers(0, q, (people, horizon)), draws


@given(runs())
def test_each_step_adds_a_column_whose_window_histogram_is_the_target(run):
    mechanism, symbols, draws = run
    q, width, seen = mechanism.q, mechanism.width, []

    def spy(wanted, coins):
        seen.append(project_nonnegative(wanted, coins))
        return seen[-1]

    before = None
    with patch.object(window_targets, "project_nonnegative", spy):
        for t, state, step, panel in released(mechanism, symbols, draws):
            assert state.period == t
            if t < width:
                assert step is None
                continue
            truth = window_counts(symbols, t, width, q)
            noisy = truth + draws[t - 1].noise[0]
            assert np.array_equal(step.measurements.values, noisy)
            assert step.measurements.variances == (mechanism.design.scale,) * q**width
            assert step.columns.dtype == np.uint8
            histogram = window_counts(panel.symbols, t, width, q)
            if before is None:
                assert np.array_equal(histogram, np.maximum(noisy + mechanism.padding, 0))
                assert step.columns.shape == (panel.rows, width)
            else:
                assert step.columns.shape == (panel.rows, 1)
                assert np.array_equal(panel.until(before.periods[-1]).symbols, before.symbols)
                assert np.array_equal(histogram, seen[-1].ravel())
                follows(histogram, noisy, before, mechanism)
            before = panel


def follows(histogram, noisy, before, mechanism):
    """Step 3 of Algorithm 1, in real numbers: the nearest counts with the panel's own sums."""
    q, overlaps = mechanism.q, mechanism.q ** (mechanism.width - 1)
    sums = np.bincount(before.codes(mechanism.width - 1), minlength=overlaps)
    targets, noisy = histogram.reshape(overlaps, q), noisy.reshape(overlaps, q)
    assert np.array_equal(targets.sum(axis=1), sums)
    for row, measured, total in zip(targets, noisy, sums, strict=True):
        moved = measured + (total - measured.sum()) / q
        if moved.min() >= 1:
            assert np.abs(row - moved).max() < 1
        else:
            assert np.abs(row - projection(moved, total)).max() < 3


@given(st.integers(2, 3), st.integers(1, 3), st.integers(0, 10**9))
def test_without_noise_every_window_is_off_by_the_padding_alone(q, width, seed):
    rng = np.random.default_rng(seed)
    mechanism = FixedWindow(
        values=tuple(range(q)), width=width, horizon=5, rho=Fraction(1), neighbours="add_remove"
    )
    symbols = rng.integers(0, q, (40, 5))
    draws = [drawn_between(mechanism.demand(t), rng, 0, 0) for t in range(1, 6)]
    for t, _, step, panel in released(mechanism, symbols, draws):
        if step is not None:
            truth = window_counts(symbols, t, width, q)
            histogram = window_counts(panel.symbols, t, width, q)
            assert np.array_equal(histogram, truth + mechanism.padding)
            assert step.notes == {"cells_below_zero": 0, "rows_moved_by_repair": 0}


def test_nobody_at_all_and_noise_that_leaves_no_row():
    mechanism = FixedWindow(
        values=(0, 1, 2), width=2, horizon=4, rho=Fraction(1), neighbours="add_remove"
    )
    rng = np.random.default_rng(1)
    draws = [drawn_between(mechanism.demand(t), rng, -(10**12), -(10**6)) for t in range(1, 5)]
    for t, _, step, panel in released(mechanism, np.zeros((0, 4), int), draws):
        if t >= 2:
            assert panel.symbols.shape == (0, t)
            assert step.measurements.values.max() < 0


def test_the_patterns_are_named_with_the_values_the_newest_last():
    mechanism = FixedWindow(
        values=("no", "yes", "absent"), width=2, horizon=3, rho=Fraction(1), neighbours="add_remove"
    )
    assert mechanism.design.query(0) == "pattern no no"
    assert mechanism.design.query(1) == "pattern no yes"
    assert mechanism.design.query(5) == "pattern yes absent"


grids = st.tuples(st.integers(1, 4), st.integers(2, 5)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(-50, 50) | st.integers(-(10**6), 9))
)


@given(grids, st.integers(0, 10**6), st.integers(0, 100))
def test_consistent_moves_siblings_alike_and_hits_the_sums(noisy, seed, extra):
    totals = np.arange(noisy.shape[0]) * 17 + extra
    shifted = shift_to_totals(noisy, totals, np.random.default_rng(seed))
    assert np.array_equal(shifted.sum(axis=1), totals)
    shift = (totals - noisy.sum(axis=1)) / noisy.shape[1]
    assert (np.abs(shifted - noisy - shift[:, None]) < 1).all()


@given(grids, st.integers(0, 10**6))
def test_nonnegative_is_the_euclidean_projection_up_to_rounding(wanted, seed):
    wanted[:, 0] += np.maximum(-wanted.sum(axis=1), 0)
    projected = project_nonnegative(wanted, np.random.default_rng(seed))
    assert (projected >= 0).all()
    assert np.array_equal(projected.sum(axis=1), wanted.sum(axis=1))
    sound = (wanted >= 0).all(axis=1)
    assert np.array_equal(projected[sound], wanted[sound])
    for row, target in zip(projected, wanted, strict=True):
        assert np.abs(row - projection(target, target.sum())).max() < 1 + 1e-6


@pytest.mark.parametrize(("q", "gap"), [(2, 1), (3, 1), (3, 2), (5, 3)])
def test_the_remainder_goes_to_every_sibling_equally_often(q, gap):
    noisy = np.tile(np.arange(q) * 10, (20_000, 1))
    totals = noisy.sum(axis=1) + 7 * q + gap
    more = shift_to_totals(noisy, totals, np.random.default_rng(2)) - noisy - 7
    assert set(np.unique(more)) == {0, 1}
    assert equally_often(more.sum(axis=0), 1 - gap / q)


def test_the_remainder_of_a_repair_goes_to_every_member_equally_often():
    wanted = np.tile([5, 5, 5, -1], (20_000, 1))
    projected = project_nonnegative(wanted, np.random.default_rng(3))
    assert (projected[:, 3] == 0).all()
    assert equally_often((projected[:, :3] - 4).sum(axis=0), 1 / 3)


def equally_often(seen, left_out):
    """Pearson's statistic of winners' counts, corrected for drawing without replacement."""
    mean = seen.mean()
    statistic = ((seen - mean) ** 2).sum() / mean / left_out * (1 - 1 / len(seen))
    return chi2.sf(statistic, len(seen) - 1) > 1e-4


def test_padding_is_the_one_sided_bound_and_lambda_the_two_sided_one():
    """Bun24, Theorem 3.2: lambda = (s + 1/sqrt 2) sqrt(2 ln(2^(k+1) R / beta))."""
    mechanism = FixedWindow(
        values=(0, 1),
        width=3,
        horizon=12,
        rho=Fraction(1, 200),
        neighbours="add_remove",
        strategy="histogram",
    )
    assert mechanism.design.scale == 1000
    assert mechanism.design.releases == 10
    assert mechanism.error_bound == pytest.approx(129.9, abs=0.05)
    spread = 1000**0.5 + 0.5**0.5
    assert mechanism.padding == np.ceil(spread * (2 * np.log(8 * 10 / 0.05)) ** 0.5) == 125
    assert mechanism.padding > (2 * 1000 * np.log(8 * 10 / 0.05)) ** 0.5 > 121
    replaced = FixedWindow(
        values=(0, 1),
        width=3,
        horizon=12,
        rho=Fraction(1, 200),
        neighbours="replace_one",
        strategy="histogram",
    )
    assert replaced.design.scale == 2000
    assert (2 * 2000 * np.log(8 * 10 / 0.05)) ** 0.5 == pytest.approx(172, abs=0.5)
    assert replaced.padding > 172
