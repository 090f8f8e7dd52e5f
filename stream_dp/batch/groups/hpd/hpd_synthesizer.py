"""The batch synthesizer HPD-Fixed: a mixture fitted in the adaptive loop.

The loop is in `adaptive_fit.py`, the distribution in `product_mixture.py`. Needs JAX, the extra
`batch`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stream_dp.study.hierarchy_releases import ROWS, HierarchyRelease

from ...data.domain import Hierarchy, Int64Array
from ...rounds.adaptive_fit import AdaptiveFit, Model
from ...rounds.annealing import Phase
from ...rounds.phases import NoisyAnswers, Rounds
from ...synthesizer import FitContext
from ..workload.candidates import Workload
from ..workload.groups_plan import fit_workload
from ..workload.queries import LEAD
from .adam import AdamSettings, Params
from .model_arrays import EncodedQueries
from .product_mixture import HPD, MeasuredQueries

UPDATES = AdamSettings(60, 0.03, 0.1)  # of a round
_LEAST_VARIANCE = 1e-6  # of an answer that is learnt; narrower noise is 0 for certain
_FIRST_BAND = 4.0  # the weight of the number of heads below a child, over its precision


@dataclass(frozen=True)
class Room:
    """The largest number of queries that a model answers at once, and learns from."""

    answered: int = 0
    measured: int = 0

    @staticmethod
    def of(workload: Workload, phases: Sequence[Phase]) -> Room:
        """The room of a plan. Rounds answer all candidates, and measure the largest at worst."""
        sizes, answered, measured = np.diff(workload.starts), 0, 0
        for phase in phases:
            cell_counts = np.sort(sizes[list(phase.candidates)])
            if isinstance(phase, Rounds):
                answered = max(answered, int(cell_counts.sum()))
                cell_counts = cell_counts[-phase.rounds * phase.picks :]
            measured += int(cell_counts.sum())
        return Room(answered, measured)


@dataclass(frozen=True, eq=False)
class MixtureModel:
    """See `adaptive_fit.Model`.

    encoded: the workload's queries as row numbers.
    room: of the programs, which serve all rounds.
    weights: (queries,) of their squared errors, over the precision of their answers.
    """

    family: HPD
    encoded: EncodedQueries
    params: Params
    room: Room
    weights: NDArray[np.float64]

    def answers(self, rows: Int64Array) -> NDArray[np.float64]:
        return self.family.answers(self.params, self.encoded.take(rows), self.room.answered)

    def learn(self, measured: NoisyAnswers) -> tuple[MixtureModel, float]:
        """See `adaptive_fit.Model`. A weight w divides the variance of an answer."""
        queries = self.encoded.take(measured.rows)
        variances = np.maximum(measured.noise, _LEAST_VARIANCE) / self.weights[measured.rows]
        counts = MeasuredQueries(queries, measured.values, variances)
        params, summary = self.family.fit(self.params, counts, UPDATES, self.room.measured)
        return replace(self, params=params), summary.best_error

    def sample(self, seed: int) -> Hierarchy:
        return self.family.sample(self.params, self.family.groups, seed)


def random_start(
    hierarchy: Hierarchy, workload: Workload, phases: Sequence[Phase] = (), rows: int = ROWS
) -> Callable[[int], Model[Hierarchy]]:
    """A function from a seed to the first model.

    Only G and N of the hierarchy are used, and of people with events G alone.
    """
    members = 0 if workload.domain.events else hierarchy.N
    family = HPD(workload.domain, hierarchy.G, members, rows)
    encoded, room = family.encode(workload.queries), Room.of(workload, phases)
    queries = workload.queries
    first = (queries.level == LEAD) & (queries.person.max(axis=1) == 0)
    weights = np.where(first, _FIRST_BAND, 1.0)

    def start(seed: int) -> MixtureModel:
        params = family.init(seed % (1 << 31))
        return MixtureModel(family, encoded, params, room, weights)

    return start


def fit_mixture(
    hierarchy: Hierarchy, release: HierarchyRelease, context: FitContext
) -> AdaptiveFit[Workload, Hierarchy]:
    """See `synthesizer.Synthesizer`: kinds 'hpd-fixed' and 'hpd-events'."""
    return fit_workload(
        hierarchy,
        release,
        context,
        lambda workload, phases: random_start(hierarchy, workload, phases, release.fitted_rows),
    )
