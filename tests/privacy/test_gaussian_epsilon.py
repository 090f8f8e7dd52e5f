"""The eps of discrete Gaussian noise: beside exact curves and other programs."""

import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.privacy_loss_distribution import from_discrete_gaussian_mechanism
from scipy.special import log_ndtr

from stream_dp.privacy.gaussian_epsilon import gaussian_epsilon
from stream_dp.privacy.zcdp import epsilon

MILLIONTH = Fraction(1, 10**6)


def continuous_delta(rho, eps):
    """Of one continuous answer (Balle and Wang 2018, Theorem 8)."""
    mu = math.sqrt(2 * float(rho))
    return math.exp(log_ndtr(mu / 2 - eps / mu)) - math.exp(eps + log_ndtr(-mu / 2 - eps / mu))


@pytest.mark.parametrize("rho", ["1/100", "1/10", "1/2", "2"])
@pytest.mark.parametrize("delta", ["1/1000", "1/1000000", "1/1000000000"])
def test_with_large_variances_it_is_that_of_the_continuous_law(rho, delta):
    rho, delta = Fraction(rho), Fraction(delta)
    eps = float(gaussian_epsilon(rho, delta, 1000 / rho))
    assert continuous_delta(rho, eps) <= float(delta)
    assert continuous_delta(rho, eps / 1.001 - 1e-6) > float(delta)
    assert eps < float(epsilon(rho, delta))


@pytest.mark.parametrize("rho", ["1/100", "1/10", "1/2", "2"])
def test_the_accountant_of_others_agrees(rho):
    """dp_accounting composes continuous Gaussian answers by their privacy loss."""
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    accountant.compose(GaussianDpEvent(math.sqrt(12 / (2 * float(Fraction(rho))))), 12)
    theirs = accountant.get_epsilon(1e-6)
    ours = float(gaussian_epsilon(Fraction(rho), MILLIONTH, 40 / Fraction(rho)))
    assert ours / 1.01 <= theirs <= ours * 1.001


@pytest.mark.parametrize(("rho", "counts"), [("1/100", 1), ("1/10", 4), ("1/2", 20), ("2", 40)])
def test_no_less_than_what_discrete_answers_have(rho, counts):
    """One person changes so many counts by 1. dp_accounting composes the discrete law itself."""
    variance = counts / (2 * Fraction(rho))
    one = from_discrete_gaussian_mechanism(
        math.sqrt(variance), value_discretization_interval=1e-4, pessimistic_estimate=False
    )
    theirs = one.self_compose(counts).get_epsilon_for_delta(1e-6)
    ours = float(gaussian_epsilon(Fraction(rho), MILLIONTH, variance))
    assert theirs <= ours <= float(epsilon(Fraction(rho), MILLIONTH))
    assert ours <= theirs * 1.03


def discrete(variance, reach):
    x = np.arange(-reach, reach + 1)
    weights = np.exp(-(x**2) / (2 * variance))
    return x, weights / weights.sum()


@pytest.mark.parametrize("rho", [0.05, 0.3])
def test_the_second_answer_may_depend_on_the_first(rho):
    """The whole sum over both outputs, where the first decides how the rest of rho is spent."""
    first, choices = 1 / rho, ((1, 1 / rho), (2, 4 / rho), (3, 9 / rho))
    x, p = discrete(first, 90)
    _, q = discrete(first, 90)
    q = np.roll(q, 1)  # the neighbour's count is higher by 1; the ends weigh nothing
    worst, eps = (
        0.0,
        float(
            gaussian_epsilon(
                Fraction(rho).limit_denominator(), MILLIONTH, Fraction(1 / rho).limit_denominator()
            )
        ),
    )
    for i, here in enumerate(x):
        change, variance = choices[int(here) % 3]
        _, r = discrete(variance, 400)
        s = np.roll(r, change)
        worst += np.maximum(p[i] * r - math.exp(eps) * q[i] * s, 0).sum()
    assert 0 < worst <= 1e-6
    assert worst > 1e-7


def test_factors_of_probabilities_lie_in_their_range():
    """The discrete law beside the continuous one that is rounded at random, in numbers."""
    variance, share = 6.0, 0.15 / 6 * 2
    s, rest = share * variance, (1 - share) * variance
    y = np.linspace(-40, 40, 400_001)
    x, exact = discrete(variance, 15)
    grid = np.arange(-80, 81)
    law = np.exp(-(y**2) / (2 * rest)) / math.sqrt(2 * math.pi * rest) * (y[1] - y[0])
    theta = sum(np.exp(-((n - y) ** 2) / (2 * s)) for n in grid)
    rounded = np.array([(law * np.exp(-((n - y) ** 2) / (2 * s)) / theta).sum() for n in x])
    logs = np.log(rounded / exact)
    q = math.exp(-2 * math.pi**2 * s)
    mean = 2 * q * math.exp(-2 * math.pi**2 * share * (1 - share) * variance) / (1 - q)
    largest = 2 * q / (1 - q)
    eta = mean + largest**2 / (1 - largest) + mean / (1 - mean)
    assert 0 < logs.max() - logs.min() <= eta < 0.02


def test_small_variances_get_the_eps_of_zcdp():
    assert gaussian_epsilon(Fraction(2), MILLIONTH, Fraction(1, 4)) == epsilon(
        Fraction(2), MILLIONTH
    )
    assert gaussian_epsilon(Fraction(0), MILLIONTH, Fraction(1)) == 0
    for delta in (Fraction(1, 2), Fraction(9, 10)):
        assert gaussian_epsilon(Fraction(1), delta, Fraction(100)) <= epsilon(Fraction(1), delta)
