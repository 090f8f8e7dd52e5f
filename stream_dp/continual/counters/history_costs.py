"""The exact cost of a set of stream counters over all histories, and weights for their noise.

Counter b follows S_b, the number of people whose total has reached b. One person enters counter b
at t_b, with t_1 < t_2 < ... (or never, from some b on); where people come and go, counter 0
follows those who have entered, and t_0 <= t_1. With integer matrices E_b and noise of inverse
variance w_b (up to a unit), the cost is the largest sum of w_b ||E_b d_b||^2 over what one person
can change (Canonne, Kamath, Steinke 2020, Theorem 4): under add_remove d_b is the unit vector of
t_b, under replacement the difference of two of them, for the old and the new person. The terms
depend on b and its entry times alone and the paths are constrained between neighbouring counters
only, so dynamic programming over b finds the exact maximum, in integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from stream_dp.study import Neighbours

from .stream_counters import Counter, IntMatrix

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
            for gram, counter, begin in zip(grams, counters, begins, strict=True):
                if (step := t - begin) > 0:
                    new = counter.encode[counter.rows(step - 1) : counter.rows(step), :step]
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
