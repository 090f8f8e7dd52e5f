"""Fits batch releases to known tables repeatedly: errors by class of queries, and scores.

CONFIDENTIAL: errors are computed from true data, and no noise protects them.

Beside each release of groups and members stand baselines of the same rho: independent attributes,
people without households, and noisy answers to every query without a data set. Beside a model stand
its measurements. Answers are shares: of groups at the level of groups, of people at all other
levels. Answers of a data set are shares of its own groups and people.

Beside each release of people, at the same rho, stand independent columns, the noise of the
measurements, and a sample of as many true people without any privacy: the floor of any synthetic
table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dp.batch import kinds
from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.groups.workload.candidates import Workload, default_marginals
from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.groups.workload.groups_plan import AdaptivePlan
from stream_dp.batch.groups.workload.queries import (
    COUPLE,
    GROUP,
    HAS_CHILD,
    HAS_PARENT,
    PERSON,
    SPOUSE,
    Marginal,
    Queries,
)
from stream_dp.batch.people.people_synthesizer import MatchFit
from stream_dp.batch.people.people_table import People
from stream_dp.batch.people.residual_counts import Columns, Residuals
from stream_dp.batch.people.target_shares import Targets
from stream_dp.batch.rounds.adaptive_fit import AdaptiveFit
from stream_dp.batch.synthesizer import FitContext, Known, ProgressCallback
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import PeopleRelease
from stream_dp.study.families import Kind
from stream_dp.study.group_releases import HierarchyRelease

from .baselines import (
    independent_attributes,
    independent_people,
    measure_every_query,
    without_households,
)
from .table_judge import TableJudge, ThresholdJudge
from .table_report import (
    CLASSES,
    DATA_SET,
    MEASURED,
    MODEL,
    ClassErrors,
    Floats,
    Quality,
    Score,
    qualities,
)

SAMPLE = "another sample"


def evaluate_people(
    people: People,
    releases: Sequence[tuple[str, PeopleRelease]],
    repetitions: int,
    *,
    seed: int = 0,
    progress: FitProgress = lambda subject, done, rounds: None,
    known: Callable[[int], tuple[Known, ...]] = lambda seed: (),
) -> tuple[list[Quality], list[Score]]:
    """Errors and scores of every release in every repetition.

    people: the known table.
    releases: with the labels of their budgets.
    repetitions: the number of fits of each release.
    seed: of the simulated noise; the same seed gives the same result on the same machine.
    progress: called after each round of a fit.
    known: gives, for a seed, the publications of other releases about the same people.

    Raises UserError for a kind that cannot be fitted here.
    """
    table, rows, scores = TableJudge(people), list[Quality](), list[Score]()
    for repetition in range(repetitions):
        for index, (budget, release) in enumerate(releases):
            noise_seed = seed + 1000 * repetition + index
            context = FitContext(
                SeededNoise(noise_seed),
                progress=fit_progress(progress, f"{release.kind}, {budget}"),
                known=known(noise_seed),
            )
            fit = kinds.load_synthesizer(release.kind)(people, release, context)
            measured, noisy = measured_sets(fit), _noisy_shares(fit, context.known)
            source = SeededNoise(noise_seed)
            tables = {
                release.kind: fit.sample(noise_seed),
                INDEPENDENT: independent_people(people, release.rho, source, noise_seed),
                SAMPLE: _another_sample(people, noise_seed),
            }
            judges = (table, ThresholdJudge(people, release))
            for method, synthetic in tables.items():
                for judge in judges:
                    errors = judge.data_set(synthetic, measured)
                    rows += qualities(errors, method, budget, DATA_SET)
                values = table.scores(synthetic, noise_seed)
                scores += [Score(method, budget, *score) for score in values.items()]
            if noisy is not None:
                for judge in judges:
                    errors = judge.measurements(noisy, measured)
                    rows += qualities(errors, release.kind, budget, MEASURED)
    return rows, scores


def _another_sample(people: People, seed: int) -> People:
    rows = np.random.default_rng(seed).choice(people.N, people.N)
    numbers = {c: codes[rows] for c, codes in people.numbers.items()}
    return People(people.domain, people.codes[rows], numbers)


def _noisy_shares(
    fit: object, known: tuple[Known, ...]
) -> Callable[[Columns], NDArray[np.float64]] | None:
    """The function from a measured marginal of a fit to noisy shares, or None."""
    if isinstance(fit, MatchFit):
        return fit.shares
    if isinstance(fit, AdaptiveFit) and isinstance(fit.workload, Residuals):
        return Targets.of(fit.workload, fit.answers, known).marginal
    return None


def measured_sets(fit: object) -> frozenset[Columns]:
    """The sets of columns whose whole marginals a fit measured."""
    if isinstance(fit, MatchFit):
        return fit.measured
    if not isinstance(fit, AdaptiveFit) or not isinstance(fit.workload, Residuals):
        return frozenset()
    return frozenset(fit.workload.sets[i] for i in fit.answers.candidates)


Fit = AdaptiveFit[Workload, Hierarchy]


@dataclass(frozen=True, eq=False)
class DataSetJudge:
    """Compares answers to queries with the true groups and members."""

    truth: Hierarchy
    queries: Queries

    @cached_property
    def _true_shares(self) -> Floats:
        return _shares(self.queries, exact_answers(self.truth, self.queries), self.truth)

    def data_set(self, synthetic: Hierarchy) -> ClassErrors:
        """The errors of a synthetic data set."""
        shares = _shares(self.queries, exact_answers(synthetic, self.queries), synthetic)
        return _by_class(self.queries, shares - self._true_shares, self.truth)

    def model(self, fitted: Fit) -> ClassErrors:
        """The errors of a model's expectations.

        fitted: a fit whose workload ends with the queries of this judge.
        """
        end = len(fitted.workload.queries)
        return self.counts(fitted.model.answers(np.arange(end - len(self.queries), end)))

    def counts(self, noisy: NDArray[Any]) -> ClassErrors:
        """The errors of noisy counts, a count for each query."""
        shares = _shares(self.queries, noisy, self.truth)
        return _by_class(self.queries, shares - self._true_shares, self.truth)

    def measurements(self, fitted: Fit) -> ClassErrors:
        """The noise floor: the errors of the measurements of a fit."""
        queries = fitted.workload.queries.take(fitted.answers.rows)
        noise = fitted.answers.values - exact_answers(self.truth, queries)
        return _by_class(queries, _shares(queries, noise, self.truth), self.truth)


def _by_class(queries: Queries, errors: Floats, truth: Hierarchy) -> ClassErrors:
    """The errors of every class of queries in the workload, by the name of the class.

    errors: (queries,). Groups and people are named as the tables of `truth`. The queries about
    relations are a class together, and further classes by kind of relation.
    """
    level = queries.level
    _, _, *relation_classes = CLASSES
    groups_name, people_name = truth.domain.tables
    spouses = (level == SPOUSE) | (level == COUPLE)
    relations = (level >= SPOUSE, spouses, level == HAS_CHILD, level == HAS_PARENT)
    in_class = {
        groups_name: level == GROUP,
        people_name: level == PERSON,
        **dict(zip(relation_classes, relations, strict=True)),
    }
    return {name: [errors[rows]] for name, rows in in_class.items() if rows.any()}


def _shares(queries: Queries, counts: NDArray[Any], hierarchy: Hierarchy) -> Floats:
    # Without groups and people, all shares are 0.
    groups, people = float(max(hierarchy.G, 1)), float(max(hierarchy.N, 1))
    totals = np.where(queries.level == GROUP, groups, people)
    return np.asarray(counts / totals, np.float64)


INDEPENDENT, FLAT, EVERY = "independent", "people without households", "every query"

# Called with the subject of a fit, the number of finished rounds, and the number of all rounds.
FitProgress = Callable[[str, int, int], None]


def evaluate_data_sets(
    hierarchy: Hierarchy,
    releases: Sequence[tuple[str, HierarchyRelease]],
    repetitions: int,
    *,
    seed: int = 0,
    progress: FitProgress = lambda subject, done, rounds: None,
) -> list[Quality]:
    """Errors of every release on every marginal query of the release.

    The result has a row for each repetition, method, answer and class of queries; `averaged` joins
    repetitions. The same seed gives the same rows on the same machine.

    hierarchy: the known groups and members.
    releases: with the labels of their budgets.
    repetitions: the number of fits of each release.
    seed: of the simulated noise.
    progress: called after each round of a fit.

    Raises UserError for a kind that cannot be fitted here.
    """
    rows: list[Quality] = []
    for repetition in range(repetitions):
        compared: set[tuple[str, int]] = set()
        for index, (budget, release) in enumerate(releases):
            trial = _Trial(
                truth=hierarchy,
                release=release,
                budget=budget,
                seed=seed + 1000 * repetition + index,
                progress=progress,
            )
            rows += trial.fitted(release.kind)
            if (budget, release.ways) not in compared:
                rows += trial.baselines()
                compared.add((budget, release.ways))
    return rows


def fit_progress(progress: FitProgress, subject: str) -> ProgressCallback:
    """Reports the rounds of a fit under the name of its subject."""
    return lambda done, rounds, error: progress(subject, done, rounds)


@dataclass(frozen=True, eq=False)
class _Trial:
    """A repetition of a release."""

    truth: Hierarchy
    release: HierarchyRelease
    budget: str
    seed: int
    progress: FitProgress

    @cached_property
    def marginals(self) -> Sequence[Marginal]:
        return default_marginals(self.truth.domain, self.release.ways)

    @cached_property
    def judge(self) -> DataSetJudge:
        queries = Queries.joined(marginal.queries() for marginal in self.marginals)
        return DataSetJudge(self.truth, queries)

    @property
    def noise(self) -> SeededNoise:
        """The noise of a fit: the same for each method."""
        return SeededNoise(self.seed)

    def _progress(self, method: str) -> ProgressCallback:
        return fit_progress(self.progress, f"{method}, {self.budget}")

    def _qualities(self, errors: ClassErrors, method: str, answer: str) -> list[Quality]:
        return qualities(errors, method, self.budget, answer)

    def fitted(self, kind: str) -> Iterator[Quality]:
        """The errors of a kind of batch release, of its model and of its measurements."""
        declared_kind = next(known for known in Kind if known == kind)
        release = self.release.model_copy(update={"kind": declared_kind})
        context = FitContext(self.noise, progress=self._progress(kind))
        fit = kinds.load_synthesizer(kind)(self.truth, release, context)
        yield from self._qualities(self.judge.data_set(fit.sample(self.seed)), kind, DATA_SET)
        if isinstance(fit, AdaptiveFit):
            yield from self._qualities(self.judge.model(fit), kind, MODEL)
            yield from self._qualities(self.judge.measurements(fit), kind, MEASURED)

    def baselines(self) -> Iterator[Quality]:
        """The errors of the baselines; of roles and events, or without JAX, some of them."""
        truth, rho = self.truth, self.release.rho
        noisy = measure_every_query(truth, self.marginals, rho, self.noise)
        yield from self._qualities(self.judge.counts(noisy), EVERY, MEASURED)
        if truth.domain.roles is not None:
            synthetic = independent_attributes(truth, rho, self.noise, self.seed)
            yield from self._qualities(self.judge.data_set(synthetic), INDEPENDENT, DATA_SET)
        elif self.release.kind != INDEPENDENT:
            yield from self.fitted(INDEPENDENT)
        flat_rows = truth.domain.roles is None and not truth.domain.events
        if flat_rows and find_spec("jax") is not None:
            flat = without_households(
                truth,
                self.release.ways,
                AdaptivePlan.of(self.release),
                source=self.noise,
                progress=self._progress(FLAT),
            )
            synthetic = flat.sample(self.seed)
            yield from self._qualities(self.judge.data_set(synthetic), FLAT, DATA_SET)
