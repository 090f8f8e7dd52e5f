"""Exact noise and exact private choices; the only module that reads the system's entropy.

Two samplers draw the discrete Gaussian, both exactly. OpenDP's (Canonne, Kamath, Steinke 2020,
Algorithm 3) computes with exact rationals. Its scale is a float, so the scale is rounded up until
its exact square is at least the variance that the ledger charges for. Large draws compare one word
of 64 random bits with a table of correctly rounded cumulative probabilities (`exact_tables`), and
draw more bits where the word does not decide: a hundred times as fast.

Noisy counts, `Measurements`, are the only values of a mechanism or a synthesizer that depend on
true data.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import groupby
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from .exact_numbers import Number, exact_number
from .exact_tables import Law, decided, table

T = TypeVar("T")


@dataclass(frozen=True)
class Measurements:
    """Unbiased counts with independent discrete Gaussian noise.

    queries: a description of each value.
    values: int64 (n,).
    variances: the parameter of the noise of each value.
    """

    queries: tuple[str, ...]
    values: NDArray[np.int64]
    variances: tuple[Fraction, ...]

    def standard_errors(self) -> NDArray[np.float64]:
        """Computes the standard errors of the values from the discrete Gaussian's variance."""
        return np.array(self.of_variances(lambda v: exact_variance(v) ** 0.5), np.float64)

    def of_variances(self, function: Callable[[Fraction], T]) -> list[T]:
        """Computes a function of every variance, once an object: to hash fractions is slow."""
        results = {i: function(v) for i, v in {id(v): v for v in self.variances}.items()}
        return [results[id(v)] for v in self.variances]

    @staticmethod
    def joined(measurements: Sequence[Measurements]) -> Measurements:
        """Concatenates measurements in the given order."""
        return Measurements(
            tuple(query for m in measurements for query in m.queries),
            np.concatenate([m.values for m in measurements]),
            tuple(variance for m in measurements for variance in m.variances),
        )


# The variance of a discrete Gaussian is about s2 (1 - 4 pi^2 s2 exp(-2 pi^2 s2)) for the parameter
# s2: above _SMOOTH the two are equal in floats.
_SMOOTH = 16
_ROUNDED = 1 << 10  # from this variance on the law is a rounded normal's within 2e-10
_NEAR = 1e-9  # to a cumulative probability, whose floats then decide
_WIDE = 10**8  # above this variance a simulation rounds normal numbers: a table would be too long
_BITS = 64  # of a word that is compared with a table
_GUIDED = 16  # the leading bits of a word that mostly decide
_CHUNK = 1 << 19  # words that are drawn at once
_TABLE_FROM = 512  # draws that are worth a table of a small variance
_GUIDE_FROM = 1 << 13  # words that are worth a guide to a table
_TABLE_TO = 1 << 24  # the largest variance of a table
_LEAST_DECAY = Fraction(1, 1 << 12)  # of double-geometric noise: its table has 2^18 entries


@dataclass(frozen=True)
class Draw:
    """All the randomness of a step, drawn before the counts are read.

    noise: an int64 vector for each (variance, size) that the mechanism demands.
    coins: a generator for random choices in the post-processing (rounding, choice of rows).
    """

    noise: tuple[NDArray[np.int64], ...]
    coins: np.random.Generator


class NoiseSource(Protocol):
    """A source of noise. `simulated` is False only for the system's entropy."""

    simulated: bool

    def draw(self, demand: Sequence[tuple[Fraction, int]]) -> Draw:
        """Discrete Gaussian noise: a vector for each (variance, size)."""

    def geometric(self, decay: Fraction, size: int) -> NDArray[np.int64]:
        """Double-geometric noise, (size,): z has a probability proportional to exp(-decay |z|)."""

    def top(self, scores: NDArray[np.int64], picks: int, variance: Fraction) -> NDArray[np.int64]:
        """The indexes of the `picks` largest scores after Gumbel noise (see `noisy_top`)."""


