"""MWEM: multiplicative weights over all possible groups. A baseline for small domains.

Source: Hardt, Ligett, McSherry 2012, "A simple and practical algorithm for differentially private
data release", Figure 1; for groups and members as in Liu and Wu 2022 (arXiv 2206.05942). The model
is a histogram h over types of groups. A measured answer m, as a share of groups
or people, updates it by
    h(x) <- h(x) exp(phi(x) (m - q(h)) / 2), after which h is normalised to sum 1.
Here q(h) is the histogram's own answer, and phi(x) in 0..1 is whether the group counts, or the
number of its members who count over the largest possible group size. All cells of a measurement
update h together. Each round then repeats the update, several times, for those measurements whose
error is at least half the error that the newest had when it was measured. Shares of people are
relative to the public number of people.

All of it is post-processing of noisy answers, and deterministic.

Types are all possible groups, up to the order of their members. A type consists of the group's
attributes and the multiset of its members. With roles it has one head, at most one spouse, a
multiset of children and a multiset of others. Only small domains have few enough types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product
from math import comb, prod
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.study.group_releases import BatchRelease

from ..data.domain import Domain, Hierarchy, Int64Array, groups_that_break
from ..rounds.adaptive_fit import AdaptiveFit, Model
from ..rounds.phases import NoisyAnswers
from ..synthesizer import FitContext
from .independent import systematic_draw
from .workload.candidates import Workload
from .workload.exact_counts import queries_by_marginal, relative_pairs
from .workload.groups_plan import fit_workload
from .workload.head_leads import head_bands
from .workload.queries import GROUP, LEAD, PERSON, Marginal, Queries

MOST_TYPES = 200_000


def type_count(domain: Domain) -> int:
    """The number of types."""
    per_kind = _kinds(domain)
    members = sum(
        prod(comb(len(kind) + n - 1, n) for kind, n in zip(per_kind, numbers, strict=True) if n)
        for numbers in _compositions(domain)
    )
    return prod(domain.group_values[:-1]) * members


def require_few_types(domain: Domain) -> None:
    """Raises UserError for too many types."""
    types = type_count(domain)
    if types > MOST_TYPES:
        raise UserError(
            f"kind 'mwem' keeps a weight for every group that can be: {types:,} are more than"
            f" {MOST_TYPES:,}; choose kind 'independent' or 'hpd-fixed', or declare fewer"
            " attributes, fewer values or smaller groups"
        )


def group_types(domain: Domain) -> tuple[Hierarchy, NDArray[np.float64]]:
    """A group of every type, and the prior distribution over types.

    Under the prior every composition (the size, or the numbers of spouses, children and others) is
    equally likely, and all members and group attributes are uniform and independent. The weight of
    a type is the sum over all orders of its members. Types that break a rule of the domain are left
    out. Raises UserError if there are too many types.
    """
    require_few_types(domain)
    kinds, compositions = _kinds(domain), list(_compositions(domain))
    members_by_composition: list[Int64Array] = []
    weights: list[NDArray[np.float64]] = []
    for numbers in compositions:
        rows, weight = np.zeros((1, 0), np.int64), np.ones(1)
        for kind, n in zip(kinds, numbers, strict=True):
            chosen, chance = _multisets(len(kind), n)
            members = kind[chosen].reshape(len(chosen), -1)
            a, b = len(rows), len(members)
            rows = np.concatenate([np.repeat(rows, b, axis=0), np.tile(members, (a, 1))], axis=1)
            weight = np.repeat(weight, b) * np.tile(chance, a)
        members_by_composition.append(rows)
        weights.append(weight / len(compositions))

    values, width = domain.group_values[:-1], len(domain.person_values)
    attributes = _grid(values)
    sizes = np.concatenate([np.full(len(r), r.shape[1] // width) for r in members_by_composition])
    people = np.concatenate([r.reshape(-1, width) for r in members_by_composition])
    groups = np.concatenate(
        [
            np.repeat(attributes, len(sizes), axis=0),
            np.tile(sizes - 1, len(attributes))[:, None],
        ],
        axis=1,
    )
    group_of = np.repeat(np.arange(len(groups)), np.tile(sizes, len(attributes)))
    types = Hierarchy(domain, groups, np.tile(people, (len(attributes), 1)), group_of)
    return _kept_types(types, np.tile(np.concatenate(weights), len(attributes)) / len(attributes))


def _kept_types(
    types: Hierarchy, weights: NDArray[np.float64]
) -> tuple[Hierarchy, NDArray[np.float64]]:
    """The types that keep every rule, with weights of sum 1."""
    broken = [groups_that_break(types, rule) for rule in types.domain.rules]
    if not broken:
        return types, weights
    kept = ~np.any(broken, axis=0)
    members = kept[types.group_of]
    group_of = (np.cumsum(kept) - 1)[types.group_of[members]]
    remaining = Hierarchy(types.domain, types.groups[kept], types.people[members], group_of)
    return remaining, weights[kept] / weights[kept].sum()


def _kinds(domain: Domain) -> list[Int64Array]:
    """By kind of member, all possible attributes: (n, person columns) codes."""
    people = _grid(domain.person_values)
    if domain.roles is None:
        return [people]
    role = people[:, domain.role_column]
    codes = domain.role_codes
    return [*(people[role == c] for c in codes), people[~np.isin(role, codes)]]


def _grid(values: tuple[int, ...]) -> Int64Array:
    """(combinations, columns): all combinations of codes."""
    if not values:
        return np.zeros((1, 0), np.int64)
    return np.indices(values).reshape(len(values), -1).T


def _compositions(domain: Domain) -> Iterator[tuple[int, ...]]:
    """The possible numbers of members of every kind in a group."""
    max_size = domain.most
    if domain.roles is None:
        yield from ((n,) for n in range(1, max_size + 1))
        return
    other_bound = max_size if len(domain.person[domain.role_column].values) > 3 else 1
    for numbers in product((1,), (0, 1), range(domain.roles.children + 1), range(other_bound)):
        if sum(numbers) <= max_size:
            yield numbers


def _multisets(values: int, n: int) -> tuple[Int64Array, NDArray[np.float64]]:
    """All multisets of n values, (multisets, n), and the share of n-tuples of every multiset."""
    multisets = np.array(list(combinations_with_replacement(range(values), n)), np.int64)
    multisets = multisets.reshape(-1 if n else 1, n)
    chance, run = np.ones(len(multisets)), np.zeros(len(multisets))
    for j in range(n):
        run = (
            np.where(multisets[:, j] == multisets[:, j - 1], run + 1, 1)
            if j
            else np.ones(len(multisets))
        )
        chance *= (j + 1) / (run * values)
    return multisets, chance


Sparse = Any  # a matrix of SciPy's, by rows
PASSES = 200


@dataclass(frozen=True, eq=False)
class GroupHistogram:
    """See `adaptive_fit.Model`.

    types: one group of each type.
    matrix: (queries, types), the contribution of a group of each type to each count.
    weights: (types,), the histogram h.
    groups: the number of groups, G.
    totals: (queries,), the whole of each answer's share: G or the number of people.
    levels: (queries,), the queries' levels.
    passes: how often a round repeats the updates of earlier measurements.
    """

    types: Hierarchy
    matrix: Sparse
    weights: NDArray[np.float64]
    groups: int
    totals: NDArray[np.float64]
    levels: NDArray[np.int8]
    passes: int = PASSES

    def answers(self, rows: Int64Array) -> NDArray[np.float64]:
        counts: NDArray[np.float64] = self.matrix[rows] @ self.weights * self.groups
        return counts

    def learn(self, measured: NoisyAnswers) -> tuple[GroupHistogram, float]:
        """The histogram after the updates of a round; see the module.

        The newest measurement updates h once, then all do `passes` times, without those whose error
        is below `threshold`.
        """
        log = np.log(self.weights, where=self.weights > 0, out=np.full(len(self.weights), -1e3))
        starts = (0, *measured.ends[:-1])
        measurements = [
            self._part(measured, slice(a, b)) for a, b in zip(starts, measured.ends, strict=True)
        ]
        newest = len(measurements) - 1
        threshold = _error(measurements[newest], self.weights) / 2
        weights = self.weights
        for number in [newest, *list(range(len(measurements))) * self.passes]:
            measurement = measurements[number]
            missed = measurement.shares - measurement.scaled @ weights
            if number != newest and np.abs(missed).max() < threshold:
                continue
            log += measurement.turned @ (missed / (2 * measurement.reach))
            log -= log.max()
            weights = np.exp(log)
            weights /= weights.sum()
        updated = replace(self, weights=weights)
        missed = (updated.answers(measured.rows) - measured.values) ** 2 / measured.noise
        return updated, float(missed.mean())

    def _part(self, measured: NoisyAnswers, cells: slice) -> _Part:
        """The measurement in `cells`, as shares of groups or of people."""
        rows = measured.rows[cells]
        contributed = self.matrix[rows]
        scale = self.groups / self.totals[rows]
        reach = np.where(self.levels[rows] == GROUP, 1, self.types.domain.most)
        scaled = scipy.sparse.diags(scale) @ contributed
        shares = measured.values[cells] / self.totals[rows]
        return _Part(shares, scipy.sparse.csr_matrix(scaled), contributed.T.tocsr(), reach)

    def sample(self, seed: int) -> Hierarchy:
        rng = np.random.default_rng(seed)
        chosen = systematic_draw(rng, self.weights, self.groups)
        first = self.types.starts[chosen]
        sizes = self.types.starts[chosen + 1] - first
        group_of = np.repeat(np.arange(self.groups), sizes)
        within = np.arange(len(group_of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        people = self.types.people[np.repeat(first, sizes) + within]
        return Hierarchy(self.types.domain, self.types.groups[chosen], people, group_of)


@dataclass(frozen=True)
class _Part:
    """A measurement of c cells.

    shares: (c,) noisy answers as shares.
    scaled: (c, types), times h it is the histogram's own answers as shares.
    turned: (types, c), the numerators of phi.
    reach: (c,), the denominators of phi.
    """

    shares: NDArray[np.float64]
    scaled: Sparse
    turned: Sparse
    reach: NDArray[np.int64]


def _error(measurement: _Part, weights: NDArray[np.float64]) -> float:
    """The largest error of a measurement's cells."""
    return float(np.abs(measurement.shares - measurement.scaled @ weights).max())


