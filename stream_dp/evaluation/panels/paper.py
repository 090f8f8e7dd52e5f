"""Trees with the paper's split of rho, to be compared with: nothing else uses them.

Bun, Gaboardi, Neunhoeffer, Zhang 2024 give counter b a part of rho in proportion to L_b^3, L_b the
levels of its tree. As printed, with L_b = ceil(log2 n), the last counter has none; here L_b is
floor(log2 n) + 1, as many nodes as an entry is in. The noise is scaled to the exact cost under the
declared relation, as everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache

from stream_dp.continual import Cumulative
from stream_dp.continual.budgets import CounterBudget
from stream_dp.continual.cumulative_design import CumulativeDesign
from stream_dp.continual.paths import weights_with_entry


@dataclass(frozen=True)
class Cubes(CounterBudget):
    """Parts of rho as `power` has it: L^3, or for 0 equal ones. A counter whose nodes have weight w
    costs L w."""

    power: int = 3

    @cached_property
    def weights(self) -> tuple[int, ...]:
        levels = [(self.horizon - b).bit_length() for b in range(self.horizon)]
        unit = math.lcm(*levels)
        own = tuple(unit * level**self.power // level for level in levels)
        if not self.present:
            return own
        if not self.share:
            return (*own, own[0])
        alone = replace(self, present=False, share=Fraction(0))
        return weights_with_entry(own, int(alone.total_cost), self.counters[0], self.share)


_cubes = lru_cache(maxsize=64)(Cubes)


@dataclass(frozen=True)
class TreesDesign(CumulativeDesign):
    """Binary trees with parts of rho as L^power."""

    power: int = 3

    @property
    def budget(self) -> CounterBudget:
        share = self.size_share if self.present else Fraction(0)
        form = self.horizon, self.counter, self.neighbours, self.present, self.moves, share
        return _cubes(*form, self.power)


@dataclass(frozen=True)
class Trees(Cumulative):
    """Algorithm 2 with parts of rho as L^power."""

    power: int = 3

    @cached_property
    def design(self) -> CumulativeDesign:
        common = super().design
        names = [field.name for field in fields(CumulativeDesign)]
        return TreesDesign(**{name: getattr(common, name) for name in names}, power=self.power)

    @classmethod
    def like(cls, made: Cumulative, power: int) -> Trees:
        """With another split than a mechanism whose counters are trees."""
        held = {field.name: getattr(made, field.name) for field in fields(Cumulative)}
        return cls(**held, power=power)
