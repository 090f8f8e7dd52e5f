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
  largest over all patterns of agreement (`AgreementPatterns`).

Patterns of agreement. Residuals of sets A, measured with precisions p_A = 1 / variance, cost a row
that is replaced by one that agrees with it in the columns S alone
    f(S) = sum_A p_A (prod_A n_i (n_i - 1) - prod_A c_i),
c_i = n_i (n_i - 1) for the columns of S, and -n_i for the others.

Columns are of one class if exchanging them changes no precision. Then f depends on how many columns
of each class agree, and so few patterns are all that there are. With a_k of the m_k columns of
class k agreeing, the products of all A with b_k columns of class k, k = 1, 2, .., add up to
prod_k E_k(a_k, b_k), where
    E(a, b) = sum_j C(a, j) C(m - a, b - j) (n (n - 1))^j (-n)^(b - j).
So a transform along each class gives f for all patterns. It is done in floats. Each sum's rounding
is below 2^-45 of the sum of absolute terms, which is largest where all columns agree. What may be
the maximum within 2^-40 of that is computed again as fractions: the result is the exact maximum.

With more than MOST_PATTERNS patterns each A counts with its own largest term, 1 + 1 / (least
n_i - 1) times prod n_i (n_i - 1), an upper bound.

Columns may be functions of the same numbers (`PossiblePatterns`). The bin of a number and the cells
of its sums (`projections.py`) depend on each other: two rows that agree in all numbers agree in
every sum. So not every pattern of agreement of these columns has a pair of rows. If the numbers
have few values, all pairs of rows are compared, and the costs of all possible patterns. The other
columns agree or not, whatever the numbers are; of those that are alike it only matters how many
agree. So the largest cost is the exact maximum over all pairs of rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import comb, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..data.domain import Columns as Columns
from ..data.domain import Int64Array
from ..rounds.phases import candidate_rows
from .people_table import People, PeopleDomain

MOST_PATTERNS = 1 << 20  # patterns that are compared: those of 20 columns of which no two are alike
_ROUNDING = 2.0**-40  # of the sum of absolute terms