def contributions(types: Hierarchy, queries: Queries) -> Sparse:
    """(queries, groups) sparse matrix: the contribution of every group to every count."""
    blocks, order = [], []
    for marginal, rows in queries_by_marginal(types.domain, queries):
        cell_queries = queries.take(rows)
        codes = np.concatenate(
            [
                cell_queries.group[:, marginal.group],
                cell_queries.person[:, marginal.person],
                cell_queries.relative[:, marginal.relative],
            ],
            axis=1,
        )
        cells = _radix(codes, marginal.shape)
        blocks.append(_cells(types, marginal)[cells])
        order.append(rows)
    position = np.argsort(np.concatenate(order))
    return scipy.sparse.vstack(blocks, format="csr")[position]


def _cells(types: Hierarchy, marginal: Marginal) -> Sparse:
    """(cells, groups) sparse matrix: the contribution of every group to a marginal's cells."""
    level = marginal.level
    if level == LEAD:
        head, band = head_bands(types, marginal.person[0])
        cells = band, types.group_of[head]
        return scipy.sparse.csr_matrix((np.ones(len(head)), cells), (marginal.size, types.G))
    people = np.arange(types.N)
    if level == GROUP and not marginal.person:
        owner, member, group = np.arange(types.G), np.arange(types.G), np.arange(types.G)
    elif level == GROUP:
        owner, member, group = types.group_of, people, types.group_of
    elif level == PERSON:
        owner, member, group = people, people, types.group_of
    else:
        owner, member = relative_pairs(types, level)
        group = types.group_of[owner]
    person = member if level == GROUP else owner
    codes = np.concatenate(
        [
            types.groups[group][:, marginal.group].astype(np.int64),
            types.people[person][:, marginal.person],
            types.people[member][:, marginal.relative],
        ],
        axis=1,
    )
    cell = _radix(codes, marginal.shape)
    # An owner counts once in a cell, however many of their members are in it.
    once = np.unique(owner * marginal.size + cell, return_index=True)[1]
    ones = np.ones(len(once))
    return scipy.sparse.coo_matrix(
        (ones, (cell[once], group[once])), (marginal.size, types.G)
    ).tocsr()


