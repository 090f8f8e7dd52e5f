"""Consistent estimates of all levels by merging matched groups, the fallback of `posterior.py`.

A region's groups are the groups of its children. A release publishes the sizes of
`posterior_sizes`, and merges only where that function returns None.

From the root down, the groups of a region are matched with the groups of its children, and every
pair of matched groups gets one size between its two. The smallest regions are final, and larger
regions are their sums (Kuo et al. 2018, section 5). A merge gives the one size from the two:

- PLAIN, a baseline: their mean.
- WEIGHTED, a baseline: their mean by inverse variances, 2 v / n for cumulative counts, else v / n,
  where v is the variance of a count and n the number of groups of that size (section 5.3).
- SPREAD, the merge of a release: as WEIGHTED, with variances for which
  equal sizes are not certain. The deviation of a size from cumulative counts is half the
  difference of the sizes one deviation of a count before and after it in rank, at least
  half a step, and for children times the square root of their number. The last groups of children,
  as many as one deviation, have no weight: cumulative counts do not show fewer groups than their
  noise. Sizes with noise of at most four steps are matched before rounding. A size that more groups
  of the root have than four deviations of a count stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .histogram import Estimate, Int64Array, LevelSizes, Regions, Sizes
from .sizes_plan import MeasuredLevel


class Merge(Enum):
    """The size of two matched groups, from the sizes of both; see above."""

    PLAIN = auto()
    WEIGHTED = auto()
    SPREAD = auto()


_FINE = 16.0  # the largest variance where fractions of a size tell groups apart
_LEAST = 0.25  # variance of a size that its noise hardly moves
_CERTAIN = 4.0  # standard deviations of a count: more groups of the root have that size
_NOWHERE = np.zeros(0, np.int64)
_BEHIND = 2.0**-10  # what orders a part of a run behind the rest of it


@dataclass(frozen=True)
class _Weighed:
    """An estimate with the variance of each of its sizes, (d,), and whether a size stays, (d,)."""

    estimate: Estimate
    variance: NDArray[np.float64]
    certain: NDArray[np.bool_]


def consistent(regions: Regions, levels: Sequence[MeasuredLevel], merge: Merge) -> LevelSizes:
    """The sizes of every region of every level, consistent, given the levels' estimates."""
    level_above = [_weighed(estimate, levels[0], 0, merge) for estimate in levels[0].estimates]
    for depth in range(1, regions.depth):
        parents = regions.parents(depth)
        order = np.argsort(parents, kind="stable")
        ends = np.searchsorted(parents[order], np.arange(len(level_above) + 1))
        merged: dict[int, _Weighed] = {}
        for i, parent in enumerate(level_above):
            family = order[ends[i] : ends[i + 1]].tolist()
            level = levels[depth]
            children = [_weighed(level.estimates[k], level, len(family), merge) for k in family]
            merged |= zip(family, _merged(parent, children, merge), strict=True)
        level_above = [merged[k] for k in range(len(parents))]
    return regions.sums([leaf.estimate.sizes for leaf in level_above])


def _weighed(estimate: Estimate, level: MeasuredLevel, siblings: int, merge: Merge) -> _Weighed:
    """An estimate with the variances of its sizes, by the kind of merge; see the module.

    siblings: the number of its parent's children, 0 for the root.
    """
    if merge is not Merge.SPREAD:
        rounded = Estimate.of(estimate.sizes)
        # 2 v / n for cumulative counts, else v / n
        variance = (1 + level.plan.cumulative) * level.plan.variance / rounded.groups
        return _Weighed(rounded, variance, np.zeros(len(variance), np.bool_))
    ordered = estimate if level.plan.variance <= _FINE else Estimate.of(estimate.sizes)
    if not level.plan.cumulative:
        variance = np.maximum(level.plan.variance / ordered.groups, _LEAST)
        return _Weighed(ordered, variance, np.zeros(len(variance), np.bool_))
    deviation = level.plan.variance**0.5
    variance = np.maximum(_spread(ordered, deviation), _LEAST)
    if not siblings:
        return _Weighed(ordered, variance, ordered.groups > _CERTAIN * deviation)
    return _without_last(ordered, variance * siblings**0.5, math.ceil(deviation))


def _without_last(estimate: Estimate, variance: NDArray[np.float64], ranks: int) -> _Weighed:
    """The estimate with the last `ranks` groups in separate runs, of infinite variance."""
    starts = np.cumsum(estimate.groups) - estimate.groups
    seen = np.clip(estimate.groups.sum() - ranks - starts, 0, estimate.groups)
    last = estimate.groups - seen
    runs = Estimate(
        np.concatenate([estimate.value[seen > 0], estimate.value[last > 0] + _BEHIND]),
        np.concatenate([seen[seen > 0], last[last > 0]]),
    )
    spread = np.concatenate([variance[seen > 0], np.full(int((last > 0).sum()), np.inf)])
    return _Weighed(runs, spread, np.zeros(len(spread), np.bool_))


