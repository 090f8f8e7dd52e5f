"""What a window release says of the interactions of its periods: exact without noise, and its noise
by the whole linear map."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from stream_dp.continual.window.residuals import period_interactions
from stream_dp.continual.window.window import FixedWindow
from stream_dp.privacy.noise import exact_variance

Q, WIDTH, HORIZON, PEOPLE = 3, 3, 5, 40
RNG = np.random.default_rng(4)


def window(strategy):
    return FixedWindow(
        values=tuple(range(Q)),
        width=WIDTH,
        horizon=HORIZON,
        rho=Fraction(1, 3),
        neighbours="replace_one",
        rows=PEOPLE,
    ).best(strategy=strategy)


def histogram(codes, t):
    cells = np.ravel_multi_index(tuple(codes[:, t - WIDTH : t].T), (Q,) * WIDTH)
    return np.bincount(cells, minlength=Q**WIDTH)


def marginal(codes, periods):
    cells = np.ravel_multi_index(tuple(codes[:, p] for p in periods), (Q,) * len(periods))
    return np.bincount(cells, minlength=Q ** len(periods)).reshape((Q,) * len(periods))


def centred(values):
    for axis in range(values.ndim):
        values = values - values.mean(axis, keepdims=True)
    return values


@pytest.mark.parametrize("strategy", ["residuals", "histogram"])
def test_without_noise_they_are_those_of_the_people(strategy):
    codes, chosen = RNG.integers(Q, size=(PEOPLE, HORIZON)), window(strategy)
    seen = []
    for t in range(WIDTH, HORIZON + 1):
        answers = chosen.measurement.measure(t, histogram(codes, t))
        for one in period_interactions(chosen.measurement, t, answers):
            periods = tuple(t - 1 - ago for ago in one.ago)
            seen.append(periods)
            assert one.values == pytest.approx(centred(marginal(codes, periods).astype(float)))
    windows = {
        periods
        for t in range(WIDTH, HORIZON + 1)
        for flags in product((0, 1), repeat=WIDTH)
        if (periods := tuple(t - WIDTH + i for i, flag in enumerate(flags) if flag))
    }
    assert set(seen) == windows
    assert (len(seen) == len(windows)) == (strategy == "residuals")


@pytest.mark.parametrize("strategy", ["residuals", "histogram"])
def test_their_noise_is_what_they_say(strategy):
    """A cell's variance, by the linear map from every measurement's noise."""
    chosen = window(strategy)
    for t in (WIDTH, WIDTH + 1):
        each = np.concatenate([np.full(n, exact_variance(v)) for v, n in chosen.demand(t)])
        nothing = np.zeros(len(each), np.int64)
        stated = list(period_interactions(chosen.measurement, t, nothing))
        summed = [np.zeros(one.values.shape) for one in stated]
        for i, variance in enumerate(each):
            unit = nothing.copy()
            unit[i] = 1
            for place, one in enumerate(period_interactions(chosen.measurement, t, unit)):
                summed[place] += variance * np.square(one.values)
        for one, variances in zip(stated, summed, strict=True):
            expected = one.variance * (1 - 1 / Q) ** len(one.ago)
            assert variances == pytest.approx(np.full(variances.shape, expected), rel=1e-6)


def test_there_are_none_where_people_enter_late():
    chosen = FixedWindow(
        values=(0, 1),
        width=2,
        horizon=3,
        rho=Fraction(1),
        neighbours="add_remove",
        rows=None,
        blank=0,
    ).best()
    size = sum(n for _, n in chosen.demand(2))
    assert list(period_interactions(chosen.measurement, 2, np.zeros(size, np.int64))) == []
