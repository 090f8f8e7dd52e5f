"""Methods to measure a region's groups, and to estimate sizes from noisy values.

Source: Kuo et al. 2018, sections 4.2 and 4.3. Sensitivities: `stream_dp.study.place_releases`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
}
