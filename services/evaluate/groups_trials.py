"""Fits batch releases to known tables repeatedly: errors by class of queries, and scores.

CONFIDENTIAL: errors are computed from true data, and no noise protects them.

Beside each release of groups and members stand baselines of the same rho:
- people without households: every person, with the attributes of their group as attributes of
  their own, is one row of a flat table. The table is fitted by the same adaptive measurements, and
  rows with the same group attributes and size are put into groups at random;
- every query measured: no data set at all, each marginal with its share of rho;
- independent attributes: a kind of batch release, unless people have roles. Then households keep
  their roles, and all other attributes are independent.

Beside a model stand its measurements. Answers are shares: of groups at the level of groups, of
people at all other levels. Answers of a data set are shares of its own groups and people.

Beside each release of people, at the same rho, stand independent columns, the noise of the
measurements, and a sample of as many true people without any privacy: the floor of any synthetic
table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dp.batch import kinds
from stream_dp.batch.data.domain import Column, Domain, Hierarchy
from stream_dp.batch.groups.independent import systematic_draw
from stream_dp.batch.groups.workload.candidates import (
    MOST_CELLS,
    Workload,
    default_marginals,
    marginal_workload,
)
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
    all_marginals,
)
from stream_dp.batch.groups.workload.sensitivity import squared_sensitivity
from stream_dp.batch.people.people_draw import drawn_numbers
from stream_dp.batch.people.people_synthesizer import MatchFit
from stream_dp.batch.people.people_table import People
from stream_dp.batch.people.residual_counts import Columns, Residuals, marginal_counts
from stream_dp.batch.people.target_shares import Targets
from stream_dp.batch.rounds.adaptive_fit import AdaptiveFit, AdaptiveMethod, fit_adaptively
from stream_dp.batch.synthesizer import FitContext, Known, MemoryTranscript, ProgressCallback
from stream_dp.privacy.noise import NoiseSource, SeededNoise
from stream_dp.study import PeopleRelease
from stream_dp.study.families import Kind
from stream_dp.study.group_releases import HierarchyRelease

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


_SIZE = "size of the group"


@dataclass(frozen=True)
class Flat:
    """People without households."""

    # Of the groups that the rows are put into.
    domain: Domain
    fitted: AdaptiveFit[Workload, Hierarchy]

    def sample(self, seed: int) -> Hierarchy:
        """Fills as many groups as possible with rows of their kind; drops the remaining rows.

        Rows are of one kind if their group columns, size among them, agree. Of c rows of a kind
        with groups of n, the first c // n * n, in random order, make groups of n in a row.
        """
        rows = self.fitted.sample(seed).people
        rng = np.random.default_rng([seed, 1])
        rows = rows[rng.permutation(len(rows))].astype(np.int64)
        group_columns = len(self.domain.group_values)
        key = np.unique(rows[:, :group_columns], axis=0, return_inverse=True)[1].reshape(-1)
        rows = rows[np.argsort(key, kind="stable")]
        key = np.sort(key)
        first = np.searchsorted(key, key)
        size = rows[:, group_columns - 1] + 1
        rank = np.arange(len(rows)) - first
        count = np.searchsorted(key, key, side="right") - first
        full = rank < count // size * size
        rows, rank, size = rows[full], rank[full], size[full]
        heads = rank % size == 0
        return Hierarchy(
            self.domain,
            rows[heads, :group_columns],
            rows[:, group_columns:],
            np.cumsum(heads) - 1,
        )


def without_households(
    hierarchy: Hierarchy,
    ways: int,
    plan: AdaptivePlan,
    *,
    source: NoiseSource,
    progress: ProgressCallback,
) -> Flat:
    """A flat table fitted with plan.rho-zCDP for a person under `replace_in_place`.

    A person of the hierarchy changes one row of the flat table, and of that only the person's own
    columns: the squared L2 norm of a marginal's change is 2 at most, as for people. Group columns
    cannot change; measuring them is charged all the same, as in `workload.one_way`. The number of
    people is public.

    ways: the most columns of a marginal.
    plan: rho, and how often what is measured.

    Needs JAX. Raises ValueError for a domain with roles: groups at random have none.
    """
    from stream_dp.batch.groups.hpd.hpd_synthesizer import random_start

    flat = flattened(hierarchy)
    names = [column.name for column in flat.domain.person]
    candidates = all_marginals(flat.domain, min(ways, len(names)), [PERSON], names)
    marginals = [marginal for marginal in candidates if marginal.size <= MOST_CELLS]
    opening = all_marginals(flat.domain, 1, [PERSON], names)
    workload = marginal_workload(marginals, opening)
    phases = plan.phases(workload)
    start = random_start(flat, workload, phases)
    method = AdaptiveMethod.of("people without households", workload, phases, start)
    context = FitContext(source, MemoryTranscript(), progress)
    return Flat(hierarchy.domain, fit_adaptively(flat, method, context))


def flattened(hierarchy: Hierarchy) -> Hierarchy:
    """People in groups of one, with the attributes and sizes of their groups as columns.

    Raises ValueError for a domain with roles.
    """
    domain = hierarchy.domain
    if domain.roles is not None:
        raise ValueError("people who are put together at random are in no relation")
    columns = (*domain.group_columns[:-1], Column(_SIZE, domain.group_columns[-1].values))
    people = np.concatenate([hierarchy.groups[hierarchy.group_of], hierarchy.people], axis=1)
    groups = np.zeros((hierarchy.N, 1), np.int64)
    return Hierarchy(
        Domain((), (*columns, *domain.person), 1), groups, people, np.arange(hierarchy.N)
    )


def independent_attributes(
    hierarchy: Hierarchy, rho: Fraction, source: NoiseSource, seed: int
) -> Hierarchy:
    """The true households, sizes and roles, with independent values of the remaining columns.

    Each of those has its own noisy counts, rho-zCDP together; sizes and roles are not protected.
    """
    domain, rng = hierarchy.domain, np.random.default_rng(seed)
    groups, people = hierarchy.groups.copy(), hierarchy.people.copy()
    personal = [column for i, column in enumerate(people.T) if i != domain.role_column]
    columns = [*groups.T[:-1], *personal]
    values = [*domain.group_values[:-1], *np.delete(domain.person_values, domain.role_column)]
    noise = source.draw([(len(columns) / rho, int(n)) for n in values]).noise
    for column, n, added in zip(columns, values, noise, strict=True):
        column[:] = systematic_draw(rng, np.bincount(column, minlength=n) + added, len(column))
    return Hierarchy(domain, groups, people, hierarchy.group_of)


def independent_people(people: People, rho: Fraction, source: NoiseSource, seed: int) -> People:
    """Every column by itself, from its noisy counts: rho-zCDP together, under their relation.

    A row that comes or goes changes one cell of a column, and one that is replaced two.
    """
    rng, sizes = np.random.default_rng(seed), people.domain.sizes
    variance = (2 if people.domain.replaced else 1) * len(sizes) / (2 * rho)
    noise = source.draw([(variance, n) for n in sizes]).noise
    noisy = [marginal_counts(people, (c,)) + added for c, added in enumerate(noise)]
    rows = people.domain.size
    if rows is None:
        rows = max(0, round(float(np.mean([counts.sum() for counts in noisy]))))
    columns = [systematic_draw(rng, counts, rows) for counts in noisy]
    numbers = {c: drawn_numbers(rng, columns[c], n) for c, n in people.domain.numbers.items()}
    return People(people.domain, np.stack(columns, axis=1), numbers)


def measure_every_query(
    hierarchy: Hierarchy, marginals: Sequence[Marginal], rho: Fraction, source: NoiseSource
) -> NDArray[np.int64]:
    """Noisy answers of equal variance to all cells of the marginals, in their order: rho-zCDP."""
    variance = sum(squared_sensitivity(m) for m in marginals) / (2 * rho)
    workload = marginal_workload(marginals)
    noise = source.draw([(variance, len(workload.queries))]).noise[0]
    return exact_answers(hierarchy, workload.queries) + noise
