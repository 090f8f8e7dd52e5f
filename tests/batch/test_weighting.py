"""Weights of synthetic people: optimal by their definition, and drawn without bias."""

import numpy as np
import pytest

from stream_dp.batch.people.mixture_model import Histogram, drawn_rows, entropic_weights

RNG = np.random.default_rng(4)
CELLS = [RNG.integers(4, size=600), RNG.integers(3, size=600)]
WANTED = [np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.5, 0.3, 0.2])]


def histograms(variance):
    return [Histogram(c, w, variance) for c, w in zip(CELLS, WANTED, strict=True)]


def shares(weights):
    return [np.bincount(c, weights, minlength=len(w)) for c, w in zip(CELLS, WANTED, strict=True)]


def test_without_noise_histograms_are_met():
    weights = entropic_weights(histograms(1e-12), 100)
    assert weights.sum() == pytest.approx(1)
    for own, wanted in zip(shares(weights), WANTED, strict=True):
        assert own == pytest.approx(wanted, abs=1e-4)
    # Of what meets them, independent tilts of the two columns have the greatest entropy.
    table = np.zeros((4, 3))
    np.add.at(table, (CELLS[0], CELLS[1]), weights)
    counts = np.zeros((4, 3))
    np.add.at(counts, (CELLS[0], CELLS[1]), 1)
    tilts = np.log(table / counts)
    assert tilts - tilts[:1] - tilts[:, :1] + tilts[0, 0] == pytest.approx(
        np.zeros((4, 3)), abs=1e-4
    )


def test_with_noise_they_are_the_least_of_what_is_stated():
    trust, variance = 300.0, 1e-3
    weights = entropic_weights(histograms(variance), trust)

    def stated(w):
        apart = sum(float(np.square(a - b).sum()) for a, b in zip(shares(w), WANTED, strict=True))
        return trust * float((w * np.log(w * len(w))).sum()) + apart / (2 * variance)

    least = stated(weights)
    for _ in range(50):
        other = weights * np.exp(RNG.normal(0, 0.01, len(weights)))
        assert stated(other / other.sum()) > least
    assert stated(np.full(600, 1 / 600)) > least


def test_much_noise_changes_little():
    assert entropic_weights(histograms(10.0), 1000) == pytest.approx(
        np.full(600, 1 / 600), rel=0.01
    )


def test_rows_are_drawn_by_their_weights():
    weights = RNG.exponential(1, 300)
    weights[:5] = 0
    weights /= weights.sum()
    times = np.zeros(300)
    for seed in range(200):
        rows = drawn_rows(np.random.default_rng(seed), weights, RNG.permutation(300))
        own = np.bincount(rows, minlength=300)
        assert own.sum() == 300
        assert (own >= np.floor(300 * weights)).all()
        times += own
    assert times[:5].sum() == 0
    assert times / 200 == pytest.approx(300 * weights, abs=0.2)
