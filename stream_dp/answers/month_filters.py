"""What the months of a schedule say of the interactions of sets of columns, month after month.

Sets of the same number of columns learn together how fast interactions drift. Order matters to the
last bit, so months come in order of time, and sets in a fixed order: who fits a table and who reads
the published answers compute the same.

An interaction over time is followed by a mixture of Kalman filters. Each month measures the
interaction of a set of columns with independent noise. Whoever looks at
several months may combine them, at no cost, as far as the interaction drifts slowly. How fast it
drifts is unknown, so FILTERS filters run side by side:

- random walks, whose steps have WALKS times the variance of the first month's noise;
- straight lines with a random slope of variance SLOPES, plus a random walk of a tenth of it.

Filter j has the level m and its variance P after the months so far. The next value y, with noise of
variance s, has the innovation nu = y - m of variance S = P + s, and the likelihood
-log(S / s) / 2 - nu^2 / (2 phi S) in a cell, where phi = prod (1 - 1 / n_i) is what centring leaves
of independent noise. The weights of the filters are learnt in two levels by expectation
maximisation: `drift_prior` from all sets of the same number of columns, then `_cell_weights` from
the cells of one set (nonparametric empirical Bayes). The answer is the mean of the mixture. Its
variance includes how far the filters differ.

A shock moves many cells of a set at once, and no filter foresees it. Let r be the mean square of a
set's innovations over what its filters expect, and f its degrees of freedom. A jump of unknown size
explains r > 1 better than no jump by the log likelihood f (r - 1 - log r) / 2. Its odds in advance
are exp(-GUARD), which gives the probability q of a jump. A shock hits columns, and so many sets at
once: the odds in advance are pi / (1 - pi) if these are higher, where pi <= 1/2 is the mean q of
the month's other sets with a column, for the column of the set with the largest such mean. Before a
filter learns, its level gets the probability of a jump times the variance that its innovations have
beyond what it expects.

A month may leave sets of columns unmeasured, such as pairs that no round selects. If a single
column c has probably jumped by the squared distance d, unmeasured sets with it have moved, too. Let
e be the sum of squares of a column's interaction. If the new values of c do not depend on the other
columns, the interaction of the set has moved by d times the product of e over the other columns.
Its variance grows by this distance, divided by the degrees of freedom.

Everything here is post-processing of noisy values.

Why each month is measured by itself. Let G be the precision matrix over T months of any Gaussian
measurement of the residual of a set of columns, and d the squared norm that a person's row adds to
the residual in a month. If a person's row may change every month, no G has a smaller sum of
variances than a diagonal one with the same worst cost. Proof. A history with the rows r_i costs
sum_ij G_ij <r_i, r_j>. If the rows of different months are drawn independently, their expected
inner product is 0. So the expected cost is d tr G, and at least one history costs as much. The sum
of the variances is tr G^-1 >= T^2 / tr G, by the inequality of arithmetic and harmonic means. A
diagonal G with equal entries attains both bounds. `tests/batch/people` confirms the costs of a
single month by brute force; a schedule is charged their sum.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WALKS = np.array([0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30])
SLOPES = np.array([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1])
FILTERS = len(WALKS) + len(SLOPES)
EVEN = np.full(FILTERS, 1 / FILTERS)  # a prior before anything is learnt
GUARD = 5.0  # minus the logarithm of the odds of a jump, in a set and a month
_LEAST_JUMP = 0.01  # a smaller probability is none
_MOST = 0.5  # a column with a larger probability of a jump has moved the sets with it
_STEPS = np.concatenate([WALKS, SLOPES / 10])  # variances of a month's step
_DIFFUSE = 1e4  # the variance of the first level
_SETS, _CELLS = 30, 20  # iterations of both levels
_PSEUDO_SETS, _PSEUDO_CELLS = 0.1, 5.0  # counts of a filter in advance, and of a set's prior
_LEVEL, _SLOPE = 0, 1


@dataclass(frozen=True, eq=False)
class Filters:
    """The filters of an interaction after several months.

    freedom: its degrees of freedom, prod (n_i - 1).
    centring: phi, prod (1 - 1 / n_i).
    scale: the variance that drifts are multiples of.
    means: (FILTERS, states, cells) level, slope, and the levels of remembered months.
    covariances: (FILTERS, states, states) of each cell, before centring.
    of_set, of_cells: (FILTERS,) and (FILTERS, cells) log likelihoods.
    months: how many have been learnt from.
    jumps: in how many of them the level probably jumped.
    """

    freedom: int
    centring: float
    scale: float
    means: Floats
    covariances: Floats
    of_set: Floats
    of_cells: Floats
    months: int = 0
    jumps: int = 0

    @staticmethod
    def of(sizes: Sequence[int], scale: float) -> Filters:
        """Filters that know nothing. sizes: numbers of values of the columns."""
        cells = math.prod(sizes)
        covariances = np.zeros((FILTERS, 2, 2))
        covariances[:, _LEVEL, _LEVEL] = _DIFFUSE * scale
        covariances[len(WALKS) :, _SLOPE, _SLOPE] = SLOPES * scale
        return Filters(
            freedom=math.prod(n - 1 for n in sizes),
            centring=math.prod(1 - 1 / n for n in sizes),
            scale=scale,
            means=np.zeros((FILTERS, 2, cells)),
            covariances=covariances,
            of_set=np.zeros(FILTERS),
            of_cells=np.zeros((FILTERS, cells)),
        )

    def passed(self, months: int = 1) -> Filters:
        """The filters after further months."""
        means, covariances = self.means.copy(), self.covariances.copy()
        means[:, _LEVEL] += months * means[:, _SLOPE]
        covariances[:, _LEVEL] += months * covariances[:, _SLOPE]
        covariances[:, :, _LEVEL] += months * covariances[:, :, _SLOPE]
        covariances[:, _LEVEL, _LEVEL] += months * self.scale * _STEPS
        return replace(self, means=means, covariances=covariances)

    def widened(self, variance: float) -> Filters:
        """The filters whose level has a variance more."""
        covariances = self.covariances.copy()
        covariances[:, _LEVEL, _LEVEL] += variance
        return replace(self, covariances=covariances)

    def remembering(self) -> Filters:
        """The filters with the present level in a further state, for smoothing by later months."""
        means = np.concatenate([self.means, self.means[:, :1]], axis=1)
        covariances = np.concatenate([self.covariances, self.covariances[:, :1]], axis=1)
        covariances = np.concatenate([covariances, covariances[:, :, :1]], axis=2)
        return replace(self, means=means, covariances=covariances)

    def learnt(
        self, values: Floats, variance: float, prior: Floats, guard: float = GUARD
    ) -> Filters:
        """The filters after a measurement.

        A jump widens the level's variance. Then the Kalman filter learns, with innovations nu of
        variance S: its mean (level, slope) grows by K nu, and its covariance C becomes
        C - K C[level], where the gain K is C[:, level] / S.

        values: (cells,) centred. variance: of the noise in a cell before centring.
        prior: (FILTERS,) of the months before, for the guard.
        guard: minus the logarithm of the odds of a jump.
        """
        innovations = values - self.means[:, _LEVEL]
        squares = np.einsum("jc,jc->j", innovations, innovations)
        covariances, jumps = self.covariances, self.jumps
        spread = covariances[:, _LEVEL, _LEVEL] + variance
        of_set, of_cells = self.of_set, self.of_cells
        if self.months:
            jump = self._jump(squares / spread, prior, guard)
            if jump > _LEAST_JUMP:
                covariances, jumps = covariances.copy(), jumps + (jump > 0.5)
                missing = jump * np.maximum(squares / self.freedom - spread, 0)
                covariances[:, _LEVEL, _LEVEL] += missing
                spread = spread + missing
            logs = np.log(spread / variance) / 2
            of_set = of_set - self.freedom * logs - squares / spread / 2
            unlikely = np.square(innovations)
            unlikely *= (0.5 / (self.centring * spread))[:, None]
            unlikely += logs[:, None]
            of_cells = of_cells - unlikely
        gains = covariances[:, :, _LEVEL] / spread[:, None]
        return replace(
            self,
            means=self.means + gains[:, :, None] * innovations[:, None],
            covariances=covariances - gains[:, :, None] * covariances[:, _LEVEL, None],
            of_set=of_set,
            of_cells=of_cells,
            months=self.months + 1,
            jumps=jumps,
        )

    def jump(self, values: Floats, variance: float, prior: Floats) -> float:
        """The probability of a jump by a measurement of this set alone; see `learnt`."""
        if not self.months:
            return 0.0
        squares = np.square(values - self.means[:, _LEVEL]).sum(axis=1)
        return self._jump(squares / (self.covariances[:, _LEVEL, _LEVEL] + variance), prior)

    def _jump(self, squares: Floats, prior: Floats, guard: float = GUARD) -> float:
        """The probability of a jump, 1 / (1 + exp(guard - f (r - 1 - log r) / 2)); see the module.

        squares: by filter, of the innovations over their variance.
        """
        weights = prior * np.exp(self.of_set - self.of_set.max())
        ratios = np.maximum(squares / self.freedom, 1)
        ratio = float(weights @ ratios / weights.sum())
        against = guard - self.freedom * (ratio - 1 - math.log(ratio)) / 2
        return 1 / (1 + math.exp(against))

    def posterior(self, prior: Floats, states: Floats | None = None) -> tuple[Floats, Floats]:
        """Mean and variance, (cells,) each, of the present level: of the mixture of the filters.

        prior: (FILTERS,) of this month.
        states: weights of the states, of another sum of them, such as a change since a month.
        """
        chosen = np.eye(1, self.means.shape[1])[0] if states is None else states
        weights = _cell_weights(self.of_cells, prior)
        levels = np.einsum("s,jsc->jc", chosen, self.means)
        variances = np.einsum("s,jst,t->j", chosen, self.covariances, chosen)
        mean = np.einsum("jc,jc->c", weights, levels)
        apart = np.square(levels - mean)
        return mean, variances @ weights + np.einsum("jc,jc->c", weights, apart)


def drift_prior(filters: Sequence[Filters]) -> Floats:
    """(FILTERS,) the weights of the filters that all sets of the same order have together."""
    likelihoods = np.array([one.of_set for one in filters])
    likelihoods = np.exp(likelihoods - likelihoods.max(1, keepdims=True))
    prior: Floats = EVEN
    for _ in range(_SETS):
        shares = likelihoods * (prior / (likelihoods @ prior)[:, None])
        prior = (shares.sum(0) + _PSEUDO_SETS) / (len(filters) + _PSEUDO_SETS * FILTERS)
    return prior


def _cell_weights(of_cells: Floats, prior: Floats) -> Floats:
    """(FILTERS, cells) the weights of the filters in every cell of a set."""
    likelihoods = np.exp(of_cells - of_cells.max(0))
    cells, present = of_cells.shape[1], prior
    for _ in range(_CELLS):
        counts = present * (likelihoods @ (1 / (present @ likelihoods)))
        present = (counts + _PSEUDO_CELLS * prior) / (cells + _PSEUDO_CELLS)
    weights: Floats = likelihoods * present[:, None]
    weights /= weights.sum(0)
    return weights


K = TypeVar("K", bound=tuple[Any, ...])  # a set of columns


def _guards(jumps: Mapping[K, float]) -> dict[K, float]:
    """By set, minus the logarithm of the odds of a jump, given the month's other sets.

    jumps: by set, the probability of a jump by the set alone.
    """
    of_column: dict[Any, tuple[float, int]] = {}
    for a, jump in jumps.items():
        for c in a:
            total, sets = of_column.get(c, (0.0, 0))
            of_column[c] = total + jump, sets + 1
    guards = dict[K, float]()
    for a, jump in jumps.items():
        others = [(of_column[c][0] - jump, of_column[c][1] - 1) for c in a]
        share = min(max((total / sets for total, sets in others if sets), default=0.0), 0.5)
        guards[a] = min(GUARD, math.log((1 - share) / share)) if share > 0 else GUARD
    return guards


class Measured(NamedTuple):
    """A noisy interaction as shares: its values, centred, and the variance before centring."""

    values: Floats
    variance: float


@dataclass(frozen=True, eq=False)
class MonthFilters(Generic[K]):
    """The estimates of several months about the last month, or about a later month.

    number: of the month that is spoken of.
    filters: by set of columns.
    priors: the weights of the filters by number of columns, after the last measured month.
    """

    number: int
    filters: Mapping[K, Filters] = field(default_factory=dict)
    priors: Mapping[int, Floats] = field(default_factory=dict)

    def at(self, number: int) -> MonthFilters[K]:
        """The estimates about a later month."""
        months = number - self.number
        filters = {a: interaction.passed(months) for a, interaction in self.filters.items()}
        return replace(self, number=number, filters=filters if months else self.filters)

    def learnt(self, interactions: Mapping[K, Measured]) -> MonthFilters[K]:
        """The estimates with the measurements of month `number`."""
        filters, jumps = dict(self.filters), dict[K, float]()
        order = sorted(interactions, key=lambda a: (len(a), a))
        for a in order:
            values, variance = interactions[a]
            filters[a] = filters.get(a) or Filters.of(values.shape, variance)
            prior = self.priors.get(len(a), EVEN)
            jumps[a] = filters[a].jump(values.reshape(-1), variance, prior)
        filters |= self._moved(interactions, jumps)
        guards = _guards(jumps)
        for a in order:
            values, variance = interactions[a]
            prior = self.priors.get(len(a), EVEN)
            filters[a] = filters[a].learnt(values.reshape(-1), variance, prior, guards[a])
        of_order: dict[int, list[Filters]] = {}
        for a in sorted(filters, key=lambda a: (len(a), a)):
            of_order.setdefault(len(a), []).append(filters[a])
        priors = {ways: drift_prior(several) for ways, several in of_order.items()}
        return replace(self, filters=filters, priors=priors)

    def _moved(self, measured: Mapping[K, Measured], jumps: Mapping[K, float]) -> dict[K, Filters]:
        """The filters of unmeasured sets with a column that has jumped; see the module.

        jumps: by measured set, the probability of a jump by the set alone.
        """
        moved, unmeasured = dict[K, Filters](), self.filters.keys() - measured.keys()
        energies, distances = dict[Any, float](), dict[Any, float]()
        for a in self.filters.keys() & measured.keys() if unmeasured else ():
            if len(a) == 1:
                values, variance = measured[a]
                level, spread = self.posterior(a)
                noise = self.filters[a].centring * (spread + variance)
                energies[a[0]] = float(np.square(values).sum())
                if jumps[a] > _MOST:
                    distances[a[0]] = float((np.square(values - level) - noise).sum())
        for a in unmeasured:
            distance = sum(
                max(distances[c], 0.0) * math.prod(energies.get(b, 1.0) for b in a if b != c)
                for c in a
                if c in distances
            )
            if distance:
                moved[a] = self.filters[a].widened(distance / self.filters[a].freedom)
        return moved

    def remembering(self, sets: Collection[K]) -> MonthFilters[K]:
        """The filters of the given sets with the present level in a further state."""
        filters = {
            a: interaction.remembering() if a in sets else interaction
            for a, interaction in self.filters.items()
        }
        return replace(self, filters=filters)

    def posterior(self, a: K, states: Floats | None = None) -> tuple[Floats, Floats]:
        """Mean and variance of a set's cells; see `Filters.posterior`."""
        return self.filters[a].posterior(self.priors[len(a)], states)
