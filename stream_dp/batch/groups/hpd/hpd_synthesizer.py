"""The batch synthesizers HPD-Fixed and HPD-Gen: a mixture fitted in the adaptive loop.

The loop is in `adaptive_fit.py`, the distributions in `product_mixture.py`. Needs JAX, the extra
`batch`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stream_dp.study.group_releases import ROWS, HierarchyRelease

from ...data.domain import Hierarchy, Int64Array
from ...rounds.adaptive_fit import AdaptiveFit, Model, Phase
from ...rounds.phases import Everything, NoisyAnswers, Rounds
from ...synthesizer import FitContext
from ..workload.candidates import Workload
from ..workload.combined_months import Answers, EarlierMonths, earlier_months
from ..workload.groups_plan import fit_workload
from ..workload.queries import LEAD
from .adam import AdamSettings, Params
from .model_arrays import EncodedQueries
from .product_mixture import HPD, MeasuredQueries

UPDATES = AdamSettings(60, 0.03, 0.1)  # of a round
HIDDEN = (128, 128)  # the layers of HPD-Gen's network
FIRST_UPDATES = 480  # of the first round, if earlier months are combined
NETWORK_UPDATES = AdamSettings(100, 0.003)  # of a round of HPD-Gen
LAST_UPDATES = 400  # of its last round, after which nothing is selected
# The decay of a network's weights, up to 1, over the mean variance of an answer as a share of all
# groups or people: the weight of its prior, equal rows, against answers.
NOISY_DECAY = 120_000
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
    remaining: the number of rounds still to learn from, for HPD-Gen.
    earlier: the marginals of earlier months, which are learnt with this month's; or None.
    learnt: whether the model has learnt anything.
    """

    family: HPD
    encoded: EncodedQueries
    params: Params
    room: Room
    weights: NDArray[np.float64]
    remaining: int = 0
    earlier: EarlierMonths | None = None
    learnt: bool = False

    def answers(self, rows: Int64Array) -> NDArray[np.float64]:
        return self.family.answers(self.params, self.encoded.take(rows), self.room.answered)

    def learn(self, measured: NoisyAnswers) -> tuple[MixtureModel, float]:
        """See `adaptive_fit.Model`. A weight w divides the variance of an answer."""
        answers = Answers(measured.rows, measured.values, measured.noise)
        if self.earlier is not None:
            answers = self.earlier.combined(measured)
        queries = self.encoded.take(answers.rows)
        variances = np.maximum(answers.variances, _LEAST_VARIANCE) / self.weights[answers.rows]
        counts = MeasuredQueries(queries, answers.values, variances)
        updates = UPDATES
        if self.earlier is not None and not self.learnt:
            updates = updates._replace(steps=FIRST_UPDATES)
        if self.family.hidden is not None:
            noise = float((answers.variances / self.family.totals(queries) ** 2).mean())
            updates = NETWORK_UPDATES._replace(decay=min(1.0, NOISY_DECAY * noise))
            if self.remaining == 1:
                updates = updates._replace(steps=LAST_UPDATES)
        params, summary = self.family.fit(self.params, counts, updates, self.room.measured)
        model = replace(self, params=params, remaining=self.remaining - 1, learnt=True)
        return model, summary.best_error

    def sample(self, seed: int) -> Hierarchy:
        return self.family.sample(self.params, self.family.groups, seed)


def random_start(
    hierarchy: Hierarchy,
    workload: Workload,
    phases: Sequence[Phase] = (),
    rows: int = ROWS,
    hidden: tuple[int, ...] | None = None,
    earlier: EarlierMonths | None = None,
) -> Callable[[int], Model[Hierarchy]]:
    """A function from a seed to the first model.

    Only G and N of the hierarchy are used, and of people with events G alone.
    earlier: the marginals of earlier months.
    """
    members = 0 if workload.domain.events else hierarchy.N
    family = HPD(workload.domain, hierarchy.G, members, rows, hidden)
    encoded, room = family.encode(workload.queries), Room.of(workload, phases)
    if earlier is not None:
        room = replace(room, measured=room.measured + earlier.cells)
    queries = workload.queries
    first = (queries.level == LEAD) & (queries.person.max(axis=1) == 0)
    weights = np.where(first, _FIRST_BAND, 1.0)
    # Nothing is learnt between a phase and one that measures all of its candidates.
    skipped = sum(not isinstance(phase, Rounds) for phase in phases[1:])
    remaining = sum(phase.rounds for phase in phases) - skipped

    def start(seed: int) -> MixtureModel:
        params = family.init(seed % (1 << 31))
        return MixtureModel(family, encoded, params, room, weights, remaining, earlier)

    return start


def fit_mixture(
    hierarchy: Hierarchy, release: HierarchyRelease, context: FitContext
) -> AdaptiveFit[Workload, Hierarchy]:
    """See `synthesizer.Synthesizer`: kinds 'hpd-fixed' and 'hpd-events'."""
    return _fitted(hierarchy, release, context)


def fit_generator(
    hierarchy: Hierarchy, release: HierarchyRelease, context: FitContext
) -> AdaptiveFit[Workload, Hierarchy]:
    """See `synthesizer.Synthesizer`: kind 'hpd-gen'."""
    return _fitted(hierarchy, release, context, HIDDEN)


def _fitted(
    hierarchy: Hierarchy,
    release: HierarchyRelease,
    context: FitContext,
    hidden: tuple[int, ...] | None = None,
) -> AdaptiveFit[Workload, Hierarchy]:
    """Fits a mixture to the answers of this month and, if months are combined, of earlier ones."""

    def begin(
        workload: Workload, phases: Sequence[Everything | Rounds]
    ) -> Callable[[int], Model[Hierarchy]]:
        earlier = earlier_months(workload, hierarchy, context) if release.fused else None
        return random_start(hierarchy, workload, phases, release.fitted_rows, hidden, earlier)

    return fit_workload(hierarchy, release, context, begin)
