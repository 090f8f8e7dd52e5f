"""What is measured of a region's groups, at which cost, and the sizes that noisy values give.

Source: Kuo et al. 2018, sections 4.1 to 4.3, and exact costs of its own.

Squared L2 sensitivity of one region's counts. Let one person join a group of size s (or leave one
of size s + 1); under `replace_one` a person leaves a group of size t > 0 and joins one of size s.
- H: one group less of size s and one more of size s + 1: 2. A move adds -1 at t and +1 at t - 1.
  The two changes are (-1, +1) at (s, s + 1) and (+1, -1) at (t - 1, t): their product is at most 1
  in absolute value where they overlap in one place and -2 where they coincide (and cancel), so the
  square of the sum is at most 2 + 2 + 2 * 1 = 6, with equality for s = t or s + 1 = t - 1.
- Hc: one group less of at most s: 1. A move adds +1 at t - 1: at most 2.
- Hg: sorted, the sizes differ in one entry, by 1: 1. A move changes a second one, or the same one
  twice, then back to what it was: at most 2.
A person is in one region of a level. A move between two regions costs twice the first number in
sum, which is at most the second: so a level costs what one region does. A cap of the sizes hides
changes above it and adds none.

L1 sensitivity, for noise of pure differential privacy: 2 and 4, 1 and 2, 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from .histogram import Estimate, Int64Array, Sizes
from .isotonic import least_absolute, least_squares, on_simplex, rounded

FRACTIONS = 8  # parts of a size step that a fit tells apart

Entries = Callable[[Sizes, int], Int64Array]
Fit = Callable[[Int64Array, int, int], Estimate]


@dataclass(frozen=True)
class Method:
    """A way to measure a region.

    title: in words.
    squared: by relation, the squared L2 sensitivity of a level.
    absolute: by relation, the L1 sensitivity of a level.
    entries: how many values are measured, given the number of groups and the largest size.
    exact: the true values, given the sizes (none above the largest) and the largest size.
    fit: the sizes that noisy values, the number of groups (not 0) and the largest size give.
    """

    title: str
    squared: Mapping[str, int]
    absolute: Mapping[str, int]
    entries: Callable[[int, int], int]
    exact: Entries
    fit: Fit


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
    parts = Sizes.of_histogram(np.diff(nearest))
    return Estimate((parts.size + 0.5) / FRACTIONS - 0.5, parts.groups)


_ONE_OR_TWO = {"add_remove": 1, "replace_one": 2}

METHODS = {
    "histogram": Method(
        "histogram, projected",
        squared={"add_remove": 2, "replace_one": 6},
        absolute={"add_remove": 2, "replace_one": 4},
        entries=lambda groups, largest: largest + 1,
        exact=lambda sizes, largest: sizes.histogram(largest),
        fit=_fit_histogram,
    ),
    "sorted": Method(
        "sorted sizes, isotonic regression (L2)",
        squared=_ONE_OR_TWO,
        absolute=_ONE_OR_TWO,
        entries=lambda groups, largest: groups,
        exact=lambda sizes, largest: sizes.sorted(),
        fit=_fit_sorted,
    ),
    "cumulative": Method(
        "cumulative counts, isotonic regression (L1)",
        squared=_ONE_OR_TWO,
        absolute=_ONE_OR_TWO,
        entries=lambda groups, largest: largest,
        exact=lambda sizes, largest: sizes.cumulative(largest),
        fit=_fit_cumulative,
    ),
    "cumulative-squares": Method(
        "cumulative counts, isotonic regression (L2)",
        squared=_ONE_OR_TWO,
        absolute=_ONE_OR_TWO,
        entries=lambda groups, largest: largest,
        exact=lambda sizes, largest: sizes.cumulative(largest),
        fit=_fit_cumulative_squares,
    ),
}
