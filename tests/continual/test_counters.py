"""Stream counters: prefix sums and what is known of their errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dp.continual.counters.honaker import honaker
from stream_dp.continual.counters.methods import counter as counter_of
from stream_dp.continual.counters.tree import tree
from stream_dp.continual.counters.unbounded import unbounded, unbounded_column2


def levels(n):
    """L = floor(log2 n) + 1."""
    return n.bit_length()


@given(st.integers(1, 200))
def test_a_released_sum_adds_popcount_nodes_and_an_entry_is_in_at_most_L_nodes(n):
    """Bun24, Algorithm 3: with ceil(log2 n) levels a power of two would have one too few."""
    counter = tree(n)
    assert [int(r) for r in counter.gains] == [i.bit_count() for i in range(1, n + 1)]
    assert counter.column2 == levels(n)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 12, 31, 60, 77])
def test_estimation_from_below_is_least_squares_of_all_complete_nodes(n):
    """Its variance is sum over the digits of 2^h / (2^(h+1) - 1), which no estimate beats."""
    counter = honaker(n)
    digits = [[h for h in range(8) if i >> h & 1] for i in range(1, n + 1)]
    expected = [sum((1 << h) / ((2 << h) - 1) for h in heights) for heights in digits]
    assert counter.gains == pytest.approx(expected, rel=1e-12)
    known = counter.encode.astype(float)
    best = np.ones(n) @ np.linalg.pinv(known.T @ known) @ np.ones(n)
    assert counter.gains[-1] == pytest.approx(best, rel=1e-9)
    assert counter.column2 == levels(n)


# Root mean square over steps, and largest, in units of 1 / sqrt(2 rho), if one entry changes by 1.
ERRORS = {
    "tree": {12: (2.708, 3.464), 60: (4.195, 5.477), 120: (4.879, 6.481), 600: (6.663, 9.487)},
    "honaker": {12: (2.275, 2.992), 60: (3.343, 4.441), 120: (3.832, 5.154)},
    "square-root": {
        12: (1.709, 1.851),
        60: (2.209, 2.368),
        120: (2.428, 2.590),
        600: (2.940, 3.102),
    },
}


@pytest.mark.parametrize(
    ("name", "n"), [(name, n) for name, lengths in ERRORS.items() for n in lengths]
)
def test_unit_errors_of_one_counter(name, n):
    rmse, worst = ERRORS[name][n]
    errors = counter_of(name, n).errors
    assert math.sqrt((errors**2).mean()) == pytest.approx(rmse, abs=6e-4)
    assert errors.max() == pytest.approx(worst, abs=6e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n", "rmse"),
    [("honaker", 600, 5.119), ("honaker", 1024, 5.650), ("square-root", 600, 2.940)],
)
def test_unit_errors_of_long_counters(name, n, rmse):
    errors = counter_of(name, n).errors
    assert math.sqrt((errors**2).mean()) == pytest.approx(rmse, abs=6e-4)


@pytest.mark.parametrize("name", ["square-root", "unbounded"])
@given(st.integers(1, 60), st.integers(1, 600))
def test_what_is_measured_and_decoded_up_to_a_step_does_not_depend_on_the_length(name, n, more):
    short, long = counter_of(name, n), counter_of(name, n + more)
    assert np.array_equal(short.encode, long.encode[:n, :n])
    assert np.allclose(short.decode, long.decode[:n, :n], rtol=0, atol=1e-12)


def test_the_column_without_an_end_has_a_finite_norm():
    """Partial sums stay below the bound, whose tail is above what longer columns add."""
    bound = unbounded_column2()
    short, long = (unbounded(n) for n in (500, 1000))
    assert short.column2 < long.column2 < bound
    assert float(bound) / 4**16 == pytest.approx(2.0626, abs=1e-3)
    j = np.arange(1, 10**6)
    root = np.concatenate([[1], np.cumprod((2 * j - 1) / (2 * j))])
    column = root / (1 + np.log(np.arange(1, 10**6 + 1)) / 10) ** 2
    assert (column**2).sum() < float(bound) / 4**16
    assert (root[1:3000] ** 2 < 1 / (math.pi * (j[:2999] + 0.25))).all()
    assert (unbounded(300).encode >= 0).all()


def test_errors_without_a_horizon():
    """Each step's error is what any longer run has there."""
    errors = np.sqrt(unbounded(600).gains * float(unbounded_column2()))
    assert errors[[11, 59, 119, 599]] == pytest.approx([2.204, 2.787, 3.075, 3.843], abs=2e-3)
