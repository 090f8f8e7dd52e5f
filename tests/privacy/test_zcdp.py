"""zCDP costs, and their (eps, delta) against two other implementations and a true privacy curve."""

import math
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import opendp.prelude as dp
import pytest
from dp_accounting import ZCDpEvent
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from stream_dp.privacy.zcdp import best_guess, epsilon, gaussian_rho

dp.enable_features("contrib")

RHOS = [Fraction(r) for r in ("1e-6", "1/1000", "0.005", "0.05", "0.5", "1", "10", "1000")]
DELTAS = [Fraction(d) for d in ("1e-12", "1e-6", "0.01", "0.5")]
MILLIONTH = Fraction(1, 10**6)
ORDERS = [*(1 + np.geomspace(1e-3, 1e6, 4000))]


def opendp_profile(rho):
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="i64")
    gaussian = dp.m.make_gaussian(*space, scale=math.sqrt(1 / (2 * float(rho))))
    return dp.c.make_zCDP_to_approxDP(gaussian).map(1)


def gaussian_delta(rho, eps):
    """delta of one Gaussian answer at eps (Balle and Wang 2018, Theorem 8): the exact curve."""
    sigma = 1 / math.sqrt(2 * float(rho))
    return math.exp(log_ndtr(0.5 / sigma - eps * sigma)) - math.exp(
        eps + log_ndtr(-0.5 / sigma - eps * sigma)
    )


def test_the_cost_of_a_gaussian_answer():
    assert gaussian_rho(1, Fraction(1000)) == Fraction(1, 2000)
    assert gaussian_rho(2, Fraction(1000)) == 2 * gaussian_rho(1, Fraction(1000))


@pytest.mark.parametrize(("rho", "value"), [("0.05", 1.472), ("0.5", 5.222), ("1", 7.766)])
def test_known_values_below_the_simple_bound(rho, value):
    """Canonne, Kamath, Steinke 2020, against rho + 2 sqrt(rho ln(1/delta)) of Bun, Steinke 2016."""
    eps = float(epsilon(Fraction(rho), MILLIONTH))
    assert eps == pytest.approx(value, abs=5e-4)
    assert eps < float(Fraction(rho)) + 2 * math.sqrt(float(Fraction(rho)) * math.log(1e6))


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_never_below_opendp_and_no_more_than_rounding_above(rho, delta):
    ours, profile = float(epsilon(rho, delta)), opendp_profile(rho)
    theirs = profile.epsilon(float(delta))
    assert theirs - 1e-6 * max(1, theirs) <= ours <= theirs * (1 + 1e-6) + 2e-6
    assert profile.delta(ours) <= float(delta) * (1 + 1e-6)


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_never_above_an_accountant_with_a_fine_grid_of_orders(rho, delta):
    accountant = RdpAccountant(ORDERS)
    accountant.compose(ZCDpEvent(float(rho)))
    theirs, ours = accountant.get_epsilon(float(delta)), float(epsilon(rho, delta))
    assert theirs * (1 - 1e-3) - 1e-6 <= ours <= theirs + 2e-6


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_valid_for_the_gaussian_mechanism_itself(rho, delta):
    assert gaussian_delta(rho, float(epsilon(rho, delta))) <= float(delta)


@settings(max_examples=50)
@given(
    st.fractions(Fraction(1, 10**7), 1000),
    st.fractions(Fraction(1, 10**12), Fraction(9, 10)),
    st.fractions(1, 3),
)
def test_more_budget_or_a_smaller_delta_means_a_larger_epsilon(rho, delta, factor):
    here = epsilon(rho, delta)
    assert here >= 0
    assert here <= epsilon(rho * factor, delta) + Decimal("1e-6")
    assert here <= epsilon(rho, delta / factor) + Decimal("1e-6")


def test_monotone_along_a_fine_grid():
    values = [epsilon(Fraction(i, 100), MILLIONTH) for i in (*range(30), *range(30, 200, 5))]
    assert values[0] == 0
    assert all(a < b for a, b in pairwise(values))


@pytest.mark.parametrize(
    ("rho", "delta"), [("1", "1e-400"), ("1e-400", "1e-6"), ("1e30", "1e-6"), ("1e30", "1e-400")]
)
def test_numbers_that_no_float_holds_have_an_epsilon_too(rho, delta):
    """A study file may declare them; rho + 2 sqrt(rho ln(1/delta)) of Bun, Steinke 2016 bounds."""
    r, exponent = Decimal(rho), -Decimal(delta).log10()
    simple = r + 2 * (r * exponent * Decimal(10).ln()).sqrt()
    assert 0 <= epsilon(Fraction(rho), Fraction(delta)) <= simple + Decimal("1e-6")


def test_six_decimals_rounded_up():
    assert epsilon(Fraction(1, 2), MILLIONTH).as_tuple().exponent == -6


@pytest.mark.parametrize("delta", ["1e-6", "0.01", "0.1", "0.999"])
def test_no_cost_above_nothing_is_printed_as_nothing(delta):
    """A large delta alone may cover a small rho; 0 would be read as no risk at all."""
    for rho in ("1e-12", "1e-9", "1e-6"):
        eps = epsilon(Fraction(rho), Fraction(delta))
        assert eps >= Decimal("1e-6")
        assert str(eps) == f"{eps:f}"
    assert epsilon(Fraction(0), Fraction(delta)) == 0


def test_refusals():
    for delta in (Fraction(0), Fraction(1), Fraction(-1)):
        with pytest.raises(ValueError, match="delta"):
            epsilon(Fraction(1), delta)
    with pytest.raises(ValueError, match="rho"):
        epsilon(Fraction(-1), MILLIONTH)


@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.1, 0.5, 1.0, 4.0])
def test_the_best_guess_is_no_worse_than_that_of_a_gaussian(rho):
    """A Gaussian mechanism is rho-zCDP, and its best guess is known exactly."""
    distance = math.erf(math.sqrt(rho) / 2)  # Phi(d/2) - Phi(-d/2) of d = sqrt(2 rho)
    exact = 50 * (1 + distance)
    assert exact <= best_guess(rho) <= 100
    assert best_guess(rho) <= 50 * (1 + math.sqrt(rho / 2)) + 0.1
