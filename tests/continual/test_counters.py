"""Stream counters: prefix sums, what is known of their errors, and that noise is on a lattice."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dp.continual.counters.factorizations import GAP, MOST_GAMMA2, lower_bound, lower_mean
from stream_dp.continual.counters.gamma2 import gamma2
from stream_dp.continual.counters.honaker import honaker
from stream_dp.continual.counters.methods import counter as counter_of
from stream_dp.continual.counters.normalised import normalised
from stream_dp.continual.counters.stream_counters import BITS, decoding, rounded
from stream_dp.continual.counters.tree import tree
from stream_dp.continual.counters.unbounded import unbounded, unbounded_column2
from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.study import CounterKind

NAMES = list(CounterKind)


def levels(n):
    """L = floor(log2 n) + 1."""
    return n.bit_length()


@given(st.integers(1, 200))
def test_a_released_sum_adds_popcount_nodes_and_an_entry_is_in_at_most_L_nodes(n):
    """Bun24, Algorithm 3: with ceil(log2 n) levels a power of two would have one too few."""
    counter = tree(n)
    assert [int(r) for r in counter.gains] == [i.bit_count() for i in range(1, n + 1)]
    assert counter.column2 == levels(n)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 12, 31, 60, 77, 128])
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


ERRORS = {
    "tree": {12: (2.708, 3.464), 60: (4.195, 5.477), 120: (4.879, 6.481), 600: (6.663, 9.487)},
    "honaker": {12: (2.275, None), 60: (3.343, None), 120: (3.832, None), 600: (5.119, None)},
    "sqrt": {12: (1.709, None), 60: (2.209, None), 120: (2.428, None), 600: (2.940, None)},
    "normalised": {12: (1.625, 1.696), 60: (2.108, 2.192), 120: (2.322, 2.408),
                   600: (2.824, 2.912)},
    "gamma2": {12: (1.623, 1.623), 60: (2.092, 2.092), 120: (2.301, 2.301)},
}  # fmt: skip
LONGEST = {
    "tree": (7.417, 10.488),
    "honaker": (5.650, None),
    "sqrt": (3.110, None),
    "normalised": (2.991, 3.081),
}


def check(counter, rmse, worst):
    assert math.sqrt((counter.errors**2).mean()) == pytest.approx(rmse, abs=6e-4)
    if worst is not None:
        assert counter.errors.max() == pytest.approx(worst, abs=6e-4)


@pytest.mark.parametrize("n", [12, 60, 120])
@pytest.mark.parametrize("name", list(ERRORS))
def test_unit_errors_of_one_counter(name, n):
    """In units of 1 / sqrt(2 rho), for a stream in which one entry changes by 1."""
    check(counter_of(name, n), *ERRORS[name][n])


@pytest.mark.slow
@pytest.mark.parametrize("name", list(LONGEST))
def test_unit_errors_of_long_counters(name):
    check(counter_of(name, 600), *ERRORS[name][600])
    check(counter_of(name, 1024), *LONGEST[name])


@pytest.mark.parametrize(("n", "mean", "worst"), [(12, 1.607, 1.623), (60, 2.080, 2.092),
                                                  (120, 2.291, 2.301)])  # fmt: skip
def test_what_no_counter_can_beat(n, mean, worst):
    """Of the root mean square over steps, and of the worst step."""
    assert lower_mean(n) == pytest.approx(mean, abs=6e-4)
    assert lower_bound(n) == pytest.approx(worst, abs=6e-4)
    for name in NAMES:
        counter = counter_of(name, n)
        assert math.sqrt((counter.errors**2).mean()) >= lower_mean(n) * (1 - 1e-9)
        assert counter.errors.max() >= lower_bound(n) * (1 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "mean", "worst"), [(600, 2.789, 2.796), (1024, 2.955, 2.962)])
def test_what_no_long_counter_can_beat(n, mean, worst):
    assert lower_mean(n) == pytest.approx(mean, abs=6e-4)
    assert worst - 0.003 < lower_bound(n) < worst + 6e-4


@pytest.mark.parametrize("n", [1, 2, 3, 5, 12, 31, 64, 100, MOST_GAMMA2])
def test_gamma2_is_certified(n):
    """Rounding to the lattice included."""
    counter = gamma2(n)
    assert lower_bound(n) * (1 - 1e-9) <= counter.errors.max() <= lower_bound(n) * (1 + 1.5 * GAP)


def test_the_lower_bound_holds_for_any_weights_of_rows_and_columns():
    """Weak duality, from its statement: random p, q never exceed the best factorization."""
    rng, n = np.random.default_rng(4), 12
    for _ in range(50):
        p, q = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n))
        sums = np.tril(np.ones((n, n))) * np.sqrt(p)[:, None] * np.sqrt(q)
        assert np.linalg.svd(sums, compute_uv=False).sum() <= gamma2(n).errors.max()


def test_the_lower_bound_does_not_fall_where_its_computation_changes():
    bounds = [lower_bound(n) for n in (MOST_GAMMA2 - 1, MOST_GAMMA2, MOST_GAMMA2 + 1, 150)]
    assert bounds == sorted(bounds)
    with pytest.raises(ValueError, match="at most 128"):
        gamma2(MOST_GAMMA2 + 1)


@pytest.mark.parametrize("name", ["sqrt", "unbounded"])
@given(st.integers(1, 60), st.integers(1, 600))
def test_what_is_measured_and_decoded_up_to_a_step_does_not_depend_on_the_length(name, n, more):
    short, long = counter_of(name, n), counter_of(name, n + more)
    assert np.array_equal(short.encode, long.encode[:n, :n])
    assert np.allclose(short.decode, long.decode[:n, :n], rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7, 40, 130])
def test_columns_of_norm_1_make_a_short_counter_the_end_of_a_longer_one(n):
    counter, real = normalised(n), np.tril(np.ones((n, n)))
    column = np.array([math.comb(2 * j, j) / 4**j for j in range(n)])
    for i in range(n):
        real[i, : i + 1] = (
            column[: i + 1][::-1] / np.sqrt((column[:n] ** 2).cumsum()[::-1])[: i + 1]
        )
    assert np.array_equal(counter.encode, rounded(real))
    assert np.allclose(counter.decode, decoding(rounded(real), 1 << BITS), rtol=0, atol=1e-12)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_of_long_counters_normalised_ones_have_the_least_variance(relation):
    horizon, rho = MOST_GAMMA2 + 1, Fraction(1, 100)
    facts = {"horizon": horizon, "rho": rho, "neighbours": relation, "rows": 1000}
    best = Cumulative(**facts, counter="normalised")
    other = Cumulative(**facts, counter="sqrt")
    assert other.worst_sum_variance > 1.09 * best.worst_sum_variance


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