def _spread(estimate: Estimate, deviation: float) -> NDArray[np.float64]:
    """The squared half difference of the sizes at ranks `deviation` before and after a size's."""
    ends = np.cumsum(estimate.groups)
    if not len(ends):
        return np.zeros(0)
    middle = ends - estimate.groups / 2  # the rank in the middle of a size's groups
    lower, upper = (
        estimate.value[np.searchsorted(ends, np.clip(middle + step, 0, ends[-1]))]
        for step in (-deviation, deviation)
    )
    squared: NDArray[np.float64] = ((upper - lower) / 2) ** 2
    return squared


def _merged(parent: _Weighed, children: Sequence[_Weighed], merge: Merge) -> list[_Weighed]:
    """The children with the sizes of their matched groups."""
    pairs = matched(parent.estimate, [child.estimate for child in children])
    starts = np.cumsum([0, *(len(child.variance) for child in children)])
    run = starts[pairs.child] + pairs.run
    child_value = np.concatenate([child.estimate.value for child in children])[run]
    parent_value = parent.estimate.value[pairs.parent]
    weight = 1 / np.concatenate([child.variance for child in children])[run]
    parent_weight = 1 / parent.variance[pairs.parent]
    if merge is Merge.PLAIN:
        value = np.rint((child_value + parent_value) / 2)
    else:
        total = child_value * weight + parent_value * parent_weight
        value = np.rint(total / (weight + parent_weight))
    certain = parent.certain[pairs.parent]
    value = np.where(certain, np.rint(parent_value), value)
    variance = 1 / (weight + parent_weight)
    order = np.argsort(pairs.child, kind="stable")
    ends = np.searchsorted(pairs.child[order], np.arange(len(children) + 1))
    merged = []
    for first, end in pairwise(ends.tolist()):
        matched_pairs = order[first:end]
        sizes = Sizes.of(value[matched_pairs].astype(np.int64), pairs.groups[matched_pairs])
        # Of runs that were merged to one size the least uncertain counts.
        smallest = np.full(len(sizes.size), np.inf)
        positions = np.searchsorted(sizes.size, value[matched_pairs])
        np.minimum.at(smallest, positions, variance[matched_pairs])
        fixed = np.zeros(len(sizes.size), np.bool_)
        np.logical_or.at(fixed, positions, certain[matched_pairs])
        merged.append(_Weighed(Estimate.of(sizes), smallest, fixed))
    return merged


@dataclass(frozen=True)
class Matching:
    """Pairs of runs with their number of common groups, each array int64 (pairs,).

    parent: the run of the parent.
    child: the child.
    run: the run of that child.
    groups: the number of groups in both runs.
    """

    parent: Int64Array
    child: Int64Array
    run: Int64Array
    groups: Int64Array


def matched(parent: Estimate, children: Sequence[Estimate]) -> Matching:
    """Matches the parent's groups with the children's, both in the order of size.

    No other matching has a smaller sum of differences of size. Where several children have groups
    of equal size, these meet the parent's runs in proportion to their numbers, with largest
    remainders rounded up. Raises ValueError unless the children have as many groups as the parent.

    Source: Kuo et al. 2018, section 5.2, on runs of groups of equal size.
    """
    child = np.repeat(np.arange(len(children)), [len(c.groups) for c in children])
    run = np.concatenate([np.arange(len(c.groups)) for c in children])
    value = np.concatenate([c.value for c in children])
    groups = np.concatenate([c.groups for c in children])
    order = np.argsort(value, kind="stable")
    child, run, value, groups = child[order], run[order], value[order], groups[order]
    if groups.sum() != parent.groups.sum():
        raise ValueError("a parent's groups are not those of its children")
    meetings: list[tuple[int, Int64Array, Int64Array]] = []
    free = parent.groups.tolist()
    j = start = 0
    for end in (np.flatnonzero(np.diff(value, append=np.inf)) + 1).tolist():
        tied, rest = groups[start:end], int(groups[start:end].sum())
        while rest:
            j += not free[j]
            share = min(free[j], rest)
            meeting = tied if share == rest else in_proportion(tied, share)
            met = np.flatnonzero(meeting)
            meetings.append((j, met + start, meeting[met]))
            tied, rest, free[j] = tied - meeting, rest - share, free[j] - share
        start = end
    ordered = np.concatenate([_NOWHERE, *(runs for _, runs, _ in meetings)])
    return Matching(
        parent=np.concatenate([_NOWHERE, *(np.full(len(runs), j) for j, runs, _ in meetings)]),
        child=child[ordered],
        run=run[ordered],
        groups=np.concatenate([_NOWHERE, *(shared for _, _, shared in meetings)]),
    )


def in_proportion(counts: Int64Array, share: int) -> Int64Array:
    """`share` split in whole numbers, in proportion to positive `counts` and at most these.

    Largest remainders are rounded up, the first of equal ones first. `share` is at most the sum.
    """
    total = int(counts.sum())
    if share * int(counts.max()) >> 62:
        scaled = [share * count for count in counts.tolist()]
        shares = np.array([product // total for product in scaled], np.int64)
        remainders = np.array([product % total for product in scaled], np.int64)
    else:
        shares, remainders = np.divmod(share * counts, total)
    up = share - int(shares.sum())
    shares[np.argsort(-remainders, kind="stable")[:up]] += 1
    return shares