def _radix(codes: NDArray[np.integer], shape: tuple[int, ...]) -> Int64Array:
    """(n,) cell numbers of (n, columns) codes: mixed radix, the last column fastest."""
    cells = np.zeros(len(codes), np.int64)
    for column, size in zip(codes.T, shape, strict=True):
        cells = cells * size + column
    return cells


def uniform_start(
    hierarchy: Hierarchy, workload: Workload, passes: int = PASSES
) -> Callable[[int], Model[Hierarchy]]:
    """The function that gives the first model, equal for every seed.

    Of the hierarchy it uses only G and N. Raises UserError where the domain is too large.
    """
    types, weights = group_types(workload.domain)
    queries = workload.queries
    first = GroupHistogram(
        types=types,
        matrix=contributions(types, queries),
        weights=weights,
        groups=hierarchy.G,
        totals=np.where(queries.level == GROUP, float(hierarchy.G), float(hierarchy.N)),
        levels=queries.level,
        passes=passes,
    )
    return lambda seed: first


def fit_mwem(
    hierarchy: Hierarchy, release: BatchRelease, context: FitContext
) -> AdaptiveFit[Workload, Hierarchy]:
    """See `synthesizer.Synthesizer`."""
    require_few_types(hierarchy.domain)
    return fit_workload(
        hierarchy, release, context, lambda workload, phases: uniform_start(hierarchy, workload)
    )
