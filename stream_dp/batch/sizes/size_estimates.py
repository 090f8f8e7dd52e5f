"""Methods to measure a region's groups, and to estimate sizes from noisy values.

Source: Kuo et al. 2018, sections 4.1 to 4.3. Sensitivities: `stream_dp.study.place_releases`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappush, heapreplace

import numpy as np
import scipy
from numpy.typing import NDArray

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
    fitted: NDArray[np.float64] = scipy.optimize.isotonic_regression(noisy.astype(np.float64)).x
    return fitted


def least_absolute(noisy: Int64Array, total: int) -> Int64Array:
    """The increasing sequence in 0..total with the least sum of absolute differences, int64 (n,).

    As a function of the last entry the sum is convex and piecewise linear. The heap holds the
    points below its minimum where its slope changes. An entry below the largest of these points
    moves this point down twice. Going back, no entry may exceed the next one. Time n log n.
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
    """The nearest non-negative sequence with the sum `total`, in squared differences, (n,).

    Its entries are those above a threshold, less the threshold (Held, Wolfe, Crowder 1974).
    """
    falling = np.sort(noisy.astype(np.float64))[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(noisy) + 1)
    positive = np.flatnonzero(falling > excess)
    threshold = float(excess[positive[-1]] if len(positive) else falling[0])
    return np.maximum(noisy.astype(np.float64) - threshold, 0)


def _fit_naive(noisy: Int64Array, total: int, largest: int) -> Estimate:
    """Estimates the sizes of `total` groups from a noisy histogram (largest + 1,).

    Section 4.1: the nearest non-negative histogram of `total` groups, rounded by largest
    remainders.
    """
    values = on_simplex(noisy, total)
    integers = np.floor(values).astype(np.int64)
    up = np.argsort(integers - values, kind="stable")[: total - int(integers.sum())]
    integers[up] += 1
    return Estimate.of(Sizes.of_histogram(integers))


def _fit_cumulative(noisy: Int64Array, total: int, largest: int) -> Estimate:
    """As `_fit_cumulative_squares`, with the least sum of absolute differences (section 4.3)."""
    counts = least_absolute(noisy, total)
    return Estimate.of(Sizes.of_histogram(np.diff(counts, prepend=0, append=total)))


def _fit_sorted(noisy: Int64Array, total: int, largest: int) -> Estimate:
    """Estimates the sizes of `total` groups from their noisy sizes in increasing order (total,).

    Section 4.2: the nearest increasing sequence in 0..largest. Values are rounded to multiples of
    1 / FRACTIONS, and equal values are counted together.
    """
    values = np.clip(least_squares(noisy), 0, largest)
    lattice = np.rint(values * FRACTIONS)
    ends = np.flatnonzero(np.diff(lattice, append=np.inf))  # the last index of each value
    return Estimate(lattice[ends] / FRACTIONS, np.diff(ends, prepend=-1))


def _fit_cumulative_squares(noisy: Int64Array, total: int, largest: int) -> Estimate:
    """Estimates the sizes of `total` groups from noisy cumulative counts (largest,).

    Section 4.3: entry s counts the groups of size s or less, for s from 0 to largest - 1; the
    nearest increasing sequence in 0..total.
    """
    counts = np.concatenate([[0], np.clip(least_squares(noisy), 0, total), [total]])
    # In between two sizes the counts are interpolated: at s - 1 + k / FRACTIONS for each k.
    steps = np.arange((largest + 1) * FRACTIONS + 1) / FRACTIONS
    nearest = np.rint(np.interp(steps, np.arange(largest + 2), counts)).astype(np.int64)
    lattice = Sizes.of_histogram(np.diff(nearest))
    return Estimate((lattice.size + 0.5) / FRACTIONS - 0.5, lattice.groups)


METHODS = {
    "sorted": Method(
        entries=lambda groups, largest: groups,
        exact=lambda sizes, largest: sizes.sorted(),
        fit=_fit_sorted,
    ),
    "cumulative-squares": Method(
        entries=lambda groups, largest: largest,
        exact=lambda sizes, largest: sizes.cumulative(largest),
        fit=_fit_cumulative_squares,
    ),
    "cumulative": Method(
        entries=lambda groups, largest: largest,
        exact=lambda sizes, largest: sizes.cumulative(largest),
        fit=_fit_cumulative,
    ),
    "naive": Method(
        entries=lambda groups, largest: largest + 1,
        exact=lambda sizes, largest: sizes.histogram(largest),
        fit=_fit_naive,
    ),
}
