"""Errors of data sets of groups and members, by class of queries.

CONFIDENTIAL: errors are computed from true data, and no noise protects them. Answers are shares: of
groups at the level of groups, of people at all other levels. Answers of a data set are shares of
its own groups and people.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.groups.workload.candidates import Workload
from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.groups.workload.queries import (
    COUPLE,
    GROUP,
    HAS_CHILD,
    HAS_PARENT,
    PERSON,
    SPOUSE,
    Queries,
)
from stream_dp.batch.rounds.loop import AdaptiveFit

from .table_report import CLASSES, ClassErrors, Floats

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
    """The errors of each class of queries in the workload."""
    level = queries.level
    spouses = (level == SPOUSE) | (level == COUPLE)
    relations = (level >= SPOUSE, spouses, level == HAS_CHILD, level == HAS_PARENT)
    members = (level == GROUP, level == PERSON, *relations)
    by_class = zip((*truth.domain.tables, *CLASSES[2:]), members, strict=True)
    return {name: [errors[rows]] for name, rows in by_class if rows.any()}


def _shares(queries: Queries, counts: NDArray[Any], hierarchy: Hierarchy) -> Floats:
    # Without groups and people, all shares are 0.
    groups, people = float(max(hierarchy.G, 1)), float(max(hierarchy.N, 1))
    totals = np.where(queries.level == GROUP, groups, people)
    return np.asarray(counts / totals, np.float64)
