"""The likeliest whole cumulative counts of children that sum to their parent's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .chains import Counts
from .histogram import Int64Array

_BLOCK = 256  # sizes whose probabilities are laid out at once


def medians(counts: Counts, sizes: int) -> Int64Array:
    """The medians of the cumulative counts, int64 (sizes,), rising."""
    middle = counts.chain.least(sizes) + (counts.log_odds(0, sizes, counts.chain.states) < 0).sum(
        axis=1
    )
    rising: Int64Array = np.maximum.accumulate(np.clip(middle, 0, counts.chain.total))
    return rising


def allocated(parent: Int64Array, counts: Sequence[Counts]) -> list[Int64Array]:
    """The cumulative counts of children, int64 (sizes,) each: rising, and of the parent's sum.

    parent: int64 (sizes,), rising; at most the number of the children's groups.
    counts: the beliefs about each child's.

    Size by size, the expected distance is least: one group more at or below a size costs 2 F - 1 in
    expected distance, F being the probability of at most the count before it. So these are the
    groups of the least F, as many as the parent has of this size. The odds of F tell apart groups
    that are all but certain. Of equal groups the first children's come first.
    """
    sizes = len(parent)
    totals = np.array([child.chain.total for child in counts], np.int64)
    states = np.array([child.chain.states for child in counts])
    result = np.zeros((len(counts), sizes), np.int64)
    current = np.zeros(len(counts), np.int64)
    rises = np.diff(parent, prepend=0) > 0
    for first in range(0, sizes, _BLOCK):
        end = min(first + _BLOCK, sizes)
        if not rises[first:end].any():
            result[:, first:end] = current[:, None]
            continue
        low = np.stack([child.chain.least(end)[first:] for child in counts])
        odds = np.stack([child.log_odds(first, end, int(states.max())) for child in counts])
        for s in range(first, end):
            if rises[s]:
                at = s - first
                current = _at_size(int(parent[s]), current, totals, low[:, at], odds[:, at], states)
            result[:, s] = current
    return list(result)


def _at_size(
    total: int,
    floor: Int64Array,
    ceiling: Int64Array,
    low: Int64Array,
    odds: NDArray[np.float32],
    states: Int64Array,
) -> Int64Array:
    """Counts between `floor` and `ceiling` of the sum `total`. low, odds, states: of each child."""
    start = np.clip(low, floor, ceiling)
    start -= _within(int(start.sum()) - total, start - floor)
    top = np.clip(low + states - 1, start, ceiling)
    top += _within(total - int(top.sum()), ceiling - top)
    missing = total - int(start.sum())
    if missing == int((top - start).sum()):
        return np.asarray(top, np.int64)
    steps = np.arange(odds.shape[1] - 1)
    state = start[:, None] + steps - low[:, None]
    cost = np.take_along_axis(odds, np.clip(state, 0, odds.shape[1] - 1), axis=1)
    cost = np.where(state < 0, -np.inf, cost)
    cost[start[:, None] + steps >= top[:, None]] = np.inf
    # Of one child a group comes after those before it.
    first = np.argsort(cost, axis=None, kind="stable")[:missing]
    counts: Int64Array = start + np.bincount(first // len(steps), minlength=len(start))
    return counts


def _within(amount: int, room: Int64Array) -> Int64Array:
    """`amount` split within `room`, the first entries first; zeros if `amount` is negative."""
    used = np.cumsum(room) - room
    share: Int64Array = np.clip(amount - used, 0, room)
    return share
