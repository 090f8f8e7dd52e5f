"""The budget of a data set of groups: an opening, relatives, then rounds that select.

Four phases, of which those with nothing to measure are left out:
- the opening measures all one-way marginals and, with the same noise, what is free;
- the base measures marginals of relatives that their attributes depend on most;
- rounds pick among all further marginals of relatives;
- rounds pick among all other candidates.

The parts: `relations` of rho goes to the second and third where there are roles, `base` of it to
the second; of what is left `opening` goes to the first. Marginals of a phase that are measured all
at once cost the same each, but for those that are free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from stream_dp.study import Study
from stream_dp.study.group_releases import RELATIONS, BatchRelease, EventsRelease, HierarchyRelease

from ...data.domain import Domain, Hierarchy
from ...planned_phases import FitPlan, PlannedPhase, counted_phases
from ...rounds.adaptive_fit import AdaptiveFit, AdaptiveMethod, Model, fit_adaptively
from ...rounds.phases import SELECTION, Everything, PrivacyFilter, Rounds
from ...synthesizer import FitContext, events_domain, release_domain
from .candidates import Workload, declared_workload, marginal_workload, one_way_marginals
from .queries import SPOUSE

OPENING, BASE = Fraction(1, 5), Fraction(1, 2)
RELATIVE_ROUNDS, RELATIVE_PICKS = 4, 3
MOST_FREE = 20_000  # cells of all free candidates that are measured


@dataclass(frozen=True)
class AdaptivePlan:
    """The public phases of a data set of groups.

    rho: the budget of the release.
    rounds: the most rounds that pick, those among relatives aside.
    per_round: candidates that such a round picks; one among relatives picks RELATIVE_PICKS of them.
    selection: the part of a round's budget that pays for picking.
    opening: the opening's part of what relations leave.
    relations: the part of rho that measures relatives, where there are roles.
    base: the base's part of that.
    """

    rho: Fraction
    rounds: int
    per_round: int = 1
    selection: Fraction = SELECTION
    opening: Fraction = OPENING
    relations: Fraction = RELATIONS
    base: Fraction = BASE

    @staticmethod
    def of(release: HierarchyRelease) -> AdaptivePlan:
        """The plan of a declared release."""
        return AdaptivePlan(
            release.rho,
            rounds=release.rounds,
            per_round=release.per_round,
            relations=release.share_of_relatives,
        )

    def phases(self, workload: Workload) -> tuple[Everything | Rounds, ...]:
        """The phases for a workload. If there are fewer candidates than picks, all are measured."""
        opening = (*range(workload.opening), *self._free(workload))
        base = tuple(range(workload.opening, workload.opening + workload.base))
        charged = [i for i in workload.further if workload.squared[i]]
        is_related = (workload.levels >= SPOUSE) & bool(base)
        relatives = [i for i in charged if is_related[i]]
        unrelated = [i for i in charged if not is_related[i]]
        # Shares of rho: of relations and the rest; each divided into a first phase and rounds.
        related, rest = _split(self.relations, bool(base), bool(unrelated or workload.opening))
        of_opening, of_unrelated = _split(self.opening, bool(workload.opening), bool(unrelated))
        of_base, of_relatives = _split(self.base, bool(base), bool(relatives))
        phases: list[Everything | Rounds] = []
        before: PrivacyFilter = workload.filter
        if workload.opening:
            first = equal_costs(rest * of_opening * self.rho, opening, workload, before)
            phases, before = [first], first.charged
        if base:
            phases.append(equal_costs(related * of_base * self.rho, base, workload, before))
        if relatives:
            rounds, picks = RELATIVE_ROUNDS, RELATIVE_PICKS * self.per_round
            phases.append(self._rounds(related * of_relatives * self.rho, relatives, rounds, picks))
        if unrelated:
            rho = rest * of_unrelated * self.rho
            phases.append(self._rounds(rho, unrelated, self.rounds, self.per_round))
        return tuple(phases)

    def _free(self, workload: Workload) -> list[int]:
        """The free candidates beside the opening, the smallest first, up to MOST_FREE cells."""
        sizes = np.diff(workload.starts)
        free = [i for i in workload.further if not workload.squared[i]]
        free.sort(key=sizes.__getitem__)
        fit = np.cumsum(sizes[free], dtype=np.int64) <= MOST_FREE
        return sorted(free[: int(fit.sum())])

    def _rounds(self, rho: Fraction, candidates: Sequence[int], rounds: int, picks: int) -> Rounds:
        picks = min(picks, len(candidates))
        rounds = min(rounds, len(candidates) // picks)
        return Rounds(rho, tuple(candidates), rounds, picks, selection=self.selection)


def _split(share: Fraction, first: bool, second: bool) -> tuple[Fraction, Fraction]:
    """The shares of two phases; a phase without candidates leaves all to the second."""
    share = share if first and second else Fraction(first)
    return share, 1 - share


def equal_costs(
    rho: Fraction,
    candidates: tuple[int, ...],
    workload: Workload,
    before: PrivacyFilter,
) -> Everything:
    """Measures all candidates at equal cost; free ones have the noise of the cheapest.

    before: the filter that an earlier phase leaves.
    """
    squared = [workload.squared[i] for i in candidates]
    smallest = min(s for s in squared if s)
    weights = tuple(Fraction(s or smallest) for s in squared)
    return Everything(rho, candidates, weights, before)


def fit_workload(
    hierarchy: Hierarchy,
    release: HierarchyRelease,
    context: FitContext,
    begin: Callable[[Workload, Sequence[Everything | Rounds]], Callable[[int], Model[Hierarchy]]],
) -> AdaptiveFit[Workload, Hierarchy]:
    """Fits a declared release in adaptive rounds.

    begin: gives, for a workload and phases, the function from a seed to the first model
    """
    domain = hierarchy.domain
    if domain.roles is not None:
        domain = replace(domain, rules=release.structural_rules)
    workload = declared_workload(domain, release)
    phases = AdaptivePlan.of(release).phases(workload)
    start = begin(workload, phases)
    method = AdaptiveMethod.of(release.data_set.mechanism, workload, phases, start)
    return fit_adaptively(hierarchy, method, context)


def planned_groups(study: Study, release: BatchRelease) -> FitPlan:
    """The plan of a release: fixed measurements, then rounds that select."""
    return FitPlan(release.titles, lambda: _phases(release_domain(study, release), release))


def planned_events(study: Study, release: EventsRelease) -> FitPlan:
    """The plan of a release of people with their events."""
    domain = events_domain(study.attributes, release)
    return FitPlan(release.titles, lambda: _phases(domain, release))


def _phases(domain: Domain, release: HierarchyRelease) -> tuple[PlannedPhase, ...]:
    workload = declared_workload(domain, release)
    return counted_phases(AdaptivePlan.of(release).phases(workload), workload)


def planned_independent(study: Study, release: BatchRelease) -> FitPlan:
    """The plan of the kind `independent`: every one-way marginal, at once."""
    workload, phase = independent_phase(release_domain(study, release), release.rho)
    return FitPlan(release.titles, lambda: counted_phases([phase], workload))


def independent_phase(domain: Domain, rho: Fraction) -> tuple[Workload, Everything]:
    """All one-way marginals, with equal noise."""
    workload = marginal_workload(one_way_marginals(domain))
    indices = tuple(range(workload.candidates))
    return workload, Everything(rho, indices, (Fraction(1),) * len(indices), workload.filter)
