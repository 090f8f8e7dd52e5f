"""How well data sets of groups and members answer, by class of queries, method and rho.

CONFIDENTIAL: errors are computed from true data, and no noise protects them; every form says so.
Answers are shares: of groups at the level of groups, of people at all others, a data set's among
its own groups and people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.loop import AdaptiveFit
from stream_dp.batch.workload.counts import exact_answers
from stream_dp.batch.workload.queries import GROUP, PERSON, SPOUSE, Queries

from .report import CLASSES, MEASURED, Quality


@dataclass(frozen=True)
class DataSetJudge:
    """The truth about some queries. Confidential."""

    queries: Queries
    true: NDArray[np.float64]

    @staticmethod
    def of(hierarchy: Hierarchy, queries: Queries) -> DataSetJudge:
        return DataSetJudge(
            queries, _as_shares(queries, exact_answers(hierarchy, queries), hierarchy)
        )

    def data_set(self, made: Hierarchy, method: str, budget: str) -> list[Quality]:
        found = _as_shares(self.queries, exact_answers(made, self.queries), made)
        return self.answers(found, method, budget, "data set")

    def model(
        self, truth: Hierarchy, fitted: AdaptiveFit, method: str, budget: str
    ) -> list[Quality]:
        """The workload of a fit must end with these queries."""
        every = len(fitted.workload.queries)
        rows = np.arange(every - len(self.queries), every)
        found = _as_shares(self.queries, fitted.model.answers(rows), truth)
        return self.answers(found, method, budget, "model")

    def counts(
        self, truth: Hierarchy, noisy: NDArray[np.int64], method: str, budget: str
    ) -> list[Quality]:
        """Of measurements of all these queries."""
        return self.answers(_as_shares(self.queries, noisy, truth), method, budget, MEASURED)

    def answers(
        self, shares: NDArray[np.float64], method: str, budget: str, answer: str
    ) -> list[Quality]:
        return by_class(self.queries, shares - self.true, method, budget, answer)


def measurement_errors(
    truth: Hierarchy, fitted: AdaptiveFit, method: str, budget: str
) -> list[Quality]:
    """The noise floor: the errors of what was measured, and of nothing else."""
    queries = fitted.workload.queries.take(fitted.answers.rows)
    missed = fitted.answers.values - exact_answers(truth, queries)
    return by_class(queries, _as_shares(queries, missed, truth), method, budget, MEASURED)


def by_class(
    queries: Queries, errors: NDArray[np.float64], method: str, budget: str, answer: str
) -> list[Quality]:
    """One entry for each class that there are queries of."""
    level, found = queries.level, []
    for name, those in zip(
        CLASSES, (level == GROUP, level == PERSON, level >= SPOUSE), strict=True
    ):
        if those.any():
            size = np.abs(errors[those])
            count = int(those.sum())
            found.append(
                Quality(method, budget, answer, name, count, float(size.max()), float(size.mean()))
            )
    return found


def _as_shares(queries: Queries, counts: NDArray[Any], hierarchy: Hierarchy) -> NDArray[np.float64]:
    # No groups, no people: all shares are 0.
    of_groups, of_people = float(max(hierarchy.G, 1)), float(max(hierarchy.N, 1))
    totals = np.where(queries.level == GROUP, of_groups, of_people)
    return np.asarray(counts / totals, np.float64)
