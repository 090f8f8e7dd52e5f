"""HPD-Fixed and HPD-Gen in the adaptive loop: mixtures that learn noisy answers by gradient steps.

The loop is `loop.py`, the distributions `hpd.py`. Needs JAX, the `batch` extra.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.noise import NoiseSource
from stream_dp.study.groups import BatchRelease

from ..base import FitTranscript, ProgressCallback
from ..data.domain import Hierarchy, Int64Array
from ..kinds import kind_title
from ..loop import AdaptiveFit, AdaptivePlan, Model, NoisyAnswers, fit_adaptively
from ..workload.candidates import Workload, declared_workload
from .fit import Params
from .layout import EncodedQueries
from .mixture import HPD


@dataclass(frozen=True)
class MixtureSettings:
    """rows: of the mixture; hidden: of HPD-Gen's network, None for HPD-Fixed; steps a round, their
    size, and how parameters decay.
    """

    rows: int
    hidden: tuple[int, ...] | None
    steps: int
    rate: float
    decay: float = 0


HPD_FIXED = MixtureSettings(200, None, 60, 0.03, 0.1)
HPD_GEN = MixtureSettings(200, (256, 256), 100, 0.0005)
SETTINGS = {"hpd-fixed": HPD_FIXED, "hpd-gen": HPD_GEN}


@dataclass(frozen=True, eq=False)
class MixtureModel:
    """See `loop.Model`. encoded: the workload's queries."""

    family: HPD
    encoded: EncodedQueries
    params: Params
    settings: MixtureSettings

    def answers(self, rows: Int64Array) -> NDArray[np.float64]:
        return self.family.answers(self.params, self.encoded.take(rows))

    def learn(self, measured: NoisyAnswers) -> tuple[MixtureModel, float]:
        queries = self.encoded.take(measured.rows)
        how = self.settings
        params, done = self.family.fit(
            self.params, queries, measured.values, measured.noise, how.steps, how.rate, how.decay
        )
        return replace(self, params=params), done.after

    def sample(self, seed: int) -> Hierarchy:
        return self.family.sample(self.params, self.family.groups, seed)


def random_start(
    hierarchy: Hierarchy, workload: Workload, how: MixtureSettings
) -> Callable[[int], Model]:
    """What makes the first model from a seed. Of the hierarchy only G and N are used."""
    family = HPD(workload.domain, hierarchy.G, hierarchy.N, how.rows, how.hidden)
    encoded = family.encode(workload.queries)

    def start(seed: int) -> MixtureModel:
        return MixtureModel(family, encoded, family.init(seed % (1 << 31)), how)

    return start


def fit_mixture(
    hierarchy: Hierarchy,
    release: BatchRelease,
    source: NoiseSource,
    transcript: FitTranscript,
    progress: ProgressCallback,
) -> AdaptiveFit:
    """See `base.Synthesizer`: kinds 'hpd-fixed' and 'hpd-gen'."""
    how = SETTINGS[release.kind]
    if release.rows is not None:
        how = replace(how, rows=release.rows)
    workload = declared_workload(hierarchy.domain, release)
    plan = AdaptivePlan(release.rho, release.rounds, release.per_round)
    start = random_start(hierarchy, workload, how)
    return fit_adaptively(
        hierarchy, workload, plan, start, source, transcript, progress, kind_title(release.kind)
    )
