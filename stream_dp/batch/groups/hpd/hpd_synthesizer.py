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
from stream_dp.study.method_titles import kind_title

from ...data.domain import Hierarchy, Int64Array
from ...rounds.loop import AdaptiveFit, AdaptiveMethod, Model, NoisyAnswers, fit_adaptively
from ...rounds.phases import Everything, Phase, Rounds
from ...synthesizer import FitContext
from ..workload.candidates import Workload, declared_workload
from ..workload.groups_plan import AdaptivePlan
from .adam import AdamSettings, Params
from .model_arrays import EncodedQueries
from .product_mixture import HPD, SPREAD, MeasuredQueries


@dataclass(frozen=True)
class MixtureSettings:
    """How a mixture is built and fitted.

    rows: of the mixture.
    hidden: sizes of the hidden layers of HPD-Gen's network; None for HPD-Fixed.
    adam: the updates of one round.
    noisy_decay: what the variance of an answer's noise, as a share of all groups or people, adds to
        the decay, up to 1: the weight of a network's prior, rows that are alike, against answers.
    last: the updates of the last round, after which nothing is picked; None: as many as before.
    spread: the variance of the first logits, about.
    """

    rows: int
    hidden: tuple[int, ...] | None
    adam: AdamSettings
    noisy_decay: float = 0
    last: int | None = None
    spread: float = SPREAD

    def adapted(self, variance: float) -> AdamSettings:
        """The updates of a round on answers whose noise has this mean variance, as shares."""
        more = min(1.0, self.noisy_decay * variance)
        return self.adam._replace(decay=self.adam.decay + more)


HPD_FIXED = MixtureSettings(ROWS, None, AdamSettings(60, 0.03, 0.1))
HPD_GEN = MixtureSettings(ROWS, (256, 256), AdamSettings(100, 0.003), noisy_decay=120_000, last=400)
SETTINGS = {"hpd-fixed": HPD_FIXED, "hpd-gen": HPD_GEN}


@dataclass(frozen=True)
class Room:
    """The most queries that a model is asked at once, and the most that it learns from."""

    asked: int = 0
    measured: int = 0

    @staticmethod
    def of(workload: Workload, phases: Sequence[Phase]) -> Room:
        sizes, asked, measured = np.diff(workload.starts), 0, 0
        for phase in phases:
            own = np.sort(sizes[list(phase.candidates)])
            if isinstance(phase, Rounds):
                asked = max(asked, int(own.sum()))
                own = own[-phase.rounds * phase.picks :]
            measured += int(own.sum())
        return Room(asked, measured)


@dataclass(frozen=True, eq=False)
class MixtureModel:
    """See `loop.Model`.

    encoded: the workload's queries as row numbers.
    room: of the programs, which then serve all rounds.
    left: how often it will still learn; below 0 where that is not known.
    """

    family: HPD
    encoded: EncodedQueries
    params: Params
    settings: MixtureSettings
    room: Room
    left: int = -1

    def answers(self, rows: Int64Array) -> NDArray[np.float64]:
        return self.family.answers(self.params, self.encoded.take(rows), self.room.asked)

    def learn(self, measured: NoisyAnswers) -> tuple[MixtureModel, float]:
        queries = self.encoded.take(measured.rows)
        counts = MeasuredQueries(queries, measured.values, measured.noise)
        noise = float((measured.noise / self.family.totals(queries) ** 2).mean())
        adam, room = self.settings.adapted(noise), self.room.measured
        if self.left == 1 and self.settings.last is not None:
            adam = adam._replace(steps=self.settings.last)
        params, summary = self.family.fit(self.params, counts, adam, room)
        return replace(self, params=params, left=self.left - 1), summary.after

    def sample(self, seed: int) -> Hierarchy:
        return self.family.sample(self.params, self.family.groups, seed)


def random_start(
    hierarchy: Hierarchy,
    workload: Workload,
    settings: MixtureSettings,
    phases: Sequence[Phase] = (),
) -> Callable[[int], Model[Hierarchy]]:
    """The function that gives the first model for a seed. Of the hierarchy it uses only G and N."""
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
    together = sum(isinstance(phase, Everything) for phase in phases[1:])
    left = sum(phase.rounds for phase in phases) - together

    def start(seed: int) -> MixtureModel:
        params = family.init(seed % (1 << 31))
        return MixtureModel(family, encoded, params, settings, room, left)

    return start


def fit_mixture(
    hierarchy: Hierarchy, release: BatchRelease, context: FitContext
) -> AdaptiveFit[Workload, Hierarchy]:
    """See `synthesizer.Synthesizer`: kinds 'hpd-fixed' and 'hpd-gen'."""
    settings = SETTINGS[release.kind]
    if release.rows is not None:
        settings = replace(settings, rows=release.rows)
    workload = declared_workload(hierarchy.domain, release)
    plan = AdaptivePlan.of(release)
    phases = plan.phases(workload)
    start = random_start(hierarchy, workload, settings, phases)
    method = AdaptiveMethod.of(kind_title(release.kind), workload, phases, start)
    return fit_adaptively(hierarchy, method, context)
