"""What a data set should answer well, and in which portions it can be measured.

A candidate is some of the queries, measured together or not at all: all cells of a marginal, which
share the noise of one measurement, or one single query. Its score is what it is picked by: the sum
of its absolute errors.

Scores are integers. Errors are those of integers (the model's answers are rounded, not the errors,
so that a score changes by no more than the counts do), less a public number, the noise that
measuring would add: a candidate whose cells only the noise would spoil is not worth its cost. They
are multiplied by whole weights, so that candidates of different sensitivities share one lattice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.study.groups import BatchRelease

from ..data.domain import Domain, Int64Array
from .queries import GROUP, PERSON, SPOUSE, Marginal, Queries, all_marginals
from .sensitivity import count_sensitivity, error_sensitivity, squared_sensitivity

MOST_CELLS = 100_000  # cells of a marginal that is asked for
MOST_QUERIES = 2_000_000  # queries of a workload


@dataclass(frozen=True, eq=False)
class Workload:
    """Candidates, those that are always measured first.

    candidate i is queries[starts[i] : starts[i + 1]]; squared, change: by candidate the squared L2
    sensitivity of its answers, and how much the sum of its errors may change; opening: so many of
    the first candidates are measured before anything is picked.
    """

    domain: Domain
    queries: Queries
    starts: Int64Array
    squared: tuple[int, ...]
    change: tuple[int, ...]
    opening: int = 0

    @property
    def candidates(self) -> int:
        return len(self.squared)

    @property
    def weights(self) -> Int64Array:
        """By candidate: one person changes no weighted score by more than `sensitivity`."""
        return np.array([self.sensitivity // c for c in self.change], np.int64)

    @property
    def sensitivity(self) -> int:
        """Of all scores."""
        return lcm(*self.change)

    def rows(self, candidates: Sequence[int]) -> Int64Array:
        """The queries of some candidates, in their order."""
        parts = [np.arange(self.starts[i], self.starts[i + 1]) for i in candidates]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def scores(
        self, true: Int64Array, model: NDArray[np.float64], deviations: Sequence[float]
    ) -> Int64Array:
        """(candidates,) how badly the model answers each; those of the opening have none (0).

        true, model: the answers to `queries` from the end of the opening's on; deviations: by
        candidate, of the noise that measuring it would add to each answer.
        """
        first = self.starts[self.opening]
        errors = np.abs(true - np.rint(model).astype(np.int64))
        sums = np.add.reduceat(errors, self.starts[self.opening : -1] - first)
        spoilt = sqrt(2 / pi) * np.diff(self.starts) * np.array(deviations)
        scores = np.zeros(self.candidates, np.int64)
        scores[self.opening :] = sums - np.rint(spoilt).astype(np.int64)[self.opening :]
        return scores * self.weights


def marginal_workload(marginals: Sequence[Marginal], opening: Sequence[Marginal] = ()) -> Workload:
    """Each marginal is a candidate; all of one domain. Raises ValueError without any."""
    candidates = [*opening, *marginals]
    if not marginals:
        raise ValueError("a workload needs a marginal")
    return Workload(
        candidates[0].domain,
        Queries.joined(m.queries() for m in candidates),
        np.cumsum([0, *(m.size for m in candidates)]),
        tuple(squared_sensitivity(m) for m in candidates),
        tuple(error_sensitivity(m) for m in candidates),
        len(opening),
    )


def query_workload(domain: Domain, queries: Queries, opening: Sequence[Marginal] = ()) -> Workload:
    """Each query is a candidate. Raises ValueError without any."""
    if not len(queries):
        raise ValueError("a workload needs a query")
    queries.check(domain)
    counts = [count_sensitivity(domain, int(level)) for level in queries.level]
    sizes = [m.size for m in opening]
    return Workload(
        domain,
        Queries.joined([*(m.queries() for m in opening), queries]),
        np.cumsum([0, *sizes, *[1] * len(counts)]),
        (*(squared_sensitivity(m) for m in opening), *(c * c for c in counts)),
        (*(error_sensitivity(m) for m in opening), *counts),
        len(opening),
    )


def one_way_marginals(domain: Domain) -> tuple[Marginal, ...]:
    """The marginal of every column alone: of groups, then of people.

    Groups' attributes among groups, and a person's among people; what a measurement of them costs
    is charged, although no change of a person moves the former.
    """
    return (
        *(Marginal(domain, GROUP, group=(c,)) for c in range(len(domain.group_values))),
        *(Marginal(domain, PERSON, person=(c,)) for c in range(len(domain.person_values))),
    )


def declared_workload(domain: Domain, release: BatchRelease) -> Workload:
    """What a batch release asks. Raises UserError where that is too much."""
    marginals = default_marginals(domain, release.ways)
    asked = sum(m.size for m in marginals)
    if not marginals:
        raise UserError(
            f"ways: marginals of {release.ways} attributes are too large here; declare fewer"
        )
    if asked > MOST_QUERIES:
        raise UserError(
            f"ways: {asked:,} queries are more than {MOST_QUERIES:,};"
            " declare fewer attributes or ways"
        )
    opening = one_way_marginals(domain)
    if release.candidates == "marginals":
        return marginal_workload(marginals, opening)
    return query_workload(domain, Queries.joined(m.queries() for m in marginals), opening)


def default_marginals(domain: Domain, ways: int) -> tuple[Marginal, ...]:
    """All of `ways` columns, or as many as there are, of groups and people; with roles also those
    of one attribute of a person and one of their spouse, child or parent. None above LARGEST.
    """
    columns = len(domain.group_values) + len(domain.person_values)
    marginals = all_marginals(domain, min(ways, columns), (GROUP, PERSON))
    if domain.roles is not None:
        role, people = domain.role_column, range(len(domain.person_values))
        free = [c for c in people if c != role]
        marginals += tuple(
            Marginal(domain, level, (), (own,), (theirs,))
            for level in range(SPOUSE, SPOUSE + 3)
            for own in free
            for theirs in free
        )
    return tuple(m for m in marginals if m.size <= MOST_CELLS)
