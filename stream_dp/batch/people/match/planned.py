"""The phases of a two-phase table of people before any data: see `planned.PlannedPhase`.

The compressed domain follows from noisy answers. So the second phase is planned as if no value were
merged, which is the most that it may measure.
"""

from __future__ import annotations

from stream_dp.study import MatchRelease, Study

from ...data.domain import Column
from ...phases import Everything
from ...planned import PlannedPhase
from ..plan import NOISIEST
from ..planned import cell_deviation
from ..residuals import Columns, Residuals
from ..table import PeopleDomain, study_people
from .compression import MOST_APART
from .encoding import Encoding
from .plan import MatchPlan


def planned_match(study: Study, release: MatchRelease) -> tuple[PlannedPhase, ...]:
    """Single columns, then marginals; of the defaults triples are what noisy answers choose."""
    encoding = Encoding.of(study_people(study, release), release)
    plan = MatchPlan(encoding, release)
    planned, precisions = list[PlannedPhase](), dict[Columns, float]()
    for phase in plan.first():
        for candidate, variance in phase.variances(plan.singles).items():
            precisions[plan.singles.sets[candidate]] = 1 / float(variance)
        counted = phase.candidates == (0,)
        title = "the number of people" if counted else "single columns"
        planned.append(_planned(title, plan.singles, phase, precisions))
    domain = _widest(encoding)
    merged = "if no value is merged, "
    if plan.listed:
        residuals, phase = plan.second(domain, None)
        title = f"{merged}what the declared marginals need"
        return (*planned, _planned(title, residuals, phase, precisions))
    residuals, phase = plan.second(domain, 0)
    planned.append(_planned(f"{merged}pairs of columns", residuals, phase, precisions))
    if plan.triples(domain):
        residuals, phase = plan.second(domain, None)
        title = f"or pairs and triples, where the noise of triples is below {NOISIEST:g}"
        planned.append(_planned(title, residuals, phase, precisions))
    return tuple(planned)


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


def _planned(
    title: str, residuals: Residuals, phase: Everything, before: dict[Columns, float]
) -> PlannedPhase:
    """before: the precisions of what is measured already, entry by entry."""
    precisions = dict(before)
    for candidate, variance in phase.variances(residuals).items():
        precisions[residuals.sets[candidate]] = 1 / float(variance)
    deviations = [
        cell_deviation(residuals, residuals.sets[i], precisions) for i in phase.candidates
    ]
    return PlannedPhase.of(title, phase, residuals, deviations)