class SystemNoise:
    """Privacy noise: exact samplers on the operating system's entropy. `simulated` is False."""

    simulated = False

    def draw(self, demand: Sequence[tuple[Number, int]]) -> Draw:
        coins = np.random.Generator(np.random.PCG64DXSM(int.from_bytes(system_entropy(32), "big")))
        noise = (discrete_gaussian(variance, size) for variance, size in _exact(demand))
        return Draw(tuple(noise), coins)

    def geometric(self, decay: Fraction, size: int) -> NDArray[np.int64]:
        return double_geometric(decay, size)

    def top(self, scores: NDArray[np.int64], picks: int, variance: Fraction) -> NDArray[np.int64]:
        return noisy_top(scores, picks, variance)


class SeededNoise:
    """Simulation only: repeatable noise from a NumPy generator. Its releases are not private, and
    `simulated` is True."""

    simulated = True

    def __init__(self, seed: int) -> None:
        """Raises ValueError unless the seed is a whole number from 0 on."""
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise ValueError(f"seed: must be a whole number from 0 on, not {seed!r}")
        self._rng = np.random.default_rng(seed)

    def draw(self, demand: Sequence[tuple[Number, int]]) -> Draw:
        """Draws integers (size,) for each (variance, size). Wide laws are rounded normals."""
        drawn: list[NDArray[np.int64]] = []
        for wide, laws in groupby(_exact(demand), lambda law: law[0] > _WIDE):
            variances, sizes = zip(*laws, strict=True)
            if wide:
                scales = np.repeat([math.sqrt(variance) for variance in variances], sizes)
                values = np.rint(self._rng.normal(0, scales)).astype(np.int64)
            else:
                values = _quantiles(variances, sizes, self._rng.random(sum(sizes)))
            drawn += np.split(values, np.cumsum(sizes)[:-1])
        return Draw(tuple(drawn), self._rng)

    def geometric(self, decay: Fraction, size: int) -> NDArray[np.int64]:
        stop = -math.expm1(-float(decay))
        return self._rng.geometric(stop, size) - self._rng.geometric(stop, size)

    def top(self, scores: NDArray[np.int64], picks: int, variance: Fraction) -> NDArray[np.int64]:
        noisy = scores / math.sqrt(variance) + self._rng.gumbel(size=len(scores))
        return np.argsort(-noisy, kind="stable")[:picks]


def _exact(demand: Sequence[tuple[Number, int]]) -> list[tuple[Fraction, int]]:
    return [(exact_number("variance", variance), size) for variance, size in demand]


def draws_from_table(variance: Fraction, size: int) -> bool:
    """Whether `discrete_gaussian` draws from a table; otherwise OpenDP's sampler draws.

    A table has about 18 entries a standard deviation.
    """
    return size >= _TABLE_FROM + 2 * math.isqrt(int(variance)) and variance <= _TABLE_TO


def noise_source(simulation_seed: int | None) -> NoiseSource:
    """The system's noise, or that of a seed. Raises ValueError for a wrong seed."""
    return SystemNoise() if simulation_seed is None else SeededNoise(simulation_seed)


def system_entropy(size: int) -> bytes:
    """Reads `size` bytes from the operating system, for keys and generator states."""
    return os.urandom(size)


def scale_above(variance: Fraction) -> float:
    """Returns the smallest float whose exact square is at least `variance`."""
    scale = math.sqrt(variance)
    while Fraction(scale) ** 2 >= variance:
        scale = math.nextafter(scale, 0)
    while Fraction(scale) ** 2 < variance:
        scale = math.nextafter(scale, math.inf)
    return scale


