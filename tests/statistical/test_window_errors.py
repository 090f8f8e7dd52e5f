"""Bun24, Section 5.1: the all-ones study, T = 12, k = 3, rho = .005, add_remove, n = 25,000.

Every bin has variance s2 at every time, siblings are uncorrelated, the largest error stays below
lambda of Theorem 3.2. The scale is checked both ways: noise 5% off is rejected.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from kit.walks import window_releases
from spread import LARGE, RIGHT, SMALL, DrawnAhead, Scaled, sds, spread_is, unbiased, uncorrelated

from stream_dp.continual.window.window import FixedWindow
from stream_dp.panel import window_codes
from stream_dp.privacy.noise import SeededNoise, SystemNoise

ALL_ONES = FixedWindow(
    values=(0, 1),
    width=3,
    horizon=12,
    rho=Fraction(1, 200),
    neighbours="add_remove",
    strategy="histogram",
)
TERNARY = FixedWindow(
    values=("a", "b", "c"),
    width=2,
    horizon=7,
    rho=Fraction(6, 1000),
    neighbours="add_remove",
    strategy="histogram",
)
N = 25_000
FEW = 400  # repetitions that tell a scale 5% off
WIDTHS = {3: 31.6, 2: 44.7, 1: 63.2}


class Repeated(NamedTuple):
    """errors: debiased counts minus truth, (repetitions, releases, bins); shares: of the last bin,
    not debiased; repaired: in how many repetitions a count fell below 0."""

    errors: np.ndarray
    shares: np.ndarray
    repaired: int


def repeat(mechanism, truth, source, repetitions):
    """truth: (T, bins) true histograms, read from t = k on."""
    width = mechanism.width
    errors = np.zeros((repetitions, mechanism.releases, mechanism.bins), np.int64)
    shares, repaired = np.zeros((repetitions, mechanism.releases)), 0
    source = DrawnAhead(source, repetitions)
    for r in range(repetitions):
        below = 0
        for t, step, histogram in window_releases(mechanism, truth, source):
            errors[r, t - width] = histogram - mechanism.padding - truth[t - 1]
            shares[r, t - width] = histogram[-1] / histogram.sum()
            below += step.notes["cells_below_zero"]
        repaired += below > 0
    return Repeated(errors, shares, repaired)


def all_ones(n, source, repetitions):
    truth = np.zeros((12, 8), np.int64)
    truth[:, -1] = n
    return repeat(ALL_ONES, truth, source, repetitions)


def queries(errors, width):
    """Errors of the counts of every pattern of the last `width` of three symbols."""
    return errors.reshape(*errors.shape[:2], -1, 2**width).sum(axis=2)


def at_every_time(errors, width, tolerance):
    """Is the sd of these queries what the paper's section 5.1 implies, at every t?"""
    return bool((np.abs(sds(queries(errors, width)) - WIDTHS[width]) < tolerance).all())


FEWER = 100  # people: the noise is the same, and panels of few people are made faster


@pytest.fixture(scope="module")
def system():
    return all_ones(FEWER, SystemNoise(), FEW)


@pytest.fixture(scope="module")
def seeded():
    return all_ones(FEWER, SeededNoise(12), 1200).errors


def test_the_parameters_of_the_study():
    assert ALL_ONES.worst_variance == 1000
    assert ALL_ONES.error_bound == pytest.approx(129.9, abs=0.05)


def test_bins_have_variance_s2_at_every_time(system):
    assert spread_is(system.errors, 1000, z=5)
    assert all(spread_is(system.errors[:, t], 1000, z=5) for t in range(10))
    assert at_every_time(system.errors, 3, 2.5)


@pytest.mark.parametrize(("width", "tolerance"), [(3, 0.95), (2, 1.9), (1, 3.0)])
def test_shorter_windows_have_the_sd_of_their_bins_together_constant_in_time(
    seeded, width, tolerance
):
    variance = 1000 * 2 ** (3 - width)
    assert at_every_time(seeded, width, tolerance)
    assert spread_is(queries(seeded, width), variance, z=4)
    for wrong in (SMALL, LARGE):  # errors are linear in the noise
        errors = seeded * float(wrong)
        assert not at_every_time(errors, width, tolerance)
        assert not spread_is(queries(errors, width), variance, z=4)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_shorter_windows_with_noise_of_the_system(system, width):
    assert spread_is(queries(system.errors, width), 1000 * 2 ** (3 - width), z=8)


def test_a_scale_5_percent_off_is_rejected_with_as_few_repetitions(seeded):
    assert spread_is(seeded[:FEW], 1000, z=5)
    for wrong in (SMALL, LARGE):
        assert not spread_is(seeded[:FEW] * float(wrong), 1000, z=5)


def test_debiased_counts_are_unbiased_for_every_bin_and_time(system, seeded):
    assert unbiased(system.errors, z=8)
    assert unbiased(seeded, z=4)
    assert not unbiased(system.errors + ALL_ONES.padding)
    assert not unbiased(seeded + 3, z=4)


def test_undebiased_shares_are_off_by_what_the_padding_says():
    """(n + n_pad) / (n + 2^k n_pad) - 1: -.033 in the paper, whose padding is a little smaller."""
    pad = ALL_ONES.padding
    expected = (N + pad) / (N + 8 * pad) - 1
    assert expected == pytest.approx(-0.033, abs=1e-3)
    shares = all_ones(N, SystemNoise(), 50).shares
    assert unbiased(shares - 1 - expected, z=8)
    assert not unbiased(shares - 1)
    bound = 2 * ALL_ONES.error_bound / N * (1 + 8)
    assert np.abs(shares - 1).max() < bound


