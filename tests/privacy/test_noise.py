"""Discrete Gaussian noise: the scale is never too small, the distribution is the exact one."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from stream_dp.privacy import noise
from stream_dp.privacy.noise import (
    SeededNoise,
    SystemNoise,
    discrete_gaussian,
    exact_variance,
    scale_above,
)

VARIANCES = [Fraction(1, 4), Fraction(1), Fraction(1000, 7), Fraction(1000)]
DRAWS = 40_000


def pmf(variance):
    """Integers and their exact probabilities under N_Z(0, variance)."""
    reach = math.ceil(12 * math.sqrt(variance)) + 12
    support = np.arange(-reach, reach + 1)
    weight = np.exp(-(support.astype(float) ** 2) / (2 * float(variance)))
    return support, weight / weight.sum()


def fits(sample, variance, alarm=1e-12):
    """Does a sample look like N_Z(0, variance)? True for a right one but with odds `alarm` each.

    Pearson's goodness of fit on about 40 groups of integers, and the sample variance.
    """
    support, p = pmf(variance)
    group = np.minimum((40 * (p.cumsum() - p / 2)).astype(int), 39)
    expected = np.bincount(group, p) * sample.size
    if np.abs(sample).max() > support[-1]:
        return False
    seen = np.bincount(group[sample - support[0]], minlength=expected.size)
    live = expected > 0
    statistic = ((seen - expected)[live] ** 2 / expected[live]).sum()
    shape = chi2.sf(statistic, live.sum() - 1) > alarm
    second, fourth = (p * support**2.0).sum(), (p * support**4.0).sum()
    standard_error = math.sqrt((fourth - second**2) / sample.size)
    spread = abs((sample.astype(float) ** 2).mean() - second) < 7.2 * standard_error
    return shape and spread


@given(st.fractions(Fraction(1, 10**30), 10**30))
def test_the_square_of_the_scale_covers_the_variance_within_one_ulp(variance):
    scale = scale_above(variance)
    assert Fraction(scale) ** 2 >= variance
    assert Fraction(math.nextafter(scale, 0)) ** 2 < variance


def test_the_plain_square_root_would_be_too_small():
    assert Fraction(math.sqrt(1000.0)) ** 2 < 1000 <= Fraction(scale_above(Fraction(1000))) ** 2


@pytest.mark.parametrize("variance", VARIANCES)
def test_system_noise_is_the_discrete_gaussian_and_a_scale_5_percent_off_is_noticed(variance):
    assert fits(discrete_gaussian(variance, DRAWS), variance)
    assert not fits(discrete_gaussian(variance * Fraction(95, 100) ** 2, DRAWS), variance)
    assert not fits(discrete_gaussian(variance * Fraction(105, 100) ** 2, DRAWS), variance)


@pytest.mark.parametrize("variance", [Fraction(1, 100), Fraction(1, 3), *VARIANCES])
def test_seeded_noise_is_the_discrete_gaussian(variance):
    (sample,) = SeededNoise(1).draw([(variance, DRAWS)]).noise
    assert fits(sample, variance)
    if variance > Fraction(1, 10):
        (wrong,) = SeededNoise(2).draw([(variance * Fraction(95, 100) ** 2, DRAWS)]).noise
        assert not fits(wrong, variance)


def test_entries_of_one_draw_are_independent():
    sample = discrete_gaussian(Fraction(1000), (20_000, 2)).astype(float)
    next_to_each_other = (sample[:, 0] * sample[:, 1]).mean() / 1000 * math.sqrt(20_000)
    one_after_another = (sample[1:, 0] * sample[:-1, 0]).mean() / 1000 * math.sqrt(20_000)
    assert abs(next_to_each_other) < 8
    assert abs(one_after_another) < 8


def test_small_variances_are_smaller_than_their_parameter():
    assert exact_variance(Fraction(1, 4)) == pytest.approx(0.215, abs=5e-4)
    assert exact_variance(Fraction(1000)) == pytest.approx(1000, rel=1e-9)


@given(st.fractions(Fraction(1, 20), 3000, max_denominator=50))
def test_the_exact_variance_is_that_of_the_exact_distribution(variance):
    support, p = pmf(variance)
    assert exact_variance(variance) == pytest.approx((p * support**2.0).sum(), rel=1e-9)
    assert exact_variance(variance) <= float(variance) * (1 + 1e-12)


def test_a_draw_has_what_was_demanded_and_says_whether_it_is_simulated():
    demand = [(Fraction(10), 8), (Fraction(1, 3), 1), (Fraction(5), 0)]
    for source, simulated in ((SystemNoise(), False), (SeededNoise(3), True)):
        assert source.simulated is simulated
        drawn = source.draw(demand).noise
        assert [v.shape for v in drawn] == [(8,), (1,), (0,)]
        assert all(v.dtype == np.int64 for v in drawn)
        assert source.draw([]).noise == ()


@pytest.mark.parametrize("seed", range(5))
def test_few_numbers_of_a_wide_law_need_no_table_and_are_those_of_the_table(seed):
    rng = np.random.default_rng(seed)
    laws = [Fraction(int(10 ** rng.uniform(0, 8)), 3) for _ in range(200)]
    sizes = [int(10 ** rng.uniform(0, 2.5)) for _ in laws]
    uniforms = np.random.default_rng(seed).random(sum(sizes))
    noise._table.cache_clear()
    drawn = SeededNoise(seed).draw(list(zip(laws, sizes, strict=True))).noise
    narrow = sum(law < max(noise._ROUNDED, size**2) for law, size in zip(laws, sizes, strict=True))
    assert noise._table.cache_info().misses <= narrow + 5
    for law, values in zip(laws, drawn, strict=True):
        support, cumulative = noise._table(law)
        mine, uniforms = np.split(uniforms, [len(values)])
        assert np.array_equal(values, support[np.searchsorted(cumulative, mine)])


def test_only_a_seed_repeats():
    demand = [(Fraction(10**6), 20)]
    first, second = SeededNoise(4).draw(demand), SeededNoise(4).draw(demand)
    assert np.array_equal(first.noise[0], second.noise[0])
    assert first.coins.integers(1 << 62) == second.coins.integers(1 << 62)
    first, second = SystemNoise().draw(demand), SystemNoise().draw(demand)
    assert not np.array_equal(first.noise[0], second.noise[0])
    assert first.coins.integers(1 << 62) != second.coins.integers(1 << 62)


def test_shapes_and_refusals():
    assert discrete_gaussian(Fraction(2), (3, 4)).shape == (3, 4)
    assert discrete_gaussian(Fraction(2), 0).shape == (0,)
    for variance in (Fraction(0), Fraction(-1)):
        with pytest.raises(ValueError, match="positive"):
            discrete_gaussian(variance, 1)


@pytest.mark.parametrize("variance", [Fraction(0), Fraction(-1), Fraction((1 << 80) + 1)])
def test_noise_that_could_saturate_is_never_drawn(variance):
    with pytest.raises(ValueError):
        discrete_gaussian(variance, 3)


class Off:
    """A source whose selections have a scale that is off by a factor."""

    def __init__(self, factor):
        self.factor = factor

    def top(self, scores, picks, variance):
        return SeededNoise(4).top(scores, picks, variance * self.factor**2)


def excess(source, scores, scale, calls):
    """The scores of rankings over those that the exponential mechanism expects, in deviations.

    Every index of a ranking is drawn among the rest in proportion to exp(score / scale).
    """
    over, variance = 0.0, 0.0
    for _ in range(calls):
        ranking = source.top(scores, len(scores), Fraction(scale) ** 2)
        assert sorted(ranking) == list(range(len(scores)))
        ordered = scores[ranking] / scale
        weights = np.exp(ordered - ordered.max())
        rest = weights[::-1].cumsum()[::-1]
        mean = (weights * ordered)[::-1].cumsum()[::-1] / rest
        square = (weights * ordered**2)[::-1].cumsum()[::-1] / rest
        over += (ordered - mean).sum()
        variance += (square - mean**2).sum()
    return over / math.sqrt(variance)


@pytest.mark.parametrize("source", [SystemNoise(), SeededNoise(3)], ids=["system", "seeded"])
def test_selections_are_the_exponential_mechanism_and_a_scale_5_percent_off_is_noticed(source):
    scores = np.random.default_rng(5).integers(-400, 400, 120)
    assert abs(excess(source, scores, 100, 200)) < 5
    if source.simulated:  # the same law, drawn in less time
        for factor in (Fraction(95, 100), Fraction(105, 100)):
            assert abs(excess(Off(factor), scores, 100, 200)) > 5
