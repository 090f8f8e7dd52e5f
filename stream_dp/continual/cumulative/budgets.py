"""The split of a cumulative release's rho among counters, and the cost of every period.

With a horizon every counter gets the same worst variance (`equal_variance_weights`).

Without a horizon (`CounterMethod.endless_column2`) the number of counters has no limit. Counter
i = 1, 2, ... gets the part s_i = 12 / ((i + 11)(i + 12)) of rho, rounded down to a multiple of
2^-20. The parts telescope and sum to 12/12 = 1, and each counter costs at most s_i rho whatever its
length, so every horizon costs at most rho under add_remove. The entries of C are not negative, so
replacement costs at most twice that, and so do two crossed strata: the noise's variance is
doubled.

The cost of a set of stream counters is exact over all histories. Counter b follows S_b, the number
of people whose total has reached b. One person enters counter b at t_b, with t_1 < t_2 < ... (or
never, from some b on); where people come and go, counter 0 follows those who have entered, and t_0
<= t_1. With integer matrices E_b and noise of inverse variance w_b (up to a unit), the cost is the
largest sum of w_b ||E_b d_b||^2 over what one person can change (Canonne, Kamath, Steinke 2020,
Theorem 4): under add_remove d_b is the unit vector of t_b, under replacement the difference of two
of them, for the old and the new person. The terms depend on b and its entry times alone and the
paths are constrained between neighbouring counters only, so dynamic programming over b finds the
exact maximum, in integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from stream_dp.study import CounterKind, Neighbours

from ..counters.methods import CounterMethod, counter, counter_method
from ..counters.stream_counters import Counter, IntMatrix, TriangularCounter, trailing
from ..mechanism_interface import StoredCounters, fractions, packed_integers, unpacked_integers

# Charges follow the exact cost of every prefix up to this horizon: work grows with T^4.
MOST_PREFIXES = 200

_FINE = 1 << 16  # the largest weight where variances are not integers


def path_costs(
    counters: Sequence[Counter],
    weights: Sequence[int],
    neighbours: Neighbours,
    *,
    prefixes: bool,
    entry: tuple[Counter, int] | None = None,
    crossed: int = 0,
) -> list[int]:
    """The exact worst cost of periods 1..t over all histories, as sum_b w_b ||E_b d_b||^2.

    counters: for b = 1..T, of length T - b + 1
    weights: w_b, inverse noise variances up to a unit
    neighbours: the neighbouring relation
    prefixes: whether for every t; otherwise for t = T alone
    entry: counter 0, of length T, and its weight, or None
    crossed: the strata that a replaced person leaves or enters, at most (`privacy/ledger.py`)

    Raises ValueError where int64 might not hold the result.
    """
    _bounded(counters, weights, entry)
    if neighbours == "add_remove":
        return _Worst(counters, weights, entry, single=True).costs(prefixes)
    costs = _Worst(counters, weights, entry, single=False).costs(prefixes)
    if not crossed:
        return costs
    added = _Worst(counters, weights, entry, single=True).costs(prefixes)
    return [max(replaced, crossed * single) for replaced, single in zip(costs, added, strict=True)]


def _bounded(
    counters: Sequence[Counter], weights: Sequence[int], entry: tuple[Counter, int] | None
) -> None:
    """Raises ValueError where int64 or exact floats might not hold the costs.

    A difference of two columns has at most 4 times the largest squared column norm, and every
    partial result is at most the weighted sum of these. E^T E is computed exactly in floats, in
    any order, as by Cauchy and Schwarz no partial sum exceeds the largest squared column norm.
    """
    weighted_counters = [*zip(counters, weights, strict=True), *([entry] if entry else [])]
    if sum(4 * weight * counter.column2 for counter, weight in weighted_counters) >= 1 << 62:
        raise ValueError("costs of these counters and weights do not fit 64 bits")
    if any(counter.column2 >= 1 << 52 for counter, _ in weighted_counters):
        raise ValueError("products of these counters' columns are not exact")


class _Worst:
    """The dynamic programme over the counters, from the last to the first.

    counters, weights, entry: as in `path_costs`
    single: whether one person comes or goes; otherwise one is replaced by another
    """

    def __init__(
        self,
        counters: Sequence[Counter],
        weights: Sequence[int],
        entry: tuple[Counter, int] | None,
        *,
        single: bool,
    ) -> None:
        self.counters, self.weights, self.entry, self.single = counters, weights, entry, single

    def costs(self, prefixes: bool) -> list[int]:
        """The worst cost of all periods, or with `prefixes` of periods 1..t for every t."""
        horizon = len(self.counters)
        if not prefixes:
            return [self._worst(horizon, None)]
        counters = [*self.counters, *([self.entry[0]] if self.entry else [])]
        begins = [*range(horizon), *([0] if self.entry else [])]
        worst, grams = [], [np.zeros((c.length, c.length), np.int64) for c in counters]
        for t in range(1, horizon + 1):
            for gram, stream, begin in zip(grams, counters, begins, strict=True):
                if (step := t - begin) > 0:
                    new = stream.encode[stream.rows(step - 1) : stream.rows(step), :step]
                    gram[:step, :step] += new.T @ new
            worst.append(self._worst(t, grams))
        return worst

    def _change(
        self, counter: Counter, weight: int, steps: int, gram: IntMatrix | None
    ) -> IntMatrix:
        """w ||E d||^2 by entry times 1..steps and never: (steps + 1,), or squared for a pair."""
        if gram is None:
            encode = counter.encode.astype(float)
            gram = (encode.T @ encode).astype(np.int64)
        products = gram[:steps, :steps]
        squares = np.append(products.diagonal(), 0) * weight
        if self.single:
            return squares
        cost: IntMatrix = squares[:, None] + squares[None, :]
        cost[:-1, :-1] -= 2 * weight * products
        return cost

    def _worst(self, t: int, grams: list[IntMatrix] | None) -> int:
        """The worst cost of periods 1..t.

        By entry time s of counter b, or two times, the worst cost of counters b, b + 1, .. is
            V_b(s) = max over s' >= s of (w_b ||E_b d(s')||^2 + V_{b+1}(s')).

        grams: of each counter, E'E of the rows up to t; None: of all rows.
        """
        later: IntMatrix = np.zeros((1,) if self.single else (1, 1), np.int64)
        for b in range(t, 0, -1):
            gram = None if grams is None else grams[b - 1]
            cost = self._change(self.counters[b - 1], self.weights[b - 1], t - b + 1, gram)
            # After an entry at the i-th time of counter b the next may be at the i-th of b + 1,
            # which begins a period later; after the last, or never, there is none.
            later = _suffix(cost + np.pad(later, (0, 1), mode="edge"))
        if self.entry:
            counter, weight = self.entry
            cost = self._change(counter, weight, t, None if grams is None else grams[-1])
            later = _suffix(cost + later)
        return int(later.reshape(-1)[0])


def _suffix(total: IntMatrix) -> IntMatrix:
    """The largest value at or after each position, along every axis."""
    for axis in range(total.ndim):
        total = np.flip(np.maximum.accumulate(np.flip(total, axis), axis=axis), axis)
    return total


def equal_variance_weights(counters: Sequence[Counter]) -> tuple[int, ...]:
    """Weights (inverse noise variances up to a unit): every counter gets the same worst variance.

    No other split has a smaller worst cell, under any relation: the cost grows with each weight,
    and a split with a smaller worst variance has larger weights than this one, so it costs more.
    (`budgets.py` has the split that minimises the mean square error.) The weights replace those
    printed by Bun et al. 2024, in proportion to ceil(log2 n)^3, which give the last counter no
    budget. Gains that are not integers are rounded to 2^-16 of the largest.
    """
    gains = [counter.worst_gain for counter in counters]
    if all(gain.denominator == 1 for gain in gains):
        return tuple(gain.numerator for gain in gains)
    top = max(gains)
    return tuple(max(1, round(_FINE * gain / top)) for gain in gains)


def weights_with_entry(
    weights: Sequence[int], rest: int, entry: Counter, share: Fraction
) -> tuple[int, ...]:
    """The weights of the thresholds and, last, of counter 0, which gets about `share` of rho.

    weights: of the thresholds
    rest: the cost of the thresholds alone, at these weights
    entry: counter 0
    share: the part of rho for counter 0

    All are scaled by the same factor to at most 2^16, so that the rounding is small and the sums
    stay far inside int64.
    """
    entry_weight = share / (1 - share) * rest / entry.column2
    fine = _FINE / max(entry_weight, Fraction(max(weights)))
    unrounded = [*(Fraction(weight) for weight in weights), entry_weight]
    return tuple(max(1, round(weight * fine)) for weight in unrounded)


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
        thresholds = replace(self, present=False, share=Fraction(0))
        return weights_with_entry(
            thresholds.weights, int(thresholds.total_cost), self.counters[0], self.share
        )

    @property
    def _weights_without_horizon(self) -> tuple[int, ...]:
        """Parts of rho in units of 1 / _PARTS, the same for every horizon.

        The i-th part is s_i = S / ((i + S - 1) (i + S)) for S = SPREAD: the sum of all is 1.
        """
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
        column2 = (self.counters[0].encode[:, 0] ** 2).cumsum().tolist()  # after 1, 2, .. steps
        persons = 1 if self.neighbours == "add_remove" else 2
        for t in range(MOST_PREFIXES + 1, self.horizon + 1):
            # Counter b has made t - b + 1 steps: sum over b of w_b column2(t - b + 1).
            cost = sum(w * column2[t - b] for b, w in enumerate(self.weights[:t], 1))
            cost += self.weights[-1] * column2[t - 1] if self.present else 0
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
