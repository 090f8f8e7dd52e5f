"""The budget of a release of sizes: every level has a share of rho.

If several methods are declared for a level, a fifth of the share pays for the choice. Half of this
fifth measures the level by each method. The other half pays for the exponential mechanism on the
earth mover's distances between these estimates and the truth, summed over the regions. Given the
estimates, the sum changes by at most 1 under `add_remove` and by at most 2 under `replace_one`. The
chosen method measures the level with the rest of the share (Kuo et al. 2018).

With noise of pure differential privacy a level costs what `stream_dp.privacy.exact_tables` proves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.noise import exact_variance, geometric_variance
from stream_dp.privacy.zcdp import selection_rho
from stream_dp.study.place_releases import geometric_cost, geometric_decay, squared_change

from .histogram import Estimate, Int64Array, Regions
from .size_estimates import METHODS

CHOICE = Fraction(1, 5)  # the share of a level's budget that a choice between methods costs
DISTANCE_CHANGE = {"add_remove": 1, "replace_one": 2}  # of the earth mover's distance of a level
FEW_GROUPS = 200  # in a region on average: below it sorted sizes are measured


@dataclass(frozen=True)
class LevelPlan:
    """The plan of a level.

    relation: the study's neighbouring relation, one of `place_releases.RELATIONS`.
    method: the name of the method.
    budget: its rho; with pure noise its eps.
    pure: whether the noise is double-geometric.
    joint: the variance over the variance that the level needs by itself, where no pair of
        neighbours is the worst of every level.
    """

    relation: str
    method: str
    budget: Fraction
    pure: bool = False
    joint: Fraction = Fraction(1)

    @property
    def rho(self) -> Fraction:
        """The level's part of the cost; with pure noise too high by at most 1e-12 of it."""
        if self.pure:
            return geometric_cost(self.method, self.relation, self.budget)
        return self.budget

    @property
    def candidates(self) -> tuple[LevelPlan, ...]:
        """The possible plans: this plan alone."""
        return (self,)

    @property
    def parameter(self) -> Fraction:
        """The noise: the variance of a discrete Gaussian, or the decay of pure noise."""
        if self.pure:
            return geometric_decay(self.method, self.relation, self.budget)
        return self.joint * squared_change(self.method, self.relation) / (2 * self.budget)

    @property
    def variance(self) -> float:
        """The variance of the noise in every entry."""
        law = geometric_variance if self.pure else exact_variance
        return law(self.parameter)

    @property
    def cumulative(self) -> bool:
        """Whether cumulative counts are measured."""
        return self.method.startswith("cumulative")

    def penalty(self, noise: NDArray[np.int64]) -> NDArray[np.float64]:
        """Minus the log density of the noise in every entry, up to a constant."""
        parameter = float(self.parameter)
        if self.pure:
            return np.abs(noise) * parameter
        return noise.astype(np.float64) ** 2 / (2 * parameter)


@dataclass(frozen=True)
class LevelChoice:
    """A level whose method is chosen privately; see the module.

    relation: the study's neighbouring relation.
    methods: the names of the methods.
    budget: its rho.
    """

    relation: str
    methods: tuple[str, ...]
    budget: Fraction
    pure: Literal[False] = False

    @property
    def rho(self) -> Fraction:
        """The cost of the level: of the trials, of the selection and of the measurement."""
        selected = selection_rho(DISTANCE_CHANGE[self.relation], self.selection_variance)
        return sum((trial.rho for trial in self.trials), selected) + self.candidates[0].rho

    @property
    def selection_variance(self) -> Fraction:
        """The squared scale of the selection's noise (`noise.noisy_top`)."""
        return DISTANCE_CHANGE[self.relation] ** 2 / (self.budget * CHOICE)

    @property
    def candidates(self) -> tuple[LevelPlan, ...]:
        """The plans of which one is carried out."""
        return self._plans(self.budget * (1 - CHOICE))

    @property
    def trials(self) -> tuple[LevelPlan, ...]:
        """The measurement by every method that the selection compares."""
        return self._plans(self.budget * CHOICE / (2 * len(self.methods)))

    def _plans(self, budget: Fraction) -> tuple[LevelPlan, ...]:
        return tuple(LevelPlan(self.relation, method, budget) for method in self.methods)


def level_plan(
    relation: str, methods: Sequence[str], budget: Fraction, *, pure: bool = False
) -> LevelPlan | LevelChoice:
    """The plan of a level, given the methods to choose from, or the only one."""
    if len(methods) == 1:
        return LevelPlan(relation, methods[0], budget, pure)
    return LevelChoice(relation, tuple(methods), budget)


@dataclass(frozen=True)
class MeasuredLevel:
    """The measurements of a level.

    plan: of the level; after a choice, that of the chosen method.
    estimates: of each region.
    values: the noisy values of each region; None where they are too many to be published.
    """

    plan: LevelPlan
    estimates: tuple[Estimate, ...]
    values: tuple[Int64Array, ...] | None


@dataclass(frozen=True)
class SizesPlan:
    """A release of sizes.

    regions: the tree, with the public number of groups of each region.
    largest: a public cap: larger groups count as groups of this size.
    levels: from the root down.
    """

    regions: Regions
    largest: int
    levels: tuple[LevelPlan | LevelChoice, ...]

    @property
    def rho(self) -> Fraction:
        return sum((level.rho for level in self.levels), Fraction(0))

    def entries(self, depth: int, method: str) -> int:
        """The number of values that a method measures at a level."""
        count = METHODS[method].entries
        return sum(count(int(g), self.largest) for g in self.regions.counts[depth] if g)


def default_methods(regions: Regions) -> tuple[str, ...]:
    """A method for each level, by the public number of groups in its regions.

    The error of sorted sizes grows with how many groups have one size, for isotonic regression
    cannot tell where the next size begins; that of cumulative counts only with the number of sizes.
    """
    return tuple(
        "sorted" if counts.sum() < FEW_GROUPS * len(counts) else "cumulative-squares"
        for counts in regions.counts
    )


def omniscient_error(distinct: int, deviation: float) -> float:
    """The earth mover's distance of an estimate with the occurring sizes known beforehand.

    A yardstick (Kuo et al. 2018, section 6): only the `distinct` sizes that occur are measured,
    with noise of this deviation.
    """
    return distinct * deviation
