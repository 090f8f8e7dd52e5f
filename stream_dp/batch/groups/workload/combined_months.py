"""Marginals of a schedule of data sets, combined over the months so far.

Each data set is measured by itself, so its cost and its noise are as if there were no other. The
filters of `answers/month_filters.py` follow every marginal as shares of groups or of people. Before
the model is fitted, the levels of the filters replace the noisy answers of the month. The model
also learns marginals that only earlier months measured. All of it is post-processing.

The filters know a marginal by its level and its columns. So a shock that hits a column or a level
is suspected in all marginals of this column or level. A month measures few of the marginals that
earlier months measured. If more than half of the month's marginals with a column have jumped, the
other marginals with this column are taken to have moved as far: their variance grows by the mean
squared distance that the month's marginals with the column have moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dp.answers.month_filters import Measured, MonthFilters

from ...data.domain import Hierarchy, Int64Array
from ...rounds.adaptive_fit import following_phases, recorded_answers
from ...rounds.phases import NoisyAnswers
from ...synthesizer import FitContext, begun_rounds, chained_tables
from .candidates import Workload
from .groups_plan import AdaptivePlan
from .queries import GROUP, Marginal

MOST_CELLS = 20_000  # of the marginals that only earlier months measured
_MOST = 0.5  # of a month's marginals with a column: if more have jumped, others have moved, too
Floats = NDArray[np.float64]
Place = tuple[int, ...]  # of a marginal among the filters: its level and its columns


class Answers(NamedTuple):
    """Answers to queries of a workload.

    rows: (n,) of the queries.
    values: (n,) counts.
    variances: (n,) of the errors of the counts.
    """

    rows: Int64Array
    values: Floats | Int64Array
    variances: Floats


@dataclass(frozen=True, eq=False)
class EarlierMonths:
    """What earlier data sets say of the marginals of a month.

    workload: of every month.
    totals: (candidates,) the number of groups or of people of which counts are shares.
    filters: about the month, before its own measurements.
    """

    workload: Workload
    totals: Floats
    filters: MonthFilters[Place]

    @property
    def cells(self) -> int:
        """The number of cells beside those of the month's own marginals, at most: of any month."""
        return min(len(self.workload.queries), MOST_CELLS)

    def combined(self, measured: NoisyAnswers) -> Answers:
        """The answers to marginals by the measurements of this month and of earlier months.

        Of the marginals that only earlier months measured, the most precise ones with MOST_CELLS
        cells together.
        """
        own = {*measured.candidates}
        now = after_month(self.filters, measured_shares(self.workload, self.totals, measured))
        shares, older = dict[int, tuple[Floats, Floats]](), list[tuple[float, int]]()
        for i, marginal in enumerate(self.workload.marginals):
            if (place := place_of(marginal)) in now.filters:
                shares[i] = now.posterior(place)
                if i not in own:
                    older.append((float(shares[i][1].mean()), i))
        cells = 0
        for _, i in sorted(older):
            cells += len(shares[i][0])
            if cells > MOST_CELLS:
                del shares[i]
        return Answers(
            self.workload.rows([*shares]),
            np.concatenate([level * self.totals[i] for i, (level, _) in shares.items()]),
            np.concatenate([v * self.totals[i] ** 2 for i, (_, v) in shares.items()]),
        )


def earlier_months(
    workload: Workload, hierarchy: Hierarchy, context: FitContext
) -> EarlierMonths | None:
    """What the data sets that round 0 states say of this month. None without such a data set.

    hierarchy: of this month. Only G and N are used, which are public.
    """
    tables = chained_tables(context, begun_rounds(context))
    if not tables:
        return None
    totals = np.where(workload.levels == GROUP, float(hierarchy.G), float(hierarchy.N))
    filters = MonthFilters[Place](tables[0].number)
    for table in tables:
        phases = AdaptivePlan.of(table.release).phases(workload)
        following = following_phases(workload, phases)
        answers, _ = recorded_answers(workload, following, table.rounds)
        measured = measured_shares(workload, totals, answers)
        filters = after_month(filters.at(table.number), measured)
    return EarlierMonths(workload, totals, filters.at(context.number))


def after_month(
    before: MonthFilters[Place], measured: Mapping[Place, Measured]
) -> MonthFilters[Place]:
    """The filters with the measurements of a month, and with its shock to other marginals.

    A measured marginal has moved by the squared distance between its answers and what the filters
    foresaw, less the variances of both.
    """
    now, moves = before.learnt(measured), dict[int, list[tuple[bool, float]]]()
    for place, (values, variance) in measured.items():
        if place in before.filters:
            jumped = now.filters[place].jumps > before.filters[place].jumps
            level, spread = before.posterior(place)
            distance = float((np.square(values - level) - spread - variance).sum())
            for column in place:
                moves.setdefault(column, []).append((jumped, max(distance, 0.0)))
    shocks = {column: np.mean(several, axis=0).tolist() for column, several in moves.items()}
    filters = dict(now.filters)
    for place in filters.keys() - measured.keys():
        jumped, distance = max(shocks.get(column, [0.0, 0.0]) for column in place)
        if jumped > _MOST:
            filters[place] = filters[place].widened(distance / filters[place].means.shape[-1])
    return replace(now, filters=filters)


def measured_shares(
    workload: Workload, totals: Floats, answers: NoisyAnswers
) -> dict[Place, Measured]:
    """The noisy answers by marginal, as shares of `totals`."""
    noise, starts = answers.noise, (0, *answers.ends)
    measured = dict[Place, Measured]()
    for i, begin, end in zip(answers.candidates, starts[:-1], answers.ends, strict=True):
        values = answers.values[begin:end] / totals[i]
        variance = float(noise[begin] / totals[i] ** 2)
        measured[place_of(workload.marginals[i])] = Measured(values, variance)
    return measured


def place_of(marginal: Marginal) -> Place:
    """The level as a negative number, then columns of groups, of people and of relatives."""
    own = len(marginal.domain.group_values)
    relative = own + len(marginal.domain.person_values)
    return (
        -1 - marginal.level,
        *marginal.group,
        *(own + c for c in marginal.person),
        *(relative + c for c in marginal.relative),
    )
