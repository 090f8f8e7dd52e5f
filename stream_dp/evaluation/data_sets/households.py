"""Fit batch releases to known groups and members again and again: errors by class of queries.

CONFIDENTIAL: what comes out is computed from true data. Beside each release, at the same rho, what
one would have without it: attributes that are independent, people without households, and every
query measured without a data set. Beside a model, what it was told: the measurements alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec

from stream_dp.batch import kinds
from stream_dp.batch.base import MemoryTranscript, ProgressCallback
from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.loop import AdaptiveFit, AdaptivePlan
from stream_dp.batch.workload.candidates import default_marginals
from stream_dp.batch.workload.queries import Queries
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study.groups import BatchRelease

from .baselines import independent_attributes, measure_every_query, without_households
from .judge import DataSetJudge, measurement_errors
from .report import Quality

INDEPENDENT, FLAT, EVERY = "independent", "people without households", "every query"

# Called with what is fitted, the round that is done, and how many there will be.
Heard = Callable[[str, int, int], None]


def evaluate_data_sets(
    hierarchy: Hierarchy,
    releases: Sequence[tuple[str, BatchRelease]],
    repetitions: int,
    seed: int = 0,
    heard: Heard = lambda what, done, rounds: None,
) -> list[Quality]:
    """Errors of each release, under its budget's label, on every marginal that it asks.

    One entry a repetition, method, answer and class: `averaged` joins repetitions. The same for the
    same seed, on the same machine. Raises UserError for a kind that cannot be fitted here.
    """
    found: list[Quality] = []
    for repetition in range(repetitions):
        compared: set[tuple[str, int]] = set()
        for place, (budget, release) in enumerate(releases):
            trial = _Trial(hierarchy, release, budget, seed + 1000 * repetition + place, heard)
            found += trial.fitted(release.kind)
            if (budget, release.ways) not in compared:
                found += trial.baselines()
                compared.add((budget, release.ways))
    return found


class _Trial:
    """One repetition of one release."""

    def __init__(
        self, hierarchy: Hierarchy, release: BatchRelease, budget: str, seed: int, heard: Heard
    ) -> None:
        self.marginals = default_marginals(hierarchy.domain, release.ways)
        asked = Queries.joined(m.queries() for m in self.marginals)
        self.hierarchy, self.release, self.budget = hierarchy, release, budget
        self.seed, self.heard, self.judge = seed, heard, DataSetJudge.of(hierarchy, asked)

    def _progress(self, method: str) -> ProgressCallback:
        return lambda done, rounds, error: self.heard(f"{method}, {self.budget}", done, rounds)

    def fitted(self, kind: str) -> Iterator[Quality]:
        release = self.release.model_copy(update={"kind": kind})
        source, progress = SeededNoise(self.seed), self._progress(kind)
        made = kinds.load_synthesizer(kind)(
            self.hierarchy, release, source, MemoryTranscript(), progress
        )
        yield from self.judge.data_set(made.sample(self.seed), kind, self.budget)
        if isinstance(made, AdaptiveFit):
            yield from self.judge.model(self.hierarchy, made, kind, self.budget)
            yield from measurement_errors(self.hierarchy, made, kind, self.budget)

    def baselines(self) -> Iterator[Quality]:
        """People without households need JAX, and no roles; else they are left out."""
        noisy = measure_every_query(
            self.hierarchy, self.marginals, self.release.rho, SeededNoise(self.seed)
        )
        yield from self.judge.counts(self.hierarchy, noisy, EVERY, self.budget)
        if self.hierarchy.domain.roles is not None:
            alone = independent_attributes(
                self.hierarchy, self.release.rho, SeededNoise(self.seed), self.seed
            )
            yield from self.judge.data_set(alone, INDEPENDENT, self.budget)
        elif self.release.kind != INDEPENDENT:
            yield from self.fitted(INDEPENDENT)
        if self.hierarchy.domain.roles is None and find_spec("jax") is not None:
            from stream_dp.batch.hpd.synthesizer import HPD_FIXED

            plan = AdaptivePlan(self.release.rho, self.release.rounds, self.release.per_round)
            source, progress = SeededNoise(self.seed), self._progress(FLAT)
            made = without_households(
                self.hierarchy, self.release.ways, plan, HPD_FIXED, source, progress
            )
            yield from self.judge.data_set(made.sample(self.seed), FLAT, self.budget)