def discrete_gaussian(variance: Fraction, shape: int | tuple[int, ...]) -> NDArray[np.int64]:
    """Draws independent discrete Gaussian integers N_Z(0, variance), int64, of the given shape.

    Raises ValueError unless 0 < variance <= 2^80: far below the saturation of int64.
    """
    if not 0 < variance <= 1 << 80:
        raise ValueError("the variance of noise must be positive and at most 2^80")
    size = math.prod(shape) if isinstance(shape, tuple) else shape
    if size == 0:
        return np.zeros(shape, np.int64)
    if draws_from_table(variance, size):
        return _from_table(Law.gaussian(variance), size).reshape(shape)
    measure = _measurement(scale_above(variance))
    return np.array(measure([0] * size), dtype=np.int64).reshape(shape)


def double_geometric(decay: Fraction, size: int) -> NDArray[np.int64]:
    """Draws independent integers k, (size,), with probability proportional to exp(-decay |k|).

    A vector of counts that one person changes by at most D in sum is (D decay)-differentially
    private with it (Ghosh, Roughgarden, Sundararajan 2012); `exact_tables.geometric_rho` is its
    cost. Raises ValueError for a decay below 2^-12.
    """
    if decay < _LEAST_DECAY:
        raise ValueError("double-geometric noise decays by at least 2^-12")
    return _from_table(Law.geometric(decay), size)


def noisy_top(scores: NDArray[np.int64], picks: int, variance: Fraction) -> NDArray[np.int64]:
    """Selects the indices of `picks` different scores by the exponential mechanism. Exact.

    scores: int64 (n,).
    picks: the number of indices.
    variance: at most b^2, the squared scale of the Gumbel noise.

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


def geometric_variance(decay: Fraction) -> float:
    """Computes the variance of double-geometric noise, 1 / (2 sinh(decay / 2)^2)."""
    return 1 / (2 * math.sinh(decay / 2) ** 2)


def exact_variance(variance: Fraction) -> float:
    """Computes the variance of the discrete Gaussian: below its parameter, noticeably below 1."""
    if variance > _SMOOTH:
        return float(variance)
    return _small_variance(variance)


@lru_cache(maxsize=4096)
def _small_variance(variance: Fraction) -> float:
    """Computes the variance of a narrow discrete Gaussian, with the same bits on every machine."""
    squares = [k * k for k in range(1, math.ceil(9 * math.sqrt(variance)) + 9)]
    digits = Context(prec=28)
    unit = digits.divide(Decimal(-variance.denominator), Decimal(2 * variance.numerator))
    weights = [float(digits.exp(digits.multiply(Decimal(s), unit))) for s in squares]
    total = math.fsum(weights)
    spread = math.fsum(w * s for w, s in zip(weights, squares, strict=True))
    return 2 * spread / (1 + 2 * total)


def _from_table(law: Law, size: int) -> NDArray[np.int64]:
    """Draws independent integers of a law, by words of the system's entropy."""
    drawn = np.empty(size, np.int64)
    for start in range(0, size, _CHUNK):
        chunk = drawn[start : start + _CHUNK]
        chunk[:] = _values(law, np.frombuffer(system_entropy(8 * len(chunk)), "<u8"))
    return drawn


