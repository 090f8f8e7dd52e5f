"""Contrasts: what a window release measures once its first histogram has fixed the totals.

A window (z, x) is an overlap z of k - 1 symbols and the newest symbol x. Inside each z the q - 1
Helmert contrasts h_j = (1, .., 1, -j, 0, ..), j = 1..q-1, of the counts are measured: integers,
with independent noise of variance j (j + 1) v, v = (1 - 1/q) b. So the orthonormal contrasts
h_j / sqrt(j (j + 1)) all have variance v, and one person has squared length 1 - 1/q in them.

Estimates. With e the unbiased histogram of the period before and d_zj the noisy contrasts,
    e'[z x] = (1/q) sum_a e[a z] + sum_j h_j(x) d_zj / (j (j + 1)).
Unrolled over m later steps to the first histogram, of noise variance a, a bin is an average of
cells with weight q^-i at lag i, and of contrasts of as many different overlaps; from lag k on the
average is over all bins, whose contrasts cancel. Its variance is, with m no larger than k,
    a q^-m + (1 - 1/q) (1 - q^-m) b.

Open populations. The pattern of k absences, and any sum with it, is never looked at: inside
z = absent^(k-1) the other cells themselves are measured, with variance b, and the way back from a
bin ends where it meets one of them: at lag g once among q^g, if the first present symbol is g
places before its overlap's end, and again from lag k on. So the variance is
    a A + b B + (1 - 1/q) b (1 - A - B),
A and B the sums of squared weights on the first histogram's cells and on cells measured later.
The last share follows from the case that everything is measured with noise v = a = b: step 3 of
Algorithm 1 leaves the errors of all bins uncorrelated, of variance v, at every period.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from stream_dp.panel import window_symbols
from stream_dp.privacy.noise import exact_variance

from .base import Counts, Demand

Floats = NDArray[np.float64]
N = TypeVar("N", float, Fraction)
VarianceShares = tuple[float, float]


def forward(cells: NDArray[Any]) -> NDArray[Any]:
    """The contrasts (.., q - 1) of cells (.., q): the first j together less j times the next."""
    j = np.arange(1, cells.shape[-1])
    contrasts: NDArray[Any] = cells.cumsum(axis=-1)[..., :-1] - j * cells[..., 1:]
    return contrasts


def backward(contrasts: NDArray[Any]) -> Floats:
    """The cells (.., q) of sum 0 that have these contrasts (.., q - 1)."""
    j = np.arange(1, contrasts.shape[-1] + 1)
    scaled = contrasts / (j * (j + 1))
    cells: Floats = np.zeros((*contrasts.shape[:-1], contrasts.shape[-1] + 1))
    cells[..., :-1] = scaled[..., ::-1].cumsum(axis=-1)[..., ::-1]
    cells[..., 1:] -= j * scaled
    return cells


@dataclass(frozen=True)
class Contrasts:
    """What every step after the first measures, for q symbols, width k, perhaps an absent one.

    Measurements come in this order: h_1 of every overlap, h_2 of every overlap, .., and in an
    open population, where z = absent^(k-1) is left out of them, that overlap's other cells.
    """

    q: int
    width: int
    absent: int | None

    @property
    def bins(self) -> int:
        return int(self.q**self.width)

    @property
    def overlaps(self) -> int:
        return int(self.q ** (self.width - 1))

    @property
    def unseen(self) -> int | None:
        """The code of k absences."""
        return None if self.absent is None else self.absent * (self.bins - 1) // (self.q - 1)

    @cached_property
    def measured(self) -> NDArray[np.int64]:
        """The overlaps whose contrasts are measured."""
        every = np.arange(self.overlaps)
        return every if self.absent is None else every[every != self.gone]

    @cached_property
    def direct(self) -> NDArray[np.int64]:
        """The codes of the cells that are measured themselves."""
        if self.absent is None:
            return np.zeros(0, np.int64)
        others = [x for x in range(self.q) if x != self.absent]
        return np.array(others, np.int64) + self.gone * self.q

    @property
    def gone(self) -> int:
        """The overlap of k - 1 absences."""
        assert self.absent is not None
        return int(self.absent * (self.overlaps - 1) // (self.q - 1))

    def demand(self, b: Fraction) -> Demand:
        """Noise of the measurements, where a cell measured directly has variance b."""
        v, size = (1 - Fraction(1, self.q)) * b, self.measured.size
        helmert = [(j * (j + 1) * v, size) for j in range(1, self.q)] if size else []
        return (*helmert, (b, self.direct.size)) if self.direct.size else tuple(helmert)

    def measure(self, counts: Counts) -> Counts:
        """The true measurements of a histogram (q^k,): int64 (n,)."""
        inside: Counts = forward(counts.reshape(self.overlaps, self.q)[self.measured])
        answers: Counts = np.concatenate([inside.T.ravel(), counts[self.direct]])
        return answers

    def parts(self, answers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Answers as contrasts (overlaps, q - 1), 0 where none is measured, and direct cells."""
        inside = answers[: self.measured.size * (self.q - 1)]
        contrasts = np.zeros((self.overlaps, self.q - 1), answers.dtype)
        contrasts[self.measured] = inside.reshape(self.q - 1, -1).T
        return contrasts, answers[inside.size :]

    def carry(self, before: Floats, answers: Counts) -> Floats:
        """The unbiased histogram (q^k,) from the one before and the noisy answers of the step.

        The pattern that is not measured stays at 0, and nothing depends on it.
        """
        contrasts, direct = self.parts(answers)
        after = before.reshape(self.q, -1).sum(axis=0)[:, None] / self.q + backward(contrasts)
        histogram: Floats = after.ravel()
        histogram[self.direct] = direct
        if self.unseen is not None:
            histogram[self.unseen] = 0
        return histogram

    def adjoint(self, weights: Floats) -> tuple[Floats, Floats]:
        """weights @ carry(before, answers) as coefficients on the answers and on `before`."""
        grid = weights.reshape(self.overlaps, self.q)
        j = np.arange(1, self.q)
        inside = forward(grid[self.measured]) / (j * (j + 1))
        sums = np.zeros(self.overlaps)
        sums[self.measured] = grid[self.measured].mean(axis=1)
        coefficients = np.concatenate([inside.T.ravel(), weights[self.direct]])
        return coefficients, np.tile(sums, self.q)

    def design(self) -> csr_array:
        """The measurements as int64 rows on the histogram, (n, q^k)."""
        j, x = np.tril_indices(self.q, 0, self.q)
        j, x = j[1:], x[1:]  # x <= j; the first is no contrast
        value = np.where(x < j, 1, -j)
        z = self.measured[:, None]
        rows = (j - 1) * self.measured.size + np.arange(self.measured.size)[:, None]
        after = self.measured.size * (self.q - 1)
        entries = np.broadcast_to(value, rows.shape).ravel(), np.ones(self.direct.size, np.int64)
        at = rows.ravel(), after + np.arange(self.direct.size)
        columns = (z * self.q + x).ravel(), self.direct
        shape = (after + self.direct.size, self.bins)
        places = np.concatenate(at), np.concatenate(columns)
        return csr_array(coo_array((np.concatenate(entries), places), shape, dtype=np.int64))

    def words(self, symbols: Sequence[str]) -> tuple[str, ...]:
        """What every measurement is, in the words of `query.py`; symbols: quoted."""
        heads = (
            [
                " ".join(["pattern", *(symbols[d] for d in digits)])
                for digits in window_symbols(np.arange(self.overlaps), self.q, self.width - 1)
            ]
            if self.width > 1
            else ["pattern"]
        )
        queries = []
        for j in range(1, self.q):
            together, times = "|".join(symbols[:j]), f"{j} * " if j > 1 else ""
            for z in self.measured:
                queries.append(f"{heads[z]} {together} - {times}{heads[z]} {symbols[j]}")
        for code in self.direct:
            queries.append(f"{heads[code // self.q]} {symbols[code % self.q]}")
        return tuple(queries)

    def variances(self, a: float, b: Fraction, steps: int) -> Floats:
        """Of every bin's estimate `steps` after the first histogram, from exact variances.

        (q^k,); a: the first histogram's own variance, b as in `demand`. 0 for the unseen pattern.
        """
        q, k = self.q, self.width
        j = np.arange(1, q)
        v = (1 - Fraction(1, q)) * b
        scaled = (
            np.array([exact_variance(i * (i + 1) * v) for i in range(1, q)]) / (j * (j + 1)) ** 2
        )
        each = np.append(scaled[::-1].cumsum()[::-1], 0)  # of the part of each symbol
        each[1:] += j**2 * scaled
        variances = np.zeros(self.bins)
        codes, gaps = np.arange(self.bins), self._gaps()
        for gap in {*gaps.tolist()}:
            own = codes[gaps == gap]
            open_gap = None if self.absent is None else gap
            first, direct = _shares(q, k, open_gap, steps + 1, 1.0)[-1]
            rest = (1 - first - direct) / (1 - 1 / q)
            total = np.full(own.size, first * a + direct * exact_variance(b))
            for lag in range(min(steps, k)):
                weight = (_cells(q, open_gap, lag) - (lag == open_gap)) / q ** (2 * lag)
                total += weight * each[own // q**lag % q]
                rest -= weight
            if self.absent is not None:
                total += max(rest, 0) * each[self.absent]
            variances[own] = total
        if self.unseen is not None:
            variances[self.unseen] = 0
        return variances

    def _gaps(self) -> NDArray[np.int64]:
        """Of every bin, the places from its first present symbol to the end of its overlap."""
        gaps = np.zeros(self.bins, np.int64)
        if self.absent is not None:
            for place in range(self.width):
                gaps[np.arange(self.bins) // self.q**place % self.q != self.absent] = place
        return gaps

    def _by_gap(self, releases: int) -> Iterator[tuple[int | None, float, list[VarianceShares]]]:
        """By gap: the share of the measured bins that have it, and (A, B) of every step."""
        if self.absent is None:
            yield None, 1.0, _shares(self.q, self.width, None, releases, 1.0)
            return
        for gap in range(self.width):
            share = (self.q - 1) * self.q**gap / (self.bins - 1)
            yield gap, share, _shares(self.q, self.width, gap, releases, 1.0)

    def mean_shares(self, releases: int) -> tuple[float, float]:
        """The mean variance of all bins and releases is their product with (a, b)."""
        means = np.zeros(2)
        for _, share, pairs in self._by_gap(releases):
            first, direct = np.array(pairs).T
            later = direct + (1 - 1 / self.q) * (1 - first - direct)
            means += share * np.array([first.mean(), later.mean()])
        return float(means[0]), float(means[1])

    def worst_variance(self, a: Fraction, b: Fraction, releases: int) -> Fraction:
        """The largest variance of a bin at any release."""
        worst = []
        for gap, _, pairs in self._by_gap(releases):
            first, direct = np.array(pairs).T
            each = first * float(a) + float(b) * (direct + (1 - 1 / self.q) * (1 - first - direct))
            worst.append((each.max(), gap, int(each.argmax())))
        _, gap, steps = max(worst, key=lambda one: one[0])
        share, own = _shares(self.q, self.width, gap, steps + 1, Fraction(1))[-1]
        return share * a + b * (own + (1 - Fraction(1, self.q)) * (1 - share - own))


def _cells(q: int, gap: int | None, lag: int) -> int:
    """How many cells a bin averages at a lag of at most k."""
    return int(q**lag if gap is None or lag <= gap else q ** (lag - gap) * (q**gap - 1))


def _shares(q: int, k: int, gap: int | None, releases: int, one: N) -> list[tuple[N, N]]:
    """(A, B) at 0, 1, .., releases - 1 steps after the first histogram."""
    if gap is None:
        return [(one / q ** min(steps, k), one * 0) for steps in range(releases)]
    direct = one / q ** (2 * gap)
    pairs = [
        (one * _cells(q, gap, m) / q ** (2 * m), direct if m > gap else one * 0)
        for m in range(min(releases, k + 1))
    ]
    # From lag k on, a cell's weight depends on how many absences it ends in; it may be one of
    # those that are measured directly.
    weights = [one / q**k if absences < gap else one * 0 for absences in range(k)]
    while len(pairs) < releases:
        direct += (q - 1) * weights[0] * weights[0]
        weights = [((q - 1) * weights[0] + w) / q for w in weights[1:]] + [one * 0]
        squares = [(q - 1) * q ** (k - 1 - i) * w * w for i, w in enumerate(weights)]
        pairs.append((sum(squares, one * 0), direct))
    return pairs
