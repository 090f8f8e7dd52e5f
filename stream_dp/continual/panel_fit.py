"""What rows of a panel are possible, nearest to the estimates in the metric of their noise.

A panel's histogram p must be at or above 0, and have given sums: at t = k of all patterns, later
of the patterns with the same overlap, for rows keep their histories. Of those,
    minimise  sum_{j <= J} d_j q^-j |M_j (p - g)|^2,
M_j the sums over the j oldest symbols, J = min(k - 1, T - t), d_j = (j + 1)^p - j^p, g the target.
q^-j M_j' M_j averages over the j oldest symbols, a projection; so with windows measured as
residuals and weights of exponent p (`residual_costs.py`) this is the inverse covariance of the
estimates on what is free: a sum over many patterns, which is measured well, is moved less than a
single one. The eigenvalues are m^p for m = 1..J + 1.

Projected gradients with constant momentum (Nesterov 2004, 2.2.4) from the Euclidean projection,
which is the answer already where nothing falls below 0.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ITERATIONS = 20
_STILL = 1e-3  # of a row: where no pattern moves by more, the panel is near enough
_MOST_DENSE = 256  # patterns for which the metric is one matrix


def nearest_on_simplex(cells: Floats, sums: Floats) -> Floats:
    """The nearest numbers at or above 0 with these row sums: (z, n) for (z, n) and (z,).

    Euclidean; sums at or above 0.
    """
    falling = -np.sort(-cells, axis=1)
    excess = (falling.cumsum(axis=1) - sums[:, None]) / np.arange(1, cells.shape[1] + 1)
    active = np.maximum((falling > excess).sum(axis=1), 1)
    shift = excess[np.arange(len(cells)), active - 1]
    nearest: Floats = np.maximum(cells - shift[:, None], 0.0)
    return nearest


def nearest_panel(
    target: Floats,
    sums: Floats,
    q: int,
    ahead: int,
    exponent: Fraction,
    *,
    unseen: int | None = None,
    seen: float = 0.0,
) -> Floats:
    """The histogram of a panel nearest to `target` in the metric of the noise.

    target: (q^k,) the estimates, in the order of codes
    sums: (z,) of the rows of target in z equal parts: one at t = k, later one for each overlap
    q: the number of symbols
    ahead: J, in how many later windows what is new now will be seen
    exponent: p of the weights
    unseen: the pattern of k absences, of which nothing is known: it counts in no M_j, and gets
        what the other patterns of its part leave
    seen: the sum of these, at most that of the part
    """
    own_sums = sums.astype(np.float64)
    if unseen is not None:
        own_sums[unseen * len(sums) // target.size] = seen

    def projected(cells: Floats) -> Floats:
        if unseen is not None:
            cells[unseen] = -np.inf
        return nearest_on_simplex(cells.reshape(len(sums), -1), own_sums).ravel()

    fitted = projected(target.astype(np.float64))
    others = np.ones(target.size, bool)
    if unseen is not None:
        others[unseen] = False
    if ahead > 0 and fitted[others].min(initial=1.0) <= 0:
        shares = np.diff(np.arange(ahead + 2) ** float(exponent))
        most = shares.sum()
        root = np.sqrt(most)
        momentum = (root - 1) / (root + 1)
        point = fitted
        metric = _metric(q, target.size, tuple(shares.tolist()))
        for _ in range(ITERATIONS):
            off = np.where(others, point - target, 0.0)
            after = projected(point - metric(off) / most)
            step = after - fitted
            point, fitted = after + momentum * step, after
            if np.abs(step).max() < _STILL:
                break
    if unseen is not None:
        fitted[unseen] = sums[unseen * len(sums) // target.size] - seen
    return fitted


@lru_cache(maxsize=64)
def _metric(q: int, bins: int, shares: tuple[float, ...]) -> Callable[[Floats], Floats]:
    """The metric as a function of cells (q^k,)."""
    weights = np.array(shares)
    if bins > _MOST_DENSE:
        return lambda cells: _in_metric(cells, q, weights)
    matrix = np.array([_in_metric(row, q, weights) for row in np.eye(bins)])
    return lambda cells: cells @ matrix


def _in_metric(cells: Floats, q: int, shares: Floats) -> Floats:
    """sum_j d_j q^-j M_j' M_j cells: (q^k,)."""
    # From the most averaged to the least: what is averaged once more is averaged already.
    means = [cells]
    for _ in shares[1:]:
        means.append(means[-1].reshape(q, -1).mean(axis=0))
    total = np.zeros(1)
    for share, mean in zip(shares[::-1], means[::-1], strict=True):
        total = share * mean + np.tile(total, mean.size // total.size)
    return total