def _values(law: Law, uniforms: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Maps uniform words to values. A word that is an entry of the table draws more bits.

    A value is the position of its word among the table's floors. Of many words, the first bits
    (`lead`) say the position unless a floor begins with the same bits (`open_`).
    """
    first, floors = _words_of(law)
    if len(uniforms) < _GUIDE_FROM:
        entries = np.searchsorted(floors, uniforms)
        open_ = np.arange(len(uniforms))
    else:
        guide = _guide(law)
        lead = (uniforms >> np.uint64(_BITS - _GUIDED)).astype(np.intp)
        entries = guide[lead]
        # No entry lies between the least and the largest word of the other leads.
        open_ = np.flatnonzero(entries != guide[lead + 1])
        entries[open_] = np.searchsorted(floors, uniforms[open_])
    values = entries + first
    for i in open_[floors[entries[open_]] == uniforms[open_]].tolist():
        values[i] = decided(
            law, int(uniforms[i]), _BITS, lambda: int.from_bytes(system_entropy(_BITS // 8), "big")
        )
    return values


@lru_cache(maxsize=64)
def _words_of(law: Law) -> tuple[int, NDArray[np.uint64]]:
    """Returns the first value and the entries of the table of a law."""
    entries = table(law, _BITS)
    return entries.first, np.array(entries.floors, np.uint64)


@lru_cache(maxsize=16)
def _guide(law: Law) -> NDArray[np.int64]:
    """Returns, by lead of a word, the first entry of a law's table not below the lead."""
    _, floors = _words_of(law)
    leads = np.arange(1 << _GUIDED, dtype=np.uint64) << np.uint64(_BITS - _GUIDED)
    # The last entry is the last word: the length keeps the last lead open.
    return np.append(np.searchsorted(floors, leads), len(floors)).astype(np.int64)


@lru_cache(maxsize=64)
def _measurement(scale: float) -> Any:
    """OpenDP's function from integers to the integers with discrete Gaussian noise."""
    from opendp.domains import atom_domain, vector_domain  # only who draws loads these parts
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    space = vector_domain(atom_domain(T="i64")), l2_distance(T="i64")
    return make_gaussian(*space, scale=scale)


@lru_cache(maxsize=64)
def _choice(picks: int, scale: float) -> Any:
    """OpenDP's function from scores to the indices of its noisy top `picks`."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_noisy_top_k
    from opendp.measures import zero_concentrated_divergence
    from opendp.metrics import linf_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    space = vector_domain(atom_domain(T="i64")), linf_distance(T="i64")
    return make_noisy_top_k(*space, zero_concentrated_divergence(), picks, scale)


def _quantiles(
    variances: Sequence[Fraction], sizes: Sequence[int], uniforms: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Maps uniform numbers to values of discrete Gaussians by `_table`, int64 (n,).

    variances, sizes: of each law, and how many of the numbers are for it.
    uniforms: float64 (n,).

    A table is long where the law is wide. Few numbers of such a law are mapped as those of a normal
    law that is rounded, of variance s2 - 1/12 (Sheppard). The two laws agree within _NEAR, so the
    table is only needed for a number that is so near to a cumulative probability.
    """
    laws = np.repeat(np.arange(len(variances)), sizes)
    values, open_ = np.zeros(len(uniforms)), np.ones(len(uniforms), bool)
    few = [v >= max(_ROUNDED, size**2) for v, size in zip(variances, sizes, strict=True)]
    mapped = np.flatnonzero(np.repeat(few, sizes))
    if mapped.size:
        from scipy.special import ndtr, ndtri  # only a simulation needs them

        scales = np.sqrt(np.array(variances, np.float64)[laws[mapped]] - 1 / 12)
        chosen = uniforms[mapped]
        rounded = np.ceil(scales * ndtri(chosen) - 0.5)
        below, above = ndtr((rounded - 0.5) / scales), ndtr((rounded + 0.5) / scales)
        values[mapped] = rounded
        open_[mapped] = (chosen < below + _NEAR) | (chosen > above - _NEAR)
    ends = np.cumsum(sizes)
    for law in np.unique(laws[open_]).tolist():
        first, last = ends[law] - sizes[law], ends[law]
        support, cumulative = _table(variances[law])
        places = first + np.flatnonzero(open_[first:last])
        values[places] = support[np.searchsorted(cumulative, uniforms[places])]
    return values.astype(np.int64)


@lru_cache(maxsize=64)
def _table(variance: Fraction) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns the support and the cumulative probabilities of a discrete Gaussian, (n,) each.

    variance: the parameter s2 of P(x) in proportion to exp(-x^2 / (2 s2)).

    The support is truncated at 9 standard deviations, with a tail below 1e-17.
    """
    reach = math.ceil(9 * math.sqrt(variance)) + 9
    support = np.arange(-reach, reach + 1, dtype=np.int64)
    weight = np.exp(-(support.astype(float) ** 2) / (2 * float(variance)))
    cumulative = np.cumsum(weight)
    return support, cumulative / cumulative[-1]
