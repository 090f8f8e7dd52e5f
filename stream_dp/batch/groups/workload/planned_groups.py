"""The phases of a data set of groups before any data: see `planned_phases.PlannedPhase`."""

from __future__ import annotations

from stream_dp.study import Study
from stream_dp.study.group_releases import BatchRelease

from ...planned_phases import PlannedPhase, counted_phases
from ...synthesizer import release_domain
from .candidates import declared_workload, marginal_workload, one_way_marginals
from .groups_plan import AdaptivePlan, equal_costs


def planned_groups(study: Study, release: BatchRelease) -> tuple[PlannedPhase, ...]:
    """The phases of a release: fixed measurements, then rounds that select."""
    workload = declared_workload(release_domain(study, release), release)
    return counted_phases(AdaptivePlan.of(release).phases(workload), workload)


def planned_independent(study: Study, release: BatchRelease) -> tuple[PlannedPhase, ...]:
    """The phase of the kind `independent`: every one-way marginal."""
    workload = marginal_workload(one_way_marginals(release_domain(study, release)))
    candidates = tuple(range(workload.candidates))
    return counted_phases([equal_costs(release.rho, candidates, workload)], workload)
