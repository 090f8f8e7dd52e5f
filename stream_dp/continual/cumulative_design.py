"""The counters of a cumulative release, their noise, and what they cost.

Privacy. Counter b's stream gets a 1 when a person's total reaches b. Under add_remove one path of
entry times changes, under replacement an old and a new one; the exact worst cost is a dynamic
programme (`paths.py`), and the noise is scaled so that it is rho (`budgets.py`). Each row of a
counter is one discrete Gaussian answer, and it looks at no later entry: releases may be chosen by
what came before, the sum of the costs along any pair of histories stays at or under rho.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.noise import exact_variance
from stream_dp.study import CounterName, Neighbours

from .base import Counts, Demand
from .budgets import CounterBudget, counter_budget
from .counters import ONCE, Counter, IntMatrix
from .factorizations import MOST_GAMMA2, lower_bound

COUNTER_TITLES: dict[CounterName, str] = {
    "tree": "binary tree counters (Bun et al. 2024, Algorithms 2 and 3)",
    "honaker": "binary tree counters with estimation from below (Honaker 2015)",
    "sqrt": "square-root counters (Henzinger, Upadhyay, Upadhyay 2023)",
    "normalised": "column-normalised square-root counters",
    "gamma2": "counters of the least worst error (gamma2-optimal factorization)",
    "unbounded": "counters without a horizon (after Jacobsen, Fawaz 2025)",
}
_RATIO_STEPS = 1.05


@dataclass(frozen=True, eq=False)
class PlacedCounter:
    """One counter in use.

    threshold: b, or 0 for people
    start: the period of its first entry
    counter: its matrices
    variance: the parameter of its integer noise
    place: of its first row among all rows
    """

    threshold: int
    start: int
    counter: Counter
    variance: Fraction
    place: int

    def rows(self, t: int) -> slice:
        """The rows measured at period t, among all rows."""
        first, last = self.counter.rows(t - self.start), self.counter.rows(t - self.start + 1)
        return slice(self.place + first, self.place + last)

    def encode(self, t: int) -> IntMatrix:
        """The rows of period t on the entries so far, (rows, t - start + 1)."""
        rows, steps = self.rows(t), t - self.start + 1
        return self.counter.encode[rows.start - self.place : rows.stop - self.place, :steps]

    def measure(self, streams: NDArray[np.int64], t: int) -> Counts:
        """The true rows of period t. streams: (T + 1, T) entries of counters 1..T and of people."""
        true_rows: Counts = self.encode(t) @ streams[self.threshold - 1, self.start - 1 : t]
        return true_rows

    def sum(self, noisy: NDArray[np.int64], t: int) -> float:
        """The unbiased sum at t, people. noisy: (all rows,) measured integers."""
        step = t - self.start + 1
        known = self.counter.rows(step)
        rows = noisy[self.place : self.place + known]
        return float(self.counter.decode[step - 1, :known] @ rows) / self.counter.scale


@dataclass(frozen=True)
class CumulativeDesign:
    """The measurements of a cumulative release and their noise.

    horizon: T, the number of periods
    rho: the cost of all periods under `neighbours`
    neighbours: the neighbouring relation
    size_share: the part of rho that the number of people gets where it is measured, about that of
        S_0 where people enter (0: so that its worst variance is that of the others)
    counter: how sums are counted
    present: people enter, and S_0, those who have, is a counter of its own
    moves: the release is of one stratum among several, and a person who is replaced may turn up in
        another: the cost is at least twice that of add_remove (under add_remove a person is in one
        stratum, and it changes nothing)
    """

    horizon: int
    rho: Fraction
    neighbours: Neighbours
    size_share: Fraction
    counter: CounterName
    present: bool
    moves: bool

    @property
    def budget(self) -> CounterBudget:
        """How rho is split among the counters."""
        share = self.size_share if self.present else Fraction(0)
        return counter_budget(
            self.horizon, self.counter, self.neighbours, self.present, self.moves, share
        )

    @property
    def counters(self) -> tuple[Counter, ...]:
        """For b = 1..T."""
        return self.budget.counters

    @property
    def counted_rho(self) -> Fraction:
        """All of rho but what a number of people measured once takes."""
        return self.rho if self.present else self.rho * (1 - self.size_share)

    @cached_property
    def placed_counters(self) -> tuple[PlacedCounter, ...]:
        """Counters 1..T, then that of people where there is one."""
        weights, unit = self.budget.weights, self.counted_rho / self.budget.total_cost
        placed: list[PlacedCounter] = []
        place = 0
        for b, counter in enumerate(self.counters, 1):
            placed.append(PlacedCounter(b, b, counter, 1 / (2 * weights[b - 1] * unit), place))
            place += counter.encode.shape[0]
        if self.present:
            variance = 1 / (2 * weights[-1] * unit)
            placed.append(PlacedCounter(0, 1, self.counters[0], variance, place))
        elif self.size_share:
            placed.append(PlacedCounter(0, 1, ONCE, self.size_variance, place))
        return tuple(placed)

    @property
    def people(self) -> PlacedCounter | None:
        """The counter of S_0, or of the number of people measured at t = 1."""
        return self.placed_counters[-1] if self.placed_counters[-1].threshold == 0 else None

    @cached_property
    def _active(self) -> tuple[tuple[PlacedCounter, ...], ...]:
        by_period = []
        for t in range(1, self.horizon + 1):
            begun = (*self.placed_counters[:t], *self.placed_counters[self.horizon :])
            by_period.append(tuple(each for each in begun if each.counter.length > t - each.start))
        return tuple(by_period)

    def active(self, t: int) -> tuple[PlacedCounter, ...]:
        """The counters with rows at t, in the order of all answers."""
        return self._active[t - 1]

    def measure(self, streams: NDArray[np.int64], t: int) -> Counts:
        """The true rows of period t, in the order of all answers. streams: (T + 1, T)."""
        return np.concatenate([placed.measure(streams, t) for placed in self.active(t)])

    @cached_property
    def places(self) -> tuple[NDArray[np.int64], ...]:
        """Where the answers of each period stand among all rows, in the order of the demand."""
        by_period = []
        for t in range(1, self.horizon + 1):
            slices = [placed.rows(t) for placed in self.active(t)]
            by_period.append(np.concatenate([np.arange(s.start, s.stop) for s in slices]))
        return tuple(by_period)

    @cached_property
    def fingerprint(self) -> NDArray[np.int64]:
        """Of all matrices: what was measured can only be decoded with the ones it was made by."""
        digest = hashlib.sha256()
        for counter in self.counters:
            digest.update(np.ascontiguousarray(counter.encode).astype("<i8").tobytes())
        return np.frombuffer(digest.digest()[:8], "<i8").astype(np.int64)

    @property
    def all_rows(self) -> int:
        """The number of rows of all counters."""
        last = self.placed_counters[-1]
        return last.place + last.counter.times.size

    @cached_property
    def variances(self) -> tuple[Fraction, ...]:
        """Parameters of the integer noise of counter b's rows, b = 1..T."""
        return tuple(placed.variance for placed in self.placed_counters[: self.horizon])

    @property
    def size_variance(self) -> Fraction:
        """Noise variance of an n measured once: 1 / (2 rho size_share), sensitivity 1.

        With moves two strata have their n changed, by one each: twice that.
        """
        pairs = self.moves and self.neighbours != "add_remove"
        return (2 if pairs else 1) / (2 * self.rho * self.size_share)

    @cached_property
    def charges(self) -> tuple[Fraction, ...]:
        """Increments of the exact worst cost, period by period; all at once where T is large.

        Without a horizon they end below rho.
        """
        size = self.rho - self.counted_rho
        unit = self.counted_rho / self.budget.total_cost
        costs = [size + cost * unit for cost in self.budget.costs]
        before = [Fraction(0), *costs[:-1]]
        return tuple(cost - last for last, cost in zip(before, costs, strict=True))

    def variance(self, b: int, t: int) -> float:
        """Variance of the unbiased S_b at t, from the discrete Gaussian's own; 0 for b > t."""
        if b > t:
            return 0.0
        placed = self.placed_counters[b - 1] if b else self.people
        if placed is None or placed.counter.length <= t - placed.start:
            raise ValueError("nobody measured the number of people then")
        return float(placed.counter.gains[t - placed.start]) * exact_variance(placed.variance)

    @property
    def worst_variance(self) -> Fraction:
        """The largest noise variance of a released number: a sum's, or that of people.

        From the parameter of the noise, at or above its variance; the gains are those computed in
        floats (relative rounding about 1e-14), the rest is exact.
        """
        return max(placed.variance * placed.counter.worst_gain for placed in self.placed_counters)

    @property
    def worst_sum_variance(self) -> Fraction:
        """The largest noise variance of a sum S_b (b = 0 where people enter)."""
        sums = self.placed_counters if self.present else self.placed_counters[: self.horizon]
        return max(placed.variance * placed.counter.worst_gain for placed in sums)

    @property
    def rmse(self) -> float:
        """Root mean square over all cells of the unbiased S_b at t, b = 1..T (theory)."""
        sums = [
            placed.counter.gains.sum() * exact_variance(placed.variance)
            for placed in self.placed_counters
        ]
        cells = self.horizon * (self.horizon + 1) / 2
        return math.sqrt(float(np.sum(sums[: self.horizon])) / cells)

    @property
    def lower_bound_ratio(self) -> float:
        """The worst S_b's deviation, over what no choice of counters with budgets of their own,
        the sum of which is rho, can be below under add_remove (so nor under replacement).

        Counter b with budget rho_b has a worst variance of at least gamma2^2 / (2 rho_b), so the
        largest of them is at least the sum of gamma2^2 over 2 rho. gamma2 never falls with n:
        above MOST_GAMMA2 the bound of a shorter length stands in. Counters that share their budget
        along paths (a late entry to one leaves fewer for the others) could be below it.
        """
        total = sum(_known_lower_bound(n) ** 2 for n in range(1, self.horizon + 1))
        worst = max(
            placed.variance * placed.counter.worst_gain
            for placed in self.placed_counters[: self.horizon]
        )
        return math.sqrt(float(worst * 2 * self.counted_rho) / total)

    def demand(self, t: int) -> Demand:
        """Counters 1..t, then people: as many integers of each as it has rows at t."""
        slices = [(placed.variance, placed.rows(t)) for placed in self.active(t)]
        return tuple((variance, rows.stop - rows.start) for variance, rows in slices)


def _known_lower_bound(n: int) -> float:
    """`lower_bound` of n, or of a shorter length on a coarse grid."""
    if n <= MOST_GAMMA2:
        return lower_bound(n)
    step = math.floor(math.log(n / MOST_GAMMA2, _RATIO_STEPS))
    return lower_bound(min(n, math.floor(MOST_GAMMA2 * _RATIO_STEPS**step)))
