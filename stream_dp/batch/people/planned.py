"""The phases of a table of people before any data: see `planned.PlannedPhase`."""

from __future__ import annotations

import math
from itertools import combinations

from stream_dp.study import PeopleRelease, Study

from ..phases import Everything, Phase
from ..planned import PlannedPhase
from .plan import MOST_TRIPLE, NOISIEST, SIGNAL, ResidualPlan, label_columns
from .projections import linear_residuals
from .residuals import Columns, Residuals, all_residuals
from .rounds.plan import PickPlan
from .table import study_people

_TITLES = ("the number of people", "single columns", "pairs of columns")


def planned_people(study: Study, release: PeopleRelease) -> tuple[PlannedPhase, ...]:
    """Residuals, a phase after the other; the last one is what noisy answers choose."""
    domain = study_people(study, release)
    if release.picking:
        return _picked(PickPlan.of(domain, release.rho, *release.picking))
    projections = sum(one.projections for one in release.linear or ())
    if projections:
        residuals = linear_residuals(domain, release)
    else:
        residuals = all_residuals(domain, 3, MOST_TRIPLE)
    plan = ResidualPlan(residuals, release.rho, label_columns(release))
    precisions, phases = dict[Columns, float](), list[PlannedPhase]()
    for number in range(3):
        if number or residuals.domain.moves:
            phase = plan.of(number, plan.sets(number))
            _measure(precisions, residuals, phase)
            title = _TITLES[number]
            if number and projections:
                title += ", sums of numbers among them"
            phases.append(_planned(title, residuals, phase, precisions))
    if plan.triples:
        phase = plan.of(3, plan.triples)
        title = f"triples of columns, if their noise is below {NOISIEST:g}"
        phases.append(_planned(title, residuals, phase, _added(precisions, residuals, phase)))
    again = plan.of(3, plan.again)
    title = f"{'or ' * bool(plan.triples)}pairs again, those over {SIGNAL:g} deviations or all"
    phases.append(_planned(title, residuals, again, _added(precisions, residuals, again)))
    return tuple(phases)


def _picked(plan: PickPlan) -> tuple[PlannedPhase, ...]:
    """The phases before pairs are picked, and the rounds with the noise that they begin with."""
    planned, precisions, pairs = list[PlannedPhase](), dict[Columns, float](), plan.pairs
    for phase in plan.phases():
        together = dict(precisions)
        for candidate, variance in phase.variances(pairs).items():
            together[pairs.sets[candidate]] = 1 / float(variance)
        if isinstance(phase, Everything):
            precisions = together
            title = _TITLES[len(pairs.sets[phase.candidates[0]])]
        else:
            title = (
                f"pairs of columns, up to {plan.picks:,} picked in each of {plan.rounds:,} rounds"
                " at most, with half the noise after one that teaches nothing"
            )
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