Precisions: TypeAlias = Mapping[tuple[int, ...], Fraction]  # by set of columns, 1 / variance
Profile: TypeAlias = tuple[int, ...]  # by class, a number of columns
Costs = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AgreementPatterns:
    """All patterns of agreement that two measurements tell apart.

    sizes: how many values each column has.
    new, before: the precisions of the measurements.
    """

    sizes: Sequence[int]
    new: Precisions
    before: Precisions

    @cached_property
    def classes(self) -> tuple[tuple[int, ...], ...]:
        """The measured columns by class."""
        tables = [_by_column(table) for table in (self.new, self.before)]
        classes = list[list[int]]()
        for column in sorted({c for table in tables for c in table}):
            for members in classes:
                if self.sizes[column] == self.sizes[members[0]] and all(
                    _alike(table, column, members[0]) for table in tables
                ):
                    members.append(column)
                    break
            else:
                classes.append([column])
        return tuple(map(tuple, classes))

    @property
    def few(self) -> bool:
        """Whether all patterns are compared."""
        return prod(len(members) + 1 for members in self.classes) <= MOST_PATTERNS

    def largest_ratio(self, rest: Fraction) -> Fraction:
        """The exact largest f_new(S) / (rest - f_before(S)) over all patterns S of agreement.

        f_new(S), f_before(S): what the measurements `new` and `before` cost a row that is replaced
        by one that agrees with it in the columns S alone.

        Floats with bounds of their rounding find the patterns that may be largest: those whose
        upper bound is at least the greatest lower bound. Their ratios are then computed exactly.

        There must be few patterns. Raises ValueError if nothing is left for a pattern that `new`
        costs.
        """
        new, before = self._profiles(self.new), self._profiles(self.before)
        # Arrays by how many columns of each class agree.
        new_costs, new_terms = self._costs(new)
        spent_costs, spent_terms = self._costs(before)
        unspent = float(rest) - spent_costs
        new_rounding, rounding = new_terms * _ROUNDING, (spent_terms + float(rest)) * _ROUNDING
        lower = np.maximum(new_costs - new_rounding, 0) / np.maximum(unspent + rounding, rounding)
        with np.errstate(divide="ignore", invalid="ignore"):
            upper = (new_costs + new_rounding) / (unspent - rounding)
        candidates = np.argwhere((unspent <= rounding) | (upper >= lower.max()))
        largest = Fraction(0)
        for agreeing in candidates.tolist():
            cost = self._cost(new, agreeing)
            if cost:
                remaining = rest - self._cost(before, agreeing)
                if remaining <= 0:
                    raise ValueError("nothing is left of rho")
                largest = max(largest, cost / remaining)
        return largest

    def _profiles(self, precisions: Precisions) -> dict[Profile, Fraction]:
        """The precision of every set, by how many columns of every class it has."""
        class_of = {c: k for k, members in enumerate(self.classes) for c in members}
        profiles = dict[Profile, Fraction]()
        for columns, precision in precisions.items():
            profile = [0] * len(self.classes)
            for c in columns:
                profile[class_of[c]] += 1
            profiles[tuple(profile)] = precision
        return profiles

    @cached_property
    def _products(self) -> list[list[list[int]]]:
        """E(a, b) of every class, at [class][a][b]: a of its columns agree, a set has b of them."""
        result = []
        for members, highest in zip(self.classes, self._most, strict=True):
            m, n = len(members), self.sizes[members[0]]
            result.append(
                [
                    [
                        sum(
                            comb(a, j) * comb(m - a, b - j) * (n * (n - 1)) ** j * (-n) ** (b - j)
                            for j in range(b + 1)
                        )
                        for b in range(highest + 1)
                    ]
                    for a in range(m + 1)
                ]
            )
        return result

    @cached_property
    def _most(self) -> list[int]:
        """By class, the most columns of it that a set has."""
        profiles = [*self._profiles(self.new), *self._profiles(self.before)]
        return [max(profile[k] for profile in profiles) for k in range(len(self.classes))]

    def _costs(self, profiles: Mapping[Profile, Fraction]) -> tuple[Costs, float]:
        """f by how many columns of every class agree, and the largest sum of absolute terms.

        values[b_1, b_2, ..] starts as p_A and becomes sum over b of p prod_k E_k(a_k, b_k), a class
        at a time. Its last entry, where all columns agree, is sum_A p_A prod_A n_i (n_i - 1).
        """
        values = np.zeros([highest + 1 for highest in self._most])
        for profile, precision in profiles.items():
            values[profile] = float(precision)
        for axis, products in enumerate(self._products):
            left, right = prod(values.shape[:axis]), prod(values.shape[axis + 1 :])
            blocks = values.reshape(left, -1, right)
            changed = np.zeros((left, len(products), right))
            for a, row in enumerate(products):
                for b, total in enumerate(row):
                    changed[:, a] += float(total) * blocks[:, b]
            values = changed.reshape(*values.shape[:axis], len(products), *values.shape[axis + 1 :])
        bound = float(values.reshape(-1)[-1])
        return bound - values, bound

    def _cost(self, profiles: Mapping[Profile, Fraction], agreeing: Sequence[int]) -> Fraction:
        """The exact f where `agreeing[k]` columns of class k agree.

        The sum of p_A (prod_k E_k(m_k, b_k) - prod_k E_k(a_k, b_k)).
        """
        total = Fraction(0)
        for profile, precision in profiles.items():
            at_all = at_these = 1
            for products, a, b in zip(self._products, agreeing, profile, strict=True):
                at_all *= products[-1][b]
                at_these *= products[a][b]
            total += (at_all - at_these) * precision
        return total


def largest_terms(sizes: Sequence[int], precisions: Precisions) -> Fraction:
    """The sum of every set's own largest term: an upper bound of f."""
    total = Fraction(0)
    for columns, precision in precisions.items():
        total += largest_term([sizes[c] for c in columns]) * precision
    return total


