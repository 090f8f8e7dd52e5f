"""Consistent sizes that are likeliest given the measurements of all levels.

Beliefs about the cumulative counts of the regions of a tree (`chains`) are passed up and down:

1. From the root down, each region expects its share of its parent's groups of each size; the root
   expects the mean of the sizes around, a smooth histogram.
2. From the leaves up, the sum of the children's means and variances is evidence of each of the
   parent's counts.
3. From the root down again, the root's counts are medians, which have the least expected earth
   mover's distance. The counts of children are rounded to their parent's sum at the least expected
   distance.

Counts at different sizes pass up as if they were independent, so this is no exact posterior. Only
the published noisy values are used, so this is post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .chains import Chain, Counts, Evidence, Floats, chain, counts_of, prior_slope
from .histogram import Int64Array, LevelSizes, Regions, Sizes
from .sizes_plan import MeasuredLevel

MOST_CELLS = 1 << 26  # weights of all chains together
_LEAST_EXPECTED = 1e-4  # groups of a size
_BLOCK = 256  # sizes with probabilities laid out at once
_ROUGH = 0.05  # of the variance of a sum, for its laws are of whole numbers


def posterior_sizes(
    regions: Regions, levels: Sequence[MeasuredLevel], largest: int
) -> LevelSizes | None:
    """The consistent sizes of every region of every level.

    None if the weights are more than MOST_CELLS, or a level has no published values or a noisy
    histogram.
    """
    if any(level.values is None or level.plan.method == "naive" for level in levels):
        return None
    supports = [_supports(level) for level in levels]
    sizes = min(largest, max(1, *(max(level) for level in supports)))
    # The largest sizes do not show in cumulative counts: fewer groups than their noise have them.
    uncertain = [
        [sizes if level.plan.cumulative else min(sizes, support) for support in level_supports]
        for level, level_supports in zip(levels, supports, strict=True)
    ]
    states = [_states(level) for level in levels]
    cells = sum(int(np.dot(*pair)) for pair in zip(uncertain, states, strict=True))
    if cells > MOST_CELLS:
        return None
    chains = map(_chains, levels, uncertain, states)
    tree = _Tree(regions, sizes)
    leaves = tree.agreed(tree.passed_up(tree.expected(list(chains))))
    return regions.sums(
        [
            Sizes.of_histogram(np.diff(cumulative, prepend=0, append=total))
            for cumulative, total in zip(leaves, regions.groups, strict=True)
        ]
    )


def _states(level: MeasuredLevel) -> list[int]:
    """The number of counts considered at every size of a region, by region.

    Noise of deviation d hides where one size ends and the next begins for some d^2 ranks. Where all
    counts are fewer they are all considered, up to a power of two.
    """
    deviation = level.plan.variance**0.5
    reach = 5 * deviation if level.plan.cumulative else 3 * deviation + 8 * deviation**2
    bound = 2 * (3 + int(np.ceil(reach))) + 1
    totals = [int(estimate.groups.sum()) for estimate in level.estimates]
    return [min(bound, 1 << total.bit_length()) for total in totals]


def _supports(level: MeasuredLevel) -> list[int]:
    """The number of sizes with uncertain counts, by region, from a region's measurements."""
    beyond = 3 + int(np.ceil(3 * level.plan.variance**0.5))
    return [
        int(np.rint(estimate.value[-1])) + beyond if len(estimate.value) else 0
        for estimate in level.estimates
    ]


def _chains(level: MeasuredLevel, supports: Sequence[int], states: Sequence[int]) -> list[Chain]:
    """The regions' chains, given by region the numbers of sizes and of counts at a size."""
    assert level.values is not None
    return [
        chain(
            estimate,
            values,
            level.plan.penalty,
            sizes=support if len(estimate.value) else 0,
            states=considered,
            cumulative=level.plan.cumulative,
        )
        for estimate, values, support, considered in zip(
            level.estimates, level.values, supports, states, strict=True
        )
    ]


@dataclass(frozen=True)
class _Tree:
    """The tree of regions. sizes: so many, from 0 on, have uncertain counts."""

    regions: Regions
    sizes: int

    def expected(self, levels: Sequence[Sequence[Chain]]) -> list[list[Counts]]:
        """The beliefs about each region's counts, given its share of its parent's."""
        beliefs: list[list[Counts]] = []
        none = np.zeros(self.sizes)
        for depth, chains in enumerate(levels):
            if depth:
                parents = self.regions.parents(depth).tolist()
                groups = [np.diff(parent.mean, prepend=0) for parent in beliefs[-1]]
                totals = self.regions.counts[depth - 1]
                prior = [
                    groups[parent] * (child.total / max(1, int(totals[parent])))
                    for parent, child in zip(parents, chains, strict=True)
                ]
            else:
                prior = [_smooth(counts_of(chains, [Evidence(none, none, none)])[0].mean)]
            slopes = [prior_slope(np.maximum(groups, _LEAST_EXPECTED)) for groups in prior]
            beliefs.append(counts_of(chains, [Evidence(slope, none, none) for slope in slopes]))
        return beliefs

    def passed_up(self, levels: Sequence[list[Counts]]) -> list[list[Counts]]:
        """The beliefs given the children's, too, the root's first."""
        result = [levels[-1]]
        for depth in range(len(levels) - 1, 0, -1):
            mean = np.zeros((len(self.regions.levels[depth - 1]), self.sizes))
            variance = np.zeros_like(mean)
            parents = self.regions.parents(depth).tolist()
            for parent, child in zip(parents, result[0], strict=True):
                mean[parent] += child.mean
                variance[parent] += child.variance
            evidence = [
                Evidence(region.slope, mean[i], 1 / (variance[i] + _ROUGH))
                for i, region in enumerate(levels[depth - 1])
            ]
            chains = [region.chain for region in levels[depth - 1]]
            result.insert(0, counts_of(chains, evidence))
        return result

    def agreed(self, levels: Sequence[list[Counts]]) -> list[Int64Array]:
        """The cumulative counts of the smallest regions, int64 (sizes,) each."""
        parent_counts = [medians(region, self.sizes) for region in levels[0]]
        for depth in range(1, len(levels)):
            parents = self.regions.parents(depth)
            counts: dict[int, Int64Array] = {}
            for i, parent in enumerate(parent_counts):
                family = np.flatnonzero(parents == i).tolist()
                children = allocated(parent, [levels[depth][k] for k in family])
                counts |= zip(family, children, strict=True)
            parent_counts = [counts[k] for k in range(len(parents))]
        return parent_counts


def _smooth(cumulative: Floats) -> Floats:
    """The mean groups of the sizes up to an eighth of every size away, given cumulative counts."""
    ends, size = np.append(0.0, cumulative), np.arange(len(cumulative))
    reach = np.maximum(1, size // 8)
    first, last = np.maximum(size - reach, 0), np.minimum(size + reach + 1, len(size))
    smooth: Floats = (ends[last] - ends[first] + 0.05) / (last - first)
    return smooth


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
    """(children,) counts at a size, between `floor` and `ceiling`, of the sum `total`.

    They start at the least counts considered; the groups of the least odds are then added, as many
    as are missing.

    low, states: (children,) the least count considered, and how many are.
    odds: (children, states) see `allocated`.
    """
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
