"""A declared release of sizes: the plan of every level, and the fit in a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import pyarrow as pa

from stream_dp.study import SizesRelease, Study
from stream_dp.study.place_releases import sizes_title, squared_change

from ..planned_phases import FitPlan, PlannedPhase
from ..rounds.phases import CHARGES
from ..synthesizer import FitContext
from .histogram import Regions
from .region_tables import ALL, counted_regions, require_feasible
from .sizes_fit import FittedLevels, fit_levels
from .sizes_plan import LevelChoice, LevelPlan, SizesPlan, default_methods, level_plan

# Which methods a release has by default; see `sizes_plan.default_methods`.
_DEFAULT = ("sorted", "cumulative-squares")


@dataclass(frozen=True)
class PlannedLevel(PlannedPhase):
    """A level before the places are known, on which the number of values depends.

    The omniscient error (Kuo et al. 2018, section 6) is the deviation of an entry for each size
    that occurs; their number is not known beforehand.
    """

    @property
    def text(self) -> str:
        """In words."""
        bound = "" if self.charge == CHARGES[True] else f"; charged by an {self.charge}"
        deviation = f"{self.least:.2f}"
        if f"{self.most:.2f}" != deviation:
            deviation += f" to {self.most:.2f}"
        return (
            f"{self.title}; standard deviation of an entry {deviation}; omniscient error"
            f" {deviation} for each size that occurs{bound}"
        )


def declared_levels(
    release: SizesRelease, neighbours: str, methods: Sequence[Sequence[str]]
) -> tuple[LevelPlan | LevelChoice, ...]:
    """The plan of every level from the methods to choose from."""
    shares = release.parts or (1,) * len(methods)
    budgets = release.epsilon or [release.rho * share / sum(shares) for share in shares]
    levels = tuple(
        level_plan(neighbours, names, budget, pure=release.epsilon is not None)
        for names, budget in zip(methods, budgets, strict=True)
    )
    if release.largest > 1 or neighbours == "add_remove" or release.epsilon is not None:
        return levels
    return _capped_at_one(levels, 1 - budgets[0] / release.rho)


def _capped_at_one(
    levels: tuple[LevelPlan | LevelChoice, ...], below: Fraction
) -> tuple[LevelPlan | LevelChoice, ...]:
    """The levels under replacement if a place is only empty or not.

    below: the share of rho below the root.

    Let u be what one place that becomes empty or full changes of a method: its change under
    `add_remove`. A move changes no place, or one, or two, of which one becomes empty and one full.
    One place costs u at every level. Two places of one region cancel, those of two regions cost 2
    u. So two places of two regions of level 1 cost most, 2 u at every level below the root, or one
    place does. If levels cost their parts of rho by u alone, the worst is max(1, 2 below) rho. A
    choice between methods is charged by itself.
    """
    if not all(isinstance(level, LevelPlan) for level in levels):
        return levels
    result = []
    for level in levels:
        assert isinstance(level, LevelPlan)
        alone = Fraction(
            squared_change(level.method, "add_remove"), squared_change(level.method, level.relation)
        )
        result.append(replace(level, joint=max(Fraction(1), 2 * below) * alone))
    return tuple(result)


def declared_plan(study: Study, release: SizesRelease, regions: Regions) -> SizesPlan:
    """The plan of a release on a tree of regions. Raises UserError."""
    methods = release.candidates or [(method,) for method in default_methods(regions)]
    levels = declared_levels(release, study.neighbours, methods)
    plan = SizesPlan(regions, release.largest, levels)
    require_feasible(plan)
    return plan


def planned_sizes(study: Study, release: SizesRelease) -> FitPlan:
    """The plan of a release, before the places are known."""
    return FitPlan(release.titles, lambda: planned_levels(study, release))


def planned_levels(study: Study, release: SizesRelease) -> list[PlannedLevel]:
    """The measurements of a release at every level."""
    assert study.places is not None
    names = (ALL, *study.places.regions)
    declared = release.candidates
    levels = declared_levels(release, study.neighbours, declared or (_DEFAULT[:1],) * len(names))
    planned = []
    for name, level in zip(names, levels, strict=True):
        methods = [plan.method for plan in level.candidates] if declared else _DEFAULT
        how = ", chosen privately" if len(methods) > 1 else ""
        if not declared:
            how = ", by how many places its regions have"
        deviations = [plan.variance**0.5 for plan in level.candidates]
        planned.append(
            PlannedLevel(
                title=f"level {name}: {' or '.join(methods)}{how}",
                rho=level.rho,
                candidates=len(methods),
                queries=0,
                picked=1,
                least=min(deviations),
                most=max(deviations),
                charge=CHARGES[is_exact(release)],
                gaussian=release.epsilon is None and isinstance(level, LevelPlan),
            )
        )
    return planned


def is_exact(release: SizesRelease) -> bool:
    """Whether the levels together are charged the exact maximum over all pairs of neighbours.

    A person who leaves a place of one and joins another place of one attains the charge of every
    level, if sizes up to 2 are told apart; `_capped_at_one` has the other case.
    Double-geometric noise is charged at most 1e-12 of its cost too much. The charge of a choice
    between methods is an upper bound.
    """
    if any(len(methods) > 1 for methods in release.candidates or ()):
        return False
    return release.epsilon is None


def fit_release(
    study: Study, release: SizesRelease, counts: pa.Table, context: FitContext
) -> FittedLevels:
    """Measures a job's places. It is `release.rho`-zCDP under the study's relation.

    counts: the job's snapshot: columns of the regions, `size` and `groups`. Confidential.
    Raises UserError where the snapshot does not fit the declaration.
    """
    assert study.places is not None
    regions, leaves = counted_regions(counts, study.places.regions)
    return fit_levels(leaves, declared_plan(study, release, regions), context)


def title(plan: SizesPlan) -> str:
    """The mechanism in words."""
    return sizes_title(pure=plan.levels[0].pure)
