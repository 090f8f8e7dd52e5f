"""The counters of a cumulative release, each with its rows among all rows.

`PlacedCounter` is a stream counter that is measured by itself. `CoupledTotal` is one threshold of
the coupled measurement (`coupled_strategy.py`): its rows use the threshold below, too, and its
entries are estimated from the rows of both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..base import Counts
from ..counters.stream_counters import ONCE, Counter, IntMatrix
from ..products import product
from .coupled_budget import CoupledBudget

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PlacedCounter:
    """One counter of a design, with its noise and its position among all counters.

    threshold: b, or 0 for people
    start: the period of its first entry
    counter: its matrices
    first_row: the position of its first row among all rows
    of_variance: gives the parameter of its integer noise, which follows from the matrices of all
        counters; what is measured when does not
    """

    threshold: int
    start: int
    counter: Counter
    first_row: int
    of_variance: Callable[[], Fraction] = field(repr=False)

    @property
    def variance(self) -> Fraction:
        """The parameter of its integer noise."""
        return self.of_variance()

    @property
    def length(self) -> int:
        """The number of its sums."""
        return self.counter.length

    @property
    def row_count(self) -> int:
        """The number of its rows."""
        return int(self.counter.times.size)

    @property
    def gains(self) -> Floats:
        """The variance of each sum over that of the noise, (length,)."""
        return self.counter.gains

    @property
    def worst_gain(self) -> Fraction:
        """The largest of them."""
        return self.counter.worst_gain

    def rows(self, t: int) -> slice:
        """The positions, among all rows, of the rows measured at period t."""
        first, last = self.counter.rows(t - self.start), self.counter.rows(t - self.start + 1)
        return slice(self.first_row + first, self.first_row + last)

    def names(self, t: int) -> list[str]:
        """The names of the rows of period t."""
        if self.counter is ONCE:
            return ["people"]
        rows = self.rows(t)
        name, size = f"counter {self.threshold} node {t}", rows.stop - rows.start
        return [name] if size == 1 else [f"{name}.{i}" for i in range(1, size + 1)]

    def encode(self, t: int) -> IntMatrix:
        """The part of C that is measured at t, on the entries so far: (rows, t - start + 1)."""
        return self.counter.row(t - self.start + 1)

    def measure(self, streams: NDArray[np.int64], t: int) -> Counts:
        """The true values of the rows of period t.

        streams: (T + 1, T) entries of counters 1..T and of counter 0
        """
        true_rows: Counts = self.encode(t) @ streams[self.threshold - 1, self.start - 1 : t]
        return true_rows

    def sum(self, noisy: NDArray[np.int64], entries: Floats, t: int) -> float:
        """The unbiased sum at t, in people. noisy: (all rows,) measured integers."""
        weights = self.counter.weights(t - self.start + 1)
        rows = noisy[self.first_row : self.first_row + weights.size]
        return float(product(weights, rows)) / self.counter.scale


@dataclass(frozen=True, eq=False)
class CoupledTotal:
    """One threshold of the coupled measurement, with a row for each period from `start` on.

    threshold: b, or 0 for the people who enter
    start: the period of its first entry
    first_row: the position of its first row among all rows
    row_count: the number of its rows
    below: the position of the first row of the threshold below; None for the first threshold
    budget: the strategy and its cost
    of_variance: gives the parameter of the integer noise of a row
    """

    threshold: int
    start: int
    first_row: int
    row_count: int
    below: int | None
    budget: CoupledBudget
    of_variance: Callable[[], Fraction] = field(repr=False)

    @property
    def variance(self) -> Fraction:
        """The parameter of the integer noise of a row."""
        return self.of_variance()

    @property
    def length(self) -> int:
        """The number of its sums."""
        return self.row_count

    @cached_property
    def gains(self) -> Floats:
        """The variance of each sum over that of the noise, (length,)."""
        return self.budget.gains(self.threshold)

    @property
    def worst_gain(self) -> Fraction:
        """The largest gain: the exact value of a float."""
        return Fraction(float(self.gains.max()))

    def rows(self, t: int) -> slice:
        """The position, among all rows, of the row of period t; empty before `start`."""
        first = self.first_row + t - self.start
        return slice(first, first + 1)

    def names(self, t: int) -> list[str]:
        """The name of the row of period t."""
        return [f"coupled total {self.threshold} row {t}"]

    def measure(self, streams: NDArray[np.int64], t: int) -> Counts:
        """The true value of the row of period t.

        streams: (T + 1, T) entries of thresholds 1..T and 0
        """
        own, before = self.budget.row(self.threshold, t)
        value = own @ streams[self.threshold - 1, self.start - 1 : t]
        if before.size:
            first = t - before.size + (self.threshold == 1)
            value += before @ streams[self.threshold - 2, first - 1 : first - 1 + before.size]
        return np.array([value])

    def estimated_entry(self, noisy: int, entries: Floats, t: int) -> float:
        """The unbiased z_b(t) from its noisy row and the earlier unbiased entries.

        entries: (all rows,) of this threshold before t, and of the threshold below
        """
        own, before = self.budget.row(self.threshold, t)
        last = self.first_row + t - self.start
        known = product(own[:-1], entries[self.first_row : last])
        if self.below is not None:
            known = known + product(before, entries[self.below : self.below + before.size])
        return float((noisy - known) / own[-1])

    def sum(self, noisy: NDArray[np.int64], entries: Floats, t: int) -> float:
        """The unbiased sum at t, in people. entries: (all rows,) unbiased entries."""
        return float(entries[self.first_row : self.first_row + t - self.start + 1].sum())


Placed = PlacedCounter | CoupledTotal
