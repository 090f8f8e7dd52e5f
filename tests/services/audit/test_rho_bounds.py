"""Bounds on rho from scores: they hold as often as they say, and come near."""

import numpy as np
import pytest

from stream_dp.services.audit.rho_bounds import TwoScores, counted_bound, gaussian_bound


def normal_scores(rng, apart, runs, size=1):
    first, second = rng.normal(0, 1, runs), rng.normal(apart, 1, runs)
    return TwoScores(first - apart / 2, second - apart / 2, size)


@pytest.mark.parametrize("apart", [1.0, 4.0])
def test_bounds_hold_in_95_of_100_repetitions(apart):
    rng, truth = np.random.default_rng(5), apart**2 / 2
    repeated = [normal_scores(rng, apart, 400) for _ in range(2000)]
    above = np.mean([gaussian_bound(scores, 0.05) > truth for scores in repeated])
    assert 0.035 < above < 0.065
    assert not any(counted_bound(scores, 0.05) > truth for scores in repeated[:200])


def test_bounds_come_near():
    scores = normal_scores(np.random.default_rng(1), 2.0, 10**6)
    assert gaussian_bound(scores, 0.05) == pytest.approx(2.0, rel=0.01)
    # The divergence of the two events' coins, maximised over orders, is 0.59 of the normal one.
    assert 1.1 < counted_bound(scores, 0.05) < 1.3


def test_several_people_cost_the_square_of_their_number():
    rng = np.random.default_rng(2)
    one, few = normal_scores(rng, 3.0, 1000), normal_scores(rng, 3.0, 1000, size=3)
    assert gaussian_bound(few, 0.05) == pytest.approx(gaussian_bound(one, 0.05) / 9, rel=0.3)
    assert counted_bound(few, 0.05) == pytest.approx(counted_bound(one, 0.05) / 9, rel=0.3)


def test_scores_that_do_not_differ_show_nothing():
    scores = normal_scores(np.random.default_rng(3), 0.0, 1000)
    assert counted_bound(scores, 0.05) == 0
    assert gaussian_bound(scores, 1e-6) == 0


def test_the_direction_of_an_event_does_not_matter():
    rng = np.random.default_rng(4)
    first, second = rng.random(1000), 2 * rng.random(1000)
    scores = TwoScores(first - 0.5, second - 0.5, 1)
    turned = TwoScores(0.5 - second, 0.5 - first, 1)
    assert counted_bound(scores, 0.05) == pytest.approx(counted_bound(turned, 0.05))
