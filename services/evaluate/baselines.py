"""Baselines for data sets, which need no method, at the same rho. CONFIDENTIAL.

For people alone the baseline is every column by itself; for groups and members:
- people without households: every person, with the attributes of their group as attributes of
  their own, is one row of a flat table. The table is fitted by the same adaptive measurements, and
  rows with the same group attributes and size are put into groups at random;
- every query measured: no data set at all, each marginal with its share of rho;
- independent attributes: a kind of batch release, unless people have roles. Then households keep
  their roles, and all other attributes are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from stream_dp.batch.data.domain import Column, Domain, Hierarchy
from stream_dp.batch.groups.independent import systematic_draw
from stream_dp.batch.groups.workload.candidates import MOST_CELLS, Workload, marginal_workload
from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.groups.workload.groups_plan import AdaptivePlan
from stream_dp.batch.groups.workload.queries import PERSON, Marginal, all_marginals
from stream_dp.batch.groups.workload.sensitivity import squared_sensitivity
from stream_dp.batch.people.people_draw import drawn_numbers
from stream_dp.batch.people.people_table import People
from stream_dp.batch.people.residual_counts import marginal_counts
from stream_dp.batch.rounds.adaptive_fit import AdaptiveFit, AdaptiveMethod, fit_adaptively
from stream_dp.batch.synthesizer import FitContext, MemoryTranscript, ProgressCallback
from stream_dp.privacy.noise import NoiseSource

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
