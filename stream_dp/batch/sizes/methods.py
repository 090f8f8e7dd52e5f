"""Methods to measure a region's groups, and to estimate sizes from noisy values.

Source: Kuo et al. 2018, sections 4.1 to 4.3. Sensitivities: `stream_dp.study.size_changes`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappush, heapreplace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from .histogram import Estimate, Int64Array, Sizes

FRACTIONS = 8  # parts of a size step that a fit tells apart

Entries = Callable[[Sizes, int], Int64Array]
Fit = Callable[[Int64Array, int, int], Estimate]


@dataclass(frozen=True)
class Method:
    """A way to measure a region.

    entries: the number of values, given the number of groups and the largest size.
    exact: the true values, given the sizes (none above the largest) and the largest size.
    fit: the sizes that noisy values, the number of groups (not 0) and the largest size give.
    """

    entries: Callable[[int, int], int]
    exact: Entries
    fit: Fit


def least_squares(noisy: Int64Array) -> NDArray[np.float64]:
    """The increasing sequence with the least sum of squared differences (n,), in linear time."""
    fitted: NDArray[np.float64] = isotonic_regression(noisy.astype(np.float64)).x
    return fitted


def least_absolute(noisy: Int64Array, total: int) -> Int64Array:
    """An increasing integer sequence within [0, most] with the least sum of differences, (n,).

    The sum as a function of the last entry is convex and piecewise linear; the heap holds the
    points where its slope changes below its minimum, and an entry below the largest of them moves
    that point down twice. Going back, no entry may exceed the next. n log n.
    """
    points: list[int] = []
    last = np.zeros(len(noisy), np.int64)
    for i, value in enumerate(np.clip(noisy, 0, total).tolist()):
        heappush(points, -value)
        if -points[0] > value:
            heapreplace(points, -value)
        last[i] = -points[0]
    return np.minimum.accumulate(last[::-1])[::-1]


def on_simplex(noisy: Int64Array, total: int) -> NDArray[np.float64]:
    """The nearest non-negative sequence with a given sum, in squared differences, (n,).

    Its entries are those above a threshold, less the threshold (Held, Wolfe, Crowder 1974).
    """
    falling = np.sort(noisy.astype(np.float64))[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(noisy) + 1)
    positive = np.flatnonzero(falling > excess)
    threshold = float(excess[positive[-1]] if len(positive) else falling[0])
    return np.maximum(noisy.astype(np.float64) - threshold, 0)


def rounded(values: NDArray[np.float64], total: int) -> Int64Array:
    """Integers next to non-negative `values` of the sum `total`: largest remainders go up."""
    integers = np.floor(values).astype(np.int64)
    integers[np.argsort(integers - values, kind="stable")[: total - int(integers.sum())]] += 1
    return integers


def _fit_histogram(noisy: Int64Array, total: int, largest: int) -> Estimate:
    return Estimate.of(Sizes.of_histogram(rounded(on_simplex(noisy, total), total)))


def _fit_sorted(noisy: Int64Array, total: int, largest: int) -> Estimate:
    values = np.clip(least_squares(noisy), 0, largest)
    lattice = np.rint(values * FRACTIONS)
    ends = np.flatnonzero(np.diff(lattice, append=np.inf))
    return Estimate(lattice[ends] / FRACTIONS, np.diff(ends, prepend=-1))


def _fit_cumulative(noisy: Int64Array, total: int, largest: int) -> Estimate:
    counts = least_absolute(noisy, total)
    return Estimate.of(Sizes.of_histogram(np.diff(counts, prepend=0, append=total)))


def _fit_cumulative_squares(noisy: Int64Array, total: int, largest: int) -> Estimate:
    counts = np.concatenate([[0], np.clip(least_squares(noisy), 0, total), [total]])
    # In between two sizes the counts are interpolated: at s - 1 + k / FRACTIONS for each k.
    steps = np.arange((largest + 1) * FRACTIONS + 1) / FRACTIONS
    nearest = np.rint(np.interp(steps, np.arange(largest + 2), counts)).astype(np.int64)
    lattice = Sizes.of_histogram(np.diff(nearest))
    return Estimate((lattice.size + 0.5) / FRACTIONS - 0.5, lattice.groups)


METHODS = {
    "histogram": Method(
        entries=lambda groups, largest: largest + 1,
        exact=lambda sizes, largest: sizes.histogram(largest),
        fit=_fit_histogram,
    ),
    "sorted": Method(
        entries=lambda groups, largest: groups,
        exact=lambda sizes, largest: sizes.sorted(),
        fit=_fit_sorted,
    ),
    "cumulative": Method(
        entries=lambda groups, largest: largest,
        exact=lambda sizes, largest: sizes.cumulative(largest),
        fit=_fit_cumulative,
    ),
    "cumulative-squares": Method(
        entries=lambda groups, largest: largest,
        exact=lambda sizes, largest: sizes.cumulative(largest),
        fit=_fit_cumulative_squares,
    ),
}
