"""The mixture of Kalman filters: known values, a dense Gaussian computation, and its coverage."""

import math

import numpy as np
import pytest

from stream_dp.answers.month_filters import (
    EVEN,
    FILTERS,
    GUARD,
    SLOPES,
    WALKS,
    Filters,
    Measured,
    MonthFilters,
    _guards,
    drift_prior,
)

SIZES = (3, 4)


def centred(values):
    for axis in range(values.ndim):
        values = values - values.mean(axis, keepdims=True)
    return values


def noisy(rng, months, drift=0.0, noise=1.0):
    """Values of an interaction that walks at random, measured each month."""
    shape = (months, *SIZES)
    levels = np.cumsum(rng.normal(0, drift, shape), axis=0) + rng.normal(0, 3, SIZES)
    return [centred(x).ravel() for x in levels + rng.normal(0, noise, shape)]


def after(values, variances, scale=1.0, prior=EVEN, remember=None):
    filters = Filters.of(SIZES, scale)
    for t, (y, s) in enumerate(zip(values, variances, strict=True)):
        filters = (filters.passed() if t else filters).learnt(y, s, prior)
        if t == remember:
            filters = filters.remembering()
    return filters


def test_without_drift_variances_fall_as_one_over_months():
    values = [np.zeros(12)] * 7
    for t in range(1, 8):
        filters = after(values[:t], [2.0] * t, scale=2.0)
        assert filters.covariances[0, 0, 0] == pytest.approx(2 / t, rel=2e-4)


def test_the_steady_variance_of_a_random_walk():
    filters = after([np.zeros(12)] * 60, [1.0] * 60)
    assert WALKS[5] == 0.1
    assert filters.covariances[5, 0, 0] == pytest.approx(0.27016, abs=1e-5)


def dense(values, variances, extra=None):
    """By filter, the joint posterior of all levels from the covariance matrix of all months."""
    months = len(values)
    t = np.arange(months)
    walk = np.minimum.outer(t, t)
    line = np.multiply.outer(t, t)
    priors = [1e4 + q * walk for q in WALKS] + [1e4 + q * line + q / 10 * walk for q in SLOPES]
    means, covariances = [], []
    for prior in priors:
        gain = prior @ np.linalg.inv(prior + np.diag(variances))
        means.append(gain @ np.array(values))
        covariances.append(prior - gain @ prior)
    return np.array(means), np.array(covariances)


def test_filters_are_the_conditional_law_of_all_months():
    """Also what later months tell of an earlier level: fixed-point smoothing."""
    values = noisy(np.random.default_rng(1), 6)
    variances = [0.3, 1, 1, 0.8, 1, 1.2]
    filters = after(values, variances, remember=2)
    means, covariances = dense(values, variances)
    assert not filters.jumps
    assert filters.means[:, 0] == pytest.approx(means[:, 5], abs=1e-7)
    assert filters.means[:, 2] == pytest.approx(means[:, 2], abs=1e-7)
    assert filters.covariances[:, 0, 2] == pytest.approx(covariances[:, 5, 2], abs=1e-7)
    assert filters.covariances[:, 2, 2] == pytest.approx(covariances[:, 2, 2], abs=1e-7)


def test_likelihoods_are_those_of_the_innovations():
    values, phi = noisy(np.random.default_rng(2), 4), 2 / 3 * 3 / 4
    filters = after(values, [1.0] * 4)
    of_cells = np.zeros((FILTERS, 12))
    for t in range(1, 4):
        before = after(values[:t], [1.0] * t).passed()
        spread = before.covariances[:, 0, 0] + 1
        of_cells -= 0.5 * np.log(spread)[:, None]
        of_cells -= (values[t] - before.means[:, 0]) ** 2 / (2 * phi * spread[:, None])
    assert filters.of_cells == pytest.approx(of_cells)
    # Cells of a centred table: phi times as many degrees of freedom as cells.
    assert filters.of_set == pytest.approx(of_cells.sum(1) * phi, rel=1e-9)


def test_a_month_without_a_measurement_adds_drift_alone():
    values = noisy(np.random.default_rng(3), 2)
    filters = after(values, [1.0, 1.0])
    later = filters.passed(3)
    grown = later.covariances[:, 0, 0] - filters.covariances[:, 0, 0]
    assert grown[: len(WALKS)] == pytest.approx(3 * WALKS)
    assert later.means[: len(WALKS), 0] == pytest.approx(filters.means[: len(WALKS), 0])
    assert later.of_set is filters.of_set


def test_a_shock_to_a_set_lets_its_level_jump():
    rng = np.random.default_rng(4)
    values = noisy(rng, 8)
    shock = centred(np.arange(12.0).reshape(SIZES) ** 2 / 4).ravel()
    still = np.array([0.999, *[0.001 / (FILTERS - 1)] * (FILTERS - 1)])
    filters = after(values[:7], [1.0] * 7, prior=still)
    after_shock = filters.passed().learnt(values[7] + shock, 1.0, still)
    mean, variance = after_shock.posterior(still)
    assert after_shock.jumps == 1
    assert np.abs(mean - values[7] - shock).max() < 0.5
    assert variance.mean() > 0.7
    calm = filters.passed().learnt(values[7], 1.0, still)
    assert calm.jumps == 0
    assert calm.posterior(still)[1].mean() < 0.3


