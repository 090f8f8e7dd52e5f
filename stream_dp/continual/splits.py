"""Integer numbers of rows from noisy answers: fixed sums, nothing below 0, random remainders.

Post-processing only: the arguments are noisy values, public numbers and random choices that do not
depend on data.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .base import Counts


def shift_to_totals(noisy: Counts, totals: Counts, coins: np.random.Generator) -> Counts:
    """Counts (z, q) moved by the same amount inside each z until they sum to totals (z,).

    The remainder of the division by q goes to that many symbols chosen at random, so that
    every count is unbiased (Bun et al. 2024, Algorithm 1, step 3; for q = 2 a fair coin on the
    half).
    """
    q = noisy.shape[1]
    gap = totals - noisy.sum(axis=1)
    rank = coins.random(noisy.shape).argsort(axis=1).argsort(axis=1)
    result: Counts = noisy + (gap // q)[:, None] + (rank < (gap % q)[:, None])
    return result


def round_to_sums(real: NDArray[np.float64], totals: Counts, coins: np.random.Generator) -> Counts:
    """Every number of `real` (z, q) rounded up or down so that the rows sum to totals (z,).

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


def project_nonnegative(counts: Counts, coins: np.random.Generator) -> Counts:
    """The nearest counts at or above 0 with the same row sums (Euclidean, remainders at random).

    Rows without a negative count stay as they are. Every row must sum to at least 0.
    """
    result = counts.copy()
    low = np.flatnonzero((counts < 0).any(axis=1))
    if low.size == 0:
        return result
    rows = counts[low]
    total = rows.sum(axis=1)
    falling = -np.sort(-rows, axis=1)
    excess = falling.cumsum(axis=1) - total[:, None]
    size = np.arange(1, rows.shape[1] + 1)
    # The active set of the simplex projection: its shift leaves every member above 0.
    active = np.maximum((falling * size > excess).sum(axis=1), 1)
    over = excess[np.arange(low.size), active - 1]
    floor = rows - -(-over // active)[:, None]
    inside = rows * active[:, None] > over[:, None]
    # Members share the same fractional part; `spare` of them, at random, are rounded up.
    spare = total - np.where(inside, floor, 0).sum(axis=1)
    rank = np.where(inside, coins.random(rows.shape), 2.0).argsort(axis=1).argsort(axis=1)
    result[low] = np.where(inside, floor + (rank < spare[:, None]), 0)
    return result


def project_to_total(cells: Counts, total: int, coins: np.random.Generator) -> Counts:
    """The nearest counts (n,) at or above 0 that sum to `total` (Euclidean, up to rounding)."""
    moved = shift_to_totals(cells[None], np.array([total]), coins)
    result: Counts = project_nonnegative(moved, coins)[0]
    return result


def project_to_limits(
    cells: Counts, limits: Counts, total: int, coins: np.random.Generator
) -> Counts:
    """The nearest counts (n,) from 0 to their limits (Euclidean, remainders at random).

    They sum to `total`, or are as near to it as the limits allow.
    """
    total = min(max(total, 0), int(limits.sum()))

    def lowered(shift: int) -> Counts:
        shifted: Counts = np.clip(cells - shift, 0, limits)
        return shifted

    # At `low` all are at their limits, at `high` all at 0.
    low, high = int((cells - limits).min(initial=0)), int(cells.max(initial=0))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if lowered(middle).sum() >= total else (low, middle)
    result = lowered(low)
    spare = np.flatnonzero(lowered(low + 1) < result)
    result[coins.permutation(spare)[: int(result.sum()) - total]] -= 1
    return result


def project_present(counts: Counts, absent: int, total: int, coins: np.random.Generator) -> Counts:
    """Counts (overlaps, q) at or above 0 with the same row sums and `total` rows present.

    counts: (overlaps, q)
    absent: the code of the symbol 'absent'
    total: the number of rows whose symbol is not 'absent'
    coins: for remainders

    First the number of rows present in each overlap: the nearest numbers within its rows that sum
    to the total. Then the symbols, projected to these sums. A cell raised to 0 is then balanced by
    other symbols and not by absences, which would let too many rows be present.
    """
    others = [x for x in range(counts.shape[1]) if x != absent]
    rows, cells = counts.sum(axis=1), counts[:, others]
    here = project_to_limits(cells.sum(axis=1), rows, total, coins)
    targets = np.zeros_like(counts)
    targets[:, others] = project_nonnegative(shift_to_totals(cells, here, coins), coins)
    targets[:, absent] = rows - here
    return targets


def project_to_most(cells: Counts, most: int | None, coins: np.random.Generator) -> Counts:
    """The nearest counts (n,) at or above 0 that sum to at most `most` (Euclidean)."""
    clipped: Counts = np.maximum(cells, 0)
    if most is None or clipped.sum() <= most:
        return clipped
    return project_to_total(cells, most, coins)
