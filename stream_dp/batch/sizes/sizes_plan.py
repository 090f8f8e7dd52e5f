"""The budget of a release of sizes: by level, for a choice of the method and for measurements.

Every level has a share of rho. Where several methods are declared, a part of the share is for the
choice. Half of this part measures the level by each method. The other half pays for the exponential
mechanism on the sum of the earth mover's distances between these estimates and the truth. The
distance changes by at most 1 under `add_remove` and by at most 2 under `replace_one`, whatever the
estimates are. The chosen method measures the level with the rest of the share.

With noise of pure differential privacy a level costs what `stream_dp.privacy.geometric` proves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.noise import exact_variance, geometric_variance
from stream_dp.privacy.zcdp import selection_rho
from stream_dp.study.size_changes import geometric_cost, geometric_decay, squared_change

from .histogram import Estimate, Int64Array
from .methods import METHODS
from .regions import Regions

DISTANCE_CHANGE = {"add_remove": 1, "replace_one": 2}
FEW_GROUPS = 200  # in a region on average: below it sorted sizes are measured
DEFAULT_CHOICE = Fraction(1, 5)


@dataclass(frozen=True)
class LevelPlan:
    """The plan of a level.

    relation: the study's neighbouring relation, one of `size_changes.RELATIONS`.
    methods: the names of the methods to choose from, or of the only one.
    budget: its rho; with pure noise its eps.
    pure: whether the noise is double-geometric.
    choice: the part of the budget that a choice costs, where there is one.
    """

    relation: str
    methods: tuple[str, ...]
    budget: Fraction
    pure: bool = False
    choice: Fraction = DEFAULT_CHOICE

    @property
    def rho(self) -> Fraction:
        """The cost of the level; with pure noise too high by at most 1e-12 of it."""
        if self.pure:
            return geometric_cost(self.methods[0], self.relation, self.budget)
        cost = self._measured(len(self.methods) > 1)
        if len(self.methods) > 1:
            cost += len(self.methods) * self._tried
            cost += selection_rho(DISTANCE_CHANGE[self.relation], self.choice_variance)
        return cost

    def _measured(self, chosen: bool) -> Fraction:
        return self.budget * (1 - self.choice) if chosen else self.budget

    @property
    def _tried(self) -> Fraction:
        return self.budget * self.choice / (2 * len(self.methods))

    @property
    def choice_variance(self) -> Fraction:
        """The squared scale of the choice (`noise.noisy_top`)."""
        return DISTANCE_CHANGE[self.relation] ** 2 / (self.budget * self.choice)

    def parameter(self, method: str, *, tried: bool = False) -> Fraction:
        """The noise of a method: the variance of a discrete Gaussian, or the decay of pure noise.

        tried: for the choice, and not for the result.
        """
        if self.pure:
            return geometric_decay(method, self.relation, self.budget)
        budget = self._tried if tried else self._measured(len(self.methods) > 1)
        return squared_change(method, self.relation) / (2 * budget)

    def variance(self, method: str) -> float:
        """The variance of the noise in each entry of the result."""
        if not self.pure:
            return exact_variance(self.parameter(method))
        return geometric_variance(self.parameter(method))

    def penalty(self, method: str) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
        """Minus the log density of the noise in each entry of the result, up to a constant."""
        parameter = float(self.parameter(method))
        if self.pure:
            return lambda noise: np.abs(noise) * parameter
        return lambda noise: noise.astype(np.float64) ** 2 / (2 * parameter)


@dataclass(frozen=True)
class MeasuredLevel:
    """The measurements of a level.

    plan: of the level.
    method: the name of the method.
    estimates: of each region.
    values: the noisy values of each region; None where they are too many to be published.
    """

    plan: LevelPlan
    method: str
    estimates: tuple[Estimate, ...]
    values: tuple[Int64Array, ...] | None

    @property
    def cumulative(self) -> bool:
        """Whether cumulative counts were measured."""
        return self.method.startswith("cumulative")

    @cached_property
    def variance(self) -> float:
        """The variance of the noise in a value."""
        return self.plan.variance(self.method)


@dataclass(frozen=True)
class SizesPlan:
    """A release of sizes.

    regions: the tree, with the public number of groups of each region.
    largest: a public cap: larger groups count as groups of this size.
    levels: from the root down.
    """

    regions: Regions
    largest: int
    levels: tuple[LevelPlan, ...]

    @property
    def rho(self) -> Fraction:
        return sum((level.rho for level in self.levels), Fraction(0))

    def entries(self, depth: int, method: str) -> int:
        """The number of values that a method measures at a level."""
        count = METHODS[method].entries
        return sum(count(int(g), self.largest) for g in self.regions.counts[depth] if g)


def default_methods(regions: Regions) -> tuple[tuple[str, ...], ...]:
    """A method for each level, by the public number of groups in its regions.

    The error of sorted sizes grows with how many groups have one size, for isotonic regression
    cannot tell where the next size begins; that of cumulative counts only with the number of sizes.
    """
    return tuple(
        ("sorted",) if counts.sum() < FEW_GROUPS * len(counts) else ("cumulative-squares",)
        for counts in regions.counts
    )


def omniscient_error(distinct: int, deviation: float) -> float:
    """The earth mover's distance of an estimate with the occurring sizes known beforehand.

    A yardstick (Kuo et al. 2018, section 6): only the `distinct` sizes that occur are measured,
    with noise of this deviation.
    """
    return distinct * deviation