def test_sets_with_a_common_column_learn_from_each_other_that_there_was_a_shock():
    """The odds are those of the column whose other sets jumped most, and never below GUARD's."""
    jumps = {(0,): 1.0, (0, 1): 0.4, (1, 2): 0.0, (2,): 0.0}
    guards = _guards(jumps)
    # Of column 0 the other set's probability; of column 1 that of (1, 2) is less.
    assert guards[0,] == pytest.approx(math.log(0.6 / 0.4))
    assert guards[0, 1] == 0  # at most even odds
    assert guards[1, 2] == pytest.approx(math.log(0.6 / 0.4))
    assert guards[2,] == GUARD
    assert _guards({(0,): 1.0}) == {(0,): GUARD}


def test_a_jump_of_a_column_widens_the_unmeasured_sets_with_it():
    """By the movement of a set whose other columns do not depend on the column's new values."""
    rng, ones = np.random.default_rng(8), {(0,): 4, (1,): 4, (2,): 4}
    levels = {c: centred(rng.normal(0, 0.2, n)) for c, n in ones.items()}
    levels |= {(0, 1): np.outer(levels[0,], levels[1,]), (1, 2): np.outer(levels[1,], levels[2,])}

    def measured(sets, move=0.0):
        moved = {a: levels[a] + (move if a == (0,) else 0.0) for a in sets}
        return {
            a: Measured(centred(x + rng.normal(0, 1e-4, x.shape)), 1e-8) for a, x in moved.items()
        }

    filters = MonthFilters(1)
    for month in range(1, 6):
        filters = filters.at(month).learnt(measured(levels))
    move = np.array([0.3, -0.1, -0.1, -0.1])
    calm = filters.at(6).learnt(measured(ones))
    shock = filters.at(6).learnt(measured(ones, move))
    distance = np.square(move).sum() * np.square(levels[1,]).sum()
    grown = shock.posterior((0, 1))[1].mean() - calm.posterior((0, 1))[1].mean()
    assert grown == pytest.approx(distance / 9, rel=0.01)
    assert shock.posterior((1, 2))[1].mean() == pytest.approx(calm.posterior((1, 2))[1].mean())


def test_a_jump_is_as_probable_as_its_likelihood_and_odds_say():
    """The best variance of a jump explains a mean square above 1, at the odds in advance."""
    filters, freedom = after([np.zeros(12)] * 3, [1.0] * 3), 6
    for ratio in (0.5, 1.0, 2.0, 4.0):
        best = max(ratio, 1)
        gain = (freedom * (ratio - ratio / best) - freedom * math.log(best)) / 2
        odds = math.exp((gain if ratio > 1 else 0) - GUARD)
        squares = np.full(FILTERS, ratio * freedom)
        assert filters._jump(squares, EVEN) == pytest.approx(odds / (1 + odds))
    assert filters._jump(np.full(FILTERS, 1e6), EVEN) == 1


def test_the_prior_learns_how_fast_sets_drift():
    rng = np.random.default_rng(5)
    walks = np.arange(FILTERS) < len(WALKS)
    for drift, slow in ((0.0, True), (3.0, False)):
        filters = [after(noisy(rng, 12, drift), [1.0] * 12) for _ in range(20)]
        prior = drift_prior(filters)
        assert prior.sum() == pytest.approx(1)
        small = prior[walks & (np.append(WALKS, SLOPES) <= 0.03)].sum()
        assert small > 0.6 if slow else small < 0.1


def test_the_posterior_covers_levels_that_drift():
    rng = np.random.default_rng(6)
    inside = []
    for _ in range(60):
        levels = np.cumsum(rng.normal(0, math.sqrt(0.1), (10, *SIZES)), axis=0)
        values = [centred(x + rng.normal(0, 1, SIZES)).ravel() for x in levels]
        filters = after(values, [1.0] * 10)
        mean, variance = filters.posterior(drift_prior([filters]))
        inside.append(np.abs(mean - centred(levels[-1]).ravel()) < 1.96 * np.sqrt(variance))
    assert np.mean(inside) > 0.93


def test_a_change_has_less_error_than_two_levels():
    values = noisy(np.random.default_rng(7), 6)
    filters = after(values, [1.0] * 6, remember=4)
    change, variance = filters.posterior(EVEN, np.array([1.0, 0, -1.0]))
    level, own = filters.posterior(EVEN)
    earlier, _ = filters.posterior(EVEN, np.array([0, 0, 1.0]))
    assert change == pytest.approx(level - earlier)
    assert variance.mean() < 0.6 * own.mean() * 2
