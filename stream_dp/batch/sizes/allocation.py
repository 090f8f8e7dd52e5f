"""Whole cumulative counts of children that sum to their parent's, and are likeliest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .chains import Counts
from .histogram import Int64Array

_BLOCK = 256  # sizes whose probabilities are laid out at once


def medians(counts: Counts, sizes: int) -> Int64Array:
    """The median of each cumulative count, int64 (sizes,); medians rise as the counts do."""
    middle = counts.chain.least(sizes) + (counts.log_odds(0, sizes, counts.chain.states) < 0).sum(
        axis=1
    )
    rising: Int64Array = np.maximum.accumulate(np.clip(middle, 0, counts.chain.total))
    return rising


def allocated(parent: Int64Array, counts: Sequence[Counts]) -> list[Int64Array]:
    """The cumulative counts of children, int64 (sizes,) each: rising, and of the parent's sum.

    parent: int64 (sizes,), rising; at most the number of the children's groups.
    counts: what is known of each child's.

    Size by size, each as near as can be to what is known of it: one group more at or below a size
    costs 2 F - 1 in expected distance, F being the probability of at most the count before it. So
    these are the groups of the least F, as many as the parent has at or below this size and not at
    or below the one before. The odds of F tell apart what is all but certain. Of equal ones the
    first children's come first.
    """
    sizes = len(parent)
    totals = np.array([each.chain.total for each in counts], np.int64)
    states = np.array([each.chain.states for each in counts])
    result = np.zeros((len(counts), sizes), np.int64)
    now = np.zeros(len(counts), np.int64)
    rises = np.diff(parent, prepend=0) > 0
    for first in range(0, sizes, _BLOCK):
        end = min(first + _BLOCK, sizes)
        if not rises[first:end].any():
            result[:, first:end] = now[:, None]
            continue
        low = np.stack([each.chain.least(end)[first:] for each in counts])
        odds = np.stack([each.log_odds(first, end, int(states.max())) for each in counts])
        for s in range(first, end):
            if rises[s]:
                at = s - first
                now = _at_size(int(parent[s]), now, totals, low[:, at], odds[:, at], states)
            result[:, s] = now
    return list(result)


def _at_size(
    wanted: int,
    least: Int64Array,
    most: Int64Array,
    low: Int64Array,
    odds: NDArray[np.float32],
    states: Int64Array,
) -> Int64Array:
    """Counts between `least` and `most` of the sum `wanted`. low, odds, states: of each child."""
    start = np.clip(low, least, most)
    start -= _within(int(start.sum()) - wanted, start - least)
    top = np.clip(low + states - 1, start, most)
    top += _within(wanted - int(top.sum()), most - top)
    missing = wanted - int(start.sum())
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
    """`amount` in parts within `room`, of the first ones first; nothing where it is negative."""
    before = np.cumsum(room) - room
    part: Int64Array = np.clip(amount - before, 0, room)
    return part
