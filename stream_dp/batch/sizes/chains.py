"""Beliefs about a region's cumulative counts, size by size, from noisy values and other evidence.

Let c(s) be how many groups of a region have at most s members. These counts rise with s, and both
kinds of measurements, of cumulative counts and of sorted sizes, say something of each c(s) by
itself: the noise in the value v(s) has the density of v(s) - c(s); and a rank i lies at or below
c(s) or above it, so that the densities of v(i) - s and v(i) - s - 1 count. Hence the counts are a
hidden Markov chain in which a step may go anywhere upwards, and the forward-backward algorithm
(Baum and others 1970) gives the probability of every value of every count, exactly, in time in
proportion to sizes times values. The values considered are those next to the estimate.

Before anything is measured, a region is thought to have geometrically many groups of each size,
of a given mean, independently: r^m to have m of them. Such a prior leaves large numbers free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .histogram import Estimate, Int64Array

Floats = NDArray[np.float64]
Penalty = Callable[[Int64Array], Floats]

_AT_ONCE = 1 << 22  # numbers of several chains that are computed together
_SURE = -1e5  # log odds beyond the sizes of a chain


@dataclass(frozen=True)
class Chain:
    """The evidence of a region's measurements.

    total: the number of its groups.
    low: int64 (sizes,), for each size from 0 on the least count considered; it rises. Counts at
        sizes beyond are the total.
    weights: float32 (sizes, states), the log weights of that count and the next ones, -inf for
        impossible ones.
    """

    total: int
    low: Int64Array
    weights: NDArray[np.float32]

    @property
    def sizes(self) -> int:
        """The number of sizes with uncertain counts."""
        return len(self.low)

    @property
    def states(self) -> int:
        """The number of counts considered at a size."""
        return int(self.weights.shape[1])

    @property
    def last_low(self) -> int:
        """`low` at the sizes beyond."""
        return max(0, self.total - self.states + 1)

    def least(self, sizes: int) -> Int64Array:
        """`low` for the first `sizes` sizes, int64 (sizes,)."""
        beyond = np.full(max(0, sizes - self.sizes), self.last_low, np.int64)
        return np.concatenate([self.low[:sizes], beyond])


def chain(
    estimate: Estimate,
    values: Int64Array,
    penalty: Penalty,
    *,
    sizes: int,
    states: int,
    cumulative: bool,
) -> Chain:
    """The chain of a region.

    The weight of a count c at a size s is minus the penalty of v(s) - c, for cumulative counts. For
    sorted sizes one more count moves the rank i = c to the sizes up to s, so that the weight grows
    by penalty(v(i) - s - 1) - penalty(v(i) - s).

    estimate: of its sizes, by isotonic regression.
    values: the noisy values, of cumulative counts or of sorted sizes.
    penalty: minus the log density of the noise, up to a constant.
    sizes: so many have uncertain counts.
    states: so many counts are considered at each.
    """
    size, offsets = np.arange(sizes), np.arange(states)
    total = int(estimate.groups.sum())
    ends = np.concatenate([[0], np.cumsum(estimate.groups)])
    middle = ends[np.searchsorted(estimate.value, size + 0.5)]
    low = np.clip(middle - states // 2, 0, max(0, total - states + 1))
    counts = low[:, None] + offsets
    if cumulative:
        weights = -penalty(values[:sizes, None] - counts)
    else:
        weights = np.zeros(counts.shape)
        for state in range(1, states):
            gap = values[np.minimum(counts[:, state], total) - 1] - size
            weights[:, state] = weights[:, state - 1] + penalty(gap - 1) - penalty(gap)
    return Chain(total, low, np.where(counts <= total, weights, -np.inf).astype(np.float32))


@dataclass(frozen=True)
class Evidence:
    """Evidence of a region's counts beside its measurements, each array (sizes,).

    slope: what one group more at or below a size adds to the log weight.
    mean, precision: of a normal law of each count.
    """

    slope: Floats
    mean: Floats
    precision: Floats


@dataclass(frozen=True)
class Counts:
    """Beliefs about a region's counts.

    chain: of the region.
    slope: (sizes,), of the prior; see `Evidence`.
    mean, variance: (sizes,).
    odds: float32 (sizes of the chain, states), the log odds of at most each count considered,
        against more; rising, inf for the last possible one.
    """

    chain: Chain
    slope: Floats
    mean: Floats
    variance: Floats
    odds: NDArray[np.float32]

    def log_odds(self, first: int, end: int, states: int) -> NDArray[np.float32]:
        """`odds` at the sizes from `first` to `end`, (sizes, states); inf for further counts.

        Beyond the chain's sizes the count is the total, the surer the larger the size.
        """
        considered = self.odds[first:end]
        odds = np.full((end - first, states), np.inf, np.float32)
        odds[: len(considered), : self.chain.states] = considered
        size = np.arange(first + len(considered), end, dtype=np.float32)
        odds[len(considered) :, : self.chain.total - self.chain.last_low] = _SURE - size[:, None]
        return odds


def prior_slope(expected: Floats) -> Floats:
    """The slopes of geometric priors, given the expected number of groups of every size."""
    logs = np.log(expected / (1 + expected))
    slope: Floats = logs - np.append(logs[1:], logs[-1:])
    return slope


def counts_of(chains: Sequence[Chain], evidence: Sequence[Evidence]) -> list[Counts]:
    """The beliefs about every region's counts, from measurements and further evidence."""
    order = sorted(range(len(chains)), key=lambda i: (chains[i].states, chains[i].sizes))
    counts: dict[int, Counts] = {}
    while order:
        batch = [order.pop()]
        states, cells = chains[batch[0]].states, max(1, chains[batch[0]].weights.size)
        while order and chains[order[-1]].states == states and len(batch) < _AT_ONCE // cells:
            batch.append(order.pop())
        computed = _together([chains[i] for i in batch], [evidence[i] for i in batch])
        counts |= zip(batch, computed, strict=True)
    return [counts[i] for i in range(len(chains))]


