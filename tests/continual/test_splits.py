"""Whole rows from real numbers: their sums, and roundings that are fair."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dp.continual.window.fitted_targets import round_to_sums


@given(st.integers(1, 5), st.integers(2, 6), st.integers(0, 10**6), st.sampled_from([2, 12, 997]))
def test_rounding_keeps_sums_and_moves_nothing_by_1(rows, q, seed, parts):
    rng = np.random.default_rng(seed)
    wanted = rng.integers(-(10**6), 10**6, (rows, q)) / parts
    totals = rng.integers(0, 10**6, rows)
    wanted[:, -1] = totals - wanted[:, :-1].sum(axis=1)
    rounded = round_to_sums(wanted, totals, rng)
    assert rounded.dtype == np.int64
    assert np.array_equal(rounded.sum(axis=1), totals)
    assert np.abs(rounded - wanted).max() < 1 + 1e-6


def test_integers_stay():
    wanted = np.random.default_rng(1).integers(-99, 99, (50, 3))
    rounded = round_to_sums(wanted.astype(float), wanted.sum(axis=1), np.random.default_rng(2))
    assert np.array_equal(rounded, wanted)


@pytest.mark.parametrize(
    "wanted",
    [[0.5, 2.5], [1 / 3, 5 / 3, -3], [0.25, 0.25, 0.75, 0.75], [-1.9, 0.3, 0.3, 0.3], [7 / 6] * 6],
)
def test_rounding_is_unbiased_for_every_sibling(wanted):
    repetitions = 20_000
    grid = np.tile(np.array(wanted), (repetitions, 1))
    totals = np.full(repetitions, round(sum(wanted)))
    errors = round_to_sums(grid, totals, np.random.default_rng(3)) - grid
    assert (np.abs(errors.mean(axis=0)) < 5 * 0.5 / repetitions**0.5).all()
    assert np.abs(errors).max() < 1
    fractions = np.array(wanted) % 1
    assert np.allclose((errors**2).mean(axis=0), fractions * (1 - fractions), atol=0.02)
