"""Whole numbers of rows from real ones, with random remainders.

Post-processing only: the arguments are noisy values, public numbers and random choices that do not
depend on data.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .base import Counts


def round_to_sums(real: NDArray[np.float64], totals: Counts, coins: np.random.Generator) -> Counts:
    """Every number of `real` (z, q) rounded up or down. The rows sum to totals (z,).

    The rows of `real` must sum to the totals, up to floating point. Each number is rounded up with
    the probability of its fractional part, so that every count is unbiased (systematic sampling in
    random order).
    """
    floors = np.floor(real)
    order = coins.random(real.shape).argsort(axis=1)
    ups = (totals - floors.sum(axis=1)).clip(0)
    passed = np.take_along_axis(real - floors, order, axis=1).cumsum(axis=1)
    passed = np.minimum(passed, ups[:, None])
    passed[:, -1] = ups
    marks = np.floor(passed + coins.random((real.shape[0], 1))).astype(np.int64)
    result: Counts = floors.astype(np.int64)
    more = np.take_along_axis(result, order, axis=1) + np.diff(marks, axis=1, prepend=0)
    np.put_along_axis(result, order, more, axis=1)
    return result
