"""The phases of a two-phase table of people before any data: see `planned_phases.PlannedPhase`.

The compressed domain follows from noisy answers. So the second phase is planned as if no value were
merged, which is the most that it may measure.
"""

from __future__ import annotations

import math

from stream_dp.study import MatchRelease, Study
from stream_dp.study.method_titles import PICKED_TITLE, kind_title

from ..data.domain import Column
from ..planned_phases import PlannedPhase
from .compress.compression import MOST_APART
from .compress.encoding import Encoding
from .measure.residual_counts import Columns
from .people_table import PeopleDomain, study_people
from .planned_people import described_phase, planned_phase, precisions_after
from .select.at_once_plan import NOISIEST
from .select.choice import Choice
from .select.match_plan import MatchPlan
from .select.pairs import ranked_pairs
from .select.picked_plan import MOST_CELLS


def planned_match(study: Study, release: MatchRelease) -> tuple[PlannedPhase, ...]:
    """Single columns, then marginals; of the defaults triples are what noisy answers choose."""
    encoding = Encoding.of(study_people(study, release), release)
    plan, people = MatchPlan(encoding, release), encoding.domain.size
    planned, precisions = list[PlannedPhase](), dict[Columns, float]()
    for phase in plan.first(people):
        counted = phase.candidates == (0,)
        title = "the number of people" if counted else "single columns"
        precisions = precisions_after(plan.singles, phase, precisions)
        planned.append(described_phase(title, plan.singles, phase, precisions))
    domain = _widest(encoding)
    merged = "if no value is merged, "
    if plan.listed:
        residuals, phase = plan.second(domain, None)
        title = f"{merged}what the declared marginals need"
        return (*planned, planned_phase(title, residuals, phase, precisions))
    if people is not None and plan.picked(domain, people):
        return (*planned, _rounds(plan, domain, people, f"{merged}pairs of columns", precisions))
    alone = plan.without_triples(domain, people)
    fewest = _fewest(plan, domain) if people is None and plan.choosing else 1
    if fewest > 1:
        merged += f"from {fewest:,} people on, "
    planned.append(planned_phase(f"{merged}pairs of columns", *alone, precisions))
    if plan.triples(domain):
        residuals, phase = plan.second(domain, None)
        title = f"or pairs and triples, where the noise of triples is below {NOISIEST:g}"
        planned.append(planned_phase(title, residuals, phase, precisions))
    if fewest > 1:
        title = f"or below {fewest:,} people, after more of rho for single columns, pairs"
        planned.append(_rounds(plan, domain, fewest - 1, title, precisions))
    return tuple(planned)


def match_titles(study: Study, release: MatchRelease) -> tuple[str, ...]:
    """The mechanisms that a certificate may name; see `kinds.planned_titles`.

    The noisy counts of single columns, by which values are merged, decide between the two.
    """
    plan = MatchPlan(Encoding.of(study_people(study, release), release), release)
    title = kind_title(release.kind)
    return (title, PICKED_TITLE) if plan.choosing else (title,)


def _fewest(plan: MatchPlan, domain: PeopleDomain) -> int:
    """The fewest people of whom pairs are measured at once; 1 if they always are."""
    sets = [a for a in ranked_pairs(domain, MOST_CELLS // 2).sets if len(a) == 2]
    return math.ceil(Choice(domain, plan.release.rho).clearest(sets)) if sets else 1


def _rounds(
    plan: MatchPlan, domain: PeopleDomain, people: int, title: str, before: dict[Columns, float]
) -> PlannedPhase:
    picked = plan.picked(domain, people)
    assert picked is not None
    title += f", up to {picked.picks:,} picked in each of {picked.rounds:,} rounds at most"
    return planned_phase(title, picked.pairs, picked.picking(picked.rho), before)


def _widest(encoding: Encoding) -> PeopleDomain:
    """The largest domain that the second phase may have."""
    source = encoding.domain
    groups = [int(encoding.public_groups(c).max()) + 1 for c in range(len(source.columns))]
    return PeopleDomain(
        columns=tuple(
            Column(column.name, tuple(range(min(count, MOST_APART + 1))))
            for column, count in zip(source.columns, groups, strict=True)
        ),
        moves=source.moves,
        replaced=source.replaced,
        size=source.size,
        most=source.most,
    )
