"""The phases of a table of people before any data: see `planned_phases.PlannedPhase`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from stream_dp.study import PeopleRelease, Study

from ..planned_phases import PlannedPhase
from ..rounds.phases import Everything, Phase
from .measure.residual_counts import Columns, Residuals
from .measure.residual_noise import cell_deviation
from .people_plan import mechanism_title, people_plan
from .people_table import study_people
from .select.at_once_plan import NOISIEST, SIGNAL, ResidualPlan
from .select.choice import MANY
from .select.chosen_plan import ChosenPlan
from .select.pairs import RankedPairs
from .select.picked_plan import PickPlan

_TITLES = ("the number of people", "single columns", "pairs of columns")


def planned_people(study: Study, release: PeopleRelease) -> tuple[PlannedPhase, ...]:
    """Residuals, a phase after the other; the last one is what noisy answers choose."""
    plan = people_plan(study_people(study, release), release)
    if isinstance(plan, ChosenPlan):
        return _chosen(plan)
    if isinstance(plan, PickPlan):
        return _picked(plan.pairs, plan.phases)
    return _at_once(plan, sum(one.projections for one in release.linear or ()))


def people_titles(study: Study, release: PeopleRelease) -> tuple[str, ...]:
    """The mechanisms that a certificate may name; see `kinds.planned_titles`."""
    plan = people_plan(study_people(study, release), release)
    return tuple(mechanism_title(release.kind, picks) for picks in plan.may_pick)


def _at_once(plan: ResidualPlan, projections: int = 0, least: int = 0) -> tuple[PlannedPhase, ...]:
    """least: the fewest people of whom all pairs are measured at once, where that is to be said."""
    residuals = plan.residuals
    precisions, phases = dict[Columns, float](), list[PlannedPhase]()
    for number in range(3):
        if number or residuals.domain.moves:
            phase = plan.of(number, plan.sets(number))
            title = _TITLES[number]
            if number and projections:
                title += ", sums of numbers among them"
            if number == 2 and least:
                title = f"from {least:,} people on, all {title}"
            precisions = precisions_after(residuals, phase, precisions)
            phases.append(described_phase(title, residuals, phase, precisions))
    if plan.triples:
        phase = plan.of(3, plan.triples)
        title = f"triples of columns, if their noise is below {NOISIEST:g}"
        phases.append(planned_phase(title, residuals, phase, precisions))
    again = plan.of(3, plan.again)
    title = f"{'or ' * bool(plan.triples)}pairs again, those over {SIGNAL:g} deviations or all"
    phases.append(planned_phase(title, residuals, again, precisions))
    return tuple(phases)


def _chosen(plan: ChosenPlan) -> tuple[PlannedPhase, ...]:
    """What the number of people chooses; where it is private, all that it may choose."""
    people, fewest = plan.domain.size, math.ceil(min(plan.fewest, 1 << 62))
    many = len(plan.domain.columns) >= MANY
    if people is None and fewest > 1:
        least = 0 if many else fewest
        supposed = 1 << 30 if many else fewest - 1
        once = () if many else _at_once(plan.at_once, least=least)
        count: list[Phase] = [plan.at_once.of(0, [()])]
        few = _picked(plan.workload, [*count, *plan.later(supposed)], least)
        return (*once, *(few[1:] if once else few))
    if people is None or plan.measures_all(people):
        return _at_once(plan.at_once)
    count = [plan.at_once.of(0, [()])] if plan.domain.moves else []
    return _picked(plan.workload, [*count, *plan.later(people)])


def _picked(
    pairs: RankedPairs, phases: Sequence[Phase], below: int = 0
) -> tuple[PlannedPhase, ...]:
    """The phases before pairs are picked, and the rounds with the noise that they begin with.

    below: how many people have others, where that is to be said.
    """
    planned, precisions = list[PlannedPhase](), dict[Columns, float]()
    for phase in phases:
        if isinstance(phase, Everything):
            title = _TITLES[len(pairs.sets[phase.candidates[0]])]
            if below:
                part = "more of rho the fewer they are" if len(phases) > 2 else "all of rho"
                title = f"or below {below:,} people, {title}, with {part}"
        else:
            title = (
                f"pairs of columns, up to {phase.picks:,} picked in each of {phase.rounds:,} rounds"
                " at most, with half the noise after one that teaches nothing"
            )
            title = f"and then {title}" if below else title
        precisions = precisions_after(pairs, phase, precisions)
        planned.append(described_phase(title, pairs, phase, precisions))
    return tuple(planned)


def planned_phase(
    title: str, residuals: Residuals, phase: Phase, before: Mapping[Columns, float]
) -> PlannedPhase:
    """Describes a phase. before: the precisions of what is measured already."""
    return described_phase(title, residuals, phase, precisions_after(residuals, phase, before))


def described_phase(
    title: str, residuals: Residuals, phase: Phase, precisions: Mapping[Columns, float]
) -> PlannedPhase:
    """Describes a phase. precisions: of what is measured after it."""
    sets = [residuals.sets[i] for i in phase.candidates]
    deviations = [cell_deviation(residuals, columns, precisions) for columns in sets]
    return PlannedPhase.of(title, phase, residuals, deviations)


def precisions_after(
    residuals: Residuals, phase: Phase, before: Mapping[Columns, float]
) -> dict[Columns, float]:
    """The precision of an entry of each interaction that is measured after a phase."""
    precisions = dict(before)
    for candidate, variance in phase.variances(residuals).items():
        columns = residuals.sets[candidate]
        precisions[columns] = precisions.get(columns, 0.0) + 1 / float(variance)
    return precisions
