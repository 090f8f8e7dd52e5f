"""MWEM: multiplicative weights over all possible groups. A baseline for small domains.

Source: Hardt, Ligett, McSherry 2012, "A simple and practical algorithm for differentially private
data release", Figure 1; for groups and members as in Liu and Wu 2022 (arXiv 2206.05942). The model
is a histogram h over types of groups (`grouptypes.py`). A measured answer m, as a share of groups
or people, updates it by
    h(x) <- h(x) exp(phi(x) (m - q(h)) / 2), after which h is normalised to sum 1.
Here q(h) is the histogram's own answer, and phi(x) in 0..1 is whether the group counts, or the
number of its members who count over the largest possible group size. All cells of a measurement
update h together. Each round then repeats the update, several times, for those measurements whose
error is at least half the error that the newest had when it was measured. Shares of people are
relative to the public number of people.

All of it is post-processing of noisy answers, and deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from stream_dp.study.group_releases import BatchRelease

from ...data.domain import Hierarchy, Int64Array
from ...rounds.adaptive_fit import AdaptiveFit, Model
from ...rounds.phases import NoisyAnswers
from ...synthesizer import FitContext
from ..independent import systematic_draw
from ..workload.candidates import Workload
from ..workload.exact_counts import queries_by_marginal, relative_pairs
from ..workload.groups_plan import fit_workload
from ..workload.head_leads import head_bands
from ..workload.queries import GROUP, LEAD, PERSON, Marginal, Queries
from . import grouptypes

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
    types, weights = grouptypes.group_types(workload.domain)
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
    grouptypes.require_few_types(hierarchy.domain)
    return fit_workload(
        hierarchy, release, context, lambda workload, phases: uniform_start(hierarchy, workload)
    )
