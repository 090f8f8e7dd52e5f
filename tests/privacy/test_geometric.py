"""The cost of double-geometric noise against Renyi divergences that are summed term by term."""

import math
from fractions import Fraction
from itertools import pairwise, product

import pytest
from kit.divergences import log_moment

from stream_dp.privacy.exact_tables import geometric_rho, rounded_up

# a - 1 from next to nothing, where the divergence is that of Kullback and Leibler, to 10^4.
EXCESSES = [10 ** (x / 4) for x in range(-28, 17)]


def brute_force(decay, changes):
    """The largest D_a / a over all orders of the grid, of independent counts together."""
    return max(
        sum(log_moment(decay, k, excess) for k in changes) / (excess * (1 + excess))
        for excess in EXCESSES
    )


@pytest.mark.parametrize("decay", [Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(3)])
@pytest.mark.parametrize("changes", [(1,), (1, 1), (-1, 1), (2, 1, 1), (1, -3), (0, 2)])
def test_the_cost_is_the_supremum_over_all_orders(decay, changes):
    cost = float(geometric_rho(decay, changes))
    assert brute_force(float(decay), changes) == pytest.approx(cost, rel=1e-6)
    for scale in (0.95, 1.05):  # of the noise
        assert brute_force(float(decay) / scale, changes) != pytest.approx(cost, rel=0.01)


@pytest.mark.parametrize("decay", [0.02, 0.3, 2.0])
def test_divergence_by_order_falls_from_its_limit_at_one(decay):
    for changes in product(range(4), repeat=2):
        if any(changes):
            rising = [
                sum(log_moment(decay, k, e) for k in changes) / (e * (1 + e)) for e in EXCESSES[16:]
            ]
            assert all(b <= a * (1 + 1e-9) for a, b in pairwise(rising))


@pytest.mark.parametrize("decay", [Fraction(1, 4096), Fraction(1, 7), Fraction(2), Fraction(20)])
def test_a_change_of_one_costs_decay_times_tanh_of_half_of_it(decay):
    exact = float(decay) * math.tanh(decay / 2)
    assert float(geometric_rho(decay, (1,))) == pytest.approx(exact, rel=1e-13)
    # Randomised response between two answers is no better: the bound of pure privacy.
    assert geometric_rho(decay, (1,)) <= decay**2 / 2
    two = float(decay) * (2 - 2 * math.exp(-decay))
    assert float(geometric_rho(decay, (2,))) == pytest.approx(two, rel=1e-13)
    assert geometric_rho(decay, (2,)) > 2 * geometric_rho(decay, (1,)) or decay > 10


def test_the_cost_is_never_below_the_exact_one():
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        for decay in (Fraction(1, 10**6), Fraction(1, 3), Fraction(7), Fraction(1000)):
            scale = mpmath.mpf(decay.numerator) / decay.denominator
            exact = scale * mpmath.tanh(scale / 2)
            cost = geometric_rho(decay, (1,))
            over = (mpmath.mpf(cost.numerator) / cost.denominator - exact) / exact
            assert 0 <= over < mpmath.mpf("1e-12")


def test_a_value_is_rounded_up_to_fifteen_digits():
    assert rounded_up(Fraction(1, 3)) == Fraction(333333333333334, 10**15)
    assert rounded_up(Fraction(5, 2)) == Fraction(5, 2)
    assert rounded_up(Fraction(0)) == 0
