"""From noisy residuals to a model's targets: shares of people, with their noise.

The residuals of one set of columns, measured once or twice, are combined by their precision. A pair
is compared with independence, the product of its noisy one-ways, and shrunk by its noise. Where no
triples are measured, a pair that is clearly dependent stays as it was measured. Post-processing
throughout.

Noisy interactions are shrunk towards 0, by the known variance of their noise. Three estimators
compete for each table: one factor for all of it (James and Stein 1961), singular values (a few
strong directions), and single cells (a few strong cells). Each lessens a value x to x (1 - t^2 /
x^2), or to 0 below t, as Stein's factor does; t and the estimator are those with the least unbiased
estimate of the squared error (Stein 1981, SURE; for singular values Candes, Sing-Long, Trzasko
2013, equation 9). All of it is post-processing.

Among tables of one schedule the interactions of earlier months sharpen those of this month. Each
table is measured by itself, so its cost and its noise are as if there were no other. What
`answers/month_filters.py` says of several months replaces what was measured, before the model is
fitted: post-processing. A set of columns that an earlier month measured and this one did not, such
as a pair that was not picked, has its last level and a larger variance.

Only sets whose columns have the values that they have now go on. A column whose rare values were
merged otherwise begins anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_dp.answers.month_filters import Measured, MonthFilters

from ..data.domain import Column
from ..rounds.phases import NoisyAnswers
from ..synthesizer import Known
from .residual_counts import Columns, Residuals, centred

Past: TypeAlias = MonthFilters[Columns]


class Month(NamedTuple):
    """What a month's table measured.

    number: of the table in its schedule, from 1; tables may be missing.
    columns: of the table.
    interactions: by set of columns.
    """

    number: int
    columns: tuple[Column, ...]
    interactions: Mapping[Columns, Interaction]


def past_months(months: Sequence[Month], columns: Sequence[Column], number: int) -> Past | None:
    """The filters of earlier months' interactions, moved on to month `number`, or None.

    An interaction goes on if each of its columns is in `columns` with the same name and values.

    months: the earlier months, in order.
    columns: of the table of month `number`.
    """
    past = Past(months[0].number if months else number)
    position = {column: c for c, column in enumerate(columns)}
    for month in months:
        # By a column's position in the earlier table, its position in this one.
        moved = {
            c: position[column] for c, column in enumerate(month.columns) if column in position
        }
        interactions = {
            tuple(moved[c] for c in column_set): interaction
            for column_set, interaction in month.interactions.items()
            if all(c in moved for c in column_set)
        }
        past = past.at(month.number).learnt(interactions)
    return past.at(number) if past.filters else None


def fused(targets: Targets, past: Past | None) -> Targets:
    """The shares of a month by its own noisy answers and by earlier months.

    A variance is the mean over the cells of a set.
    """
    if past is None:
        return targets
    now, interactions = past.learnt(targets.interactions), dict[Columns, Interaction]()
    for a in sorted(now.filters, key=lambda a: (len(a), a)):
        mean, variance = now.posterior(a)
        shape = [targets.sizes[c] for c in a]
        interactions[a] = Interaction(mean.reshape(shape), float(variance.mean()))
    return replace(targets, interactions=interactions)


_THRESHOLDS = np.arange(0.5, 5.01, 0.25)  # of cells, in standard deviations of the noise
_SPECTRAL = np.arange(0.5, 2.51, 0.125)  # of singular values, in those of a matrix of noise


class Shrunk(NamedTuple):
    """An estimate, its estimated squared error, and its effective degrees of freedom."""

    values: Table
    risk: float
    freedom: float


def shrunk(values: Table, variance: float) -> Shrunk:
    """The best of the estimators for a centred array of any number of axes.

    variance: of the noise in a cell before it was centred.
    """
    free = float(np.prod([n - 1 for n in values.shape]))
    best = min(
        (_scaled(values, variance, free), _cells(values, variance, free)), key=lambda s: s.risk
    )
    if values.ndim == 2 and min(values.shape) > 2:
        best = min((best, _spectral(values, variance, free)), key=lambda s: s.risk)
    return best


def _scaled(values: Table, variance: float, free: float) -> Shrunk:
    """All of x times c = 1 - (free - 2) variance / |x|^2, or 0 (James and Stein 1961).

    SURE is |x - c x|^2 - free variance + 2 variance divergence, as for the other estimators.
    """
    total = float(np.square(values).sum())
    lost = max(free - 2, 0.0) * variance
    if total <= lost:
        return Shrunk(np.zeros_like(values), total - free * variance, 0.0)
    factor = 1 - lost / total
    divergence = free * factor + 2 * lost / total
    risk = lost**2 / total - free * variance + 2 * variance * divergence
    return Shrunk(factor * values, risk, divergence)


def _cells(values: Table, variance: float, free: float) -> Shrunk:
    """Each cell x becomes x (1 - t^2 noise / x^2), or 0 if x^2 <= t^2 noise; the best t.

    Cells of a centred table have a little less noise than before, and are nearly independent.
    """
    noise = variance * free / values.size
    squares = np.square(values)
    best = None
    for t in _THRESHOLDS:
        large = squares > t * t * noise
        lost = np.where(large, t * t * noise / np.where(large, squares, 1), 1)
        divergence = float(np.where(large, 1 + lost, 0).sum())
        risk = float((squares * lost**2).sum()) - values.size * noise + 2 * noise * divergence
        if best is None or risk < best.risk:
            best = Shrunk(values * (1 - lost), risk, divergence)
    assert best is not None
    return best


def _spectral(values: Table, variance: float, free: float) -> Shrunk:
    """Each singular value s becomes f(s) = s - t^2 / s, or 0 if s <= t; the best t.

    With an m x n table of free entries the divergence is (Candes et al. 2013, equation 9)
        sum f'(s_i) + |m - n| sum f(s_i) / s_i + 2 sum over i != j of s_i f(s_i) / (s_i^2 - s_j^2).
    """
    m, n = (size - 1 for size in values.shape)
    u, s, v = np.linalg.svd(values, full_matrices=False)
    s = s[: min(m, n)]
    noise = variance**0.5 * (m**0.5 + n**0.5) / 2
    gaps = s[:, None] ** 2 - s[None, :] ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(np.abs(gaps) > 1e-12 * s[0] ** 2, 1 / gaps, 0)
    best = None
    for t in _SPECTRAL * noise:
        large = s > t
        safe = np.where(large, s, 1)
        f = np.where(large, s - t * t / safe, 0)
        divergence = float(
            np.where(large, 1 + (t / safe) ** 2, 0).sum()
            + abs(m - n) * (f / np.where(s > 0, s, 1)).sum()
            + 2 * ((s * f)[:, None] * inverse).sum()
        )
        risk = float(np.square(s - f).sum()) - free * variance + 2 * variance * divergence
        if best is None or risk < best.risk:
            best = Shrunk((u[:, : len(s)] * f) @ v[: len(s)], risk, divergence)
    assert best is not None
    return best


Interaction: TypeAlias = Measured
Table = NDArray[np.float64]
CLEAR = 3.0  # standard deviations of a pair's sum of squares above that of noise alone


@dataclass(frozen=True, eq=False)
class Targets:
    """The shares of people by noisy answers.

    residuals: what was measured from.
    people: the public or noisy number of people, at least 1.
    interactions: by set of columns, of one column at least.
    """

    residuals: Residuals
    people: int
    interactions: dict[Columns, Interaction]

    @staticmethod
    def of(residuals: Residuals, answers: NoisyAnswers, known: Sequence[Known] = ()) -> Targets:
        """known: interactions that others have published, combined with the answers."""
        people = residuals.domain.size
        starts = (0, *answers.ends)[:-1]
        # By set: the sum of (entry / variance) over its measurements, and that of 1 / variance.
        sums: dict[Columns, tuple[Table, float]] = {}
        for number, first, end in zip(answers.candidates, starts, answers.ends, strict=True):
            columns = residuals.sets[number]
            measured, variance = answers.values[first:end], float(answers.variances[first])
            if not columns:
                people = int(measured[0])
                continue
            total, precision = sums.get(columns, (np.zeros(end - first), 0.0))
            sums[columns] = (total + measured / variance, precision + 1 / variance)
        for published in known:
            if not published.columns:  # the number of people itself
                people = round(float(published.values))
                continue
            cells = residuals.domain.cells(published.columns)
            total, precision = sums.get(published.columns, (np.zeros(cells), 0.0))
            # As an entry of the residual, which is so many times a cell of the interaction.
            weight = 1 / (published.variance * cells**2)
            total = total + published.values.reshape(-1) * cells * weight
            sums[published.columns] = (total, precision + weight)
        assert people is not None  # it is public, or measured first
        people = max(people, 1)
        interactions = {}
        for columns, (total, precision) in sums.items():
            cells = residuals.domain.cells(columns)
            shape = tuple(residuals.domain.sizes[c] for c in columns)
            values = centred((total / precision / cells / people).reshape(shape))
            interactions[columns] = Interaction(values, 1 / precision / (cells * people) ** 2)
        return Targets(residuals, people, interactions)

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.residuals.domain.sizes

    @property
    def of_pairs(self) -> bool:
        """Whether no more than pairs are measured."""
        return max(map(len, self.interactions)) < 3

    @cached_property
    def one_ways(self) -> tuple[Table, ...]:
        """The shares of every column's values, at least 0."""
        noisy = [1 / n + self.interactions[(c,)].values for c, n in enumerate(self.sizes)]
        return tuple(on_simplex(shares) for shares in noisy)

    @cached_property
    def dependence(self) -> dict[Columns, Shrunk]:
        """By pair of columns, how its shares differ from independence.

        Shrunk by its noise, but for clearly dependent pairs where pairs are all that is measured:
        they have much noise then, and shrinking raises cells that nobody is in towards
        independence, so that rare values no longer follow from others. The model is left to
        average their noise, with shares that are not negative.
        """
        signals, result = self.signals, dict[Columns, Shrunk]()
        for columns, (values, variance) in self._apart():
            estimate = shrunk(values, variance)
            if self.of_pairs and signals[columns] > CLEAR:
                estimate = Shrunk(values, self.freedom(columns) * variance, estimate.freedom)
            result[columns] = estimate
        return result

    def _apart(self) -> Iterator[tuple[Columns, tuple[Table, float]]]:
        """By pair, its noisy difference from independence, and the variance of its cells."""
        for columns, (_, variance) in self.interactions.items():
            if len(columns) == 2:
                yield columns, (self.apart(columns), variance)

    @cached_property
    def energies(self) -> dict[Columns, float]:
        """By pair, the sum of squares of its dependence, unbiased: less that of noise alone."""
        return {
            columns: float(np.square(values).sum()) - self.freedom(columns) * variance
            for columns, (values, variance) in self._apart()
        }

    @cached_property
    def signals(self) -> dict[Columns, float]:
        """By pair, its sum of squares above that of noise alone, in standard deviations."""
        return {
            columns: energy
            / self.interactions[columns].variance
            / math.sqrt(2 * self.freedom(columns))
            for columns, energy in self.energies.items()
        }

    def apart(self, columns: Columns) -> Table:
        """A pair's noisy difference from independence."""
        first, second = (self.interactions[(c,)].values for c in columns)
        return self.interactions[columns].values - np.outer(first, second)

    def freedom(self, columns: Columns) -> int:
        """The degrees of freedom of an interaction."""
        return math.prod(self.sizes[c] - 1 for c in columns)

    def pair(self, columns: Columns) -> Table:
        """The target shares of a pair of columns."""
        first, second = (self.one_ways[c] for c in columns)
        return np.outer(first, second) + self.dependence[columns].values

    def marginal(self, columns: Columns) -> Table:
        """A marginal as noisy shares: the sum of the measured interactions of all its subsets."""
        shape = [self.sizes[c] for c in columns]
        shares: Table = np.full(shape, 1 / math.prod(shape))
        for ways in range(1, len(columns) + 1):
            for subset in combinations(columns, ways):
                interaction = self.interactions[subset].values
                spread_over = math.prod(self.sizes[c] for c in columns if c not in subset)
                axes = [self.sizes[c] if c in subset else 1 for c in columns]
                shares = shares + interaction.reshape(axes) / spread_over
        return shares

    def misfit(self, shares: Mapping[Columns, Table], finest: float = 0.0) -> float:
        """Chi squared of measured pairs about a model's shares, over its degrees of freedom.

        A model that cannot hold the dependence of a table loses dependence, or invents it between
        pairs that have none; either shows. The result is about 1 where only noise is missed, less
        as far as the model follows the noise, and larger where the model is far.

        finest: a variance below it is taken as this one.
        """
        squares, freedom = 0.0, 0
        for columns, modelled in shares.items():
            if columns in self.interactions:
                values, variance = self.interactions[columns]
                apart = np.square(values - centred(modelled))
                squares += float(apart.sum()) / max(variance, finest)
                freedom += self.freedom(columns)
        return reduced_chi_squared(squares, freedom)


def on_simplex(shares: Table) -> Table:
    """The nearest shares in squares that are not negative and add up to 1."""
    order = np.sort(shares.reshape(-1))[::-1]
    excess = (np.cumsum(order) - 1) / np.arange(1, len(order) + 1)
    last = np.flatnonzero(order > excess)[-1]
    nearest: Table = np.maximum(shares - excess[last], 0)
    return nearest


def reduced_chi_squared(squares: float, freedom: int) -> float:
    """Chi squared over its degrees of freedom; nan where nothing measured could differ.

    squares: the sum of squared deviations, each over its variance.
    """
    return float(squares) / freedom if freedom else math.nan