def largest_term(sizes: Sequence[int]) -> int:
    """The largest change of a residual of columns of these sizes, half its square: one column of
    the least size differs. It is 0 without a column."""
    if not sizes:
        return 0
    norm = prod(n * (n - 1) for n in sizes)
    return norm + norm // (min(sizes) - 1)


def _by_column(precisions: Precisions) -> dict[int, dict[tuple[int, ...], Fraction]]:
    """By column, the sets that have it."""
    sets = defaultdict[int, dict[tuple[int, ...], Fraction]](dict)
    for columns, precision in precisions.items():
        for c in columns:
            sets[c][columns] = precision
    return {**sets}


def _alike(sets: Mapping[int, Mapping[tuple[int, ...], Fraction]], column: int, other: int) -> bool:
    """Whether exchanging two columns changes no precision."""
    theirs = {a: p for a, p in sets.get(other, {}).items() if column not in a}
    ours = {a: p for a, p in sets.get(column, {}).items() if other not in a}
    if len(ours) != len(theirs):
        return False
    for columns, precision in ours.items():
        exchanged = tuple(sorted(other if c == column else c for c in columns))
        if theirs.get(exchanged) != precision:
            return False
    return True


_IN_CACHE = 1 << 15  # people whose cells stay in a processor's cache


@dataclass(frozen=True, eq=False)
class Residuals:
    """Sets of columns as candidates: see `phases.Candidates`.

    domain: the columns.
    sets: the sets of columns, each in increasing order.
    dependent: columns of which not all patterns of agreement are possible.
    """

    domain: PeopleDomain
    sets: tuple[Columns, ...]
    dependent: DependentColumns | None = field(default=None, kw_only=True)

    @cached_property
    def starts(self) -> Int64Array:
        sizes = [self.domain.cells(columns) for columns in self.sets]
        return np.cumsum([0, *sizes], dtype=np.int64)

    @property
    def candidates(self) -> int:
        return len(self.sets)

    @cached_property
    def numbers(self) -> dict[Columns, int]:
        """The candidate of every set."""
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

    def counter(self, data: People) -> Callable[[Sequence[int]], Int64Array]:
        """A function from candidates to their exact residuals. Confidential."""
        return lambda candidates: np.concatenate(
            [residual(data, self.sets[i]).reshape(-1) for i in candidates]
        )

    def texts(self, rows: Int64Array) -> tuple[str, ...]:
        """The cells of these rows in words."""
        which = np.searchsorted(self.starts, rows, side="right") - 1
        texts = {number: self._texts(number) for number in np.unique(which).tolist()}
        cells = (rows - self.starts[which]).tolist()
        return tuple(texts[i][cell] for i, cell in zip(which.tolist(), cells, strict=True))

    def _texts(self, number: int) -> list[str]:
        """All cells of a set in words."""
        columns = [self.domain.columns[c] for c in self.sets[number]]
        values = ([f"{c.name}={value}" for value in c.values] for c in columns)
        return [", ".join(cell) or "people" for cell in product(*values)]


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
        codes = people.codes[start : start + at_once]
        cells = np.zeros(len(codes), kind)
        for column, size in zip(columns, shape, strict=True):
            cells *= kind.type(size)
            np.add(cells, codes[:, column], out=cells, casting="unsafe")
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
        """sum_A precision_A (|r_A|^2 - r_A . r'_A) of two rows' residuals r and r', exactly.

        Over the columns c of A, |r_A|^2 is the product of n_c (n_c - 1). r_A . r'_A has the factor
        n_c (n_c - 1) where the rows agree, and -n_c where they do not.
        """
        (pattern,), cost = agreeing, Fraction(0)
        for columns, precision in profiles.items():
            norms = [self.sizes[c] * (self.sizes[c] - 1) for c in columns]
            inner = (
                norm if self._agreeing[c][pattern] else -self.sizes[c]
                for c, norm in zip(columns, norms, strict=True)
            )
            cost += (prod(norms) - prod(inner)) * precision
        return cost
