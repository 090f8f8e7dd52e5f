"""Consistent sizes that are likeliest given the measurements of all levels.

What the regions of a tree know of their cumulative counts (`chains`) is passed up and down:

1. From the root down, each region expects its share of its parent's groups of each size; the root
   expects the mean of the sizes around, a smooth histogram.
2. From the leaves up, the sum of the children's means and variances is evidence of each of the
   parent's counts.
3. From the root down again, the root's counts are medians, which have the least expected earth
   mover's distance, and the counts of children are made whole and of the sum of their parent's at
   the least expected distance (`allocation`).

Counts at different sizes pass up as if they were independent, which makes it no exact posterior;
nothing but the published noisy values is used, so it costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .allocation import allocated, medians
from .chains import Chain, Counts, Evidence, Floats, Penalty, chain, counts_of, prior_slope
from .histogram import Estimate, Int64Array, Sizes
from .regions import Regions

MOST_CELLS = 1 << 26  # weights of all chains together
_LEAST_EXPECTED = 1e-4  # groups of a size
_ROUGH = 0.05  # of the variance of a sum, for its laws are of whole numbers


@dataclass(frozen=True)
class LevelMeasurements:
    """What was measured of a level.

    cumulative: whether cumulative counts were measured, and not sizes.
    deviation: of the noise.
    penalty: minus the log density of the noise, up to a constant.
    estimates: of each region.
    values: the noisy values of each region.
    """

    cumulative: bool
    deviation: float
    penalty: Penalty
    estimates: tuple[Estimate, ...]
    values: tuple[Int64Array, ...]

    def states(self) -> list[int]:
        """How many counts of each region are considered at each size.

        Noise of deviation d hides where one size ends and the next begins for some d^2 ranks. Where
        all counts are fewer they are all considered, up to a power of two.
        """
        spread = 5 * self.deviation
        if not self.cumulative:
            spread = 3 * self.deviation + 8 * self.deviation**2
        most = 2 * (3 + int(np.ceil(spread))) + 1
        totals = [int(estimate.groups.sum()) for estimate in self.estimates]
        return [min(most, 1 << total.bit_length()) for total in totals]

    def supports(self) -> list[int]:
        """How many sizes of each region have uncertain counts, as far as it knows itself."""
        beyond = 3 + int(np.ceil(3 * self.deviation))
        return [
            int(np.rint(each.value[-1])) + beyond if len(each.value) else 0
            for each in self.estimates
        ]


def posterior_sizes(
    regions: Regions, levels: Sequence[LevelMeasurements], largest: int
) -> tuple[tuple[Sizes, ...], ...] | None:
    """The sizes of every region of every level, consistent; None where there are too many."""
    supports = [level.supports() for level in levels]
    sizes = min(largest, max(1, *(max(level) for level in supports)))
    # The largest sizes do not show in cumulative counts: fewer groups than their noise have them.
    uncertain = [
        [sizes if level.cumulative else min(sizes, own) for own in level_supports]
        for level, level_supports in zip(levels, supports, strict=True)
    ]
    states = [level.states() for level in levels]
    if sum(int(np.dot(*each)) for each in zip(uncertain, states, strict=True)) > MOST_CELLS:
        return None
    tree = _Tree(regions, sizes)
    known = tree.passed_up(
        tree.expected(
            [
                _chains(level, own, considered)
                for level, own, considered in zip(levels, uncertain, states, strict=True)
            ]
        )
    )
    leaves = tree.agreed(known)
    sized = [_sizes(each, n) for each, n in zip(leaves, regions.groups, strict=True)]
    return regions.sums(sized)


def _chains(level: LevelMeasurements, sizes: Sequence[int], states: Sequence[int]) -> list[Chain]:
    return [
        chain(
            estimate,
            values,
            level.penalty,
            sizes=own if len(estimate.value) else 0,
            states=considered,
            cumulative=level.cumulative,
        )
        for estimate, values, own, considered in zip(
            level.estimates, level.values, sizes, states, strict=True
        )
    ]


def _sizes(cumulative: Int64Array, total: int) -> Sizes:
    return Sizes.of_histogram(np.diff(cumulative, prepend=0, append=total))


@dataclass(frozen=True)
class _Known:
    """A region's chain, the other evidence of it and what both say."""

    chain: Chain
    evidence: Evidence
    counts: Counts


