"""The coupled measurement without a horizon: rows whose weights fall with the period.

Row t of the closed form (`coupled_strategy.py`) is multiplied by an integer m_t = about
64 (600 / t)^(3/16), and every row gets integer noise of the same variance. So an early period is
measured more precisely than a late one, and no weight depends on the number of periods.

Cost. Let q_t(h) be the squared change of the closed form's rows of period t by a history or a pair
of histories h, Q_t = q_1 + .. + q_t, and c_t the largest Q_t(h). The weights fall, so by partial
summation

    sum_{s <= t} m_s^2 q_s = m_t^2 Q_t + sum_{s < t} (m_s^2 - m_{s+1}^2) Q_s
                          <= m_t^2 c_t + sum_{s < t} (m_s^2 - m_{s+1}^2) c_s

for every h. The bound needs costs of the closed form, or upper bounds of them, up to period t
alone. It rises with t, and the noise is scaled so that at `MOST_TOTALS` periods it is rho. The
exponent is chosen so that no sum has more than 1.5 times the variance that it has in a study that
declares `MOST_TOTALS` periods.

A study that declares fewer periods has smaller errors (`benchmarks/total_weights.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from stream_dp.study.panel_releases import MOST_TOTALS

from .coupled_strategy import CoupledRows, CoupledStrategy, Integers

_UNIT, _ROOTS = 64, 4  # 2^4 = 16 is the denominator of the exponent


@cache
def weight(t: int) -> int:
    """m_t = 64 (600 / t)^(3/16), rounded down; at least 64."""
    power = _UNIT**16 * MOST_TOTALS**3 // t**3
    for _ in range(_ROOTS):
        power = math.isqrt(power)
    return max(power, _UNIT)


def open_costs(costs: Sequence[int]) -> tuple[int, ...]:
    """Bounds of the cost of periods 1..t for every t: sums of m_t^2 (cost_t - cost_{t-1}).

    costs: of periods 1..t of the closed form, in which every row has weight 1 and not m_t.
    """
    bounds, bound, last_cost = [], 0, 0
    for t, cost in enumerate(costs, 1):
        bound += weight(t) ** 2 * (cost - last_cost)
        last_cost = cost
        bounds.append(bound)
    return tuple(bounds)


@dataclass(frozen=True, eq=False)
class OpenStrategy(CoupledRows):
    """The rows of the closed form with falling weights.

    closed: the closed form
    entries: whether the first threshold is entry, whose rows are one period later in the release
    """

    closed: CoupledStrategy
    entries: bool

    @property
    def periods(self) -> int:
        return self.closed.periods

    def _late(self, b: int) -> int:
        return int(self.entries and b > 1)

    def row(self, b: int, t: int) -> tuple[Integers, Integers]:
        scale = weight(t - self._late(b))
        rows, lower_row = self.closed.row(b, t)
        return scale * rows, scale * lower_row

    def block(self, b: int, count: int) -> tuple[Integers, Integers]:
        first = b - self._late(b)
        scales = np.array([[weight(first + i)] for i in range(count)])
        rows, lower_rows = self.closed.block(b, count)
        return scales * rows, scales * lower_rows
