"""A declared release of sizes: the plan of each level, and the fit in a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from stream_dp.study import SizesRelease, Study
from stream_dp.study.method_titles import sizes_title

from ..planned_phases import PlannedPhase
from ..synthesizer import FitContext
from .region_tables import ALL, counted_regions, require_feasible
from .regions import Regions
from .sizes_fit import FittedLevels, fit_levels
from .sizes_plan import LevelPlan, SizesPlan, default_methods

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
        spread = f"{self.least:.2f}"
        if f"{self.most:.2f}" != spread:
            spread += f" to {self.most:.2f}"
        return (
            f"{self.title}; standard deviation of an entry {spread}; omniscient error {spread} for"
            " each size that occurs"
        )


def declared_levels(
    release: SizesRelease, neighbours: str, methods: Sequence[Sequence[str]]
) -> tuple[LevelPlan, ...]:
    """The plan of each level. methods: to choose from, by level."""
    depth = len(methods)
    if release.epsilon is not None:
        return tuple(
            LevelPlan(neighbours, tuple(names), epsilon, pure=True)
            for names, epsilon in zip(methods, release.epsilon, strict=True)
        )
    shares = release.parts or (1,) * depth
    return tuple(
        LevelPlan(
            neighbours, tuple(names), release.rho * share / sum(shares), choice=release.choice
        )
        for names, share in zip(methods, shares, strict=True)
    )


def declared_plan(study: Study, release: SizesRelease, regions: Regions) -> SizesPlan:
    """The plan of a release on a tree of regions. Raises UserError."""
    methods = release.candidates() or default_methods(regions)
    levels = declared_levels(release, study.neighbours, methods)
    plan = SizesPlan(regions, release.largest, levels)
    require_feasible(plan)
    return plan


def planned_sizes(study: Study, release: SizesRelease) -> tuple[PlannedLevel, ...]:
    """The measurements of a release at each level, before the places are known."""
    assert study.places is not None
    names = (ALL, *study.places.regions)
    declared = release.candidates()
    levels = declared_levels(release, study.neighbours, declared or [_DEFAULT[:1]] * len(names))
    planned = []
    for name, level in zip(names, levels, strict=True):
        methods = level.methods if declared else _DEFAULT
        how = "" if len(methods) == 1 else ", chosen privately"
        if not declared:
            how = ", by how many places its regions have"
        deviations = [level.variance(method) ** 0.5 for method in level.methods]
        planned.append(
            PlannedLevel(
                title=f"level {name}: {' or '.join(methods)}{how}",
                rho=level.rho,
                candidates=len(methods),
                queries=0,
                picked=1,
                least=min(deviations),
                most=max(deviations),
            )
        )
    return tuple(planned)


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
