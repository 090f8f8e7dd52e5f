"""The phases of a table of people before any data: see `planned_phases.PlannedPhase`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

from stream_dp.study import MatchRelease, PeopleRelease, Study

from ..data.domain import Column
from ..planned_phases import FitPlan, Measured, PlannedPhase
from ..rounds.adaptive_fit import Annealed, Phase
from .all_pairs import NOISIEST, SIGNAL, AllPairs
from .compression import MOST_APART, Encoding
from .match_plan import MatchPlan
from .pair_filter import cell_deviation
from .people_plan import MANY_PEOPLE, PeoplePlan, Steps, people_plan
from .people_table import PeopleDomain, study_people
from .residual_counts import Columns, Residuals
from .structural_zeros import NO_ZEROS
from .table_plan import TablePlan

Precisions = dict[Columns, float]  # by set, of an entry of its measured residual


def planned_people(study: Study, release: PeopleRelease) -> FitPlan:
    """The plan of the kinds `mixture` and `rap`, with all choices of noisy answers."""
    plan = people_plan(study_people(study, release), release)
    return FitPlan(
        plan.titles,
        lambda: people_phases(plan, release),
        lambda: _measured([(people, plan) for people in plan.supposed]),
    )


def _measured(plans: Sequence[tuple[int, PeoplePlan]]) -> Measured:
    """What is measured. plans: by number of people, the most first; see `PeoplePlan.supposed`."""
    contents = [_content(plan, plan.steps(people)) for people, plan in plans]
    sentence = f"single columns{contents[0]}"
    if len(plans) > 1 and contents[0] != contents[1]:
        fewer = f"below that single columns{contents[1]}"
        sentence = f"from {plans[1][0] + 1:,} people on {sentence}, {fewer}"
    return Measured(f"measured: {sentence}", not contents[0])


def _content(plan: PeoplePlan, steps: Steps) -> str:
    """The measurements of several columns together; empty if there are none."""
    for phase in steps.phases:
        columns = plan.workload.sets[phase.candidates[0]]
        if isinstance(phase, Annealed):
            most = min(phase.picks * phase.rounds, len(phase.candidates))
            return f" and up to {most:,} pairs of them, picked in rounds"
        if len(columns) > 1:
            return " and all pairs of them"
    return ""


def people_phases(plan: PeoplePlan, release: PeopleRelease) -> list[PlannedPhase]:
    """The phases of a plan of people's columns."""
    planned, precisions = list[PlannedPhase](), Precisions()
    if plan.counting is not None:
        described, precisions = _described(
            "the number of people", plan.workload, plan.counting, precisions
        )
        planned.append(described)
    sums = ", sums of numbers among them" if release.linear else ""
    for people in plan.supposed:
        planned += _steps(plan, people, sums, precisions)
    return planned


def _steps(plan: PeoplePlan, people: int, sums: str, precisions: Precisions) -> list[PlannedPhase]:
    """The phases after the number of people. precisions: of earlier measurements."""
    steps, planned = plan.steps(people), list[PlannedPhase]()
    chooses = plan.people is None and plan.fewest > 1
    is_fewer = chooses and people < plan.fewest
    for phase in steps.phases:
        if isinstance(phase, Annealed):
            title = (
                f"{'and then ' * is_fewer}pairs of columns, up to {phase.picks:,} picked in each of"
                f" {phase.rounds:,} rounds at most, with half the noise after one that teaches"
                " nothing"
            )
        else:
            pairs = len(plan.workload.sets[phase.candidates[0]]) == 2
            title = f"{'pairs of' if pairs else 'single'} columns{sums}"
            if is_fewer:
                share = "more of rho the fewer they are" if steps.phases[1:] else "all of rho"
                title = f"or below {plan.fewest:,} people, {title}, with {share}"
            elif pairs and chooses:
                title = f"from {plan.fewest:,} people on, all {title}"
        described, precisions = _described(title, plan.workload, phase, precisions)
        planned.append(described)
    if isinstance(steps.last, AllPairs):
        planned += _last_phases(steps.last, precisions)
    return planned


