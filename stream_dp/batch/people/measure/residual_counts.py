"""Residuals: interactions of sets of columns, measured as integers, and their exact costs.

For a set A of columns with n_i values each, and its marginal h_A, the residual is
    v_A = (tensor over i in A of (n_i I - 1 1')) h_A,
integers that sum to 0 along every column. Divided by prod n_i it is the interaction of A, the part
of h_A that no marginal of fewer columns determines (Xiao, He, Zhang, Kifer 2023, "An optimal and
scalable matrix mechanism for noisy marginals under convex loss functions", ResidualPlanner). The
marginal is the sum of the interactions of all subsets, each spread evenly over its cells. The
residual of no column at all is the number of people.

Costs. A person with values x adds u_A(x) = tensor of (n_i e_{x_i} - 1) to v_A. Factor i has the
squared norm n_i (n_i - 1), and the inner product -n_i with that of another value. So, with noise of
variance s_A in every entry,
- a row that comes or goes costs sum_A prod_A n_i (n_i - 1) / (2 s_A), whoever it is;
- a row that is replaced costs sum_A (prod_A n_i (n_i - 1) - prod_A c_i) / s_A, where c_i is
  n_i (n_i - 1) for the columns in which both rows agree, and -n_i for the others. The cost is the
  largest over all patterns of agreement (`agreement_patterns.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.zcdp import gaussian_rho

from ...data.domain import Int64Array
from ...groups.workload.candidates import candidate_rows
from ..people_table import People, PeopleDomain
from .agreement_patterns import AgreementPatterns, largest_term, largest_terms

Columns = tuple[int, ...]
_IN_CACHE = 1 << 15  # people whose cells stay in a processor's cache


@dataclass(frozen=True, eq=False)
class Residuals:
    """Sets of columns as candidates: see `phases.Candidates`.

    domain: the columns.
    sets: the sets of columns, each in increasing order.
    """

    domain: PeopleDomain
    sets: tuple[Columns, ...]

    @cached_property
    def starts(self) -> Int64Array:
        sizes = [self.domain.cells(columns) for columns in self.sets]
        return np.cumsum([0, *sizes], dtype=np.int64)

    @property
    def candidates(self) -> int:
        return len(self.sets)

    @cached_property
    def numbers(self) -> dict[Columns, int]:
        """The candidate of each set."""
        return {columns: i for i, columns in enumerate(self.sets)}

    def rows(self, candidates: Sequence[int]) -> Int64Array:
        return candidate_rows(self.starts, candidates)

    @cached_property
    def squared(self) -> tuple[int, ...]:
        """By candidate, the squared L2 sensitivity of its counts alone."""
        return tuple(self._squared(columns) for columns in self.sets)

    def _squared(self, columns: Columns) -> int:
        if not self.domain.replaced or not columns:
            return self.squared_norm(columns) if self.domain.moves else 0
        return 2 * largest_term([self.domain.sizes[c] for c in columns])

    def squared_norm(self, columns: Columns) -> int:
        """The squared norm of a row's contribution to the residual."""
        return prod(n * (n - 1) for n in (self.domain.sizes[c] for c in columns))

    def cost(self, candidates: Sequence[int], variances: Sequence[Fraction]) -> Fraction:
        """The exact rho of measuring candidates together, with noise of `variances`."""
        sets = [self.sets[i] for i in candidates]
        costs = [Fraction(0)]
        if self.domain.moves:
            moved = (
                gaussian_rho(self.squared_norm(a), v) for a, v in zip(sets, variances, strict=True)
            )
            costs.append(sum(moved, Fraction(0)))
        if self.domain.replaced:
            costs.append(self._replacement(sets, variances))
        return max(costs)

    def _replacement(self, sets: Sequence[Columns], variances: Sequence[Fraction]) -> Fraction:
        """The largest cost of replacing a row: exact, or an upper bound for too many patterns."""
        precisions = defaultdict[Columns, Fraction](Fraction)
        for columns, variance in zip(sets, variances, strict=True):
            if columns:
                precisions[columns] += 1 / variance
        patterns = AgreementPatterns(self.domain.sizes, precisions, {})
        if patterns.few:
            return patterns.largest_ratio(Fraction(1))
        return largest_terms(self.domain.sizes, precisions)

    def counter(self, data: People) -> Callable[[Sequence[int]], Int64Array]:
        """A function from candidates to their exact residuals. Confidential."""
        return lambda candidates: np.concatenate(
            [residual(data, self.sets[i]).reshape(-1) for i in candidates]
        )

    def texts(self, rows: Int64Array) -> tuple[str, ...]:
        """The cells of these rows in words."""
        which = np.searchsorted(self.starts, rows, side="right") - 1
        result = []
        for number, cell in zip(which.tolist(), (rows - self.starts[which]).tolist(), strict=True):
            columns = [self.domain.columns[c] for c in self.sets[number]]
            codes = np.unravel_index(cell, [len(c.values) for c in columns]) if columns else ()
            values = (f"{c.name}={c.values[k]}" for c, k in zip(columns, codes, strict=True))
            result.append(", ".join(values) or "people")
        return tuple(result)


def all_residuals(domain: PeopleDomain, ways: int, cells: int) -> Residuals:
    """The residuals of every set of at most `ways` columns.

    cells: of three columns and more, the largest marginal.
    """
    columns = range(len(domain.columns))
    sets = (a for k in range(ways + 1) for a in combinations(columns, k))
    return Residuals(domain, tuple(a for a in sets if len(a) < 3 or domain.cells(a) <= cells))


def marginal_counts(people: People, columns: Columns) -> Int64Array:
    """The counts of a marginal, one axis a column. Confidential."""
    shape = tuple(people.domain.sizes[c] for c in columns)
    total = prod(shape)
    kind, at_once = np.min_scalar_type(total), max(_IN_CACHE, total)
    counts = np.zeros(total, np.int64)
    for start in range(0, people.N, at_once):
        some = people.codes[start : start + at_once]
        cells = np.zeros(len(some), kind)
        for column, size in zip(columns, shape, strict=True):
            cells *= kind.type(size)
            np.add(cells, some[:, column], out=cells, casting="unsafe")
        counts += np.bincount(cells, minlength=total)
    return counts.reshape(shape)


def residual(people: People, columns: Columns) -> Int64Array:
    """The residual v_A of a set of columns, one axis a column. Confidential."""
    values = marginal_counts(people, columns)
    for axis, size in enumerate(values.shape):
        values = size * values - values.sum(axis, keepdims=True)
    return values


def centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The part of an array that sums to 0 along every axis."""
    for axis in range(values.ndim):
        values = values - values.mean(axis, keepdims=True)
    return values
