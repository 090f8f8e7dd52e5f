"""The measurements of a cumulative release, their noise and their cost.

Privacy. The entries of threshold b get a 1 when a person's total reaches b. Under add_remove one
path of entry times changes, under replacement two. `coupled_strategy.py` has the exact worst cost,
`budgets.py` computes it, and the noise is scaled so that it is rho. Each row is one discrete
Gaussian answer that uses no later entry. So later entries may depend on earlier answers (adaptive
composition, Bun and Steinke 2016): along any pair of histories the costs sum to at most rho.

Lower bounds of the error of totals, for all Gaussian mechanisms. A mechanism measures the entries z
of all thresholds with noise of precision X, online or not. Its cost at 2 rho = 1 bounds z' X z for
every history z, or for every difference of two histories under replacement. For a measure on
histories with second moments M = E[z z'], tr(M X) is at most the largest cost, 1. The mean variance
of the cells of S = D z is tr(D X^-1 D') / cells, and by Cauchy and Schwarz its product with tr(M X)
is at least the squared nuclear norm of D M^1/2 over cells. So every measure gives a lower bound of
the root mean square error. The history with an event in every period gives 1.

`python -m kit.totals_bounds` in `tests` computed `LEAST_RMSE`, less a bound of the error of floats.
Its measures are mixtures of birth processes, whose constants maximise the bound at a few numbers of
periods. At 12 periods the bound
is .995 of the largest bound of all measures under add_remove, and .989 under replacement.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import accumulate, groupby

import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.exact_numbers import exact_field
from stream_dp.privacy.noise import exact_variance
from stream_dp.study import CounterKind, Neighbours

from ..counters.methods import CounterMethod, counter_method
from ..counters.stream_counters import ONCE, Counter
from ..mechanism_interface import Counts, Demand, StoredCounters
from .budgets import CounterBudget, counter_budget
from .coupled_budget import CoupledBudget, coupled_budget
from .placed_counters import CoupledTotal, Floats, Placed, PlacedCounter

# By whether a person is replaced, by the number of periods, in units of 1 / sqrt(2 rho); rounded
# down, at 120 periods by more than any error of floats.
# fmt: off
LEAST_RMSE: dict[bool, dict[int, float]] = {
    False: {
        1: 1.0, 2: 1.0923, 3: 1.3389, 4: 1.5433, 5: 1.721, 6: 1.879, 7: 2.0217, 8: 2.1525,
        9: 2.2736, 10: 2.3868, 11: 2.4932, 12: 2.5939, 13: 2.6895, 14: 2.7807, 15: 2.868,
        16: 2.9518, 17: 3.0324, 18: 3.1157, 19: 3.1975, 20: 3.2766, 21: 3.3533, 22: 3.4276,
        23: 3.4998, 24: 3.57, 25: 3.6384, 26: 3.705, 27: 3.77, 28: 3.8335, 29: 3.8955, 30: 3.9587,
        31: 4.021, 32: 4.0821, 33: 4.142, 34: 4.2008, 35: 4.2585, 36: 4.3152, 48: 4.9328,
        60: 5.4845, 72: 5.9721, 84: 6.4117,
        120: 7.52,
    },
    True: {
        1: 1.0, 2: 1.2041, 3: 1.5044, 4: 1.7599, 5: 1.9862, 6: 2.1917, 7: 2.3804, 8: 2.5558,
        9: 2.72, 10: 2.8749, 11: 3.022, 12: 3.162, 13: 3.2955, 14: 3.4232, 15: 3.546, 16: 3.6661,
        17: 3.7852, 18: 3.9007, 19: 4.0127, 20: 4.1216, 21: 4.2275, 22: 4.3308, 23: 4.4316,
        24: 4.53, 25: 4.6262, 26: 4.7204, 27: 4.8126, 28: 4.9029, 29: 4.9915, 30: 5.0785,
        31: 5.1638, 32: 5.2477, 33: 5.3301, 34: 5.4111, 35: 5.4908, 36: 5.5693, 48: 6.4283,
        60: 7.171, 120: 9.93,
    },
}
# fmt: on


@dataclass(frozen=True, kw_only=True)
class CumulativeDesign:
    """The measurements of a cumulative release and their noise.

    horizon: T, the number of periods
    rho: the cost of all periods under `neighbours`
    neighbours: the neighbouring relation
    size_share: the part of rho for the number of people where it is measured once; where people
        enter, about the part of a separate counter 0 (0 gives it the worst variance of the others)
    counter: the kind of separate counters; None for the coupled measurement of all thresholds
    present: people enter, and threshold 0 follows S_0, the number who have entered
    open: whether the study has no horizon, and T is the largest possible number of periods
    crossed: the strata that a replaced person leaves or enters, at most (`privacy/ledger.py`); no
        effect under add_remove
    stored: what was computed when the study began; None where it is computed here
    """

    horizon: int
    rho: Fraction = exact_field()
    neighbours: Neighbours
    size_share: Fraction = exact_field(Fraction(0))
    counter: CounterKind | None = None
    present: bool = False
    crossed: int = 0
    open: bool = False
    stored: StoredCounters | None = None

    @cached_property
    def budget(self) -> CounterBudget | CoupledBudget:
        """The split of rho among the thresholds."""
        return self._coupled_budget if self.counter is None else self._counter_budget

    @cached_property
    def _coupled_budget(self) -> CoupledBudget:
        return coupled_budget(
            horizon=self.horizon,
            neighbours=self.neighbours,
            present=self.present,
            crossed=self.crossed,
            open=self.open,
        )

    @cached_property
    def _counter_budget(self) -> CounterBudget:
        assert self.counter is not None
        share = self.size_share if self.present else Fraction(0)
        return counter_budget(
            horizon=self.horizon,
            kind=self.counter,
            neighbours=self.neighbours,
            present=self.present,
            crossed=self.crossed,
            share=share,
            stored=self.stored,
        )

    @property
    def method(self) -> CounterMethod | None:
        """How separate counters are made."""
        return None if self.counter is None else counter_method(self.counter)

    @property
    def counters(self) -> tuple[Counter, ...]:
        """The separate counters for b = 1..T."""
        return self._counter_budget.counters

    @property
    def counted_rho(self) -> Fraction:
        """The part of rho for the counters: all but that of a number of people measured once."""
        return self.rho if self.present else self.rho * (1 - self.size_share)

    @cached_property
    def placed_counters(self) -> tuple[Placed, ...]:
        """The measurements of thresholds 1..T, then of people if people are measured."""
        placed = [*(self._coupled_totals if self.counter is None else self._placed_separately)]
        if self.size_share and not self.present:
            end = placed[-1].first_row + placed[-1].row_count
            first_entry = self.first_entry(0)
            placed.append(PlacedCounter(0, 1, ONCE, first_entry, end, lambda: self.size_variance))
        return tuple(placed)

    @property
    def _thresholds(self) -> tuple[int, ...]:
        """1..T, then 0 if people enter."""
        return (*range(1, self.horizon + 1), *((0,) if self.present else ()))

    @property
    def _placed_separately(self) -> Iterator[PlacedCounter]:
        """A counter for each threshold, whose rows follow those of the threshold before."""
        first_row = 0
        for b in self._thresholds:
            counter = self.counters[max(b, 1) - 1]
            first_entry, noise = self.first_entry(b), partial(self._noise, b)
            yield PlacedCounter(b, max(b, 1), counter, first_entry, first_row, noise)
            first_row += counter.times.size

    @property
    def _coupled_totals(self) -> Iterator[CoupledTotal]:
        """The rows of each threshold; all but the lowest measure against the threshold below."""
        lowest = 0 if self.present else 1
        for b in self._thresholds:
            yield CoupledTotal(
                threshold=b,
                start=max(b, 1),
                first_row=self.first_entry(b),
                row_count=self.horizon - max(b, 1) + 1,
                below=None if b == lowest else self.first_entry(b - 1),
                budget=self._coupled_budget,
                of_variance=partial(self._noise, b),
            )

    def _noise(self, b: int) -> Fraction:
        return self.counted_variances[b - 1]

    @cached_property
    def counted_variances(self) -> tuple[Fraction, ...]:
        """The parameter of the integer noise of thresholds 1..T, then of threshold 0 if any."""
        unit = self.counted_rho / self.budget.total_cost
        if isinstance(self.budget, CoupledBudget):
            return (1 / (2 * unit),) * (self.horizon + self.present)
        return tuple(1 / (2 * weight * unit) for weight in self.budget.weights)

    @property
    def people(self) -> Placed | None:
        """The counter of S_0, or of the number of people measured at t = 1."""
        return self.placed_counters[-1] if self.placed_counters[-1].threshold == 0 else None

    @cached_property
    def _active(self) -> tuple[tuple[Placed, ...], ...]:
        by_period = []
        for t in range(1, self.horizon + 1):
            begun = (*self.placed_counters[:t], *self.placed_counters[self.horizon :])
            by_period.append(tuple(placed for placed in begun if placed.length > t - placed.start))
        return tuple(by_period)

    def active(self, t: int) -> tuple[Placed, ...]:
        """The counters with rows at t, in the order of the demand."""
        return self._active[t - 1]

    def first_entry(self, threshold: int) -> int:
        """The position of a threshold's first true entry among all of them.

        Threshold b = 1..T has an entry for each of the periods b..T. Those of threshold 0 are
        the last.
        """
        full_columns = threshold - 1 if threshold else self.horizon
        return full_columns * self.horizon - full_columns * (full_columns - 1) // 2

    @property
    def all_entries(self) -> int:
        """The number of true entries."""
        return self.first_entry(0) + self.horizon

    def entry_positions(self, t: int) -> NDArray[np.int64]:
        """The positions of the true entries of period t: thresholds 1..t, then threshold 0."""
        positions = [self.first_entry(b) + t - b for b in range(1, t + 1)]
        return np.array([*positions, self.first_entry(0) + t - 1])

    def measure(self, streams: NDArray[np.int64], t: int) -> Counts:
        """The true values of period t, in the order of the demand. streams: all true entries."""
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
        return last.first_row + last.row_count

    @cached_property
    def variances(self) -> tuple[Fraction, ...]:
        """The parameter of the integer noise of every counter b = 1..T."""
        return self.counted_variances[: self.horizon]

    @property
    def size_variance(self) -> Fraction:
        """Noise variance of a number of people measured once.

        1 / (2 rho size_share), as its squared sensitivity is 1. Where a replaced person leaves one
        stratum and enters another, both numbers change by one: twice that.
        """
        changed = 1 if self.neighbours == "add_remove" else max(1, self.crossed)
        return changed / (2 * self.rho * self.size_share)

    @cached_property
    def charges(self) -> tuple[Fraction, ...]:
        """The rho that each period adds to the worst cost of a person.

        `CounterBudget.costs` are the worst costs up to each period, in units of which `total_cost`
        make `counted_rho`. The rest of rho measures the number of people, in the first period.
        The sum of the charges is rho, or less where the counters have no horizon.
        """
        size_rho = self.rho - self.counted_rho
        rho_per_unit = self.counted_rho / self.budget.total_cost
        spent = [size_rho + cost * rho_per_unit for cost in self.budget.costs]
        spent_before = [Fraction(0), *spent[:-1]]
        return tuple(now - before for before, now in zip(spent_before, spent, strict=True))

    def variance(self, b: int, t: int) -> float:
        """The variance of the unbiased S_b at t; 0 for b > t.

        Computed from the variance of the discrete Gaussian, not from its parameter. Raises
        ValueError for b = 0 where the number of people is not measured at t.
        """
        if b > t:
            return 0.0
        placed = self.placed_counters[b - 1] if b else self.people
        if placed is None or placed.length <= t - placed.start:
            raise ValueError("nobody measured the number of people then")
        return float(placed.gains[t - placed.start]) * exact_variance(placed.variance)

    @property
    def worst_variance(self) -> Fraction:
        """The largest noise variance of a released number: a sum's, or that of people.

        Computed from the parameter of the noise, which is at or above its variance. The gains of
        the coupled measurement are rounded up. Those of counters are floats with a relative
        rounding of about 1e-14; the rest is exact.
        """
        return max(placed.variance * placed.worst_gain for placed in self.placed_counters)

    @property
    def worst_sum_variance(self) -> Fraction:
        """The largest noise variance of a sum S_b (b = 0 where people enter)."""
        sums = self.placed_counters if self.present else self.placed_counters[: self.horizon]
        return max(placed.variance * placed.worst_gain for placed in sums)

    @property
    def rmse(self) -> float:
        """Root mean square error in theory over all cells (b, t) of the unbiased S_b at t."""
        thresholds = self.placed_counters[: self.horizon]  # 1..T, without the number of people
        sums = [placed.gains.sum() * exact_variance(placed.variance) for placed in thresholds]
        cells = self.horizon * (self.horizon + 1) / 2
        return math.sqrt(float(np.sum(sums)) / cells)

    @property
    def lower_bound_ratio(self) -> float | None:
        """`rmse` over a lower bound for all Gaussian mechanisms.

        A person leaves or enters `crossed` strata, which costs as much of add_remove each. None
        without a horizon, and for numbers of periods without a bound (`cumulative_design.py`).
        """
        pairs = self.neighbours != "add_remove"
        bound = LEAST_RMSE[pairs].get(self.horizon)
        if bound is None or self.open:
            return None
        if pairs and self.crossed:
            bound = max(bound, math.sqrt(self.crossed) * LEAST_RMSE[False][self.horizon])
        return self.rmse * math.sqrt(2 * self.rho) / bound

    def learned(self, noisy_rows: Floats, answers: Counts, t: int) -> Floats:
        """What is known of all rows after period t, (all rows,).

        noisy_rows: (all rows,) after period t - 1
        answers: the noisy rows of period t, in the order of the demand
        """
        noisy_rows, active = noisy_rows.copy(), self.active(t)
        rows = [placed.rows(t) for placed in active]
        ends = [*accumulate(r.stop - r.start for r in rows)]
        answers_by_counter = zip(active, np.split(answers, ends[:-1]), strict=True)
        # From low to high: a row of a coupled total needs what is known of the threshold below.
        for placed, noisy in sorted(answers_by_counter, key=lambda pair: pair[0].threshold):
            noisy_rows[placed.rows(t)] = placed.known_rows(noisy, noisy_rows, t)
        return noisy_rows

    def demand(self, t: int) -> Demand:
        """How many integers to draw of every variance: the rows at t of counters 1..t, then people.

        Neighbours with the same variance are drawn together, which is far faster.
        """
        return tuple(
            (variance, sum(rows.stop - rows.start for rows in (member.rows(t) for member in same)))
            for variance, same in groupby(self.active(t), lambda placed: placed.variance)
        )
