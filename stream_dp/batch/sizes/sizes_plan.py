"""The budget of a release of sizes: every level has a share of rho.

With noise of pure differential privacy a level costs what `stream_dp.privacy.exact_tables` proves.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.noise import exact_variance, geometric_variance
from stream_dp.study.place_releases import geometric_cost, geometric_decay, squared_change

from .histogram import Estimate, Int64Array
from .regions import Regions
from .size_estimates import METHODS

FEW_GROUPS = 200  # in a region on average: below it sorted sizes are measured


@dataclass(frozen=True)
class LevelPlan:
    """The plan of a level.

    relation: the study's neighbouring relation, one of `place_releases.RELATIONS`.
    method: the name of the method.
    budget: its rho; with pure noise its eps.
    pure: whether the noise is double-geometric.
    """

    relation: str
    method: str
    budget: Fraction
    pure: bool = False

    @property
    def rho(self) -> Fraction:
        """The cost of the level; with pure noise too high by at most 1e-12 of it."""
        return geometric_cost(self.relation, self.budget) if self.pure else self.budget

    @property
    def parameter(self) -> Fraction:
        """The noise: the variance of a discrete Gaussian, or the decay of pure noise."""
        if self.pure:
            return geometric_decay(self.relation, self.budget)
        return squared_change(self.relation) / (2 * self.budget)

    @property
    def variance(self) -> float:
        """The variance of the noise in each entry."""
        law = geometric_variance if self.pure else exact_variance
        return law(self.parameter)

    @property
    def cumulative(self) -> bool:
        """Whether cumulative counts are measured."""
        return self.method == "cumulative-squares"

    def penalty(self, noise: NDArray[np.int64]) -> NDArray[np.float64]:
        """Minus the log density of the noise in each entry, up to a constant."""
        parameter = float(self.parameter)
        if self.pure:
            return np.abs(noise) * parameter
        return noise.astype(np.float64) ** 2 / (2 * parameter)


@dataclass(frozen=True)
class MeasuredLevel:
    """The measurements of a level.

    plan: of the level.
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
    levels: tuple[LevelPlan, ...]

    @property
    def rho(self) -> Fraction:
        return sum((level.rho for level in self.levels), Fraction(0))

    def entries(self, depth: int) -> int:
        """The number of values that are measured at a level."""
        count = METHODS[self.levels[depth].method].entries
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
