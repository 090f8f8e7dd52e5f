"""The width in standard errors of a band that covers several true answers simultaneously.

Errors are taken as jointly normal, with the correlations that follow from the measurements. The
quantile of the largest |error| over its standard error is found by simulation: the draws have a
fixed seed, so all analysts get the same band, and of their ordered maxima the one is taken that is
below the true quantile with a probability of at most RISK. Where that is more, Sidak's bound is
taken instead: it treats answers as independent, which is never too narrow for normal errors (Sidak
1967, "Rectangular confidence regions for the means of multivariate normal distributions").
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from scipy.special import bdtr

from stream_dp.errors import UserError

from .blocks import Floats

DRAWS, RISK = 50_000, 1e-3
_SEED = 1967
_AT_ONCE = 2_000_000  # numbers


def simultaneous_quantiles(covariance: Floats, levels: Sequence[float]) -> list[float]:
    """By level, the number of standard errors for a covariance (n, n).

    Raises UserError unless every level lies between 0 and 1.
    """
    for level in levels:
        if not 0 < level < 1:
            raise UserError(f"level {level}: must lie between 0 and 1")
    variances = covariance.diagonal()
    noisy = np.flatnonzero(variances > 0)  # others are certain
    if not noisy.size:
        return [0.0] * len(levels)
    bounds = [NormalDist().inv_cdf((1 + level ** (1 / noisy.size)) / 2) for level in levels]
    ranks = [_binomial_quantile(1 - RISK, DRAWS, level) for level in levels]  # from 0
    if noisy.size == 1 or min(ranks) >= DRAWS:
        return bounds
    errors = np.sqrt(variances[noisy])
    correlation = covariance[np.ix_(noisy, noisy)] / np.outer(errors, errors)
    maxima = np.sort(_maxima(correlation))
    return [
        bound if rank >= DRAWS else min(bound, float(maxima[rank]))
        for bound, rank in zip(bounds, ranks, strict=True)
    ]


def _binomial_quantile(q: float, n: int, p: float) -> int:
    """The least k with P(X <= k) >= q for a binomial X of n trials, each a success with p."""
    return bisect_left(range(n), True, key=lambda k: bool(bdtr(k, n, p) >= q))


def _maxima(correlation: Floats) -> Floats:
    """The largest |error| of each draw, (DRAWS,)."""
    values, vectors = np.linalg.eigh(correlation)
    # The symmetric root is unique, whatever vectors a machine's library finds.
    root = vectors * np.sqrt(np.maximum(0.0, values)) @ vectors.T
    random = np.random.default_rng(_SEED)
    chunk = max(1, _AT_ONCE // len(root))
    maxima = np.zeros(DRAWS)
    for start in range(0, DRAWS, chunk):
        chunk_maxima = maxima[start : start + chunk]
        draws = random.standard_normal((chunk_maxima.size, len(root))) @ root
        np.abs(draws).max(axis=1, out=chunk_maxima)
    return maxima