def _last_phases(everything: AllPairs, precisions: Precisions) -> list[PlannedPhase]:
    """The last phase after all pairs, either of triples or of pairs again, as noisy answers say.

    precisions: of all earlier measurements. Both alternatives follow these.
    """
    alternatives = []
    title = f"pairs again, those over {SIGNAL:g} deviations or all"
    if everything.triples:
        of_triples = f"triples of columns, if their noise is below {NOISIEST:g}"
        alternatives.append((of_triples, everything.triples))
        title = f"or {title}"
    alternatives.append((title, everything.repeated))
    return [
        _described(title, everything.residuals, everything.last(sets), precisions)[0]
        for title, sets in alternatives
    ]


def _planned(plan_of: type[MatchPlan], study: Study, release: MatchRelease) -> FitPlan:
    """The plan of a kind, made at the first use. plan_of: its class."""

    @cache
    def plan() -> MatchPlan:
        return plan_of(Encoding.of(study_people(study, release), release), release)

    def measured() -> Measured:
        """What is measured of the public number of people, or of many and of few if it is noisy."""
        if plan().listed:
            return Measured("measured: single columns, and what the declared marginals need")
        size, domain = plan().encoding.domain.size, _widest(plan().encoding)
        fewest = plan().fewest_at_once(domain)
        supposed = (size,) if size is not None else (MANY_PEOPLE, fewest - 1)
        return _measured([(n, plan().second(domain, n)) for n in supposed if n])

    return FitPlan(release.titles, lambda: match_phases(plan()), measured)


# Of the kinds `match` and `table`: single columns, then marginals or pairs, as answers choose.
planned_match, planned_table = partial(_planned, MatchPlan), partial(_planned, TablePlan)


def match_phases(plan: MatchPlan) -> list[PlannedPhase]:
    """The phases of both plans.

    The compressed domain follows from noisy answers. So the second phase is planned as if no value
    were merged, which is the most that it may measure.
    """
    size, domain = plan.encoding.domain.size, _widest(plan.encoding)
    people = MANY_PEOPLE if size is None else size
    planned, precisions = list[PlannedPhase](), Precisions()

    def add(title: str, residuals: Residuals, phase: Phase) -> Precisions:
        described, after = _described(title, residuals, phase, precisions)
        planned.append(described)
        return after

    for phase in plan.first.phases(people):
        title = "the number of people" if phase is plan.first.counting else "single columns"
        precisions = add(title, plan.first.workload, phase)
    merged, fewest = "if no value is merged, ", plan.fewest_at_once(domain)
    if plan.listed:
        second = plan.second(domain, people)
        add(f"{merged}what the declared marginals need", second.workload, *second.phases(people))
        return planned
    fewer = plan.picked(domain, fewest - 1 if size is None else people)
    if fewer is None or size is None:
        if fewer is not None:
            merged += f"from {fewest:,} people on, "
        measured = precisions
        for number, (title, residuals, phase) in enumerate(plan.at_once_phases(domain, people)):
            after = add(f"{'' if number else merged}{title}", residuals, phase)
            precisions = after if plan.repeats else measured
        precisions = measured
        merged = f"or below {fewest:,} people, after more of rho for single columns, "
    if fewer is not None:
        (phase,) = fewer.phases(people)
        title = "single columns once more"
        if isinstance(phase, Annealed):
            title = "pairs of columns" if size is not None else "pairs"
            title += f", up to {phase.picks:,} picked in each of {phase.rounds:,} rounds at most"
        add(f"{merged}{title}", fewer.workload, phase)
    return planned


def _described(
    title: str, residuals: Residuals, phase: Phase, before: Precisions
) -> tuple[PlannedPhase, Precisions]:
    """A phase in words, and the precisions after the phase.

    Independent noisy answers add their precisions 1 / variance, set by set. before: the phase.
    """
    precisions = {**before}
    for candidate, variance in phase.variances(residuals).items():
        columns = residuals.sets[candidate]
        precisions[columns] = precisions.get(columns, 0.0) + 1 / float(variance)
    sets = [residuals.sets[i] for i in phase.candidates]
    deviations = [cell_deviation(residuals, columns, precisions) for columns in sets]
    return PlannedPhase.of(title, phase, residuals, deviations), precisions


def _widest(encoding: Encoding) -> PeopleDomain:
    """The largest domain that the second phase may have."""
    source = encoding.domain
    groups = [int(encoding.public_groups(c).max()) + 1 for c in range(len(source.columns))]
    columns = zip(source.columns, groups, strict=True)
    return replace(
        source,
        columns=tuple(Column(c.name, tuple(range(min(n, MOST_APART + 1)))) for c, n in columns),
        zeros=NO_ZEROS,
    )
