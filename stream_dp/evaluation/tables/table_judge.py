"""Errors of a table of people against the true one. CONFIDENTIAL: computed from true data.

Queries are all cells of marginals of one to MOST_WAYS columns, as shares of people: of each number
of columns at most MOST_SETS marginals, chosen by a fixed seed among those of at most MOST_CELLS
cells. They are judged by class, what the release measured apart from what it did not.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_dp.batch.people.measure.residual_counts import Columns, marginal_counts
from stream_dp.batch.people.people_table import People, PeopleDomain

from .logistic import fitted_classifier, indicators, macro_f1
from .table_report import DATA_SET, MEASURED, Quality, Score, class_qualities

MOST_WAYS, MOST_SETS, MOST_CELLS = 4, 100, 100_000
_LEARNT = 4_000  # rows that a classifier is trained and tested on, at most
_PAIR = 2_500  # cells of a pair whose values together tell true rows from synthetic ones, at most
PMSE, F1 = "pMSE", "macro F1"


def judged_sets(domain: PeopleDomain) -> tuple[Columns, ...]:
    """The sets of columns whose marginals are judged."""
    columns, chosen = range(len(domain.columns)), list[Columns]()
    for ways in range(1, min(MOST_WAYS, len(columns)) + 1):
        sets = [s for s in itertools.combinations(columns, ways) if domain.cells(s) <= MOST_CELLS]
        if len(sets) > MOST_SETS:
            places = np.random.default_rng(0).choice(len(sets), MOST_SETS, replace=False)
            sets = [sets[i] for i in sorted(places)]
        chosen += sets
    return tuple(chosen)


def class_name(columns: Columns, measured: frozenset[Columns]) -> str:
    """The class of queries that a marginal is in, by whether the release measured it."""
    ways = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
    return f"{ways}, {'measured' if columns in measured else 'held out'}"


@dataclass(frozen=True, eq=False)
class TableJudge:
    """The true answers. Confidential.

    people: the true table.
    """

    people: People

    @cached_property
    def shares(self) -> dict[Columns, NDArray[np.float64]]:
        """The marginals that are judged, as shares of people."""
        return {s: _shares(self.people, s) for s in judged_sets(self.people.domain)}

    def data_set(
        self, synthetic: People, measured: frozenset[Columns], *, method: str, budget: str
    ) -> Iterator[Quality]:
        """The errors of a table; measured: the sets of columns that the release measured."""
        errors = {s: _shares(synthetic, s) - true for s, true in self.shares.items()}
        return _by_class(errors, measured, method=method, budget=budget, answer=DATA_SET)

    def measurements(
        self,
        noisy: Callable[[Columns], NDArray[np.float64]],
        measured: frozenset[Columns],
        *,
        method: str,
        budget: str,
    ) -> Iterator[Quality]:
        """The noise floor: errors of the measured marginals; noisy: the shares of one."""
        errors = {s: noisy(s) - t for s, t in self.shares.items() if s in measured}
        return _by_class(errors, measured, method=method, budget=budget, answer=MEASURED)

    def scores(self, synthetic: People, *, method: str, budget: str, seed: int) -> Iterator[Score]:
        """Total variations by number of columns, pMSE and F1 of a table."""
        apart: dict[int, list[float]] = {}
        for columns, true in self.shares.items():
            variation = np.abs(_shares(synthetic, columns) - true).sum() / 2
            apart.setdefault(len(columns), []).append(float(variation))
        for ways, variations in apart.items():
            name = "1 column" if ways == 1 else f"{ways} columns"
            yield Score(method, budget, f"TV of {name}", float(np.mean(variations)))
            yield Score(method, budget, f"worst TV of {name}", max(variations))
        rng = np.random.default_rng(seed)
        real, other = (_some(rng, table.codes) for table in (self.people, synthetic))
        sizes = self.people.domain.sizes
        if len(other):
            yield Score(method, budget, PMSE, pmse(real, other, sizes))
            targets = range(len(sizes))
            each = [target_f1(other, real, sizes, target) for target in targets]
            yield Score(method, budget, F1, float(np.mean(each)))


def pmse(true: NDArray[np.integer], other: NDArray[np.integer], sizes: Sequence[int]) -> float:
    """How well a logistic regression tells true rows from others, 0 to 1/4.

    The mean squared distance of its probabilities from the share of true rows, on the rows that it
    has learnt from (Woo, Reiter, Oganian, Karr 2009). Its features are the values of columns and
    of pairs of columns; so even two samples of the same people are not at 0.
    """
    rows = np.concatenate([true, other]).astype(np.int64)
    pairs = [
        (a, b)
        for a, b in itertools.combinations(range(len(sizes)), 2)
        if sizes[a] * sizes[b] <= _PAIR
    ]
    features = [rows, *(rows[:, [a]] * sizes[b] + rows[:, [b]] for a, b in pairs)]
    each = (*sizes, *(sizes[a] * sizes[b] for a, b in pairs))
    matrix = indicators(np.concatenate(features, axis=1), each)
    labels = np.repeat([0, 1], [len(true), len(other)])
    likely = fitted_classifier(matrix, labels, 2).probabilities(matrix)[:, 1]
    return float(np.square(likely - len(other) / len(rows)).mean())


def target_f1(
    train: NDArray[np.integer],
    test: NDArray[np.integer],
    sizes: Sequence[int],
    target: int,
) -> float:
    """Macro F1, of a column that a classifier learns from the others, of other rows."""
    others = [c for c in range(len(sizes)) if c != target]
    own = [sizes[c] for c in others]
    classifier = fitted_classifier(
        indicators(train[:, others], own), train[:, target], sizes[target]
    )
    predicted = classifier.probabilities(indicators(test[:, others], own)).argmax(axis=1)
    return macro_f1(test[:, target], predicted)


def _some(rng: np.random.Generator, codes: NDArray[np.integer]) -> NDArray[np.integer]:
    some: NDArray[np.integer] = codes[rng.permutation(len(codes))[:_LEARNT]]
    return some


def _shares(people: People, columns: Columns) -> NDArray[np.float64]:
    counts: NDArray[np.float64] = marginal_counts(people, columns) / max(people.N, 1)
    return counts


def _by_class(
    errors: dict[Columns, NDArray[np.float64]],
    measured: frozenset[Columns],
    *,
    method: str,
    budget: str,
    answer: str,
) -> Iterator[Quality]:
    """The errors of each class of queries in the workload."""
    classes: dict[str, list[NDArray[np.float64]]] = {}
    for columns, each in errors.items():
        classes.setdefault(class_name(columns, measured), []).append(each)
    return class_qualities(classes, method=method, budget=budget, answer=answer)
