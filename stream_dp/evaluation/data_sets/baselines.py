"""What a data set of groups and members is held against. CONFIDENTIAL like all that needs truth.

Each baseline is what somebody without the method would do with the same rho:
- people without households: every person, with the attributes of their group as attributes of
  their own, is one row of a flat table. The table gets the same adaptive treatment, and rows with
  the same group attributes and size are put into groups at random;
- every query measured: no data set at all, each marginal with its share of rho.
Independent attributes are a batch release's own kind; where people have roles, households keep the
roles that they have, and all else is independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stream_dp.batch.base import MemoryTranscript, ProgressCallback
from stream_dp.batch.data.domain import Column, Domain, Hierarchy
from stream_dp.batch.independent import systematic_draw
from stream_dp.batch.loop import AdaptiveFit, AdaptivePlan, fit_adaptively
from stream_dp.batch.workload.candidates import MOST_CELLS, marginal_workload
from stream_dp.batch.workload.counts import exact_answers
from stream_dp.batch.workload.queries import PERSON, Marginal, all_marginals
from stream_dp.batch.workload.sensitivity import squared_sensitivity
from stream_dp.privacy.noise import NoiseSource

if TYPE_CHECKING:
    from stream_dp.batch.hpd.synthesizer import MixtureSettings

_SIZE = "size of the group"


@dataclass(frozen=True)
class Flat:
    """People without households. domain: of the groups that their rows are put into."""

    domain: Domain
    fitted: AdaptiveFit

    def sample(self, seed: int) -> Hierarchy:
        """As many groups as the rows fill; what is left of a kind fills none."""
        rows = self.fitted.sample(seed).people
        rng = np.random.default_rng([seed, 1])
        rows = rows[rng.permutation(len(rows))].astype(np.int64)
        wide = len(self.domain.group_values)
        key = np.unique(rows[:, :wide], axis=0, return_inverse=True)[1].reshape(-1)
        rows = rows[np.argsort(key, kind="stable")]
        key = np.sort(key)
        first = np.searchsorted(key, key)
        size = rows[:, wide - 1] + 1
        rank = np.arange(len(rows)) - first
        whole = np.searchsorted(key, key, side="right") - first
        kept = rank < whole // size * size
        rows, rank, size = rows[kept], rank[kept], size[kept]
        heads = rank % size == 0
        return Hierarchy(self.domain, rows[heads, :wide], rows[:, wide:], np.cumsum(heads) - 1)


def without_households(
    hierarchy: Hierarchy,
    ways: int,
    plan: AdaptivePlan,
    how: MixtureSettings,
    source: NoiseSource,
    progress: ProgressCallback,
) -> Flat:
    """plan.rho-zCDP for one person of the hierarchy under `replace_in_place`.

    It changes one row of the flat table, and of that the person's own columns only: a marginal's
    squared L2 by 2 at most, as of people. Group columns cannot change; what measuring them costs is
    charged all the same, as in `workload.one_way`. The number of people is public.

    Needs JAX. Raises ValueError for a domain with roles: groups at random have none.
    """
    from stream_dp.batch.hpd.synthesizer import random_start

    held = flattened(hierarchy)
    names = [c.name for c in held.domain.person]
    every = all_marginals(held.domain, min(ways, len(names)), [PERSON], names)
    marginals = [m for m in every if m.size <= MOST_CELLS]
    opening = all_marginals(held.domain, 1, [PERSON], names)
    workload = marginal_workload(marginals, opening)
    start = random_start(held, workload, how)
    title = "people without households"
    made = fit_adaptively(held, workload, plan, start, source, MemoryTranscript(), progress, title)
    return Flat(hierarchy.domain, made)


def flattened(hierarchy: Hierarchy) -> Hierarchy:
    """Everybody alone, with the attributes and the size of their group as their own."""
    domain = hierarchy.domain
    if domain.roles is not None:
        raise ValueError("people who are put together at random are in no relation")
    own = (*domain.group_columns[:-1], Column(_SIZE, domain.group_columns[-1].values))
    people = np.concatenate([hierarchy.groups[hierarchy.group_of], hierarchy.people], axis=1)
    alone = np.zeros((hierarchy.N, 1), np.int64)
    return Hierarchy(Domain((), (*own, *domain.person), 1), alone, people, np.arange(hierarchy.N))


def independent_attributes(
    hierarchy: Hierarchy, rho: Fraction, source: NoiseSource, seed: int
) -> Hierarchy:
    """True households of true sizes and roles; all their other attributes independent.

    Each of those has its own noisy counts, rho-zCDP together; who is who is not protected.
    """
    domain, rng = hierarchy.domain, np.random.default_rng(seed)
    groups, people = hierarchy.groups.copy(), hierarchy.people.copy()
    columns = [*groups.T[:-1], *(c for i, c in enumerate(people.T) if i != domain.role_column)]
    values = [*domain.group_values[:-1], *np.delete(domain.person_values, domain.role_column)]
    noise = source.draw([(len(columns) / rho, int(n)) for n in values]).noise
    for column, n, added in zip(columns, values, noise, strict=True):
        column[:] = systematic_draw(rng, np.bincount(column, minlength=n) + added, len(column))
    return Hierarchy(domain, groups, people, hierarchy.group_of)


def measure_every_query(
    hierarchy: Hierarchy, marginals: Sequence[Marginal], rho: Fraction, source: NoiseSource
) -> NDArray[np.int64]:
    """Noisy answers to all cells, in their order: rho-zCDP, all of the same variance."""
    variance = sum(squared_sensitivity(m) for m in marginals) / (2 * rho)
    workload = marginal_workload(marginals)
    noise = source.draw([(variance, len(workload.queries))]).noise[0]
    return exact_answers(hierarchy, workload.queries) + noise
