"""Windows as residuals: every interaction of the last k symbols is measured once.

The histogram (q, .., q) of the last k symbols, oldest first, is transformed along every axis by
the integer Helmert rows h_0 = (1, .., 1), h_j = (1, .., 1, -j, 0, ..), 0 < j < q: integers
c[j_1..j_k]. Entry j belongs to the component A = {periods with j_i > 0}, and is the same number in
every window that covers A: c_t[.., 0] = c_{t-1}[0, ..], for everybody is counted in both. So each
is measured once: at t = k all of them (but c[0..0], where the number of people is public), later
those with j_k > 0. These are (q - 1) q^(k-1) numbers a period. Noise and costs are those of
`residual_costs.py`.

The way back divides each row by its squared length, |h_0|^2 = q, |h_j|^2 = j (j + 1). The rows are
orthogonal and every entry is measured once, with independent noise: answers are best linear
unbiased estimates from all that is ever published, and their variances are sums over entries.

The construction is that of ResidualPlanner (Xiao, Wang, Zhang and Kifer 2023) along time.

The marginal of a set A of periods is the sum of the interactions of all its subsets, each spread
evenly over its cells; an interaction sums to 0 along every period. Noise of variance
prod j (j + 1) s / w in the entry (j) is noise of one variance s / w along each of the orthogonal
directions of the interaction. A histogram with noise of variance s in every cell gives the
interaction of A with the variance s q^(k - |A|), independently for every A and every period
(`period_interactions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations
from itertools import product as combined
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from stream_dp.privacy.noise import exact_variance

from ..mechanism_interface import Counts, Demand
from ..repeatable_products import product
from .measurement_strategy import HistogramRows, Histograms, MeasurementStrategy, NoisyWindow
from .residual_costs import ResidualCosts, residual_costs

Floats = NDArray[np.float64]


@lru_cache(maxsize=16)
def helmert(q: int, last: int | None = None) -> NDArray[np.int64]:
    """The rows h_0, .., h_{q-1}: int64 (q, q); h_{q-1} tells the symbol `last` from the others."""
    j, x = np.mgrid[:q, :q]
    rows: NDArray[np.int64] = np.where(x < j, 1, np.where(x == j, -j, 0))
    rows[0] = 1
    return rows if last is None else np.insert(rows[:, :-1], last, rows[:, -1], axis=1)


@lru_cache(maxsize=16)
def lengths(q: int) -> NDArray[np.int64]:
    """The squared lengths of the rows: int64 (q,)."""
    j = np.arange(q)
    return np.where(j, j * (j + 1), q)


def along_axes(matrix: NDArray[Any], tensor: NDArray[Any], q: int, width: int) -> NDArray[Any]:
    """A flat tensor (q^width,) with a matrix (q, q) applied along every axis: (q^width,)."""
    for _ in range(width):
        # The first axis is transformed and becomes the last: after `width` turns all are in place.
        tensor = product(matrix, tensor.reshape(q, -1)).T.ravel()
    return tensor


@dataclass(frozen=True)
class Residuals:
    """The measured entries of every histogram of a window release, and their inverse.

    Entries and patterns are numbered alike: digits in base q, oldest period first.

    q: the number of symbols
    width: k, the periods of a window
    horizon: T
    exponent: p of the weights
    total: whether the number of people is private, and so measured
    scale: s, an entry of weight w has noise variance prod j (j + 1) s / w
    absent: the symbol of those who are absent, in an open population: entries with all j in
        {0, q - 1}, which concern presence alone, are then not measured (`presence.py`)
    people: the public number of people, None where it is private
    """

    q: int
    width: int
    horizon: int
    exponent: Fraction
    total: bool
    scale: Fraction
    absent: int | None = None
    people: int | None = None

    unseen = None

    @property
    def bins(self) -> int:
        return int(self.q**self.width)

    @property
    def counts_size(self) -> int:
        return self.bins

    @cached_property
    def costs(self) -> ResidualCosts:
        return residual_costs(self.q, self.width, self.horizon, self.exponent, self.total)

    @property
    def _forward(self) -> NDArray[np.int64]:
        return helmert(self.q, self.absent)

    def entries(self, t: int) -> Counts:
        """The entries that are measured at t >= k, in the order of the measurements."""
        return self._entries[0 if t == self.width else 1]

    def demand(self, t: int) -> Demand:
        """The noise of the measurements at t >= k, (variance, size) each."""
        kinds, sizes = self._kind_sizes[0 if t == self.width else 1]
        variances = _kind_variances(self, self._alike(t))
        return tuple((variances[i], int(n)) for i, n in zip(kinds, sizes, strict=True))

    def transform(self, counts: Counts) -> Counts:
        """All entries of a histogram (q^k,): int64 (q^k,)."""
        return along_axes(self._forward, counts, self.q, self.width)

    def measure(self, t: int, counts: Counts) -> Counts:
        """What is measured at t >= k of a histogram (q^k,): int64 (n,)."""
        entries: Counts = self.transform(counts)[self.entries(t)]
        return entries

    def init(self) -> NoisyWindow:
        """The state before t = k: of its entries only the public number of people is read."""
        entries = np.zeros(self.bins, np.int64)
        entries[0] = self.people or 0
        return NoisyWindow(entries)

    def updated(self, t: int, last_window: NoisyWindow, answers: Counts) -> NoisyWindow:
        """The state at t >= k from that at t - 1 and the noisy answers at t."""
        entries = np.zeros(self.bins, np.int64)
        if t == self.width:
            entries[0] = last_window.entries[0]
        else:
            entries[:: self.q] = last_window.entries[: self.bins // self.q]
        entries[self.entries(t)] = answers
        return NoisyWindow(entries)

    def known_sets(self, t: int) -> int:
        return 0

    def histogram(self, t: int, state: NoisyWindow) -> Floats:
        """The unbiased histogram (q^k,) from noisy entries."""
        back = self._forward.T / lengths(self.q)
        return along_axes(back, state.entries.astype(np.float64), self.q, self.width)

    def adjoint(self, weights: Floats) -> Floats:
        """weights @ histogram as coefficients on the entries: (q^k,) for (q^k,)."""
        forward = self._forward / lengths(self.q)[:, None]
        return along_axes(forward, weights, self.q, self.width)

    def answers_of(self, t: int, weights: Floats) -> Iterator[tuple[int, Floats]]:
        """The coefficients of weights @ histogram at t on the measurements of every period up to t.

        From t back to k, as far as there are any; 0 is left for a public number of people.
        """
        coefficients = self.adjoint(weights)
        for period in range(t, self.width - 1, -1):
            yield period, coefficients[self.entries(period)]
            if period > self.width:
                older = coefficients[:: self.q]
                coefficients = np.zeros(self.bins)
                coefficients[: older.size] = older

    def variance(self, t: int, weights: Floats) -> float:
        """Of the estimate weights @ histogram at t >= k."""
        return float(product(self.adjoint(weights) ** 2, self.entry_variances(t)))

    def bin_variances(self, t: int) -> Floats:
        """Of every pattern's estimate at t >= k: (q^k,)."""
        back = (self._forward.T / lengths(self.q)) ** 2
        return along_axes(back, self.entry_variances(t), self.q, self.width)

    def words(self, t: int, symbols: Sequence[str]) -> tuple[str, ...]:
        """The query of every measurement at t. symbols: quoted."""
        entry_texts = self.entry_words(symbols)
        return tuple(entry_texts[i] for i in self.entries(t))

    def entry_words(self, symbols: Sequence[str]) -> list[str]:
        """In words, every entry of the transformed histogram, in their order.

        A period where people are distinguished reads `a|b - 2 * c`: those with a or b less twice
        those with c; any other is `?`. Periods are joined by commas, the oldest first: their
        numbers are multiplied.
        """
        last = self.absent
        ordered = [s for i, s in enumerate(symbols) if i != last]
        ordered += [] if last is None else [symbols[last]]
        options = ["?"]
        for j in range(1, len(ordered)):
            times = f"{j} * " if j > 1 else ""
            options.append(f"{'|'.join(ordered[:j])} - {times}{ordered[j]}")
        return [f"residual {', '.join(texts)}" for texts in combined(options, repeat=self.width)]

    def rows(self, t: int) -> Iterator[HistogramRows]:
        """The entries measured at t, in rows on the histogram."""
        rows = scipy.sparse.csr_array(np.ones((1, 1), np.int64))
        for _ in range(self.width):
            rows = scipy.sparse.kron(rows, scipy.sparse.csr_array(self._forward), format="csr")
        yield t, scipy.sparse.csr_array(rows)[self.entries(t)]

    def entry_variances(self, t: int) -> Floats:
        """Of every noisy entry at t >= k, whenever it was measured: (q^k,); 0 where it is public.

        These are the variances of the noise itself (`exact_variance`).
        """
        variances: Floats = _exact_variances(self, self._alike(t))[self._kinds.of_entry]
        return np.where(self._measured, variances, 0.0)

    def _alike(self, t: int) -> int:
        """A period with the noise variances of t: all far from the first and the last are alike."""
        far = max(2 * self.width - 1, self.width + 1)
        return far if far <= t <= self.horizon - self.width + 1 else t

    @cached_property
    def _kinds(self) -> Kinds:
        return kinds_of_entries(self.q, self.width)

    @cached_property
    def _kind_sizes(self) -> tuple[tuple[Counts, Counts], ...]:
        """The kinds of the measured entries at t = k and at every later t, with their sizes."""
        of_entry = self._kinds.of_entry
        first, later = (np.unique(of_entry[e], return_counts=True) for e in self._entries)
        return first, later

    @cached_property
    def _measured(self) -> NDArray[np.bool_]:
        """Whether an entry is measured at all: (q^k,)."""
        if self.absent is None:
            return (np.arange(self.bins) > 0) | self.total
        digits = np.arange(self.bins)[:, None] // self.q ** np.arange(self.width) % self.q
        return np.asarray(((digits > 0) & (digits < self.q - 1)).any(axis=1))

    @cached_property
    def _entries(self) -> tuple[Counts, Counts]:
        """The measured entries at t = k and at every later t, by kind."""
        order = np.argsort(self._kinds.of_entry, kind="stable")
        first = order[self._measured[order]]
        return first, first[first % self.q > 0]


