"""Errors of data sets of groups and members, by class of queries, method and rho.

CONFIDENTIAL: errors are computed from true data, and no noise protects them; every form says so.
Answers are shares: of groups at the level of groups, of people at all others. Those of a data set
are shares of its own groups and people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.groups.workload.candidates import Workload
from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.groups.workload.queries import (
    GROUP,
    HAS_CHILD,
    HAS_PARENT,
    PERSON,
    SPOUSE,
    Queries,
)
from stream_dp.batch.rounds.loop import AdaptiveFit

from .table_report import CLASSES, DATA_SET, MEASURED, MODEL, Quality, class_qualities


@dataclass(frozen=True)
class DataSetJudge:
    """The true answers to some queries, as shares. Confidential."""

    queries: Queries
    true: NDArray[np.float64]

    @staticmethod
    def of(hierarchy: Hierarchy, queries: Queries) -> DataSetJudge:
        answers = exact_answers(hierarchy, queries)
        return DataSetJudge(queries, _as_shares(queries, answers, hierarchy))

    def data_set(self, synthetic: Hierarchy, method: str, budget: str) -> list[Quality]:
        """The errors of a synthetic data set."""
        shares = _as_shares(self.queries, exact_answers(synthetic, self.queries), synthetic)
        return self._qualities(shares, method=method, budget=budget, answer=DATA_SET)

    def model(
        self, truth: Hierarchy, fitted: AdaptiveFit[Workload, Hierarchy], method: str, budget: str
    ) -> list[Quality]:
        """The errors of a model's expectations; the workload of the fit must end with the
        queries of this judge."""
        every = len(fitted.workload.queries)
        rows = np.arange(every - len(self.queries), every)
        shares = _as_shares(self.queries, fitted.model.answers(rows), truth)
        return self._qualities(shares, method=method, budget=budget, answer=MODEL)

    def counts(
        self, truth: Hierarchy, noisy: NDArray[np.int64], method: str, budget: str
    ) -> list[Quality]:
        """The errors of noisy counts, one for each query."""
        shares = _as_shares(self.queries, noisy, truth)
        return self._qualities(shares, method=method, budget=budget, answer=MEASURED)

    def _qualities(
        self, shares: NDArray[np.float64], *, method: str, budget: str, answer: str
    ) -> list[Quality]:
        errors = shares - self.true
        return _by_class(self.queries, errors, method=method, budget=budget, answer=answer)


def measurement_errors(
    truth: Hierarchy, fitted: AdaptiveFit[Workload, Hierarchy], method: str, budget: str
) -> list[Quality]:
    """The noise floor: the errors of what a fit measured, and of nothing else."""
    queries = fitted.workload.queries.take(fitted.answers.rows)
    errors = _as_shares(queries, fitted.answers.values - exact_answers(truth, queries), truth)
    return _by_class(queries, errors, method=method, budget=budget, answer=MEASURED)


def _by_class(
    queries: Queries, errors: NDArray[np.float64], *, method: str, budget: str, answer: str
) -> list[Quality]:
    """The errors of each class of queries in the workload."""
    level = queries.level
    relations = (level == r for r in (SPOUSE, HAS_CHILD, HAS_PARENT))
    members = (level == GROUP, level == PERSON, level >= SPOUSE, *relations)
    by_class = zip(CLASSES, members, strict=True)
    own = {name: [errors[rows]] for name, rows in by_class if rows.any()}
    return list(class_qualities(own, method=method, budget=budget, answer=answer))


def _as_shares(queries: Queries, counts: NDArray[Any], hierarchy: Hierarchy) -> NDArray[np.float64]:
    # Without groups and people, all shares are 0.
    groups, people = float(max(hierarchy.G, 1)), float(max(hierarchy.N, 1))
    totals = np.where(queries.level == GROUP, groups, people)
    return np.asarray(counts / totals, np.float64)
