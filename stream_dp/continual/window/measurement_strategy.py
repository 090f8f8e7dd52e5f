"""Measurement strategies of windows: their interface, and complete histograms.

The strategies are the histograms of Bun, Gaboardi, Neunhoeffer, Zhang 2024, Algorithm 1
(`Histograms`), and residuals: in a closed population (`residuals.py`), and where people come and go
or enter late (`open_residuals.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

from stream_dp.panel import window_symbols
from stream_dp.privacy.noise import exact_variance

from ..mechanism_interface import Counts, Demand

Floats = NDArray[np.float64]
# A period, and int64 rows on the histogram at that period.
HistogramRows: TypeAlias = "tuple[int, scipy.sparse.csr_array]"


@dataclass(frozen=True)
class NoisyWindow:
    """The estimates of the answers so far about the window at the last period.

    entries: int64 (q^k,), noisy; of a histogram its counts; empty before t = k
    solved: float64, the estimates of the sets of periods that the next step looks at
        (`Presence.solved`); empty where nobody comes and goes
    direct: the noisy number of people with k absences, 0 where it is not measured
    """

    entries: Counts
    solved: Floats = field(default_factory=lambda: np.zeros(0))
    direct: int = 0


class MeasurementStrategy(Protocol):
    """The measured rows of every window, and their inverse.

    exponent: p of the weights (`residual_costs.py`), None for histograms
    unseen: the pattern that is never measured, None where all are
    counts_size: how long the true counts are that `measure` takes
    init: the state before t = k
    updated: the state at t >= k from that at t - 1 and the noisy answers at t
    known_sets: how many estimates of sets of periods the state has after t
    histogram: the unbiased histogram (q^k,) at t
    answers_of: weights @ histogram at t as coefficients on the measurements of each period up to t
    variance: of the estimate weights @ histogram at t
    bin_variances: of every pattern's estimate at t, (q^k,)
    words: the query of every measurement at t
    rows: the measurements at t as rows on the histograms of periods up to t; the rows of all parts
        are added
    """

    @property
    def exponent(self) -> Fraction | None: ...
    @property
    def unseen(self) -> int | None: ...
    @property
    def counts_size(self) -> int: ...
    def demand(self, t: int) -> Demand: ...
    def measure(self, t: int, counts: Counts) -> Counts: ...
    def init(self) -> NoisyWindow: ...
    def updated(self, t: int, last_window: NoisyWindow, answers: Counts) -> NoisyWindow: ...
    def known_sets(self, t: int) -> int: ...
    def histogram(self, t: int, state: NoisyWindow) -> Floats: ...
    def answers_of(self, t: int, weights: Floats) -> Iterator[tuple[int, Floats]]: ...
    def variance(self, t: int, weights: Floats) -> float: ...
    def bin_variances(self, t: int) -> Floats: ...
    def words(self, t: int, symbols: Sequence[str]) -> tuple[str, ...]: ...
    def rows(self, t: int) -> Iterator[HistogramRows]: ...


def pattern_words(codes: Counts, q: int, width: int, symbols: Sequence[str]) -> tuple[str, ...]:
    """The queries of patterns in the syntax of `answers/query.py`. symbols: quoted."""
    rows = window_symbols(codes, q, width)
    return tuple(" ".join(["pattern", *(symbols[d] for d in row)]) for row in rows)


@dataclass(frozen=True)
class Histograms:
    """The complete histogram at every t >= k, with noise of one variance.

    unseen: the pattern of k absences where people come and go
    """

    q: int
    width: int
    noise: Fraction
    unseen: int | None

    exponent = None

    @property
    def counts_size(self) -> int:
        return int(self.q**self.width)

    @cached_property
    def _measured(self) -> Counts:
        patterns = np.arange(self.counts_size)
        return patterns if self.unseen is None else patterns[patterns != self.unseen]

    def demand(self, t: int) -> Demand:
        return ((self.noise, self._measured.size),)

    def measure(self, t: int, counts: Counts) -> Counts:
        measured: Counts = counts[self._measured]
        return measured

    def init(self) -> NoisyWindow:
        return NoisyWindow(np.zeros(0, np.int64))

    def updated(self, t: int, last_window: NoisyWindow, answers: Counts) -> NoisyWindow:
        entries = np.zeros(self.counts_size, np.int64)
        entries[self._measured] = answers
        return NoisyWindow(entries)

    def known_sets(self, t: int) -> int:
        return 0

    def histogram(self, t: int, state: NoisyWindow) -> Floats:
        return state.entries.astype(np.float64)

    def answers_of(self, t: int, weights: Floats) -> Iterator[tuple[int, Floats]]:
        yield t, weights[self._measured]

    def variance(self, t: int, weights: Floats) -> float:
        return float((weights[self._measured] ** 2).sum()) * exact_variance(self.noise)

    def bin_variances(self, t: int) -> Floats:
        variances = np.zeros(self.counts_size)
        variances[self._measured] = exact_variance(self.noise)
        return variances

    def words(self, t: int, symbols: Sequence[str]) -> tuple[str, ...]:
        return pattern_words(self._measured, self.q, self.width, symbols)

    def rows(self, t: int) -> Iterator[HistogramRows]:
        identity = scipy.sparse.eye_array(self.counts_size, dtype=np.int64, format="csr")
        yield t, scipy.sparse.csr_array(identity[self._measured])