class Kind(NamedTuple):
    """What the noise of an entry depends on: its number of periods, the places of the first and of
    the last of them, and the product of j (j + 1) over them."""

    size: int
    first: int
    last: int
    product: int


@dataclass(frozen=True, eq=False)
class Kinds:
    """The kinds of entries, and the number of every entry's kind, (q^k,)."""

    kinds: tuple[Kind, ...]
    of_entry: Counts


@lru_cache(maxsize=16)
def kinds_of_entries(q: int, width: int) -> Kinds:
    """The kinds of the entries of a window, whose noise has equal variances, in order."""
    digits = np.arange(q**width)[:, None] // q ** np.arange(width - 1, -1, -1) % q
    inside = digits > 0
    first = np.where(inside.any(axis=1), inside.argmax(axis=1), 0)
    last = width - 1 - inside[:, ::-1].argmax(axis=1)
    product = np.where(inside, digits * (digits + 1), 1).prod(axis=1)
    # Numbers are sorted much faster than rows: q^2k k^3 is below 2^63 for any window in memory.
    shape = width + 1, width, width, int(product.max()) + 1
    rows = inside.sum(axis=1), first, last, product
    numbers, of_entry = np.unique(np.ravel_multi_index(rows, shape), return_inverse=True)
    kinds = zip(*(column.tolist() for column in np.unravel_index(numbers, shape)), strict=True)
    return Kinds(tuple(Kind(*kind) for kind in kinds), of_entry.reshape(-1))


