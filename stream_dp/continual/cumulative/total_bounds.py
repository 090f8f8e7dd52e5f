"""A lower bound of the error that any Gaussian mechanism for totals can have.

A mechanism measures the entries z of all thresholds with noise of precision X, online or not. Its
cost at 2 rho = 1 bounds z' X z for every history z, or for every difference of two histories under
replacement. For a measure on histories with second moments M = E[z z'], tr(M X) is at most the
largest cost, 1. The mean variance of the cells of S = D z is tr(D X^-1 D') / cells, and by Cauchy
and Schwarz its product with tr(M X) is at least the squared nuclear norm of D M^1/2 over cells. So
every measure gives a lower bound of the root mean square error. The history with an event in every
period gives 1.

The measure here is a mixture of histories with independent events: at t the chance of one is
r (2 t / (T + 1))^e, clipped to between .02 and .95. A pair is two of these, one of which has few
events at first where the other has many. The weights were found by maximising the bound at T = 16.
At T = 12 it is .991 of the largest bound of all measures under add_remove, and .965 under
replacement.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

MOST_BOUNDED = 36  # periods: the work grows with their sixth power

Floats = NDArray[np.float64]

_SINGLE = (  # weight, r, e
    (0.20, 0.4, -0.5),
    (0.16, 0.6, -0.5),
    (0.19, 0.9, -0.5),
    (0.16, 0.3, 0.5),
    (0.17, 0.5, 0.5),
    (0.12, 0.8, 0.3),
)
_PAIRS = (  # weight, r and e of one, of the other
    (0.27, (0.15, 0.5), (0.5, -0.5)),
    (0.28, (0.3, 0.5), (0.7, 0.0)),
    (0.15, (0.3, 0.5), (0.9, -0.5)),
    (0.19, (0.5, 0.5), (0.9, -0.5)),
    (0.11, (0.5, 0.5), (0.5, -0.5)),
)


@lru_cache(maxsize=64)
def least_rmse(horizon: int, *, pairs: bool) -> float:
    """The lower bound over all cells S_b(t), b <= t <= horizon, in units of 1 / sqrt(2 rho).

    pairs: whether a person is replaced by another, rather than added or removed
    """
    cells = np.array([(b, t) for b in range(1, horizon + 1) for t in range(b, horizon + 1)])
    moments = np.zeros((len(cells),) * 2)
    if pairs:
        for weight, one, other in _PAIRS:
            (mean, square), (others, theirs) = _moments(cells, *one), _moments(cells, *other)
            crossed = np.outer(mean, others)
            moments += weight * (square + theirs - crossed - crossed.T)
    else:
        for weight, rate, exponent in _SINGLE:
            moments += weight * _moments(cells, rate, exponent)[1]
    b, t = cells.T
    sums = ((b[:, None] == b) & (t <= t[:, None])).astype(float)
    values, vectors = np.linalg.eigh(moments)
    root = vectors * np.sqrt(np.maximum(values, 0))
    norm = float(np.linalg.svd(sums @ root, compute_uv=False).sum())
    return max(1.0, norm / math.sqrt(len(cells)))


def _moments(cells: NDArray[np.int64], rate: float, exponent: float) -> tuple[Floats, Floats]:
    """E[z] and E[z z'] of one history. cells: b and t, (cells, 2)."""
    b, t = cells.T
    horizon = int(t.max())
    periods = np.arange(1, horizon + 1)
    chances = np.clip(rate * (2 * periods / (horizon + 1)) ** exponent, 0.02, 0.95)
    between = np.zeros((horizon, horizon + 1, horizon + 1))  # events after s and before t: chance
    for s in range(horizon):
        counts = np.eye(horizon + 1)[0]
        for period in range(s + 1, horizon + 1):
            between[s, period] = counts
            rises = counts * chances[period - 1]
            counts = counts - rises
            counts[1:] += rises[:-1]
    happens = chances[t - 1]
    means: Floats = between[0, t, b - 1] * happens
    later = (t > t[:, None]) & (b > b[:, None])
    first, then = np.nonzero(later)
    moments = np.zeros((len(cells),) * 2)
    steps = between[t[first], t[then], b[then] - b[first] - 1]
    moments[first, then] = means[first] * steps * happens[then]
    moments += moments.T + np.diag(means)
    return means, moments
