"""A lower bound of the error that any Gaussian mechanism for totals can have.

A mechanism measures the entries z of all thresholds with noise of precision X, online or not. Its
cost at 2 rho = 1 bounds z' X z for every history z, or for every difference of two histories under
replacement. For a measure on histories with second moments M = E[z z'], tr(M X) is at most the
largest cost, 1. The mean variance of the cells of S = D z is tr(D X^-1 D') / cells, and by Cauchy
and Schwarz its product with tr(M X) is at least the squared nuclear norm of D M^1/2 over cells. So
every measure gives a lower bound of the root mean square error. The measure here is a Polya urn:
a person with b events in t - 1 periods has the next with probability (b + 3/2) / (t + 3/2). The
history with an event in every period gives 1.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

MOST_BOUNDED = 24  # periods: the work grows with their sixth power
_EVENTS, _OTHERS = 1.5, 1.0  # what is in the urn at first

Floats = NDArray[np.float64]


@lru_cache(maxsize=64)
def least_rmse(horizon: int, *, pairs: bool) -> float:
    """The lower bound over all cells S_b(t), b <= t <= horizon, in units of 1 / sqrt(2 rho).

    pairs: whether a person is replaced by another, rather than added or removed
    """
    cells = [(b, t) for b in range(1, horizon + 1) for t in range(b, horizon + 1)]
    moments, means = _urn_moments(horizon, cells)
    if pairs:  # of the difference of two independent histories
        moments = 2 * (moments - np.outer(means, means))
    sums = np.array([[b == c and s <= t for c, s in cells] for b, t in cells], float)
    values, vectors = np.linalg.eigh(moments)
    root = vectors * np.sqrt(np.maximum(values, 0))
    norm = float(np.linalg.svd(sums @ root, compute_uv=False).sum())
    return max(1.0, norm / math.sqrt(len(cells)))


def _urn_moments(horizon: int, cells: list[tuple[int, int]]) -> tuple[Floats, Floats]:
    """E[z z'] and E[z] of one history: its b-th event is at t or not, for every cell."""
    place = {cell: i for i, cell in enumerate(cells)}
    totals = np.arange(horizon + 1)
    hazards = [np.zeros(horizon + 1)] + [
        np.where(totals < t, (totals + _EVENTS) / (t - 1 + _EVENTS + _OTHERS), 0.0)
        for t in range(1, horizon + 1)
    ]

    def later(chances: Floats, first: int) -> Floats:
        """The chance of each cell from `first` on, from the chances of the totals before it."""
        happens = np.zeros(len(cells))
        for t in range(first, horizon + 1):
            rises = chances * hazards[t]
            for b in range(1, t + 1):
                happens[place[b, t]] = rises[b - 1]
            chances = chances - rises
            chances[1:] += rises[:-1]
        return happens

    means = later(np.eye(horizon + 1)[0], 1)
    moments = np.zeros((len(cells),) * 2)
    for (b, t), i in place.items():
        moments[i] = later(means[i] * np.eye(horizon + 1)[b], t + 1)
    moments += moments.T + np.diag(means)
    return moments, means
