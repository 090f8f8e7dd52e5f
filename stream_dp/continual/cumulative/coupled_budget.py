"""The cost of the coupled measurement of a cumulative release."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from stream_dp.study import Neighbours

from .coupled_strategy import (
    PERIODS,
    PRIVATE_PAIR,
    PRIVATE_SINGLE,
    PUBLIC_PAIR,
    CostTable,
    CoupledRows,
    Floats,
    Integers,
    OpenStrategy,
    coupled_gains,
    coupled_strategy,
    open_costs,
)
from .refined_strategy import MOST_REFINED, RefinedStrategy, refined_strategy


@dataclass(frozen=True, kw_only=True)
class CoupledBudget:
    """The cost of the measurement by period. Values are computed once.

    horizon: T
    neighbours: the neighbouring relation
    present: whether threshold 0 follows the people who have entered
    crossed: as `CumulativeDesign` has it
    open: whether the study has no horizon, and T is the largest possible number of periods
    """

    horizon: int
    neighbours: Neighbours
    present: bool
    crossed: int
    open: bool = False

    @property
    def _public_size(self) -> bool:
        return self.neighbours != "add_remove" and not self.crossed

    @cached_property
    def strategy(self) -> CoupledRows:
        """Of T periods, or of T + 1 with entries; refined rows may be those of more periods.

        Rows are refined up to `MOST_REFINED` periods, and those of the closed form beyond.
        """
        periods = self.horizon + self.present
        if (refined := self._refined) is not None:
            return refined
        closed = coupled_strategy(public_size=self._public_size, periods=periods)
        return OpenStrategy(closed, self.present) if self.open else closed

    @property
    def _refined(self) -> RefinedStrategy | None:
        """The rows with costs and gains of their own; None for the closed form."""
        periods = self.horizon + self.present
        if self.open or periods > MOST_REFINED[self._public_size]:
            return None
        return refined_strategy(public_size=self._public_size, periods=periods)

    @cached_property
    def _tables(self) -> tuple[CostTable, CostTable]:
        """The costs of one history, and of two."""
        if (rows := self._refined) is not None:
            return rows.single, rows.pair
        return PRIVATE_SINGLE, PUBLIC_PAIR if self._public_size else PRIVATE_PAIR

    @cached_property
    def costs(self) -> tuple[Fraction, ...]:
        """The worst squared change of the rows of periods 1..t for every t (`table_cost`).

        A replaced person leaves or enters up to `crossed` strata, each at the cost of add_remove.
        Without a horizon the costs are upper bounds (`coupled_strategy.py`).
        """
        costs = [self._cost(t) for t in range(1, self.horizon + 1)]
        return tuple(map(Fraction, open_costs(costs) if self.open else costs))

    def _cost(self, t: int) -> int:
        single, pair = (table_cost(table, t, entries=self.present) for table in self._tables)
        if self.neighbours == "add_remove":
            return single
        return max(self.crossed * single, pair)

    @property
    def total_cost(self) -> Fraction:
        """The cost of all periods."""
        return self.costs[-1]

    def gains(self, threshold: int) -> Floats:
        """The variance of every unbiased sum over the noise variance, from a table."""
        rows = self._refined
        all_gains = (
            rows.gains if rows else coupled_gains(public_size=self._public_size, open=self.open)
        )
        return all_gains[threshold - (not self.present)][: self.horizon - max(threshold, 1) + 1]

    def row(self, threshold: int, t: int) -> tuple[Integers, Integers]:
        """`CoupledStrategy.row` of a threshold (0 for entries) at a period of the release."""
        return _row(self.strategy, threshold + self.present, t + (self.present and threshold > 0))

    def block(self, threshold: int, t: int) -> tuple[Integers, Integers]:
        """`CoupledStrategy.block` of the rows of a threshold up to a period of the release."""
        return self.strategy.block(threshold + self.present, t - max(threshold, 1) + 1)


@lru_cache(maxsize=1 << 10)
def _row(strategy: CoupledRows, b: int, t: int) -> tuple[Integers, Integers]:
    """A row, cached because a period measures with the row and estimates from the row."""
    return strategy.row(b, t)


def table_cost(table: CostTable, t: int, *, entries: bool) -> int:
    """The cost of t periods from a table, exact or an upper bound.

    Between the periods of the table it is the cost of the next one. The rows and the histories of
    t periods are part of those of more periods, so that cost is an upper bound. Beyond the part
    with entries it is the cost of t + 1 periods without: entries and totals over t periods are the
    totals over t + 1, but for a row and for the histories that begin in the last period. The table
    is long enough for a study's totals (`MOST_TOTALS`).
    """
    if entries and t <= len(table.with_entries):
        return table.with_entries[t - 1]
    return table.without_entries[bisect_left(PERIODS, t + entries)]


coupled_budget = lru_cache(maxsize=64)(CoupledBudget)
