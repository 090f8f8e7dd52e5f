"""Estimates of patterns and of sums, reconciled where both tell the same number.

Both tell E_s, the people with the event at period s: windows as a sum of patterns, totals as
sum_b S_b(s) - S_b(s - 1). The gaps D_s between the two, s = 1..t, are noise alone. Let C be their
covariance and c that of an unbiased estimate x with them. Then
    x - c C^-1 D
is unbiased, has the variance v - c C^-1 c', and no estimate that is linear in x and D has less
(generalised least squares). So the panel follows estimates that use the noise of both. Variances
are the parameters of the discrete Gaussian noise, above 0 however little noise there is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stream_dp.panel import window_symbols

from ..cumulative.cumulative import Cumulative
from ..cumulative.placed_counters import CoupledTotal
from ..products import factor_below, inverse_below, product
from ..window.window import FixedWindow

Floats = NDArray[np.float64]

_MOST_BINS = 512  # patterns, and rows of totals, up to which covariances are computed
_MOST_ROWS = 1500


@dataclass(frozen=True, eq=False)
class Gains:
    """How estimates at t follow the gaps.

    patterns: (q^k, t)
    sums: (t, t), of S_1..S_t
    variances: (t,) of the reconciled S_1..S_t over those of S_1..S_t
    """

    patterns: Floats
    sums: Floats
    variances: Floats


@dataclass(frozen=True)
class Reconciliation:
    """The gaps between a window mechanism and a cumulative mechanism, and the resulting
    corrections.

    window, totals: the two mechanisms, of the same horizon
    events: the codes of the symbols that are the event
    """

    window: FixedWindow
    totals: Cumulative
    events: tuple[int, ...]

    @property
    def possible(self) -> bool:
        """Whether the covariances are small enough to be computed."""
        return self.window.bins <= _MOST_BINS and self.totals.all_rows <= _MOST_ROWS

    def gaps(self, t: int, histogram: Floats, known: Floats) -> Floats:
        """D_s of the periods that are measured at t: 1..k at t = k, later t: (n,).

        histogram: (q^k,) the estimates at t
        known: what is known of the rows of totals
        """
        told = product(_event_patterns(self, t), histogram)
        own = []
        for s in range(t - told.size + 1, t + 1):
            now, before = (
                sum(placed.sum(known, period) for placed in self.totals.placed_counters[:period])
                for period in (s, s - 1)
            )
            own.append(now - before)
        return np.asarray(told - np.array(own))

    def gains(self, t: int) -> Gains:
        """How the estimates at t follow the gaps of periods 1..t."""
        return _gains(self, t)


def _event_patterns(both: Reconciliation, t: int) -> Floats:
    """The patterns at t with the event at each measured period, in 0 and 1: (n, q^k)."""
    window = both.window
    symbols = window_symbols(np.arange(window.bins), window.q, window.width)
    happens = np.isin(symbols, both.events).T.astype(np.float64)
    return happens if t == window.width else happens[-1:]


@lru_cache(maxsize=128)
def _gains(both: Reconciliation, t: int) -> Gains:
    window, totals, width = both.window, both.totals, both.window.width
    told = [
        _window_noise(window, period, weights)
        for period in range(width, t + 1)
        for weights in _event_patterns(both, period)
    ]
    patterns = np.zeros((window.bins, told[0].size))
    units = np.eye(window.bins)
    for code in window.measured:
        patterns[code] = _window_noise(window, t, units[code])
    sums = [_sum_noise(totals, s) for s in range(t + 1)]
    events = np.array([sums[s].sum(axis=0) - sums[s - 1].sum(axis=0) for s in range(1, t + 1)])
    by_windows, by_totals = np.array(told), events
    covariance = product(by_windows, by_windows.T) + product(by_totals, by_totals.T)
    root = inverse_below(factor_below(covariance))
    precision = product(root.T, root)
    with_sums = -product(sums[t], by_totals.T)
    of_sums = product(with_sums, precision)
    before = (sums[t] ** 2).sum(axis=1)
    return Gains(
        product(product(patterns, by_windows.T), precision),
        of_sums,
        1 - (of_sums * with_sums).sum(axis=1) / before,
    )


def _window_noise(window: FixedWindow, t: int, weights: Floats) -> Floats:
    """The estimate of weights @ histogram at t on all windows' noise, each of variance 1: (n,)."""
    by_period = dict(window.functional(t, weights)[0])
    return np.concatenate(
        [by_period.get(t, 0.0) * noise for t, noise in enumerate(_deviations(window), window.width)]
    )


@lru_cache(maxsize=4)
def _deviations(window: FixedWindow) -> tuple[Floats, ...]:
    """The standard deviations of the noise of windows at k..T."""
    periods = range(window.width, window.horizon + 1)
    demands = [window.demand(t) for t in periods]
    return tuple(
        np.sqrt(np.concatenate([np.full(size, float(v)) for v, size in demand]))
        for demand in demands
    )


def _sum_noise(totals: Cumulative, t: int) -> Floats:
    """S_1..S_t at t on the noise of all rows of totals, each of variance 1: (t, rows)."""
    noise = _row_noise(totals)
    sums = np.zeros((t, totals.all_rows))
    for placed in totals.placed_counters[:t]:
        if isinstance(placed, CoupledTotal):
            weights = np.ones(t - placed.start + 1)
        else:
            weights = placed.counter.weights(t - placed.start + 1) / placed.counter.scale
        rows = noise[placed.first_row : placed.first_row + weights.size]
        sums[placed.threshold - 1] = product(weights[None], rows)[0]
    return sums


@lru_cache(maxsize=4)
def _row_noise(totals: Cumulative) -> Floats:
    """What is known of rows (`CumulativeState.known`) on the noise of all rows: (rows, rows)."""
    known = np.zeros((totals.all_rows, totals.all_rows))
    for placed in totals.placed_counters:
        deviation = math.sqrt(placed.variance)
        for row in range(placed.first_row, placed.first_row + placed.row_count):
            known[row, row] = deviation
            if isinstance(placed, CoupledTotal):
                t = placed.start + row - placed.first_row
                own, before = placed.budget.row(placed.threshold, t)
                known[row] -= product(own[None, :-1], known[placed.first_row : row])[0]
                if placed.below is not None:
                    below = known[placed.below : placed.below + before.size]
                    known[row] -= product(before[None], below)[0]
                known[row] /= own[-1]
    return known