def _together(chains: Sequence[Chain], evidence: Sequence[Evidence]) -> list[Counts]:
    """See `counts_of`; chains with equally many states, padded to the same number of sizes.

    The log weight of a count c is that of the chain + slope c - precision (c - mean)^2 / 2.
    """
    sizes, states = max(chain.sizes for chain in chains), chains[0].states
    offsets = np.arange(states)
    low = np.stack([chain.least(sizes) for chain in chains])
    weights = np.full((len(chains), sizes, states), -np.inf)
    for total, chain, beside in zip(weights, chains, evidence, strict=True):
        n = chain.sizes
        distance = chain.low[:, None] + offsets - beside.mean[:n, None]
        total[:n] = chain.weights + beside.slope[:n, None] * offsets
        total[:n] -= distance**2 * (beside.precision[:n, None] / 2)
        total[n:, chain.total - chain.last_low] = 0
    counts = []
    for logs, start, chain, beside in zip(
        _marginals(weights, low), low, chains, evidence, strict=True
    ):
        probability = np.exp(logs)
        mean, square = probability @ offsets, probability @ offsets**2
        rest = len(beside.mean) - sizes
        counts.append(
            Counts(
                chain,
                beside.slope,
                np.append(start + mean, np.full(rest, float(chain.total))),
                np.append(square - mean**2, np.zeros(rest)),
                _log_odds(logs[: chain.sizes]),
            )
        )
    return counts


def _log_odds(logs: Floats) -> NDArray[np.float32]:
    """The log odds of at most each count, given the log probabilities, both (sizes, states)."""
    at_most = np.logaddexp.accumulate(logs, axis=1)
    above_odds = np.full_like(logs, -np.inf)
    above_odds[:, :-1] = np.logaddexp.accumulate(logs[:, :0:-1], axis=1)[:, ::-1]
    with np.errstate(invalid="ignore"):
        odds = at_most - above_odds
    odds[np.isneginf(above_odds)] = np.inf
    return odds.astype(np.float32)


def _marginals(weights: Floats, low: Int64Array) -> Floats:
    """The log probability of every count, (regions, sizes, states), of rising counts.

    The forward-backward algorithm: the count at a size is at least that at the size before, so the
    messages are sums over all counts at or below, and at or above. In logarithms throughout:
    evidence of two sizes may differ by thousands.

    weights: (regions, sizes, states), of the counts low + 0, 1, ..
    low: (regions, sizes), the least count considered.
    """
    regions, sizes, states = weights.shape
    rows, offsets = np.arange(regions)[:, None], np.arange(states)
    none = np.full((regions, 1), -np.inf)
    logs = weights.copy()
    for s in range(1, sizes):
        rise = (low[:, s] - low[:, s - 1])[:, None]
        summed = np.concatenate([none, np.logaddexp.accumulate(logs[:, s - 1], axis=1)], axis=1)
        logs[:, s] += summed[rows, np.minimum(offsets + 1 + rise, states)]
    following = np.zeros((regions, states))
    for s in range(sizes - 1, 0, -1):
        rise = (low[:, s] - low[:, s - 1])[:, None]
        summed = np.logaddexp.accumulate((following + weights[:, s])[:, ::-1], axis=1)[:, ::-1]
        summed = np.concatenate([summed, none], axis=1)
        following = summed[rows, np.clip(offsets - rise, 0, states)]
        logs[:, s - 1] += following
    logs -= logs.max(axis=2, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=2, keepdims=True))
    return logs
