"""The batch synthesizers HPD-Fixed and HPD-Gen: mixtures fitted in the adaptive loop.

The loop is in `loop.py`, the distributions are in `product_mixture.py`. Needs JAX, the `batch`
extra.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stream_dp.study.group_releases import ROWS, BatchRelease

from ...data.domain import Hierarchy, Int64Array
from ...rounds.loop import AdaptiveFit, Model
from ...rounds.phases import Everything, NoisyAnswers, Phase, Rounds
from ...synthesizer import FitContext
from ..workload.candidates import Workload
from ..workload.groups_plan import fit_workload
from .adam import AdamSettings, Params
from .model_arrays import EncodedQueries
from .product_mixture import HPD, SPREAD, MeasuredQueries


@dataclass(frozen=True)
class MixtureSettings:
    """Settings to build and fit a mixture.

    rows: of the mixture.
    hidden: sizes of the hidden layers of HPD-Gen's network; None for HPD-Fixed.
    adam: the updates of one round.
    noisy_decay: the increase of the decay, up to 1, by the variance of an answer's noise, as share
        of all groups or people: the weight of a network's prior, equal rows, against answers.
    last: the updates of the last round, after which nothing is selected; None: as in other rounds.
    spread: the variance of the first logits, about.
    """

    rows: int
    hidden: tuple[int, ...] | None
    adam: AdamSettings
    noisy_decay: float = 0
    last: int | None = None
    spread: float = SPREAD

    def adapted(self, variance: float) -> AdamSettings:
        """The settings of a round on answers with noise of this mean variance, as shares."""
        noise_decay = min(1.0, self.noisy_decay * variance)
        return self.adam._replace(decay=self.adam.decay + noise_decay)


HPD_FIXED = MixtureSettings(ROWS, None, AdamSettings(60, 0.03, 0.1))
HPD_GEN = MixtureSettings(ROWS, (256, 256), AdamSettings(100, 0.003), noisy_decay=120_000, last=400)
SETTINGS = {"hpd-fixed": HPD_FIXED, "hpd-gen": HPD_GEN}


@dataclass(frozen=True)
class Room:
    """The largest number of queries that a model answers at once, and learns from."""

    answered: int = 0
    measured: int = 0

    @staticmethod
    def of(workload: Workload, phases: Sequence[Phase]) -> Room:
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
    """See `loop.Model`.

    encoded: the workload's queries as row numbers.
    room: of the programs, which serve all rounds.
    remaining: the number of rounds still to learn from; below 0 if unknown.
    """

    family: HPD
    encoded: EncodedQueries
    params: Params
    settings: MixtureSettings
    room: Room
    remaining: int = -1

    def answers(self, rows: Int64Array) -> NDArray[np.float64]:
        return self.family.answers(self.params, self.encoded.take(rows), self.room.answered)

    def learn(self, measured: NoisyAnswers) -> tuple[MixtureModel, float]:
        queries = self.encoded.take(measured.rows)
        counts = MeasuredQueries(queries, measured.values, measured.noise)
        noise = float((measured.noise / self.family.totals(queries) ** 2).mean())
        adam, room = self.settings.adapted(noise), self.room.measured
        if self.remaining == 1 and self.settings.last is not None:
            adam = adam._replace(steps=self.settings.last)
        params, summary = self.family.fit(self.params, counts, adam, room)
        return replace(self, params=params, remaining=self.remaining - 1), summary.best_error

    def sample(self, seed: int) -> Hierarchy:
        return self.family.sample(self.params, self.family.groups, seed)


def random_start(
    hierarchy: Hierarchy,
    workload: Workload,
    settings: MixtureSettings,
    phases: Sequence[Phase] = (),
) -> Callable[[int], Model[Hierarchy]]:
    """A function from a seed to the first model. Only G and N of the hierarchy are used."""
    family = HPD(
        domain=workload.domain,
        groups=hierarchy.G,
        people=hierarchy.N,
        rows=settings.rows,
        hidden=settings.hidden,
        spread=settings.spread,
    )
    encoded, room = family.encode(workload.queries), Room.of(workload, phases)
    # Nothing is learnt between a phase and one that measures everything.
    skipped = sum(isinstance(phase, Everything) for phase in phases[1:])
    remaining = sum(phase.rounds for phase in phases) - skipped

    def start(seed: int) -> MixtureModel:
        params = family.init(seed % (1 << 31))
        return MixtureModel(family, encoded, params, settings, room, remaining)

    return start


def fit_mixture(
    hierarchy: Hierarchy, release: BatchRelease, context: FitContext
) -> AdaptiveFit[Workload, Hierarchy]:
    """See `synthesizer.Synthesizer`: kinds 'hpd-fixed' and 'hpd-gen'."""
    settings = SETTINGS[release.kind]
    if release.rows is not None:
        settings = replace(settings, rows=release.rows)
    return fit_workload(
        hierarchy,
        release,
        context,
        lambda workload, phases: random_start(hierarchy, workload, settings, phases),
    )
