"""Projections of noisy values: isotonic regressions, and onto a simplex."""

from __future__ import annotations

from heapq import heappush, heapreplace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

Int64Array = NDArray[np.int64]


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
