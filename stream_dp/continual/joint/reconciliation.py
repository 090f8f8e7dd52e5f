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
from ..repeatable_products import factor_below, inverse_below, product
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

    def gaps(self, t: int, histogram: Floats, noisy_rows: Floats) -> Floats:
        """D_s of the periods that are measured at t: 1..k at t = k, later t: (n,).

        histogram: (q^k,) the estimates at t
        noisy_rows: what is known of the rows of totals
        """
        by_patterns = product(_event_patterns(self, t), histogram)
        by_totals = []
        for s in range(t - by_patterns.size + 1, t + 1):
            total, last_total = (
                sum(
                    placed.sum(noisy_rows, period)
                    for placed in self.totals.placed_counters[:period]
                )
                for period in (s, s - 1)
            )
            by_totals.append(total - last_total)
        return np.asarray(by_patterns - np.array(by_totals))

    def gains(self, t: int) -> Gains:
        """How the estimates at t follow the gaps of periods 1..t."""
        return _gains(self, t)


def _event_patterns(reconciliation: Reconciliation, t: int) -> Floats:
    """The patterns at t with the event at every measured period, in 0 and 1: (n, q^k)."""
    window = reconciliation.window
    symbols = window_symbols(np.arange(window.bins), window.q, window.width)
    happens = np.isin(symbols, reconciliation.events).T.astype(np.float64)
    return happens if t == window.width else happens[-1:]


@lru_cache(maxsize=128)
def _gains(reconciliation: Reconciliation, t: int) -> Gains:
    """c C^-1 for the histogram and for the sums at t.

    With independent noise z of the windows and y of the totals, each of variance 1, the gaps are
    D = W z - T y, W (t, n) and T (t, rows); the estimates are H z, (q^k, n), and S y, (t, rows). So
        C = W W' + T T',  Cov(H z, D) = H W',  Cov(S y, D) = -S T'.
    """
    window, totals, width = (
        reconciliation.window,
        reconciliation.totals,
        reconciliation.window.width,
    )
    w = np.array(
        [
            _window_noise(window, period, weights)
            for period in range(width, t + 1)
            for weights in _event_patterns(reconciliation, period)
        ]
    )
    h = np.zeros((window.bins, w.shape[1]))
    units = np.eye(window.bins)
    for code in window.measured:
        h[code] = _window_noise(window, t, units[code])
    sums = [_sum_noise(totals, period) for period in range(t + 1)]
    # E_s = sum_b S_b(s) - S_b(s - 1), row s - 1.
    rises = [sums[s].sum(axis=0) - sums[s - 1].sum(axis=0) for s in range(1, t + 1)]
    tt, s = np.array(rises), sums[t]
    root = inverse_below(factor_below(product(w, w.T) + product(tt, tt.T)))  # C = R R', R^-1
    precision = product(root.T, root)  # C^-1
    covariance = -product(s, tt.T)
    of_sums = product(covariance, precision)
    variances = (s**2).sum(axis=1)
    return Gains(
        patterns=product(product(h, w.T), precision),
        sums=of_sums,
        variances=1 - (of_sums * covariance).sum(axis=1) / variances,
    )


def _window_noise(window: FixedWindow, t: int, weights: Floats) -> Floats:
    """The estimate of weights @ histogram at t on all windows' noise, each of variance 1: (n,).

    The estimate is the sum over periods of its coefficients (`functional`) times that period's
    noise, which is the deviations times z.
    """
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
    """The matrix S of (S_1..S_t) at t = S y, on the noise y of all rows of totals: (t, rows).

    The noise y has variance 1 each. Row b - 1 of S is a' N_b: N_b are the rows of `_row_noise` of
    the counter of S_b, and a its weights on them. A coupled total is the sum of its rows.
    """
    noise = _row_noise(totals)
    sums = np.zeros((t, totals.all_rows))
    for placed in totals.placed_counters[:t]:
        steps = t - placed.start + 1
        if isinstance(placed, CoupledTotal):
            weights = np.ones(steps)
        else:
            weights = placed.counter.weights(steps) / placed.counter.scale
        of_counter = noise[placed.first_row : placed.first_row + weights.size]
        sums[placed.threshold - 1] = product(weights[None], of_counter)[0]
    return sums


@lru_cache(maxsize=4)
def _row_noise(totals: Cumulative) -> Floats:
    """The matrix N of what is known of the rows (`CumulativeState.known`) = N y: (rows, rows).

    A row r of its own is known but for its noise, N_r = sqrt(variance) e_r. A row of a coupled
    total measures c @ (its counter's rows up to r) + l @ (the rows of the counter below), so
        N_r = (sqrt(variance) e_r - c[:-1] N_(rows before r) - l N_(rows below)) / c[-1].
    """
    noise = np.zeros((totals.all_rows, totals.all_rows))
    for placed in totals.placed_counters:
        deviation = math.sqrt(placed.variance)
        for row in range(placed.first_row, placed.first_row + placed.row_count):
            noise[row, row] = deviation
            if isinstance(placed, CoupledTotal):
                t = placed.start + row - placed.first_row
                coefficients, lower_coefficients = placed.budget.row(placed.threshold, t)
                noise[row] -= product(coefficients[None, :-1], noise[placed.first_row : row])[0]
                if placed.below is not None:
                    lower_noise = noise[placed.below : placed.below + lower_coefficients.size]
                    noise[row] -= product(lower_coefficients[None], lower_noise)[0]
                noise[row] /= coefficients[-1]
    return noise
