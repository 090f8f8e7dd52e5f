"""Intervals of survey practice cover what they say: over the noise, and over samples of people.

A population is drawn from without replacement, and the noise is normal. With a design effect m the
population consists of clusters of m people with one answer, of which whole clusters are drawn.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stream_dp.answers.joint_answers import Ratios
from stream_dp.answers.measurement_blocks import Floats
from stream_dp.answers.weighted import joined_interval
from stream_dp.study.declared_sections import Sampling

DRAWS = 20_000
LEAST = 0.93  # of an interval of 95 %
WEIGHTED_DRAWS = 2_000


def noisy_ratios(
    counts: Floats, people: Floats, error: float, of_people: float, rng: np.random.Generator
) -> Ratios:
    """Counts and numbers of people with independent noise of these standard errors."""
    noise = rng.standard_normal((2, counts.size))
    return Ratios(
        counts + error * noise[0],
        np.full(counts.size, error**2),
        people + of_people * noise[1],
        np.full(counts.size, of_people**2),
        np.zeros(counts.size),
    )


def sampled_counts(
    n: int, share: float, design: Sampling, rng: np.random.Generator
) -> tuple[Floats, float]:
    """The counts in samples of n people, and the share of the population."""
    cluster = int(design.design_effect or 1)
    clusters = round(n / float(design.fraction or 1) / cluster)
    counted = round(clusters * share)
    draws = rng.hypergeometric(counted, clusters - counted, n // cluster, DRAWS)
    return cluster * draws.astype(float), counted / clusters


SIMPLE = Sampling(fraction="1/10")
CLUSTERED = Sampling(fraction="1/2", design_effect=2)
GRID = list(itertools.product((100, 1_000, 10_000), (0.05, 0.3), (1.0, 10.0), (False, True)))


@pytest.mark.parametrize("design", [SIMPLE, CLUSTERED], ids=["simple", "clustered"])
def test_noise_and_sampling_together_cover_the_population_s_share(design: Sampling) -> None:
    rng, shares = np.random.default_rng(5), {}
    for n, share, error, private in GRID:
        counts, truth = sampled_counts(n, share, design, rng)
        ratios = noisy_ratios(counts, np.full(DRAWS, n), error, error * private, rng)
        _, _, low, high = ratios.sampled(design)
        shares[n, share, error, private] = ((low <= truth) & (truth <= high)).mean()
    assert min(shares.values()) >= LEAST, shares
    assert max(shares.values()) <= 0.98, shares


def test_the_noise_s_own_interval_does_not_cover_the_population_s_share() -> None:
    rng = np.random.default_rng(6)
    counts, truth = sampled_counts(1_000, 0.3, SIMPLE, rng)
    ratios = noisy_ratios(counts, np.full(DRAWS, 1_000.0), 1.0, 0.0, rng)
    _, _, low, high = ratios.intervals()
    assert ((low <= truth) & (truth <= high)).mean() < 0.2
    _, _, wider_low, wider_high = ratios.sampled(SIMPLE)
    assert ((wider_low <= low) & (high <= wider_high)).all()


def test_few_large_clusters_are_where_it_fails() -> None:
    """Of 5 expected people in 2.5 expected clusters the errors are far from normal."""
    design, rng = Sampling(fraction="1/10", design_effect=20), np.random.default_rng(7)
    counts, truth = sampled_counts(200, 0.05, design, rng)
    ratios = noisy_ratios(counts, np.full(DRAWS, 200.0), 1.0, 0.0, rng)
    _, _, low, high = ratios.sampled(design)
    assert ((low <= truth) & (truth <= high)).mean() < LEAST


def test_without_noise_it_is_wilson_s_interval() -> None:
    ratio = Ratios.of(30.0, 0.0, 100.0, 0.0, 0.0)
    _, errors, low, high = ratio.sampled(Sampling(design_effect=1), z=1.96)
    n, p, z = 100, 0.3, 1.96
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    assert (low[0], high[0]) == pytest.approx((centre - reach, centre + reach))
    assert errors[0] == pytest.approx((p * (1 - p) / n) ** 0.5)


def test_a_share_far_outside_of_what_can_be_keeps_the_noise_s_interval() -> None:
    ratio = Ratios.of(-30.0, 1.0, 100.0, 0.0, 0.0)
    _, errors, low, high = ratio.sampled(SIMPLE)
    _, noise, below, above = ratio.intervals()
    assert (low, high) == (below, above)
    assert errors == noise


CELLS = [[1_000, 1_000], [1_000, 100], [5_000, 1_000, 100], [50, 2_000], [100] * 4]


@pytest.mark.parametrize("sizes", CELLS, ids=str)
def test_weighted_intervals_cover_with_noisy_numbers_in_the_cells(sizes: list[int]) -> None:
    rng, n = np.random.default_rng(8), np.array(sizes, float)
    weights = n * np.linspace(10, 40, n.size)
    weights /= weights.sum()
    for error, share in itertools.product((1.0, 5.0, 10.0), (0.02, 0.3)):
        counts = np.round(share * np.linspace(0.5, 1.5, n.size) * n)
        truth = weights @ (counts / n)
        every = (np.tile(part, WEIGHTED_DRAWS) for part in (counts, n))
        columns = noisy_ratios(*every, error, error, rng).intervals()
        values, errors, low, high = (c.reshape(WEIGHTED_DRAWS, n.size) for c in columns)
        covered = [
            ends[0] <= truth <= ends[1]
            for row in range(WEIGHTED_DRAWS)
            if not np.isnan(values[row]).any()
            for ends in [
                joined_interval(
                    weights,
                    values[row],
                    np.diag(errors[row] ** 2),
                    np.stack([low[row], high[row]], axis=1),
                )[1]
            ]
        ]
        assert len(covered) > 0.9 * WEIGHTED_DRAWS
        assert np.mean(covered) >= LEAST, (error, share)


def test_normal_intervals_are_recovered_exactly() -> None:
    rng = np.random.default_rng(9)
    root = rng.standard_normal((3, 3))
    covariance, values, weights = root @ root.T, rng.standard_normal(3), np.array([0.2, 0.3, 0.5])
    reach = 1.96 * np.sqrt(covariance.diagonal())
    ends = np.stack([values - reach, values + reach], axis=1)
    error, interval = joined_interval(weights, values, covariance, ends)
    value = weights @ values
    assert error == pytest.approx((weights @ covariance @ weights) ** 0.5)
    assert interval == pytest.approx((value - 1.96 * error, value + 1.96 * error))
