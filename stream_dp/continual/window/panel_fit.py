"""What rows of a panel are possible, nearest to the estimates in the metric of their noise.

A panel's histogram p must be at or above 0, and have given sums: at t = k of all patterns, later
of the patterns with the same overlap, for rows keep their histories. Of those,
    minimise  sum_{j <= J} d_j q^-j |M_j (p - g)|^2,
M_j the sums over the j oldest symbols, J = min(k - 1, T - t), d_j = (j + 1)^p - j^p, g the target.
Of three symbols or more there are terms for coarse sums, too (`coarse_sums.py`).
q^-j M_j' M_j averages over the j oldest symbols, a projection; so with windows measured as
residuals and weights of exponent p (`residual_costs.py`) this is the inverse covariance of the
estimates on what is free: a sum over many patterns, which is measured well, is moved less than a
single one. The eigenvalues are m^p for m = 1..J + 1. Histograms have noise of one variance: J = 0.

The method is accelerated projected gradients with restarts (Beck and Teboulle 2009; O'Donoghue and
Candes 2015) from the Euclidean projection, which is the answer already where nothing falls below 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from ..repeatable_products import power, product
from .coarse_sums import LEAST_SYMBOLS, WEIGHT, CoarseSums, coarse_sums

Floats = NDArray[np.float64]

ITERATIONS = 20
STILL = 1e-3  # of a standard deviation: where no number moves by more, it is near enough
_MOST_DENSE = 256  # patterns for which the metric is one matrix


@dataclass(frozen=True)
class PatternMetric:
    """The inverse covariance of the estimates of patterns, on what is free.

    q: the number of symbols
    bins: q^k
    ahead: J, in how many later windows what is new now will be seen; 0 for histograms
    exponent: p of the weights
    variance: s, the scale of the noise
    """

    q: int
    bins: int
    ahead: int
    exponent: Fraction
    variance: float

    @property
    def width(self) -> int:
        """k."""
        return round(math.log(self.bins, self.q))

    @property
    def most(self) -> float:
        """The largest eigenvalue."""
        return float(power(self.ahead + 1, self.exponent)) / self.variance

    def slope(self, off: Floats) -> Floats:
        """The metric times (q^k,) distances: half the gradient of the squared distance."""
        return self._times(off) / self.variance

    @cached_property
    def _times(self) -> Callable[[Floats], Floats]:
        shares = np.diff(power(np.arange(self.ahead + 2), self.exponent))
        return _metric(self.q, self.bins, tuple(shares.tolist()))


def nearest_on_simplex(cells: Floats, sums: Floats) -> Floats:
    """The nearest numbers at or above 0 with these row sums: (z, n) for (z, n) and (z,).

    Euclidean; sums at or above 0.
    """
    if cells.shape[1] == 2:
        pairs = np.empty(cells.shape)
        pairs[:, 0] = np.minimum(np.maximum((cells[:, 0] - cells[:, 1] + sums) / 2, 0.0), sums)
        pairs[:, 1] = sums - pairs[:, 0]
        return pairs
    falling = -np.sort(-cells, axis=1)
    excess = (falling.cumsum(axis=1) - sums[:, None]) / np.arange(1, cells.shape[1] + 1)
    active = np.maximum((falling > excess).sum(axis=1), 1)
    shift = excess[np.arange(len(cells)), active - 1]
    nearest: Floats = np.maximum(cells - shift[:, None], 0.0)
    return nearest


def descended(
    start: Floats,
    after: Callable[[Floats], Floats],
    iterations: int,
    *,
    pace: Floats | float = 1.0,
    still: float,
) -> Floats:
    """The nearest numbers by at most so many accelerated steps from `start`.

    after: a projected gradient step
    pace: how far a step goes along the gradient, of the shape of the numbers or one for all
    still: where no number moves by more, it ends
    """
    fitted = ahead = start
    speed = 1.0
    for _ in range(iterations):
        nearer = after(ahead)
        step = nearer - fitted
        if np.abs(step).max(initial=0.0) < still:
            return nearer
        if ((ahead - nearer) * step / pace).sum() > 0:  # it overshoots
            speed = 1.0
        faster = (1 + np.sqrt(1 + 4 * speed**2)) / 2
        ahead = nearer + (speed - 1) / faster * step
        fitted, speed = nearer, faster
    return fitted


@dataclass(frozen=True, eq=False)
class Absences:
    """What a panel is to keep to where people come and go.

    pattern: the code of k absences, of which nothing is known: it counts in no M_j
    others: how many rows of its part do not have it; it gets the rest of them
    absent, q: the symbol, and how many there are
    present: how many rows in all are not absent now, a number that can be reached; None at t = k,
        where it follows
    """

    pattern: int
    others: float
    absent: int
    q: int
    present: float | None


Projection = Callable[[Floats], Floats]


def projection_of(sums: Floats, bins: int, absences: Absences | None) -> Projection:
    """The function that projects a histogram (q^k,) onto the possible histograms, Euclidean.

    A histogram is possible if its cells are at or above 0 and its z equal parts, in the order of
    the codes, have the sums `sums`. With absences, the part with the pattern of k absences has the
    sum `absences.others` instead, and the projection puts 0 in the cell of this pattern.

    sums: (z,).
    bins: q^k.
    """
    if absences is None:
        return lambda cells: nearest_on_simplex(cells.reshape(len(sums), -1), sums).ravel()
    part_sums = sums.copy()
    part_sums[absences.pattern * len(sums) // bins] = absences.others

    def projected(cells: Floats) -> Floats:
        projection = cells.copy()
        projection[absences.pattern] = -np.inf  # the nearest value at or above 0 is 0
        return nearest_on_simplex(projection.reshape(len(sums), -1), part_sums).ravel()

    return projected


def with_present(fitted: Floats, projected: Projection, absences: Absences) -> Floats:
    """The numbers, moved to the known number of present rows.

    fitted: (.., q) by new symbol, as a flat array
    projected: the nearest possible ones

    Counts at or above 0 alone would let rare symbols add to those present, or to the absent, a
    little at every period. All that are present are moved alike before they are projected.
    """
    in_present = np.ones(fitted.shape, bool).reshape(-1, absences.q)
    in_present[:, absences.absent] = False
    mask, present = in_present.ravel(), absences.present
    assert present is not None

    def missed(shift: float) -> float:
        return float(projected(fitted + shift * mask)[mask].sum()) - present

    # All present, or all absent: a shift is shared by the symbols of a part.
    reach = absences.q * (float(fitted.max(initial=0.0)) + 1.0)
    if not missed(-reach) < 0 < missed(reach):
        return fitted
    return projected(fitted + scipy.optimize.brentq(missed, -reach, reach, xtol=1e-3) * mask)


def nearest_panel(
    target: Floats,
    sums: Floats,
    metric: PatternMetric,
    absences: Absences | None = None,
    *,
    coarse: bool = False,
    runs: float = WEIGHT,
) -> Floats:
    """The histogram of a panel nearest to `target` in the metric of the noise.

    target: (q^k,) the estimates, in the order of codes
    sums: (z,) of the rows of target in z equal parts: one at t = k, later one for each overlap
    coarse: whether coarse sums are kept nearer to their estimates (`coarse_sums.py`)
    runs: the weight of runs among them
    """
    projected = projection_of(sums.astype(np.float64), target.size, absences)
    fitted = projected(target)
    other_patterns = np.arange(target.size) != (-1 if absences is None else absences.pattern)
    clipped = fitted[other_patterns].min(initial=1.0) <= 0
    if metric.ahead > 0 and clipped:
        coarse_target = (
            held_sums(target, metric, runs) if coarse and metric.q >= LEAST_SYMBOLS else None
        )
        descent = _descent(target, metric, absences, coarse_target)

        def after(point: Floats) -> Floats:
            return projected(point - descent(point))

        fitted = descended(fitted, after, ITERATIONS, still=STILL * math.sqrt(metric.variance))
    if absences is not None:
        if absences.present is not None and clipped:
            fitted = with_present(fitted, projected, absences)
        block = absences.pattern * len(sums) // target.size
        fitted[absences.pattern] = sums[block] - absences.others
    return fitted


def held_sums(
    target: Floats, metric: PatternMetric, runs: float = WEIGHT, usual: tuple[int, ...] = ()
) -> CoarseSums:
    """The coarse sums of a histogram that are kept nearer to `target`, (q^k,).

    runs, usual: the weight of runs, and the symbols without this weight
    """
    all_sums = coarse_sums(metric.q, metric.width)
    rare = all_sums.rare_symbols(target, math.sqrt(metric.variance))
    return coarse_sums(metric.q, metric.width, rare, runs, usual)


def _descent(
    target: Floats, metric: PatternMetric, absences: Absences | None, coarse: CoarseSums | None
) -> Callable[[Floats], Floats]:
    """The gradient of the squared distance at a point over its steepest slope, as a function.

    Parameters are those of `nearest_panel`, and the coarse sums that are kept.
    """
    unknown = np.arange(target.size) == (-1 if absences is None else absences.pattern)
    if coarse is None:
        return lambda point: metric.slope(np.where(unknown, 0.0, point - target)) / metric.most
    curvature = metric.most + coarse.most / metric.variance

    def descent(point: Floats) -> Floats:
        off = np.where(unknown, 0.0, point - target)
        return (metric.slope(off) + coarse.slope(off) / metric.variance) / curvature

    return descent


@lru_cache(maxsize=64)
def _metric(q: int, bins: int, shares: tuple[float, ...]) -> Callable[[Floats], Floats]:
    """The metric at s = 1 as a function of cells (q^k,)."""
    weights = np.array(shares)
    if bins > _MOST_DENSE:
        return lambda cells: _in_metric(cells, q, weights)
    matrix = np.array([_in_metric(row, q, weights) for row in np.eye(bins)])
    return lambda cells: product(matrix.T, cells)


def _in_metric(cells: Floats, q: int, shares: Floats) -> Floats:
    """sum_j d_j q^-j M_j' M_j cells: (q^k,).

    q^-j M_j' M_j puts in each cell the mean over the oldest j symbols. So the sum is
    d_0 cells + (d_1 mean + (d_2 mean of means + ...)), from the innermost bracket outwards.

    shares: d_0, d_1, ...
    """
    means = [cells]  # over the oldest 0, 1, .. symbols: (q^k,), (q^(k - 1),), ...
    for _ in shares[1:]:
        means.append(means[-1].reshape(q, -1).mean(axis=0))
    total = np.zeros(1)
    for share, mean in zip(shares[::-1], means[::-1], strict=True):
        total = share * mean + np.tile(total, mean.size // total.size)
    return total
