"""The counters of a cumulative release, their noise and their cost.

Privacy. Counter b's stream gets a 1 when a person's total reaches b. Under add_remove one path of
entry times changes, under replacement two. `history_costs.py` computes the exact worst cost, and
`budgets.py` scales the noise so that it is rho. Each row of a counter is one discrete Gaussian
answer that uses no later entry. So later streams may depend on earlier answers (adaptive
composition, Bun and Steinke 2016): along any pair of histories the costs sum to at most rho.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.noise import exact_variance
from stream_dp.study import CounterKind, Neighbours

from ..base import Counts, Demand
from ..counters.methods import CounterMethod, counter_method
from ..counters.stream_counters import ONCE, Counter, IntMatrix
from ..products import product
from ..stored_design import StoredCounters
from .budgets import CounterBudget, counter_budget


@dataclass(frozen=True, eq=False)
class PlacedCounter:
    """One counter of a design, with its noise and its position among all counters.

    threshold: b, or 0 for people
    start: the period of its first entry
    counter: its matrices
    first_row: the position of its first row among all rows
    design: of which it is one
    """

    threshold: int
    start: int
    counter: Counter
    first_row: int
    design: CumulativeDesign = field(repr=False)

    @property
    def variance(self) -> Fraction:
        """The parameter of its integer noise.

        It follows from the matrices of all counters; what is measured when does not.
        """
        if self.counter is ONCE:
            return self.design.size_variance
        return self.design.counted_variances[self.threshold - 1]

    def rows(self, t: int) -> slice:
        """The positions, among all rows, of the rows measured at period t."""
        first, last = self.counter.rows(t - self.start), self.counter.rows(t - self.start + 1)
        return slice(self.first_row + first, self.first_row + last)

    def encode(self, t: int) -> IntMatrix:
        """The part of C that is measured at t, on the entries so far: (rows, t - start + 1)."""
        return self.counter.row(t - self.start + 1)

    def measure(self, streams: NDArray[np.int64], t: int) -> Counts:
        """The true values of the rows of period t.

        streams: (T + 1, T) entries of counters 1..T and of counter 0
        """
        true_rows: Counts = self.encode(t) @ streams[self.threshold - 1, self.start - 1 : t]
        return true_rows

    def sum(self, noisy: NDArray[np.int64], t: int) -> float:
        """The unbiased sum at t, in people. noisy: (all rows,) measured integers."""
        weights = self.counter.weights(t - self.start + 1)
        rows = noisy[self.first_row : self.first_row + weights.size]
        return float(product(weights, rows)) / self.counter.scale


@dataclass(frozen=True, kw_only=True)
class CumulativeDesign:
    """The measurements of a cumulative release and their noise.

    horizon: T, the number of periods
    rho: the cost of all periods under `neighbours`
    neighbours: the neighbouring relation
    size_share: the part of rho for the number of people where it is measured once; where people
        enter, about the part of counter 0 (0 gives it the worst variance of the others)
    counter: the kind of all counters
    present: people enter, and counter 0 follows S_0, the number who have entered
    moves: the release is of one stratum among several, and a person may be replaced by one of
        another stratum: two strata change by one person each, so the cost is at least twice that
        of add_remove (no effect under add_remove, where one stratum changes)
    stored: what was computed when the study began; None where it is computed here
    """

    horizon: int
    rho: Fraction
    neighbours: Neighbours
    size_share: Fraction = Fraction(0)
    counter: CounterKind = CounterKind.TREE
    present: bool = False
    moves: bool = False
    stored: StoredCounters | None = None

    @cached_property
    def budget(self) -> CounterBudget:
        """The split of rho among the counters."""
        share = self.size_share if self.present else Fraction(0)
        return counter_budget(
            horizon=self.horizon,
            kind=self.counter,
            neighbours=self.neighbours,
            present=self.present,
            moves=self.moves,
            share=share,
            stored=self.stored,
        )

    @property
    def method(self) -> CounterMethod:
        """How the counters are made."""
        return counter_method(self.counter)

    @property
    def counters(self) -> tuple[Counter, ...]:
        """For b = 1..T."""
        return self.budget.counters

    @property
    def counted_rho(self) -> Fraction:
        """The part of rho for the counters: all but that of a number of people measured once."""
        return self.rho if self.present else self.rho * (1 - self.size_share)

    @cached_property
    def placed_counters(self) -> tuple[PlacedCounter, ...]:
        """Counters 1..T, then that of people where there is one."""
        placed: list[PlacedCounter] = []
        first_row = 0
        for b, counter in enumerate(self.counters, 1):
            placed.append(
                PlacedCounter(b, start=b, counter=counter, first_row=first_row, design=self)
            )
            first_row += counter.times.size
        if self.present or self.size_share:
            people = self.counters[0] if self.present else ONCE
            placed.append(
                PlacedCounter(0, start=1, counter=people, first_row=first_row, design=self)
            )
        return tuple(placed)

    @cached_property
    def counted_variances(self) -> tuple[Fraction, ...]:
        """The parameter of the integer noise of counters 1..T, then of counter 0 if any."""
        unit = self.counted_rho / self.budget.total_cost
        return tuple(1 / (2 * weight * unit) for weight in self.budget.weights)

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
        """The counters with rows at t, in the order of the demand."""
        return self._active[t - 1]

    def measure(self, streams: NDArray[np.int64], t: int) -> Counts:
        """The true values of period t, in the order of the demand. streams: (T + 1, T)."""
        return np.concatenate([placed.measure(streams, t) for placed in self.active(t)])

    @cached_property
    def row_positions(self) -> tuple[NDArray[np.int64], ...]:
        """For each period the positions of its answers among all rows, in demand order."""
        by_period = []
        for t in range(1, self.horizon + 1):
            slices = [placed.rows(t) for placed in self.active(t)]
            by_period.append(np.concatenate([np.arange(s.start, s.stop) for s in slices]))
        return tuple(by_period)

    @property
    def all_rows(self) -> int:
        """The number of rows of all counters together."""
        last = self.placed_counters[-1]
        return last.first_row + last.counter.times.size

    @cached_property
    def variances(self) -> tuple[Fraction, ...]:
        """The parameter of the integer noise of each counter b = 1..T."""
        return self.counted_variances[: self.horizon]

    @property
    def size_variance(self) -> Fraction:
        """Noise variance of a number of people measured once.

        1 / (2 rho size_share), as its squared sensitivity is 1. With moves the numbers of two
        strata change, by one each: twice that.
        """
        pairs = self.moves and self.neighbours != "add_remove"
        return (2 if pairs else 1) / (2 * self.rho * self.size_share)

    @cached_property
    def charges(self) -> tuple[Fraction, ...]:
        """The increments of the worst cost, period by period (`CounterBudget.costs`).

        Their sum is rho, or less where the counters have no horizon.
        """
        size = self.rho - self.counted_rho
        unit = self.counted_rho / self.budget.total_cost
        costs = [size + cost * unit for cost in self.budget.costs]
        before = [Fraction(0), *costs[:-1]]
        return tuple(cost - last for last, cost in zip(before, costs, strict=True))

    def variance(self, b: int, t: int) -> float:
        """The variance of the unbiased S_b at t; 0 for b > t.

        Computed from the variance of the discrete Gaussian, not from its parameter. Raises
        ValueError for b = 0 where the number of people is not measured at t.
        """
        if b > t:
            return 0.0
        placed = self.placed_counters[b - 1] if b else self.people
        if placed is None or placed.counter.length <= t - placed.start:
            raise ValueError("nobody measured the number of people then")
        return float(placed.counter.gains[t - placed.start]) * exact_variance(placed.variance)

    @property
    def worst_variance(self) -> Fraction:
        """The largest noise variance of a released number: a sum's, or that of people.

        Computed from the parameter of the noise, which is at or above its variance. The gains are
        floats with a relative rounding of about 1e-14; the rest is exact.
        """
        return max(placed.variance * placed.counter.worst_gain for placed in self.placed_counters)

    @property
    def worst_sum_variance(self) -> Fraction:
        """The largest noise variance of a sum S_b (b = 0 where people enter)."""
        sums = self.placed_counters if self.present else self.placed_counters[: self.horizon]
        return max(placed.variance * placed.counter.worst_gain for placed in sums)

    @property
    def rmse(self) -> float:
        """Root mean square error in theory over all cells (b, t) of the unbiased S_b at t."""
        sums = [
            placed.counter.gains.sum() * exact_variance(placed.variance)
            for placed in self.placed_counters
        ]
        cells = self.horizon * (self.horizon + 1) / 2
        return math.sqrt(float(np.sum(sums[: self.horizon])) / cells)

    @property
    def lower_bound_ratio(self) -> float:
        """The standard deviation of the worst S_b over a lower bound for separate counters.

        The counters here share one budget along paths (a late entry into one counter leaves fewer
        periods for the next), so the ratio may be below 1 (`CounterBudget.least_variance`).
        """
        worst = max(
            placed.variance * placed.counter.worst_gain
            for placed in self.placed_counters[: self.horizon]
        )
        return math.sqrt(float(worst * 2 * self.counted_rho) / self.budget.least_variance)

    def demand(self, t: int) -> Demand:
        """Counters 1..t, then people: as many integers of each as it has rows at t."""
        slices = [(placed.variance, placed.rows(t)) for placed in self.active(t)]
        return tuple((variance, rows.stop - rows.start) for variance, rows in slices)
