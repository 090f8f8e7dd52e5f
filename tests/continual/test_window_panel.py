"""The fixed-window synthesizer for any noise: histories only grow, histograms are the targets."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.walks import drawn_between, extreme_draws, released, window_counts

from stream_dp.continual.window.panel_fit import nearest_on_simplex
from stream_dp.continual.window.window import FixedWindow


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
    q, width = mechanism.q, mechanism.width
    before = None
    for t, state, step, panel in released(mechanism, symbols, draws):
        assert state.period == t
        if t < width:
            assert step is None
            continue
        noisy = window_counts(symbols, t, width, q) + draws[t - 1].noise[0]
        assert np.array_equal(step.measurements.values, noisy)
        assert step.measurements.variances == (mechanism.scale,) * q**width
        assert step.columns.dtype == np.uint8
        histogram = window_counts(panel.symbols, t, width, q)
        if before is None:
            total = max(0, int(noisy.sum()) + mechanism.padding * noisy.size)
            follows(histogram, noisy, np.array([total]))
            assert step.columns.shape == (panel.rows, width)
        else:
            assert step.columns.shape == (panel.rows, 1)
            assert np.array_equal(panel.until(before.periods[-1]).symbols, before.symbols)
            sums = np.bincount(before.codes(width - 1), minlength=q ** (width - 1))
            follows(histogram, noisy, sums)
        before = panel


def follows(histogram, noisy, sums):
    """Step 3 of Algorithm 1: the nearest counts with the panel's own sums, within a rounding."""
    targets, noisy = histogram.reshape(len(sums), -1), noisy.reshape(len(sums), -1)
    assert np.array_equal(targets.sum(axis=1), sums)
    moved = noisy + (sums - noisy.sum(axis=1))[:, None] / noisy.shape[1]
    nearest = nearest_on_simplex(moved, sums.astype(float))
    assert np.abs(targets - nearest).max(initial=0) < 1 + 1e-5
    assert np.allclose(nearest[moved.min(axis=1) >= 0], moved[moved.min(axis=1) >= 0])


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
    assert mechanism.query(0) == "pattern no no"
    assert mechanism.query(1) == "pattern no yes"
    assert mechanism.query(5) == "pattern yes absent"


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
    assert mechanism.scale == 1000
    assert mechanism.releases == 10
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
    assert replaced.scale == 2000
    assert (2 * 2000 * np.log(8 * 10 / 0.05)) ** 0.5 == pytest.approx(172, abs=0.5)
    assert replaced.padding > 172