def test_errors_stay_below_lambda_and_counts_above_zero(system):
    """Theorem 3.2 allows 5%; the union bound is loose, one repetition in 300 is what is seen."""
    outside = (np.abs(system.errors) > ALL_ONES.error_bound).any(axis=(1, 2))
    assert outside.mean() <= 0.05
    assert system.repaired < 25
    assert (2 * np.abs(system.errors) > ALL_ONES.error_bound).any(axis=(1, 2)).mean() > 0.05


def test_siblings_are_uncorrelated(system, seeded):
    for errors in (system.errors, seeded):
        assert uncorrelated(errors[:, :, 0::2], errors[:, :, 1::2], z=8)
        assert all(uncorrelated(errors[:, t, 0::2], errors[:, t, 1::2], z=8) for t in range(10))
        parents = queries(errors, 2)[:, :-1]
        assert not uncorrelated(errors[:, 1:, 0::2], parents)


def test_three_symbols_have_variance_s2_at_every_time_as_well():
    rng = np.random.default_rng(3)
    people = rng.integers(0, 3, (300, 7))
    truth = np.zeros((7, 9), np.int64)
    for t in range(2, 8):
        truth[t - 1] = np.bincount(window_codes(people[:, t - 2 : t], 3), minlength=9)
    assert TERNARY.worst_variance == 500
    errors = repeat(TERNARY, truth, SeededNoise(14), FEW).errors
    assert spread_is(errors, 500)
    for wrong in (SMALL, LARGE):  # errors are linear in the noise
        assert not spread_is(errors * float(wrong), 500)
    assert all(spread_is(errors[:, t], 500) for t in range(6))
    assert unbiased(errors, z=4.5)
    siblings = errors.reshape(FEW, 6, 3, 3)
    assert uncorrelated(siblings[..., 0], siblings[..., 1])
    assert uncorrelated(siblings[..., 0], siblings[..., 2])


@pytest.mark.slow
def test_bin_sd_is_31_6_within_a_half_at_every_time_with_noise_of_the_system():
    errors = all_ones(N, SystemNoise(), 10_000).errors
    assert at_every_time(errors, 3, 0.5)
    assert at_every_time(errors, 2, 1.0)
    assert at_every_time(errors, 1, 2.0)
    for wrong in (SMALL, LARGE):
        assert not at_every_time(all_ones(0, Scaled(SystemNoise(), wrong), 10_000).errors, 3, 0.5)


def roundings(mechanism, repetitions):
    """A padded panel less its padding and the estimates: (repetitions, releases, bins)."""
    source, horizon = SeededNoise(21), mechanism.horizon
    truth = np.full((horizon, mechanism.bins), 5)
    off = np.zeros((repetitions, mechanism.releases, mechanism.bins))
    source = DrawnAhead(source, repetitions)
    for r in range(repetitions):
        for t, step, histogram in window_releases(mechanism, truth, source):
            own = histogram - mechanism.padding
            off[r, t - mechanism.width] = own - step.estimates.values
    return off


@pytest.mark.parametrize(("q", "width"), [(2, 1), (3, 2), (2, 4)])
def test_a_padded_panel_is_off_by_roundings_alone(q, width):
    """What the bound adds for them: a variance of at most 1/2, without bias, at every period."""
    mechanism = FixedWindow(
        values=tuple(range(q)),
        width=width,
        horizon=10,
        rho=Fraction(1, 100),
        neighbours="add_remove",
    )
    off = roundings(mechanism, 100)
    squares = off**2
    assert (squares.mean(axis=0) - 4 * squares.std(axis=0) / 10).max() <= 0.5
    assert np.abs(off.mean(axis=0)).max() < 4.5 * 0.5**0.5 / 10
    assert np.abs(off).max() < width + 1


def raised(mechanism, truth, source, repetitions):
    """The mean rows that patterns get which nobody has: (releases, those patterns), and their
    standard errors."""
    empty = np.flatnonzero(truth.max(axis=0) == 0)
    rows = np.zeros((repetitions, mechanism.releases, empty.size))
    source = DrawnAhead(source, repetitions)
    for r in range(repetitions):
        for t, _, histogram in window_releases(mechanism, truth, source):
            rows[r, t - mechanism.width] = histogram[empty]
    return rows.mean(axis=0), rows.std(axis=0) / repetitions**0.5


def test_a_pattern_that_nobody_has_gets_as_many_rows_as_the_panel_s_bias_says():
    """Of windows of one period the mean of what noise leaves above 0; of others it is a bound."""
    declared = {"rho": Fraction(1, 100), "neighbours": "replace_one", "padded": False}
    pair = FixedWindow(values=(0, 1), width=1, horizon=1, rows=100, **declared)
    truth = np.array([[100, 0]])
    for scale in (Fraction(3, 4), RIGHT, Fraction(5, 4)):
        rows, error = raised(pair, truth, Scaled(SeededNoise(5), scale), 900)
        right = abs(rows[0, 0] - pair.raised) < 3 * error[0, 0]
        assert bool(right) is (scale == RIGHT)
    triples = FixedWindow(values=(0, 1, 2), width=3, horizon=6, rows=900, **declared)
    truth = np.zeros((6, 27), np.int64)
    truth[:, [0, 13, 26]] = 500, 300, 100
    rows, error = raised(triples, truth, SeededNoise(6), 40)
    assert (rows < triples.raised + 4 * error).all()
    assert f"up to about {triples.raised:.0f} rows on average" in triples.bias
    assert f"by up to {triples.worst_variance**0.5:.1f} rows" in triples.bias
