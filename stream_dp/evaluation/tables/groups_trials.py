"""Fits batch releases to known groups and members again and again: errors by class of queries.

CONFIDENTIAL: errors are computed from true data. Beside each release, at the same rho, stands what
one would have without it: independent attributes, people without households, and noisy answers to
every query without a data set. Beside a model stand the measurements that it was fitted to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec

from stream_dp.batch import kinds
from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.groups.workload.candidates import default_marginals
from stream_dp.batch.groups.workload.groups_plan import AdaptivePlan
from stream_dp.batch.groups.workload.queries import Marginal, Queries
from stream_dp.batch.rounds.loop import AdaptiveFit
from stream_dp.batch.synthesizer import FitContext, ProgressCallback
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study.group_releases import BatchRelease

from .baselines import independent_attributes, measure_every_query, without_households
from .groups_judge import DataSetJudge, measurement_errors
from .table_report import Quality

INDEPENDENT, FLAT, EVERY = "independent", "people without households", "every query"

# Called with what is being fitted, the rounds that are done, and how many there will be.
FitProgress = Callable[[str, int, int], None]


def evaluate_data_sets(
    hierarchy: Hierarchy,
    releases: Sequence[tuple[str, BatchRelease]],
    repetitions: int,
    *,
    seed: int = 0,
    progress: FitProgress = lambda subject, done, rounds: None,
) -> list[Quality]:
    """Errors of each release on every marginal query that it asks.

    There is one entry for each repetition, method, answer and class of queries; `averaged` joins
    repetitions. Entries are the same for the same seed, on the same machine.

    hierarchy: the known groups and members.
    releases: each with the label of its budget.
    repetitions: how often each is fitted.
    seed: of the simulated noise.
    progress: called after each round of a fit.

    Raises UserError for a kind that cannot be fitted here.
    """
    qualities: list[Quality] = []
    for repetition in range(repetitions):
        compared: set[tuple[str, int]] = set()
        for place, (budget, release) in enumerate(releases):
            trial = _Trial(
                hierarchy=hierarchy,
                release=release,
                budget=budget,
                seed=seed + 1000 * repetition + place,
                progress=progress,
            )
            qualities += trial.fitted(release.kind)
            if (budget, release.ways) not in compared:
                qualities += trial.baselines()
                compared.add((budget, release.ways))
    return qualities


@dataclass(frozen=True, eq=False)
class _Trial:
    """One repetition of one release."""

    hierarchy: Hierarchy
    release: BatchRelease
    budget: str
    seed: int
    progress: FitProgress

    @cached_property
    def marginals(self) -> Sequence[Marginal]:
        return default_marginals(self.hierarchy.domain, self.release.ways)

    @cached_property
    def judge(self) -> DataSetJudge:
        queries = Queries.joined(marginal.queries() for marginal in self.marginals)
        return DataSetJudge.of(self.hierarchy, queries)

    def _fit_progress(self, method: str) -> ProgressCallback:
        return lambda done, rounds, error: self.progress(f"{method}, {self.budget}", done, rounds)

    def fitted(self, kind: str) -> Iterator[Quality]:
        """The errors of a kind of batch release, and of its model where it has one."""
        release = self.release.model_copy(update={"kind": kind})
        context = FitContext(SeededNoise(self.seed), progress=self._fit_progress(kind))
        fit = kinds.load_synthesizer(kind)(self.hierarchy, release, context)
        yield from self.judge.data_set(fit.sample(self.seed), kind, self.budget)
        if isinstance(fit, AdaptiveFit):
            yield from self.judge.model(self.hierarchy, fit, kind, self.budget)
            yield from measurement_errors(self.hierarchy, fit, kind, self.budget)

    def baselines(self) -> Iterator[Quality]:
        """People without households are left out where there are roles, or no JAX."""
        noisy = measure_every_query(
            self.hierarchy, self.marginals, self.release.rho, SeededNoise(self.seed)
        )
        yield from self.judge.counts(self.hierarchy, noisy, EVERY, self.budget)
        if self.hierarchy.domain.roles is not None:
            synthetic = independent_attributes(
                self.hierarchy, self.release.rho, SeededNoise(self.seed), self.seed
            )
            yield from self.judge.data_set(synthetic, INDEPENDENT, self.budget)
        elif self.release.kind != INDEPENDENT:
            yield from self.fitted(INDEPENDENT)
        if self.hierarchy.domain.roles is None and find_spec("jax") is not None:
            from stream_dp.batch.groups.hpd.hpd_synthesizer import HPD_FIXED

            flat = without_households(
                self.hierarchy,
                self.release.ways,
                AdaptivePlan.of(self.release),
                settings=HPD_FIXED,
                source=SeededNoise(self.seed),
                progress=self._fit_progress(FLAT),
            )
            yield from self.judge.data_set(flat.sample(self.seed), FLAT, self.budget)