@lru_cache(maxsize=256)
def _kind_variances(residuals: Residuals, t: int) -> tuple[Fraction, ...]:
    """Of each kind of entries at t, the noise variance prod j (j + 1) s / w."""
    costs, s, start = residuals.costs, residuals.scale, t - residuals.width + 1
    variances = []
    for kind in residuals._kinds.kinds:
        if kind.size:
            weight = costs.weight(start + kind.first, start + kind.last, kind.size)
            variances.append(kind.product * s / weight)
        else:
            variances.append(s / costs.total_weight if residuals.total else Fraction(0))
    return tuple(variances)


@lru_cache(maxsize=256)
def _exact_variances(residuals: Residuals, t: int) -> Floats:
    """Of each kind of entries at t, the variance of the noise itself: (kinds,)."""
    return np.array([exact_variance(v) if v else 0.0 for v in _kind_variances(residuals, t)])


@dataclass(frozen=True, eq=False)
class PeriodsInteraction:
    """A measured interaction.

    ago: its periods, as so many before that of the measurement, the oldest first.
    values: (q, .., q) numbers of people, which sum to 0 along every axis.
    variance: of the noise in a cell, before it was centred.
    """

    ago: tuple[int, ...]
    values: Floats
    variance: float


def period_interactions(
    measurement: MeasurementStrategy, t: int, answers: Counts
) -> Iterator[PeriodsInteraction]:
    """The interactions measured by the answers at t >= k.

    Of a closed population; where people come and go or enter late there are none.
    """
    if isinstance(measurement, Residuals):
        yield from _of_residuals(measurement, t, answers)
    elif isinstance(measurement, Histograms) and measurement.unseen is None:
        yield from _of_histogram(measurement, answers)


