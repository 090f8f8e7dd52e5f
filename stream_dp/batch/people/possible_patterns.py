"""Patterns of agreement of columns that are functions of the same numbers.

The bin of a number and the cells of its sums (`projections.py`) depend on each other: two rows that
agree in all numbers agree in every sum. So not every pattern of agreement of these columns has a
pair of rows. If the numbers have few values, all pairs of rows are compared, and the costs of all
possible patterns. The other columns agree or not, whatever the numbers are. So the largest cost is
the exact maximum over all pairs of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..data.domain import Columns, Int64Array
from .residual_counts import MOST_PATTERNS, AgreementPatterns, Costs, Profile

_MOST_ROWS = 1 << 11  # rows of which all pairs are compared


@dataclass(frozen=True, eq=False)
class DependentColumns:
    """Columns that depend on each other.

    columns: in increasing order.
    patterns: (patterns, columns), whether they agree: of all pairs of rows. None if there are too
        many rows to compare.
    """

    columns: Columns
    patterns: NDArray[np.bool_] | None

    @classmethod
    def of(cls, columns: Columns, rows: Int64Array) -> DependentColumns:
        """The patterns of all pairs of rows. rows: (rows, columns), the codes of all rows."""
        distinct = np.unique(rows, axis=0)
        if len(distinct) > _MOST_ROWS or len(columns) > 62:
            return cls(columns, None)
        found = set[int]()
        for row in distinct:
            agree = (distinct == row) @ (np.int64(1) << np.arange(len(columns)))
            found.update(np.unique(agree).tolist())
        bits = np.array(sorted(found), np.int64)[:, None] >> np.arange(len(columns))
        return cls(columns, (bits & 1).astype(np.bool_))


@dataclass(frozen=True, eq=False)
class PossiblePatterns(AgreementPatterns):
    """The patterns of agreement that pairs of rows have. dependent: with its patterns."""

    dependent: DependentColumns

    @cached_property
    def _free(self) -> list[int]:
        """The measured columns that depend on no other."""
        measured = {c for table in (self.new, self.before) for a in table for c in a}
        return sorted(measured - {*self.dependent.columns})

    @property
    def few(self) -> bool:
        patterns = self.dependent.patterns
        return patterns is not None and len(patterns) << len(self._free) <= MOST_PATTERNS

    @cached_property
    def _agreeing(self) -> dict[int, NDArray[np.bool_]]:
        """By column, whether it agrees in each pattern."""
        assert self.dependent.patterns is not None
        free, patterns = self._free, self.dependent.patterns
        number = np.arange(len(patterns) << len(free))
        dependent = patterns[number >> len(free)].T
        return {
            **dict(zip(self.dependent.columns, dependent, strict=True)),
            **{c: (number >> i & 1).astype(np.bool_) for i, c in enumerate(free)},
        }

    def _profiles(self, precisions: Mapping[Columns, Fraction]) -> dict[Profile, Fraction]:
        return dict(precisions)

    def _costs(self, profiles: Mapping[Profile, Fraction]) -> tuple[Costs, float]:
        agreeing, bound = self._agreeing, 0.0
        values = np.zeros(len(next(iter(agreeing.values()))))
        for columns, precision in profiles.items():
            norm = float(precision) * prod(self.sizes[c] * (self.sizes[c] - 1) for c in columns)
            bound += norm
            term = np.full(len(values), float(precision))
            for c in columns:
                term *= np.where(agreeing[c], self.sizes[c] * (self.sizes[c] - 1), -self.sizes[c])
            values += term
        return bound - values, bound

    def _cost(self, profiles: Mapping[Profile, Fraction], agreeing: Sequence[int]) -> Fraction:
        (pattern,), cost = agreeing, Fraction(0)
        for columns, precision in profiles.items():
            norms = [self.sizes[c] * (self.sizes[c] - 1) for c in columns]
            inner = (
                norm if self._agreeing[c][pattern] else -self.sizes[c]
                for c, norm in zip(columns, norms, strict=True)
            )
            cost += (prod(norms) - prod(inner)) * precision
        return cost
