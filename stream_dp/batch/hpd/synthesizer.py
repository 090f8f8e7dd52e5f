"""The batch synthesizers HPD-Fixed and HPD-Gen: mixtures fitted in the adaptive loop.

The loop is in `loop.py`, the distributions are in `mixture.py`. Needs JAX, the `batch` extra.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stream_dp.study.groups import BatchRelease

from ..base import FitContext
from ..data.domain import Hierarchy, Int64Array
from ..kinds import kind_title
from ..loop import AdaptiveFit, AdaptiveMethod, AdaptivePlan, Model, NoisyAnswers, fit_adaptively
from ..workload.candidates import Workload, declared_workload
from .fit import AdamSettings, Params
from .layout import EncodedQueries
from .mixture import HPD, MeasuredQueries


@dataclass(frozen=True)
class MixtureSettings:
    """How a mixture is built and fitted.

    rows: of the mixture.
    hidden: sizes of the hidden layers of HPD-Gen's network; None for HPD-Fixed.
    adam: the updates of one round.
    """

    rows: int
    hidden: tuple[int, ...] | None
    adam: AdamSettings


HPD_FIXED = MixtureSettings(200, None, AdamSettings(60, 0.03, 0.1))
HPD_GEN = MixtureSettings(200, (256, 256), AdamSettings(100, 0.0005))
SETTINGS = {"hpd-fixed": HPD_FIXED, "hpd-gen": HPD_GEN}


@dataclass(frozen=True, eq=False)
class MixtureModel:
    """See `loop.Model`. encoded: the workload's queries as row numbers."""

    family: HPD
    encoded: EncodedQueries
    params: Params
    settings: MixtureSettings

    def answers(self, rows: Int64Array) -> NDArray[np.float64]:
        return self.family.answers(self.params, self.encoded.take(rows))

    def learn(self, measured: NoisyAnswers) -> tuple[MixtureModel, float]:
        queries = self.encoded.take(measured.rows)
        counts = MeasuredQueries(queries, measured.values, measured.noise)
        params, summary = self.family.fit(self.params, counts, self.settings.adam)
        return replace(self, params=params), summary.after

    def sample(self, seed: int) -> Hierarchy:
        return self.family.sample(self.params, self.family.groups, seed)


def random_start(
    hierarchy: Hierarchy, workload: Workload, settings: MixtureSettings
) -> Callable[[int], Model[Hierarchy]]:
    """The function that gives the first model for a seed. Of the hierarchy it uses only G and N."""
    family = HPD(
        domain=workload.domain,
        groups=hierarchy.G,
        people=hierarchy.N,
        rows=settings.rows,
        hidden=settings.hidden,
    )
    encoded = family.encode(workload.queries)

    def start(seed: int) -> MixtureModel:
        return MixtureModel(family, encoded, family.init(seed % (1 << 31)), settings)

    return start


def fit_mixture(
    hierarchy: Hierarchy, release: BatchRelease, context: FitContext
) -> AdaptiveFit[Workload, Hierarchy]:
    """See `base.Synthesizer`: kinds 'hpd-fixed' and 'hpd-gen'."""
    settings = SETTINGS[release.kind]
    if release.rows is not None:
        settings = replace(settings, rows=release.rows)
    workload = declared_workload(hierarchy.domain, release)
    plan = AdaptivePlan(release.rho, release.rounds, release.per_round)
    start = random_start(hierarchy, workload, settings)
    phases = plan.phases(workload)
    method = AdaptiveMethod.of(kind_title(release.kind), workload, phases, start)
    return fit_adaptively(hierarchy, method, context)
