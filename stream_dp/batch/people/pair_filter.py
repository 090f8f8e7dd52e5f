"""The privacy filter of a table of people: costs add up for each pair of neighbours by itself.

Each measurement's variance follows from public numbers and earlier noisy answers. So its cost for
two rows, or for a row that comes or goes, is fixed before its noise is drawn, and it is a function
of the columns in which the rows agree (`residual_counts.py`). The filter keeps the sum of these
costs for every pattern, and a measurement gets the least noise with which no sum exceeds the
limit. Then the fit is limit-zCDP: `docs/proofs/filter.md` has
the proof. A selection costs all pairs the same, its worst.

With too many patterns the largest sum is found column by column, as below. If too
many columns share terms, it is bounded by its bound before and the new measurement's largest terms.

Noise of measured residuals. Variances in proportion to prod n_i^(3/2) minimise the sum of squared
errors over the cells of all marginals of a phase at a given cost. (With variance s_A / prod n_i^2
in a cell of the interaction and prod (n_i - 1) degrees of freedom, minimise
sum_A prod (n_i - 1) s_A / prod n_i^2 at fixed sum_A prod n_i (n_i - 1) / s_A.)

The pattern that costs most, where there are too many to compare all. The cost of a pattern is a sum
of terms of a few columns each (`residual_counts.py`). Columns are eliminated one after the other:
the largest sum over whether a column agrees is a table of the columns that share a term with it
(bucket elimination, Dechter 1999). Tables stay small where pairs are selected, since a tree of few
cells holds them.

Rounding. Let every column of n values agree with probability 1 / n, independently. Then the mean of
c_i is 0, and the mean cost is the sum of p_A prod n_i (n_i - 1). So the largest cost is no less
than this sum, to which each rounding of floats is relative: up to 100,000 of them stay below the
2^-34 by which the result is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.zcdp import gaussian_rho

from ..rounds.phases import Everything, PrivacyFilter, least_scale, total, with_precisions
from .residual_counts import (
    AgreementPatterns,
    Columns,
    PossiblePatterns,
    Precisions,
    Residuals,
    largest_term,
    largest_terms,
)

MOST_TABLE = 20  # columns of a table
_ROUNDING = 1 + Fraction(1, 1 << 34)


def worst_agreement(sizes: Sequence[int], precisions: Precisions) -> dict[Columns, Fraction] | None:
    """By set of columns, its squared change for the costliest pattern, rounded up.

    Half the sum of precision times change is what measurements cost, at most. None if a table would
    have more than MOST_TABLE columns.
    """
    factors = [(a, _term(sizes, a, float(p))) for a, p in precisions.items()]
    neighbours = {c: {d for a in precisions if c in a for d in a} for a in precisions for c in a}
    eliminated = list[tuple[int, Columns, NDArray[np.bool_]]]()
    while neighbours:
        column = min(neighbours, key=lambda c: (len(neighbours[c]), c))
        joined = neighbours.pop(column)
        if len(joined) > MOST_TABLE:
            return None
        axes = (column, *sorted(joined - {column}))
        table = np.zeros((2,) * len(axes))
        for a, values in factors:
            if column in a:
                table += _spread(values, a, axes)
        factors = [(a, values) for a, values in factors if column not in a]
        factors.append((axes[1:], table.max(axis=0)))
        eliminated.append((column, axes[1:], table[1] > table[0]))
        for c in axes[1:]:
            neighbours[c] = (neighbours[c] | joined) - {column}
    agrees = dict[int, bool]()
    for column, others, better in reversed(eliminated):
        agrees[column] = bool(better[tuple(int(agrees[c]) for c in others)])
    return {a: 2 * _ROUNDING * _change(sizes, a, [agrees[c] for c in a]) for a in precisions}


def _change(sizes: Sequence[int], columns: Columns, agreeing: Sequence[bool]) -> int:
    """Half the squared change of the residual of a replaced row that agrees in some columns."""
    norms = [sizes[c] * (sizes[c] - 1) for c in columns]
    inner = (n if same else -sizes[c] for c, n, same in zip(columns, norms, agreeing, strict=True))
    return prod(norms) - prod(inner)


def _term(sizes: Sequence[int], columns: Columns, precision: float) -> NDArray[np.float64]:
    """The term of a set of columns, an axis a column: 0 differs, 1 agrees."""
    term = np.ones((2,) * len(columns))
    for axis, c in enumerate(columns):
        shape = [1] * len(columns)
        shape[axis] = 2
        term = term * np.array([-sizes[c], sizes[c] * (sizes[c] - 1)], float).reshape(shape)
    result: NDArray[np.float64] = precision * (term.reshape(-1)[-1] - term)
    return result


def _spread(values: NDArray[np.float64], columns: Columns, axes: Columns) -> NDArray[np.float64]:
    """Expands a table of few columns to `axes`, for sums."""
    order = sorted(range(len(columns)), key=lambda i: axes.index(columns[i]))
    shape = [2 if c in columns else 1 for c in axes]
    return values.transpose(order).reshape(shape)


def precision(cells: int) -> Fraction:
    """Returns cells^(-3/2) up to a factor, as a whole number: variances stay short fractions."""
    return Fraction((1 << 70) // math.isqrt(cells**3 << 20))


def residual_phase(
    residuals: Residuals,
    sets: Iterable[Columns],
    rho: Fraction,
    importance: Callable[[Columns], Fraction | int] = lambda columns: 1,
    before: PrivacyFilter | None = None,
) -> Everything:
    """The phase that measures the residuals of `sets` at the cost of rho.

    importance: of a set, the factor by which its variance is smaller.
    before: the filter that earlier phases leave; None for a first phase.
    """
    listed = tuple(sets)
    cells = residuals.domain.cells
    return Everything(
        rho,
        candidates=tuple(residuals.numbers[columns] for columns in listed),
        weights=tuple(1 / (precision(cells(a)) * importance(a)) for a in listed),
        before=before or PairFilter(residuals),
    )


def median_variation(
    residuals: Residuals, variances: Mapping[int, Fraction | float], people: int
) -> float:
    """The noise of the median interaction as total variation.

    The total variation is half the sum, over the cells, of absolute normal noise of variance
    s / prod n_i^2. Centring lessens this variance by the factor prod (1 - 1 / n_i).

    variances: by candidate, of the noise in an entry of its residual.
    people: their number, at least 1.
    """
    variations = []
    for candidate, variance in variances.items():
        sizes = [residuals.domain.sizes[c] for c in residuals.sets[candidate]]
        centring = math.prod(1 - 1 / n for n in sizes)
        variations.append(math.sqrt(float(variance) * 2 / math.pi * centring) / (2 * people))
    return float(np.median(variations))


def cell_deviation(
    residuals: Residuals, columns: Columns, precisions: Mapping[Columns, float]
) -> float:
    """The standard deviation of a cell of a marginal that is rebuilt from its interactions.

    precisions: by measured set, of an entry of its residual; other sets have no noise.

    An interaction's cell is an entry over the number of its cells, centred. The marginal spreads
    the interaction over the values of its other columns.
    """
    domain = residuals.domain
    cells, variance = domain.cells(columns), 0.0
    for ways in range(len(columns) + 1):
        for subset in combinations(columns, ways):
            if subset in precisions:
                centring = math.prod(1 - 1 / domain.sizes[c] for c in subset)
                variance += centring / precisions[subset] / cells**2
    return math.sqrt(variance)


@dataclass(frozen=True, eq=False)
class PairFilter:
    """What measurements have cost each pair of neighbours; see `phases.PrivacyFilter`.

    residuals: all candidates.
    limit: the rho that all measurements so far may cost.
    precisions: by measured set, the sum of 1 / variance.
    of_all: what every replacement costs alike: selections, and columns that were measured before
        their values were merged.
    moved: what a row's coming or going costs.
    replaced: what a replacement costs at most.
    exact: whether `replaced` is the maximum over all pairs, which is computed where patterns are
        few. Otherwise it is an upper bound.
    """

    residuals: Residuals
    limit: Fraction = Fraction(0)
    precisions: Precisions = field(default_factory=dict)
    of_all: Fraction = Fraction(0)
    moved: Fraction = Fraction(0)
    replaced: Fraction = Fraction(0)
    exact: bool = True

    @property
    def spent(self) -> Fraction:
        """What the measurements cost the worst pair."""
        domain = self.residuals.domain
        return max(self.moved * domain.moves, self.replaced * domain.replaced)

    @property
    def left(self) -> Fraction:
        return self.limit - self.spent

    def allowing(self, rho: Fraction) -> PairFilter:
        """The filter with so much more rho."""
        return replace(self, limit=self.limit + rho)

    def scale(self, candidates: Sequence[int], weights: Sequence[Fraction]) -> Fraction:
        """The least factor of weights that makes variances with which nothing exceeds the limit.

        Raises ValueError if nothing is left.
        """
        if self.left <= 0:
            raise ValueError("nothing is left of rho")
        sets, scale = [self.residuals.sets[i] for i in candidates], Fraction(0)
        if self.residuals.domain.moves:
            scale = self._moved(sets, weights) / (self.limit - self.moved)
        if self.residuals.domain.replaced:
            new = _added({}, sets, weights)
            patterns = self._patterns(new, self.precisions)
            if patterns.few:
                ratio = patterns.largest_ratio(self.limit - self.of_all)
            elif self._worst({**self.precisions, **new}) is not None:
                rest = self.limit - self.of_all
                ratio = least_scale(lambda p: self._worst(p) or {}, self.precisions, new, rest)
            else:
                bound = largest_terms(self.residuals.domain.sizes, new)
                ratio = bound / (self.limit - self.replaced)
            scale = max(scale, ratio)
        return scale

    def charged(
        self,
        candidates: Sequence[int],
        variances: Sequence[Fraction],
        selection: Fraction = Fraction(0),
    ) -> PairFilter:
        """The filter after candidates are measured with these variances.

        selection: the rho of what selected them.
        """
        sets = [self.residuals.sets[i] for i in candidates]
        after = replace(
            self,
            precisions=_added(self.precisions, sets, variances),
            of_all=self.of_all + selection,
            moved=self.moved + selection + self._moved(sets, variances),
        )
        new = _added({}, sets, variances)
        bound = largest_terms(self.residuals.domain.sizes, new)
        return after._bounded(self.replaced + selection + bound)

    def compressed(self, residuals: Residuals) -> PairFilter:
        """The filter of the same people with merged values.

        residuals: of the merged columns; a column with as many values as before is the same.

        Two rows may differ in a column and agree once its values are merged. So what such columns
        cost is charged to every pattern of the merged columns.
        """
        before, sizes = self.residuals.domain.sizes, residuals.domain.sizes
        same, of_all = dict[Columns, Fraction](), self.of_all
        for columns, precision in self.precisions.items():
            if all(sizes[c] == before[c] for c in columns):
                same[columns] = precision
            else:
                of_all += largest_term([before[c] for c in columns]) * precision
        after = replace(self, residuals=residuals, precisions=same, of_all=of_all)
        return after._bounded(self.replaced)

    def _bounded(self, bound: Fraction) -> PairFilter:
        """The filter with `replaced`: the maximum over all pairs, or the bound for many columns."""
        if not self.residuals.domain.replaced:
            return self
        patterns = self._patterns(self.precisions, {})
        if not patterns.few:
            if (changes := self._worst(self.precisions)) is not None:
                bound = min(bound, self.of_all + total(self.precisions, changes) / 2)
            return replace(self, replaced=bound, exact=False)
        largest = self.of_all + patterns.largest_ratio(Fraction(1))
        exact = self.residuals.dependent is None or isinstance(patterns, PossiblePatterns)
        return replace(self, replaced=largest, exact=exact)

    def _worst(self, precisions: Precisions) -> dict[Columns, Fraction] | None:
        return worst_agreement(self.residuals.domain.sizes, precisions)

    def _patterns(self, new: Precisions, before: Precisions) -> AgreementPatterns:
        """The possible patterns if they are few, and all patterns otherwise."""
        sizes, dependent = self.residuals.domain.sizes, self.residuals.dependent
        if dependent is not None:
            possible = PossiblePatterns(sizes, new, before, dependent)
            if possible.few:
                return possible
        return AgreementPatterns(sizes, new, before)

    def _moved(self, sets: Sequence[Columns], variances: Sequence[Fraction]) -> Fraction:
        """What a row's coming or going costs."""
        costs = (
            gaussian_rho(self.residuals.squared_norm(a), v)
            for a, v in zip(sets, variances, strict=True)
        )
        return sum(costs, Fraction(0))


def _added(
    precisions: Precisions, sets: Sequence[Columns], variances: Sequence[Fraction]
) -> Mapping[Columns, Fraction]:
    """The precisions with those of more measurements; the residual without columns has none."""
    measured = [(a, v) for a, v in zip(sets, variances, strict=True) if a]
    return with_precisions(precisions, [a for a, _ in measured], [v for _, v in measured])