def _of_residuals(residuals: Residuals, t: int, answers: Counts) -> Iterator[PeriodsInteraction]:
    """The interactions of the answers: entries along Helmert rows h_j, 0 < j < q, of every period.

    An interaction is sum_j h_j / |h_j|^2 times the entry, period by period. The entry of j = 1 has
    the factor prod j (j + 1) = 2^|A| in its variance.
    """
    q, width, measured = residuals.q, residuals.width, residuals.entries(t)
    entries, variances = np.zeros(residuals.bins), np.zeros(residuals.bins)
    entries[measured], variances[measured] = answers, residuals.entry_variances(t)[measured]
    shape = (q,) * width
    back = (helmert(q)[1:] / lengths(q)[1:, None]).T  # (q, q - 1)
    for positions in _sets(width):
        if positions[-1] < width - 1 and t > width:
            continue  # measured before
        entries_of_set = tuple(slice(1, None) if i in positions else 0 for i in range(width))
        values = entries.reshape(shape)[entries_of_set]
        first = variances.reshape(shape)[tuple(int(i in positions) for i in range(width))]
        for axis in range(len(positions)):
            values = np.moveaxis(np.tensordot(back, values, (1, axis)), 0, axis)
        ago = tuple(width - 1 - i for i in positions)
        yield PeriodsInteraction(ago, values, float(first) / 2 ** len(positions))


def _of_histogram(histograms: Histograms, answers: Counts) -> Iterator[PeriodsInteraction]:
    """The interactions of a histogram: its marginals, centred along each of their periods."""
    histogram = answers.reshape((histograms.q,) * histograms.width).astype(np.float64)
    for positions in _sets(histograms.width):
        values = histogram.sum(axis=tuple(i for i in range(histograms.width) if i not in positions))
        for axis in range(len(positions)):
            values = values - values.mean(axis, keepdims=True)
        ago = tuple(histograms.width - 1 - i for i in positions)
        summed = histograms.q ** (histograms.width - len(positions))
        yield PeriodsInteraction(ago, values, exact_variance(histograms.noise) * summed)


def _sets(width: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, width + 1):
        yield from combinations(range(width), size)
