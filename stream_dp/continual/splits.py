"""Whole numbers of rows from noisy answers: sums kept, nothing below 0, remainders at random.

Post-processing only: noisy values, public numbers and fair coins come in, nothing else.
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
    """Every number of (z, q) rounded up or down so that the rows sum to totals (z,).

    real must sum to totals but for floating point. Rounded up with the probability of its
    fractional part, so that every count is unbiased: systematic sampling in random order.
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

    Rows without a negative count are untouched; no row may sum to less than 0.
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
    """The nearest counts (n,) from 0 to their limits that sum to `total`, or as near to it as
    limits allow (Euclidean, remainders at random)."""
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
    """Counts (overlaps, q) at or above 0 with the sums of the rows, `total` of them present.

    First how many of each overlap's rows are present: the nearest numbers that its rows allow and
    that sum to the total. Then their symbols, projected to that. So no cell that is raised to 0 is
    paid by absences, which would let too many rows be present.
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
