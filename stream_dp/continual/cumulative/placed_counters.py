"""The counters of a cumulative release, each with its rows among all rows.

`PlacedCounter` is a stream counter that is measured by itself. `CoupledTotal` is one threshold of
the coupled measurement (`coupled_strategy.py`): its rows use the threshold below, too, and its
entries are estimated from the rows of both. The true entries of all thresholds are one vector
(`CumulativeState.streams`), and so is what is known of all rows (`CumulativeState.known`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..counters.stream_counters import ONCE, Counter, IntMatrix
from ..mechanism_interface import Counts
from ..repeatable_products import product
from .coupled_budget import CoupledBudget

Floats = NDArray[np.float64]

_PARTS = 1 << 30  # of a person, in estimated entries


@dataclass(frozen=True, eq=False)
class PlacedCounter:
    """One counter of a design, with its noise and its position among all counters.

    threshold: b, or 0 for people
    start: the period of its first entry
    counter: its matrices
    first_entry: the position of its first entry among all true entries
    first_row: the position of its first row among all rows
    of_variance: gives the parameter of its integer noise, which follows from the matrices of all
        counters; what is measured when does not
    """

    threshold: int
    start: int
    counter: Counter
    first_entry: int
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
        """The variance of every sum over the variance of the noise, (length,)."""
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
        """The measured part of C at t, on the entries so far: (rows, t - start + 1)."""
        return self.counter.row(t - self.start + 1)

    def measure(self, streams: NDArray[np.int64], t: int) -> Counts:
        """The true values of the rows of period t. streams: all true entries."""
        last = self.first_entry + t - self.start
        true_rows: Counts = self.encode(t) @ streams[self.first_entry : last + 1]
        return true_rows

    def known_rows(self, answers: Counts, noisy_rows: Floats, t: int) -> Floats:
        """What is kept of the rows of period t: their noisy answers."""
        return answers.astype(np.float64)

    def sum(self, noisy_rows: Floats, t: int) -> float:
        """The unbiased sum at t, in people. noisy_rows: (all rows,)."""
        weights = self.counter.weights(t - self.start + 1)
        rows = noisy_rows[self.first_row : self.first_row + weights.size]
        return float(product(weights, rows)) / self.counter.scale


@dataclass(frozen=True, eq=False)
class CoupledTotal:
    """A threshold of the coupled measurement, with a row per period from `start` on.

    threshold: b, or 0 for the people who enter
    start: the period of its first entry
    first_row: the position of its first row among all rows, and of its first true entry
    row_count: the number of its rows
    below: the `first_row` of the threshold below; None for the first threshold
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
        """The variance of every sum over the variance of the noise, (length,)."""
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
        """The true value of the row of period t. streams: all true entries."""
        row, lower_row = self.budget.row(self.threshold, t)
        value = row @ streams[self.first_row : self.first_row + row.size]
        if self.below is not None:
            value += lower_row @ streams[self.below : self.below + lower_row.size]
        return np.array([value])

    def known_rows(self, answers: Counts, noisy_rows: Floats, t: int) -> Floats:
        """What is kept of the row of period t: the unbiased z_b(t), in people, (1,).

        It is rounded to a multiple of 2^-30, so that a journal's entry is small.

        answers: the noisy row
        noisy_rows: (all rows,) with the earlier entries of this threshold and of the one below
        """
        row, lower_row = self.budget.row(self.threshold, t)
        explained = product(row[:-1], noisy_rows[self.first_row : self.first_row + row.size - 1])
        if self.below is not None:
            explained = explained + product(
                lower_row, noisy_rows[self.below : self.below + lower_row.size]
            )
        entry: Floats = np.rint((answers - explained) / row[-1] * _PARTS) / _PARTS
        return entry

    def sum(self, noisy_rows: Floats, t: int) -> float:
        """The unbiased sum at t, in people. noisy_rows: (all rows,)."""
        return float(noisy_rows[self.first_row : self.first_row + t - self.start + 1].sum())


Placed = PlacedCounter | CoupledTotal
