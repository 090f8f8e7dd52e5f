"""Exact noise and exact private choices; the only module that reads the system's entropy.

The sampler of the discrete Gaussian is OpenDP's (Canonne, Kamath, Steinke 2020, Algorithm 3),
which computes with exact rationals. Its scale is a float, so the scale is rounded up until its
exact square is at least the variance that the ledger charges for.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

dp.enable_features("contrib")

# The variance of a discrete Gaussian is about s2 (1 - 4 pi^2 s2 exp(-2 pi^2 s2)) for the parameter
# s2: above _SMOOTH the two are equal in floats.
_SMOOTH = 16
_WIDE = 10**8  # above this variance a simulation rounds normal numbers: a table would be too long


@dataclass(frozen=True)
class Draw:
    """All the randomness of one step, drawn before the counts are read.

    noise: one int64 vector for each (variance, size) that the mechanism demands
    coins: a generator for random choices in the post-processing (rounding, choice of rows)
    """

    noise: tuple[NDArray[np.int64], ...]
    coins: np.random.Generator


class NoiseSource(Protocol):
    """A source of noise. `simulated` is False only for the system's entropy."""

    simulated: bool

    def draw(self, demand: Sequence[tuple[Fraction, int]]) -> Draw: ...

    def top(self, scores: NDArray[np.int64], picks: int, variance: Fraction) -> NDArray[np.int64]:
        """See `noisy_top`."""


class SystemNoise:
    """Privacy noise: OpenDP's sampler on the operating system's entropy."""

    simulated = False

    def draw(self, demand: Sequence[tuple[Fraction, int]]) -> Draw:
        coins = np.random.Generator(np.random.PCG64DXSM(int.from_bytes(system_entropy(32), "big")))
        return Draw(tuple(discrete_gaussian(variance, size) for variance, size in demand), coins)

    def top(self, scores: NDArray[np.int64], picks: int, variance: Fraction) -> NDArray[np.int64]:
        return noisy_top(scores, picks, variance)


class SeededNoise:
    """Simulation only: repeatable noise from a NumPy generator. Its releases are not private."""

    simulated = True

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def draw(self, demand: Sequence[tuple[Fraction, int]]) -> Draw:
        drawn = []
        for variance, size in demand:
            if variance > _WIDE:
                normal = self._rng.normal(0, math.sqrt(variance), size)
                drawn.append(np.rint(normal).astype(np.int64))
                continue
            support, cumulative = _table(variance)
            drawn.append(support[np.searchsorted(cumulative, self._rng.random(size))])
        return Draw(tuple(drawn), self._rng)

    def top(self, scores: NDArray[np.int64], picks: int, variance: Fraction) -> NDArray[np.int64]:
        noisy = scores / math.sqrt(variance) + self._rng.gumbel(size=len(scores))
        return np.argsort(-noisy, kind="stable")[:picks]


def system_entropy(size: int) -> bytes:
    """`size` bytes from the operating system, for keys and generator states."""
    return os.urandom(size)


def scale_above(variance: Fraction) -> float:
    """The smallest float whose exact square is at least `variance`."""
    scale = math.sqrt(variance)
    while Fraction(scale) ** 2 >= variance:
        scale = math.nextafter(scale, 0)
    while Fraction(scale) ** 2 < variance:
        scale = math.nextafter(scale, math.inf)
    return scale


def discrete_gaussian(variance: Fraction, shape: int | tuple[int, ...]) -> NDArray[np.int64]:
    """Independent discrete Gaussian integers N_Z(0, variance), int64, of the given shape.

    Raises ValueError unless 0 < variance <= 2^80: far below where int64 would saturate.
    """
    if not 0 < variance <= 1 << 80:
        raise ValueError("the variance of noise must be positive and at most 2^80")
    size = math.prod(shape) if isinstance(shape, tuple) else shape
    if size == 0:
        return np.zeros(shape, np.int64)
    measure = _measurement(scale_above(variance))
    return np.array(measure([0] * size), dtype=np.int64).reshape(shape)


def noisy_top(scores: NDArray[np.int64], picks: int, variance: Fraction) -> NDArray[np.int64]:
    """The indices of `picks` different scores, drawn so that high scores are likely. Exact.

    scores: int64 (n,)
    picks: how many indices
    variance: at most b^2, the squared scale of the Gumbel noise

    Each index is drawn among the rest with probability in proportion to exp(score / b): the
    exponential mechanism, as the largest of the scores with Gumbel noise of scale b, compared digit
    by digit (OpenDP's noisy top k). `zcdp.selection_rho` is its cost. Raises ValueError unless
    0 < picks <= n, all scores are below 2^52 in size, and 0 < variance <= 2^80.
    """
    if not 0 < variance <= 1 << 80:
        raise ValueError("the squared scale of a choice must be positive and at most 2^80")
    if not 0 < picks <= len(scores) or max(abs(int(scores.max())), abs(int(scores.min()))) >> 52:
        raise ValueError("there are too few scores, or too large ones, to pick from")
    # The probabilities depend on differences of scores only.
    choose = _choice(picks, scale_above(variance))
    return np.array(choose((scores - scores.max()).tolist()), np.int64)


def exact_variance(variance: Fraction) -> float:
    """The variance of the discrete Gaussian: below its parameter, noticeably so below 1."""
    if variance > _SMOOTH:
        return float(variance)
    support, _ = _table(variance)
    weight = np.exp(-(support.astype(float) ** 2) / (2 * float(variance)))
    return float((weight * support.astype(float) ** 2).sum() / weight.sum())


@lru_cache(maxsize=64)
def _measurement(scale: float) -> dp.Measurement:
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="i64")
    return dp.m.make_gaussian(*space, scale=scale)


@lru_cache(maxsize=64)
def _choice(picks: int, scale: float) -> dp.Measurement:
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    return dp.m.make_noisy_top_k(*space, dp.zero_concentrated_divergence(), picks, scale)


@lru_cache(maxsize=64)
def _table(variance: Fraction) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Support and cumulative probabilities, truncated where the tail is below 1e-17."""
    reach = math.ceil(9 * math.sqrt(variance)) + 9
    support = np.arange(-reach, reach + 1, dtype=np.int64)
    weight = np.exp(-(support.astype(float) ** 2) / (2 * float(variance)))
    cumulative = np.cumsum(weight)
    return support, cumulative / cumulative[-1]
