"""A cumulative release's panel from noisy sums (Bun et al. 2024, Algorithm 2, lines 7 to 9).

Only the column of the present period may be chosen, within S_b(t - 1) <= S_b(t) <= S_{b-1}(t - 1).
These bounds imply that the new sums fall with b, and the noise of different b is independent. So
the nearest possible sums in the metric of the noise are the paper's, each clamped by itself. But
the bounds are noisy as well: sums that are made to fall with b together, before they are clamped,
are nearer to the truth, unless most of them are 0 (docs/results/index.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from ..base import Counts, shuffled_groups
from ..window.fitted_targets import LEAST

Floats = NDArray[np.float64]


def in_order(sums: Floats, variances: Floats) -> Floats:
    """The nearest sums that do not rise with b: isotonic regression.

    sums: noisy S_1..S_t
    variances: of their noise; a distance is weighted by the inverse

    The largest error never rises. Isotonic regression never lowers a number when inputs rise, moves
    with an added constant, and leaves the true sums as they are: between the true sums less the
    largest error and the true sums plus it, inputs stay there.
    """
    if (np.diff(sums) <= 0).all():
        return sums
    weights = 1 / np.maximum(variances, LEAST)
    fitted: Floats = isotonic_regression(sums, weights=weights, increasing=False).x
    return fitted


def monotone(estimates: Counts, before: Counts) -> Counts:
    """S_0..S_T at t: each noisy sum clamped between the last S_b and the last S_{b-1}.

    estimates: noisy S_1..S_t
    before: S_0..S_T at t - 1; where people enter, S_0 at t, as they may have the event at once

    Algorithm 2, line 7; Lemma 4.2.
    """
    after = before.copy()
    t = estimates.shape[0]
    after[1 : t + 1] = np.clip(estimates, before[1 : t + 1], before[:t])
    return after


def random_rises(
    totals: NDArray[np.int64], rises: Counts, coins: np.random.Generator
) -> NDArray[np.int64]:
    """A column (rows,) with a 1 for `rises[b - 1]` uniformly random rows of total b - 1, else 0.

    totals: (rows,) running totals; rows of a negative total have not entered and get a 0
    rises: by how much S_1, S_2, .. rise
    coins: for the choice of rows

    Algorithm 2, lines 8 and 9.
    """
    groups = np.where(totals < 0, rises.shape[0], totals)
    order, starts = shuffled_groups(groups, rises.shape[0] + 1, coins)
    group = groups[order]
    place = np.arange(order.shape[0]) - starts[group]
    column = np.zeros(totals.shape[0], np.int64)
    column[order] = place < np.append(rises, 0)[group]
    return column
