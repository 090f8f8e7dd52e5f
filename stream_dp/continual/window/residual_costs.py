"""Weights and exact costs of windows measured as residuals (`residuals.py`).

A component is a set A of periods that one window covers, with first period l and last i. The
number of windows that cover it is m(l, i) = min(l + k - 1, T) - max(i, k) + 1; it is measured once,
at period max(i, k), with weight w = m(l, i)^p q^-(k - |A|): its q^k entries have noise variance
prod j (j + 1) s / w (j over the places in A), s = cost / (2 rho). All costs here are in units of
1 / (2 s). Let K_A(x, y) = prod_{i in A} (1[x_i = y_i] - 1/q), the inner product of two histories in
component A with the noise divided out: a history by itself has K_A(x, x) = (1 - 1/q)^|A|.

add_remove: sum_A w_A (1 - 1/q)^|A| over what is measured, the same for every history.

Replacement: two histories cost sum_A 2 w_A [(1 - 1/q)^|A| - K_A(x, y)], which depends only on D,
the periods in which they differ. Over all A with first period l and last i,
    sum_A q^-(k - |A|) K_A = q^-k e(l) e(i) q^(i - l - 1) 1[no period between l and i is in D],
with e = q - 1 outside D and -1 inside, because the places between contribute
1 + (q 1[not in D] - 1) each, which is q outside D and 0 inside. So the cost of what is measured
with last period i depends on D through 1[i in D] and through how long ago the last earlier
period of D was: a dynamic programme over that one number is exact.

Weights. With p = 1, sum_A w_A K_A(x, y) is the number of windows in which the histories are equal
(expand prod ((1[x_i = y_i] - 1/q) + 1/q)): noise and cost at the horizon are those of all R
histograms, R under add_remove and 2 R under replacement, and each component is measured at the
precision that all histograms together would give it.
A convex programme has the best weights under replacement: in shapes of up to 12 periods, 8 symbols
and windows of 4 the root mean square error of a pattern is at most 1.01 % above theirs
(tests/continual/test_residual_weights.py). Under add_remove the cost is linear in the weights and
the same for every history, so the optimum is known: weights in proportion to
sqrt(m_A) q^-(k - |A|) minimise the mean error of a pattern, while weights closer to p = 1 favour
unions of patterns: p = 3/4 is within 2 % of the optimum for patterns and better for unions
(tests/continual/test_residuals.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from stream_dp.study import Neighbours

_BITS = 12  # binary digits of a root


@lru_cache(maxsize=4096)
def root_power(base: int, exponent: Fraction) -> int:
    """base^exponent in units of 2^-12, rounded down; the exponent is n / 2^r, exact for r = 0."""
    power = base**exponent.numerator << _BITS * exponent.denominator
    degree = exponent.denominator
    while degree > 1:
        power, degree = math.isqrt(power), degree // 2
    return int(power)


@dataclass(frozen=True)
class ResidualCosts:
    """The weights of a window release's components, and what measuring them costs.

    q: the number of symbols
    width: k, the periods of a window
    horizon: T
    exponent: p, of the number of windows that cover a component
    total: whether the number of people is measured too, at t = k (it is private)
    """

    q: int
    width: int
    horizon: int
    exponent: Fraction
    total: bool

    @property
    def releases(self) -> int:
        """R = T - k + 1."""
        return self.horizon - self.width + 1

    def windows(self, first: int, last: int) -> int:
        """How many windows cover a component with this first and last period."""
        return min(first + self.width - 1, self.horizon) - max(last, self.width) + 1

    def weight(self, first: int, last: int, size: int) -> Fraction:
        """w of a component of `size` periods."""
        return Fraction(self._power(first, last) * int(self.q**size), self._unit)

    @property
    def total_weight(self) -> Fraction:
        """w of the number of people, the component without periods."""
        return Fraction(root_power(self.releases, self.exponent), self._unit)

    def prefix(self, neighbours: Neighbours, *, crossed: int = 0) -> tuple[Fraction, ...]:
        """The exact worst cost of the first 1, 2, .., R releases together, in units of 1 / (2 s).

        crossed: the strata that a replaced person leaves or enters, at most
            (`privacy/ledger.py`).
        """
        if neighbours == "add_remove":
            return self._alone
        cost_pairs = zip(self._replaced, self._alone, strict=True)
        return tuple(max(replaced, crossed * single) for replaced, single in cost_pairs)

    @property
    def _unit(self) -> int:
        """Costs are whole multiples of its inverse."""
        return int(self.q**self.width << _BITS)

    def _power(self, first: int, last: int) -> int:
        return root_power(self.windows(first, last), self.exponent)

    @cached_property
    def _alone(self) -> tuple[Fraction, ...]:
        """The cost of one history up to the releases 1..R, the same for every history."""
        cost = root_power(self.releases, self.exponent) if self.total else 0
        costs = []
        for i in range(1, self.horizon + 1):
            cost += sum(self._power(first, i) * self._length(first, i) for first in self._span(i))
            if i >= self.width:
                costs.append(Fraction(cost, self._unit))
        return tuple(costs)

    @cached_property
    def _replaced(self) -> tuple[Fraction, ...]:
        """The largest cost of two histories up to the releases 1..R, by the module's programme."""
        # best[g]: the worst cost so far where the last period of D lies g before the next one;
        # g = k stands for k and more.
        best = {self.width: 0}
        costs = []
        for i in range(1, self.horizon + 1):
            reached: dict[int, int] = {}
            for gap, cost in best.items():
                for differs in (False, True):
                    new_gap = 1 if differs else min(gap + 1, self.width)
                    total = cost + 2 * self._change(i, gap, differs)
                    reached[new_gap] = max(total, reached.get(new_gap, total))
            best = reached
            if i >= self.width:
                costs.append(Fraction(max(best.values()), self._unit))
        return tuple(costs)

    def _span(self, last: int) -> range:
        """The first periods of the components with a given last period."""
        return range(max(last - self.width + 1, 1), last + 1)

    def _length(self, first: int, last: int) -> int:
        """The squared norm of all components with these two end periods, before their weight.

        The norm is q^k times the sum of q^-(k - |A|) (1 - 1/q)^|A| = sum of (q - 1)^|A| over all
        sets A with first period `first` and last period `last`. Both ends are in A and each of the
        last - first - 1 periods between is in A (q - 1) or not (1), so the sum is
        (q - 1)^2 q^(last - first - 1).
        """
        if first == last:
            return self.q - 1
        return int((self.q - 1) ** 2 * self.q ** (last - first - 1))

    def _change(self, i: int, gap: int, differs: bool) -> int:
        """The sum over components with last period i of w_A (K_A(x, x) - K_A(x, y)).

        gap: how many periods before i the histories last differed.
        differs: whether they differ at i.
        """
        change = 0
        end = -1 if differs else self.q - 1
        for first in self._span(i):
            offset = i - first
            if not offset:
                product = end
            elif offset > gap:
                product = 0  # they differ between the two
            else:
                start = -1 if offset == gap else self.q - 1
                product = start * end * self.q ** (offset - 1)
            change += self._power(first, i) * (self._length(first, i) - product)
        return change


@lru_cache(maxsize=32)
def residual_costs(
    q: int, width: int, horizon: int, exponent: Fraction, total: bool
) -> ResidualCosts:
    """Returns the costs of a shape, computed once for all designs of the shape."""
    return ResidualCosts(q, width, horizon, exponent, total)
