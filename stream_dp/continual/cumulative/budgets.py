"""The split of a cumulative release's rho among counters, and the cost of every period.

With a horizon every counter gets the same worst variance (`history_costs.equal_variance_weights`).

Without a horizon (`CounterMethod.endless_column2`) the number of counters has no limit. Counter
i = 1, 2, ... gets the part s_i = 12 / ((i + 11)(i + 12)) of rho, rounded down to a multiple of
2^-20. The parts telescope and sum to 12/12 = 1, and each counter costs at most s_i rho whatever its
length, so every horizon costs at most rho under add_remove. The entries of C are not negative, so
replacement costs at most twice that, and so do two crossed strata: the noise's variance is
doubled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from stream_dp.study import CounterKind, Neighbours

from ..counters.history_costs import (
    MOST_PREFIXES,
    equal_variance_weights,
    path_costs,
    weights_with_entry,
)
from ..counters.methods import CounterMethod, counter, counter_method
from ..counters.stream_counters import Counter, TriangularCounter, trailing
from ..stored_design import StoredCounters, fractions, packed_integers, unpacked_integers

SPREAD = 12  # the parts of rho are nearly equal for thresholds up to about this one
_PARTS = 1 << 20  # the unit of the parts is 1 / _PARTS


@dataclass(frozen=True, kw_only=True)
class CounterBudget:
    """How the counters of a cumulative release share its rho. Values are computed once.

    horizon: T; counters 1..T have the lengths T..1
    kind: of every counter
    neighbours: the neighbouring relation
    present: whether a counter 0 of length T follows the people who have entered
    crossed: as `CumulativeDesign` has it
    share: about the part of rho for counter 0; 0 gives it the worst variance of the others
    stored: what was computed when the study began; None where it is computed here
    """

    horizon: int
    kind: CounterKind
    neighbours: Neighbours
    present: bool
    crossed: int
    share: Fraction
    stored: StoredCounters | None = None

    @property
    def method(self) -> CounterMethod:
        return counter_method(self.kind)

    @cached_property
    def counters(self) -> tuple[Counter, ...]:
        if self.stored is not None and self.stored.triangle:
            return self._stored_counters(self.stored.triangle)
        return tuple(counter(self.kind, self.horizon - b) for b in range(self.horizon))

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """Inverse noise variances up to a unit, of counters 1..T, then of counter 0 if any."""
        if self.stored is not None:
            return self.stored.weights
        if self.method.endless_column2 is not None:
            return self._weights_without_horizon
        if not self.present:
            return equal_variance_weights(self.counters)
        *weights, entry_weight = equal_variance_weights([*self.counters, self.counters[0]])
        if not self.share:
            return (*weights, entry_weight)
        thresholds = CounterBudget(
            horizon=self.horizon,
            kind=self.kind,
            neighbours=self.neighbours,
            present=False,
            crossed=self.crossed,
            share=Fraction(0),
        )
        return weights_with_entry(
            thresholds.weights, int(thresholds.total_cost), self.counters[0], self.share
        )

    @property
    def _weights_without_horizon(self) -> tuple[int, ...]:
        people_first = self.present and not self.share  # counter 0 gets the part s_1
        numbers = range(1, self.horizon + 1 + people_first)
        fractions = [Fraction(SPREAD, (i + SPREAD - 1) * (i + SPREAD)) for i in numbers]
        thresholds_share = 1 - self.share if self.present else Fraction(1)
        weights = [math.floor(fraction * thresholds_share * _PARTS) for fraction in fractions]
        if people_first:
            return (*weights[1:], weights[0])
        return (*weights, math.floor(self.share * _PARTS)) if self.present else tuple(weights)

    @cached_property
    def total_cost(self) -> Fraction:
        """The cost of all periods, in units of the weights, that is scaled to rho.

        Exact with a horizon; without one, an upper bound for every horizon.
        """
        if self.stored is not None:
            return Fraction(self.stored.total_cost)
        if self.method.endless_column2 is not None:
            persons = 1 if self.neighbours == "add_remove" else 2
            return _PARTS * self.method.endless_column2() * persons
        return Fraction(self._exact(self.horizon, prefixes=False)[-1])

    def _exact(self, horizon: int, *, prefixes: bool) -> list[int]:
        """The exact worst cost over `horizon` periods, in units of the weights; see `path_costs`.

        prefixes: whether the result has the cost of periods 1..t for every t, or the last alone.
        """
        counters = self.counters
        if horizon < self.horizon:
            counters = tuple(counter(self.kind, horizon - b) for b in range(horizon))
        return path_costs(
            counters,
            self.weights[:horizon],
            self.neighbours,
            prefixes=prefixes,
            entry=(counters[0], self.weights[-1]) if self.present else None,
            crossed=self.crossed,
        )

    @cached_property
    def costs(self) -> tuple[Fraction, ...]:
        """The worst cost of periods 1..t for every t, in units of the weights.

        Exact up to MOST_PREFIXES periods; with a longer horizon the total is charged at t = 1.
        Without a horizon the charges of early periods must not depend on how many follow: after
        MOST_PREFIXES the cost is an upper bound, every counter at its largest column.
        """
        if self.stored is not None:
            return fractions(self.stored.costs)
        if self.horizon <= MOST_PREFIXES:
            return tuple(Fraction(cost) for cost in self._exact(self.horizon, prefixes=True))
        if self.method.endless_column2 is None:
            return (self.total_cost,) * self.horizon
        costs = [Fraction(cost) for cost in self._exact(MOST_PREFIXES, prefixes=True)]
        column = (self.counters[0].encode[:, 0] ** 2).cumsum()
        for t in range(MOST_PREFIXES + 1, self.horizon + 1):
            cost = sum(self.weights[b] * int(column[t - b - 1]) for b in range(t))
            cost += self.weights[-1] * int(column[t - 1]) if self.present else 0
            persons = 1 if self.neighbours == "add_remove" else 2
            costs.append(max(costs[-1], Fraction(cost * persons)))
        return tuple(costs)

    def as_stored(self) -> StoredCounters:
        """Numbers computed in floats, with possible differences between machines."""
        return StoredCounters(
            triangle=self._triangle,
            weights=self.weights,
            total_cost=str(self.total_cost),
            costs=tuple(str(cost) for cost in self.costs),
        )

    @property
    def _triangle(self) -> bytes:
        if self.method.whole_matrices:
            return b""
        return packed_integers(self.counters[0].encode[_below(self.horizon)])

    def _stored_counters(self, triangle: bytes) -> tuple[Counter, ...]:
        """The counters of T, T - 1, .., 1 steps, from the triangle of the first one's matrix E."""
        longest = self.horizon
        encode = np.zeros((longest, longest), np.int64)
        encode[_below(longest)] = unpacked_integers(triangle, longest * (longest + 1) // 2)
        whole = TriangularCounter(encode)
        return tuple(trailing(whole, n) for n in range(longest, 0, -1))


def _below(n: int) -> NDArray[np.bool_]:
    """The entries on and below the diagonal, (n, n)."""
    return np.tri(n, dtype=bool)


counter_budget = lru_cache(maxsize=64)(CounterBudget)
