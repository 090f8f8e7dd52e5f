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

from ..base import Progress, Transcript
from ..data.domain import Hierarchy, Wide
from ..kinds import title
from ..loop import Adaptive, Answers, Model, Plan, run
from ..workload.candidates import Workload, declared
from .fit import Params
from .layout import Encoded
from .mixture import HPD


@dataclass(frozen=True)
class Settings:
    """rows: of the mixture; hidden: of HPD-Gen's network, None for HPD-Fixed; steps a round, their
    size, and how parameters decay.
    """

    rows: int
    hidden: tuple[int, ...] | None
    steps: int
    rate: float
    decay: float = 0


FIXED = Settings(200, None, 60, 0.03, 0.1)
GENERATED = Settings(200, (256, 256), 100, 0.0005)
KINDS = {"hpd-fixed": FIXED, "hpd-gen": GENERATED}


@dataclass(frozen=True, eq=False)
class Mixture:
    """See `loop.Model`. encoded: the workload's queries."""

    family: HPD
    encoded: Encoded
    params: Params
    settings: Settings

    def answers(self, rows: Wide) -> NDArray[np.float64]:
        return self.family.answers(self.params, self.encoded.take(rows))

    def learn(self, told: Answers) -> tuple[Mixture, float]:
        queries = self.encoded.take(told.rows)
        how = self.settings
        params, done = self.family.fit(
            self.params, queries, told.values, told.noise, how.steps, how.rate, how.decay
        )
        return replace(self, params=params), done.after

    def sample(self, seed: int) -> Hierarchy:
        return self.family.sample(self.params, self.family.groups, seed)


def starter(hierarchy: Hierarchy, workload: Workload, how: Settings) -> Callable[[int], Model]:
    """What makes the first model from a seed. Of the hierarchy only G and N are used."""
    family = HPD(workload.domain, hierarchy.G, hierarchy.N, how.rows, how.hidden)
    encoded = family.encode(workload.queries)

    def start(seed: int) -> Mixture:
        return Mixture(family, encoded, family.init(seed % (1 << 31)), how)

    return start


def fit(
    hierarchy: Hierarchy,
    release: BatchRelease,
    source: NoiseSource,
    transcript: Transcript,
    progress: Progress,
) -> Adaptive:
    """See `base.Synthesizer`: kinds 'hpd-fixed' and 'hpd-gen'."""
    how = KINDS[release.kind]
    if release.rows is not None:
        how = replace(how, rows=release.rows)
    workload = declared(hierarchy.domain, release)
    plan = Plan(release.rho, release.rounds, release.per_round)
    start = starter(hierarchy, workload, how)
    return run(hierarchy, workload, plan, start, source, transcript, progress, title(release.kind))
