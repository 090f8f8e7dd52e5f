"""Trees with the paper's split of rho, a baseline for comparisons only.

Bun, Gaboardi, Neunhoeffer, Zhang 2024 (Algorithm 2 and the choice of its parameters) give counter b
a part of rho in proportion to L_b^3, where L_b is the number of levels of its tree. As printed,
with L_b = ceil(log2 n), the last counter has none; here L_b is floor(log2 n) + 1, the number of
nodes that an entry is in. The noise is scaled to the exact cost under the declared relation, as
everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache

from stream_dp.continual.cumulative.budgets import CounterBudget, weights_with_entry
from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.study import CounterKind


@dataclass(frozen=True)
class PowerBudget(CounterBudget):
    """Parts of rho in proportion to L^power: 3 for the paper's, 0 for equal parts.

    A counter whose nodes have weight w costs L w.
    """

    power: int = 3

    @cached_property
    def weights(self) -> tuple[int, ...]:
        levels = [(self.horizon - b).bit_length() for b in range(self.horizon)]
        unit = math.lcm(*levels)
        weights = tuple(unit * level**self.power // level for level in levels)
        if not self.present:
            return weights
        if not self.share:
            return (*weights, weights[0])
        sums_alone = replace(self, present=False, share=Fraction(0))
        cost = int(sums_alone.total_cost)
        return weights_with_entry(weights, cost, self.counters[0], self.share)


_power_budget = lru_cache(maxsize=64)(PowerBudget)


@dataclass(frozen=True, kw_only=True)
class Trees(Cumulative):
    """Algorithm 2 with parts of rho in proportion to L^power."""

    power: int = 3

    @property
    def budget(self) -> CounterBudget:
        return _power_budget(
            horizon=self.horizon,
            kind=CounterKind.TREE,
            neighbours=self.neighbours,
            present=self.present,
            crossed=self.crossed,
            share=self.size_share if self.present else Fraction(0),
            power=self.power,
        )

    @classmethod
    def like(cls, trees: Cumulative, power: int) -> Trees:
        """Makes trees with another split of rho and the paper's panel."""
        common = {field.name: getattr(trees, field.name) for field in fields(Cumulative)}
        return cls(**{**common, "ordered": False}, power=power)