def _known(chains: Sequence[Chain], evidence: Sequence[Evidence]) -> list[_Known]:
    counts = counts_of(chains, evidence)
    return [_Known(*each) for each in zip(chains, evidence, counts, strict=True)]


@dataclass(frozen=True)
class _Tree:
    """The tree of regions. sizes: so many, from 0 on, have uncertain counts."""

    regions: Regions
    sizes: int

    def expected(self, levels: Sequence[Sequence[Chain]]) -> list[list[_Known]]:
        """What each region knows of its counts, given its share of its parent's."""
        known: list[list[_Known]] = []
        none = np.zeros(self.sizes)
        for depth, chains in enumerate(levels):
            if depth:
                above = [np.diff(each.counts.mean, prepend=0) for each in known[-1]]
                totals = self.regions.counts[depth - 1]
                prior = [
                    above[parent] * (one.total / max(1, int(totals[parent])))
                    for parent, one in zip(
                        self.regions.parents(depth).tolist(), chains, strict=True
                    )
                ]
            else:
                prior = [_smooth(_known(chains, [Evidence(none, none, none)])[0].counts.mean)]
            known.append(
                _known(
                    chains,
                    [
                        Evidence(prior_slope(np.maximum(each, _LEAST_EXPECTED)), none, none)
                        for each in prior
                    ],
                )
            )
        return known

    def passed_up(self, levels: Sequence[list[_Known]]) -> list[list[_Known]]:
        """The same with what children know, the root's first."""
        result = [levels[-1]]
        for depth in range(len(levels) - 1, 0, -1):
            mean, variance = self._sums(result[0], depth)
            evidence = [
                Evidence(own.evidence.slope, mean[i], 1 / (variance[i] + _ROUGH))
                for i, own in enumerate(levels[depth - 1])
            ]
            result.insert(0, _known([own.chain for own in levels[depth - 1]], evidence))
        return result

    def _sums(self, level: Sequence[_Known], depth: int) -> tuple[Floats, Floats]:
        """The sums of means and variances of the children of each region, (regions, sizes)."""
        mean = np.zeros((len(self.regions.levels[depth - 1]), self.sizes))
        variance = np.zeros_like(mean)
        for parent, own in zip(self.regions.parents(depth).tolist(), level, strict=True):
            mean[parent] += own.counts.mean
            variance[parent] += own.counts.variance
        return mean, variance

    def agreed(self, levels: Sequence[list[_Known]]) -> list[Int64Array]:
        """The cumulative counts of the smallest regions, int64 (sizes,) each."""
        above = [medians(own.counts, self.sizes) for own in levels[0]]
        for depth in range(1, len(levels)):
            parents = self.regions.parents(depth)
            below: list[Int64Array | None] = [None] * len(parents)
            for i, counts in enumerate(above):
                family = np.flatnonzero(parents == i).tolist()
                parts = allocated(counts, [levels[depth][k].counts for k in family])
                for k, part in zip(family, parts, strict=True):
                    below[k] = part
            above = [part for part in below if part is not None]
        return above


def _smooth(cumulative: Floats) -> Floats:
    """The mean groups of the sizes up to an eighth of each size away, given cumulative counts."""
    ends, size = np.append(0.0, cumulative), np.arange(len(cumulative))
    reach = np.maximum(1, size // 8)
    first, last = np.maximum(size - reach, 0), np.minimum(size + reach + 1, len(size))
    smooth: Floats = (ends[last] - ends[first] + 0.05) / (last - first)
    return smooth
