"""Patterns of agreement of columns that are functions of the same numbers.

The bin of a number and the cells of its sums (`projections.py`) depend on each other: two rows that
agree in all numbers agree in every sum. So not every pattern of agreement of these columns has a
pair of rows. If the numbers have few values, all pairs of rows are compared, and the costs of all
possible patterns. The other columns agree or not, whatever the numbers are; of those that are alike
it only matters how many agree. So the largest cost is the exact maximum over all pairs of rows.
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
    def _free(self) -> list[Columns]:
        """The measured columns that depend on no other, by class."""
        dependent = {*self.dependent.columns}
        free = (tuple(c for c in members if c not in dependent) for members in self.classes)
        return [members for members in free if members]

    @property
    def few(self) -> bool:
        return self.dependent.patterns is not None and prod(self._shape) <= MOST_PATTERNS

    @property
    def _shape(self) -> tuple[int, ...]:
        """The number of patterns of dependent columns, and of counts of each class of the others.

        Of alike columns it only matters how many agree.
        """
        assert self.dependent.patterns is not None
        return (len(self.dependent.patterns), *(len(members) + 1 for members in self._free))

    @cached_property
    def _agreeing(self) -> dict[int, NDArray[np.bool_]]:
        """By column, whether it agrees in each pattern."""
        assert self.dependent.patterns is not None
        pattern, *counts = np.unravel_index(np.arange(prod(self._shape)), self._shape)
        agreeing = self.dependent.patterns[pattern].T
        return {
            **dict(zip(self.dependent.columns, agreeing, strict=True)),
            **{
                column: count > place
                for members, count in zip(self._free, counts, strict=True)
                for place, column in enumerate(members)
            },
        }

    def _profiles(self, precisions: Mapping[Columns, Fraction]) -> dict[Profile, Fraction]:
        return dict(precisions)

    def _costs(self, profiles: Mapping[Profile, Fraction]) -> tuple[Costs, float]:
        bound, values = 0.0, np.zeros(prod(self._shape))
        factors = {
            c: np.where(agree, float(self.sizes[c] * (self.sizes[c] - 1)), -float(self.sizes[c]))
            for c, agree in self._agreeing.items()
        }
        for columns, precision in profiles.items():
            bound += float(precision) * prod(self.sizes[c] * (self.sizes[c] - 1) for c in columns)
            term = np.full(len(values), float(precision))
            for c in columns:
                term *= factors[c]
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
