"""The phases of a table of people before any data: see `planned.PlannedPhase`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from stream_dp.study import PeopleRelease, Study
from stream_dp.study.data_sets import MANY
from stream_dp.study.method_titles import PICKED_TITLE, kind_title

from ..phases import Everything, Phase
from ..planned import PlannedPhase
from .chosen import ChosenPlan
from .plan import MOST_TRIPLE, NOISIEST, SIGNAL, ResidualPlan, label_columns
from .projections import linear_residuals
from .residuals import Columns, Residuals, all_residuals
from .rounds.pairs import RankedPairs
from .rounds.plan import PickPlan
from .table import study_people

_TITLES = ("the number of people", "single columns", "pairs of columns")


def planned_people(study: Study, release: PeopleRelease) -> tuple[PlannedPhase, ...]:
    """Residuals, a phase after the other; the last one is what noisy answers choose."""
    domain = study_people(study, release)
    if release.chosen:
        return _chosen(ChosenPlan(domain, release.rho, label_columns(release)))
    if release.picking:
        labels = label_columns(release)
        picked = PickPlan.of(domain, release.rho, *release.picking, predicted=labels)
        return _picked(picked.pairs, picked.phases())
    projections = sum(one.projections for one in release.linear or ())
    if projections:
        residuals = linear_residuals(domain, release)
    else:
        residuals = all_residuals(domain, 3, MOST_TRIPLE)
    return _at_once(ResidualPlan(residuals, release.rho, label_columns(release)), projections)


def people_titles(study: Study, release: PeopleRelease) -> tuple[str, ...]:
    """The mechanisms that a certificate may name; see `kinds.planned_titles`."""
    if release.chosen:
        domain = study_people(study, release)
        return ChosenPlan(domain, release.rho, label_columns(release)).titles(release.kind)
    return (PICKED_TITLE if release.picking else kind_title(release.kind),)


def _at_once(plan: ResidualPlan, projections: int = 0, least: int = 0) -> tuple[PlannedPhase, ...]:
    """least: the fewest people of whom all pairs are measured at once, where that is to be said."""
    residuals = plan.residuals
    precisions, phases = dict[Columns, float](), list[PlannedPhase]()
    for number in range(3):
        if number or residuals.domain.moves:
            phase = plan.of(number, plan.sets(number))
            _measure(precisions, residuals, phase)
            title = _TITLES[number]
            if number and projections:
                title += ", sums of numbers among them"
            if number == 2 and least:
                title = f"from {least:,} people on, all {title}"
            phases.append(_planned(title, residuals, phase, precisions))
    if plan.triples:
        phase = plan.of(3, plan.triples)
        title = f"triples of columns, if their noise is below {NOISIEST:g}"
        phases.append(_planned(title, residuals, phase, _added(precisions, residuals, phase)))
    again = plan.of(3, plan.again)
    title = f"{'or ' * bool(plan.triples)}pairs again, those over {SIGNAL:g} deviations or all"
    phases.append(_planned(title, residuals, again, _added(precisions, residuals, again)))
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
        together = dict(precisions)
        for candidate, variance in phase.variances(pairs).items():
            together[pairs.sets[candidate]] = 1 / float(variance)
        if isinstance(phase, Everything):
            precisions = together
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
        planned.append(_planned(title, pairs, phase, together))
    return tuple(planned)


def _measure(precisions: dict[Columns, float], residuals: Residuals, phase: Everything) -> None:
    """Adds to each interaction's precision; without noise it is infinite."""
    for candidate, variance in phase.variances(residuals).items():
        columns = residuals.sets[candidate]
        precisions[columns] = precisions.get(columns, 0.0) + 1 / float(variance)


def _added(
    precisions: dict[Columns, float], residuals: Residuals, phase: Everything
) -> dict[Columns, float]:
    together = dict(precisions)
    _measure(together, residuals, phase)
    return together


def _planned(
    title: str, residuals: Residuals, phase: Phase, precisions: dict[Columns, float]
) -> PlannedPhase:
    sets = [residuals.sets[i] for i in phase.candidates]
    deviations = [cell_deviation(residuals, columns, precisions) for columns in sets]
    return PlannedPhase.of(title, phase, residuals, deviations)


def cell_deviation(
    residuals: Residuals, columns: Columns, precisions: dict[Columns, float]
) -> float:
    """The standard deviation of a cell of a marginal that is rebuilt from its interactions.

    precisions: of every entry of the residuals that are measured; without one there is no noise.
    An interaction's cell is an entry over the number of its cells, centred; the marginal has it
    spread over the values of its other columns.
    """
    domain = residuals.domain
    every, variance = domain.cells(columns), 0.0
    for ways in range(len(columns) + 1):
        for part in combinations(columns, ways):
            if part in precisions:
                centred = math.prod(1 - 1 / domain.sizes[c] for c in part)
                variance += centred / precisions[part] / every**2
    return math.sqrt(variance)
