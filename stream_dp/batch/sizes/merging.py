"""Estimates of all levels as one: every region's groups are those of its children.

From the root down, the groups of a region are matched with those of its children, and every pair
of matched groups gets one size between its two; the smallest regions are final and the others are
their sums (Kuo et al. 2018, section 5). How the one size follows from the two is a merge:

- `plain`: their mean.
- `weighted`: their mean by inverse variances, 2 v / n for cumulative counts and v / n for others,
  where v is the variance of a count and n the number of groups of that size (section 5.3).
- `spread`: the same, with other variances; it stands in where `posterior` would be too large. A
  size from cumulative counts is as uncertain as the sizes of those groups differ that stand one
  standard deviation of a count before and after it; half of this difference is its deviation, and
  where many groups have one size, it is 0 and not 2 v / n. Of children, it is multiplied by the
  square root of their number, as the errors of their ranks add up; and their last groups, as many
  as one standard deviation, have no say, for cumulative counts show no groups fewer than their
  noise: else a long tail that only the parent can see would be lost. No deviation is below half a
  step of size. Where the noise of a sorted size is at most four steps, groups are matched by what
  isotonic regression gave them before it was rounded: the fraction says which of several equal
  groups is nearest to the next size.
  A size that stands in the root for more groups than four standard deviations of a count is no
  noise: these groups keep it, whatever the children say, whose regressions are biased where few of
  their groups have such a size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .histogram import Estimate, Sizes
from .matching import matched
from .regions import Regions

Merge = Literal["spread", "weighted", "plain"]

_FINE = 16.0  # the largest variance where fractions of a size tell groups apart
_LEAST = 0.25  # variance of a size that its noise hardly moves
_CERTAIN = 4.0  # standard deviations of a count: more groups of the root have that size
_BEHIND = 2.0**-10  # what orders a part of a run behind the rest of it


@dataclass(frozen=True)
class LevelEstimate:
    """What was estimated of a level.

    cumulative: whether cumulative counts were measured, and not sizes.
    variance: of the noise in every value.
    regions: an estimate for each region.
    """

    cumulative: bool
    variance: float
    regions: tuple[Estimate, ...]


@dataclass(frozen=True)
class _Weighed:
    """An estimate with the variance of each of its sizes, (d,), and which of them stay, (d,)."""

    estimate: Estimate
    variance: NDArray[np.float64]
    certain: NDArray[np.bool_]


def consistent(
    regions: Regions, levels: Sequence[LevelEstimate], merge: Merge = "spread"
) -> tuple[tuple[Sizes, ...], ...]:
    """The sizes of every region of every level, consistent, given the levels' estimates."""
    above = [_weighed(estimate, levels[0], 0, merge) for estimate in levels[0].regions]
    for depth in range(1, regions.depth):
        parents = regions.parents(depth)
        order = np.argsort(parents, kind="stable")
        ends = np.searchsorted(parents[order], np.arange(len(above) + 1))
        below: list[_Weighed | None] = [None] * len(parents)
        for i, parent in enumerate(above):
            family = order[ends[i] : ends[i + 1]].tolist()
            level = levels[depth]
            children = [_weighed(level.regions[k], level, len(family), merge) for k in family]
            for k, child in zip(family, _merged(parent, children, merge), strict=True):
                below[k] = child
        above = [child for child in below if child is not None]
    return regions.sums([leaf.estimate.sizes for leaf in above])


def _weighed(estimate: Estimate, level: LevelEstimate, siblings: int, merge: Merge) -> _Weighed:
    """An estimate with the variances of a merge. siblings: so many children, 0 for the root."""
    if merge != "spread":
        rounded = Estimate.of(estimate.sizes)
        variance = (1 + level.cumulative) * level.variance / rounded.groups
        return _Weighed(rounded, variance, np.zeros(len(variance), np.bool_))
    ordered = estimate if level.variance <= _FINE else Estimate.of(estimate.sizes)
    if not level.cumulative:
        variance = np.maximum(level.variance / ordered.groups, _LEAST)
        return _Weighed(ordered, variance, np.zeros(len(variance), np.bool_))
    deviation = level.variance**0.5
    variance = np.maximum(_spread(ordered, deviation), _LEAST)
    if not siblings:
        return _Weighed(ordered, variance, ordered.groups > _CERTAIN * deviation)
    return _without_last(ordered, variance * siblings**0.5, math.ceil(deviation))


def _without_last(estimate: Estimate, variance: NDArray[np.float64], ranks: int) -> _Weighed:
    """The estimate with so many last groups as runs of their own, of infinite variance."""
    starts = np.cumsum(estimate.groups) - estimate.groups
    seen = np.clip(estimate.groups.sum() - ranks - starts, 0, estimate.groups)
    last = estimate.groups - seen
    parts = Estimate(
        np.concatenate([estimate.value[seen > 0], estimate.value[last > 0] + _BEHIND]),
        np.concatenate([seen[seen > 0], last[last > 0]]),
    )
    spread = np.concatenate([variance[seen > 0], np.full(int((last > 0).sum()), np.inf)])
    return _Weighed(parts, spread, np.zeros(len(spread), np.bool_))


def _spread(estimate: Estimate, deviation: float) -> NDArray[np.float64]:
    """The squared half difference of the sizes at ranks `deviation` before and after a size's."""
    ends = np.cumsum(estimate.groups)
    if not len(ends):
        return np.zeros(0)
    middle = ends - estimate.groups / 2
    before, after = (
        estimate.value[np.searchsorted(ends, np.clip(middle + step, 0, ends[-1]))]
        for step in (-deviation, deviation)
    )
    squared: NDArray[np.float64] = ((after - before) / 2) ** 2
    return squared


def _merged(parent: _Weighed, children: Sequence[_Weighed], merge: Merge) -> list[_Weighed]:
    """The children with the sizes of their matched groups."""
    pairs = matched(parent.estimate, [child.estimate for child in children])
    starts = np.cumsum([0, *(len(child.variance) for child in children)])
    run = starts[pairs.child] + pairs.run
    own = np.concatenate([child.estimate.value for child in children])[run]
    theirs = parent.estimate.value[pairs.parent]
    weight = 1 / np.concatenate([child.variance for child in children])[run]
    other = 1 / parent.variance[pairs.parent]
    if merge == "plain":
        value = np.rint((own + theirs) / 2)
    else:
        value = np.rint((own * weight + theirs * other) / (weight + other))
    certain = parent.certain[pairs.parent]
    value = np.where(certain, np.rint(theirs), value)
    variance = 1 / (weight + other)
    order = np.argsort(pairs.child, kind="stable")
    ends = np.searchsorted(pairs.child[order], np.arange(len(children) + 1))
    merged = []
    for first, end in pairwise(ends.tolist()):
        part = order[first:end]
        sizes = Sizes.of(value[part].astype(np.int64), pairs.groups[part])
        # Runs that came to one size: the least uncertain of them counts.
        least = np.full(len(sizes.size), np.inf)
        places = np.searchsorted(sizes.size, value[part])
        np.minimum.at(least, places, variance[part])
        kept = np.zeros(len(sizes.size), np.bool_)
        np.logical_or.at(kept, places, certain[part])
        merged.append(_Weighed(Estimate.of(sizes), least, kept))
    return merged
