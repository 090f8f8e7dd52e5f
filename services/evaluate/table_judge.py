"""Errors of a table of people against the true table. CONFIDENTIAL: computed from true data.

Queries are all cells of marginals of one to MOST_WAYS columns, as shares of people: of each number
of columns at most MOST_SETS marginals, chosen by a fixed seed among those of at most MOST_CELLS
cells. They are judged by class, what the release measured apart from what it did not.

Thresholds of people's numbers have the query classes of Vietri et al. 2022 (RAP++): a listed value
and a number up to a threshold (mixed marginals), and a label and a sum of numbers up to a threshold
(class-conditional linear thresholds), as shares of people. A threshold at an edge of bins is a sum
of cells of a pair, and measured if the pair is; one in the middle of a bin is held out. So are
HELD_OUT sums whose weights follow from a seed that the release does not have, beside those that it
declares.

What can be learnt from a table is judged by logistic regression on columns of codes: multinomial,
on indicators of values, with half the squared norm of all weights but the intercepts as penalty,
minimised by L-BFGS from 0 (Liu and Nocedal 1989). Deterministic.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from stream_dp.batch.people.people_table import People, PeopleDomain
from stream_dp.batch.people.projections import Projection, declared_projections
from stream_dp.batch.people.residual_counts import Columns, marginal_counts
from stream_dp.errors import UserError
from stream_dp.study import PeopleRelease
from stream_dp.study.thresholds import MOST_SUM, Linear

from .table_report import ClassErrors, Floats

HELD_OUT = 16
EDGES, WITHIN = "thresholds at edges of bins", "thresholds within bins, held out"
SUMS, OTHER_SUMS = "linear thresholds, measured", "linear thresholds, held out"


@dataclass(frozen=True, eq=False)
class ThresholdJudge:
    """Compares thresholds with the true table of people; none without numbers. Confidential.

    release: declares the labels and the sums of numbers.
    """

    people: People
    release: PeopleRelease

    @cached_property
    def _listed(self) -> list[int]:
        """The columns of listed values."""
        domain = self.people.domain
        return [c for c in range(len(domain.columns)) if c not in domain.numbers]

    @cached_property
    def _conditions(self) -> list[Columns]:
        """The labels within which sums are judged; a single empty condition without labels."""
        labels = self.release.labels or ()
        return [(self.release.names.index(name),) for name in labels] or [()]

    @cached_property
    def _declared(self) -> tuple[Projection, ...]:
        return declared_projections(self.people.domain, self.release)

    @cached_property
    def _others(self) -> tuple[Projection, ...]:
        """Random sums of numbers that the release did not measure, to be judged as held out."""
        seeded = (Linear(random=HELD_OUT, seed=MOST_SUM),)
        held_out = self.release.model_copy(update={"linear": seeded})
        with suppress(UserError):  # scales that differ too much have none
            return declared_projections(self.people.domain, held_out)
        return ()

    @cached_property
    def _true(self) -> dict[str, dict[Columns, Floats]]:
        return self._shares(self.people)

    def data_set(self, synthetic: People, measured: frozenset[Columns]) -> ClassErrors:
        """The errors of a table.

        measured: the sets of columns that the release measured.
        """
        classes: dict[str, list[Floats]] = {}
        for name, shares_by_columns in self._shares(synthetic).items():
            for columns, shares in shares_by_columns.items():
                error = shares - self._true[name][columns]
                classes.setdefault(_class(name, columns, measured), []).append(error)
        return classes

    def measurements(
        self, noisy: Callable[[Columns], Floats], measured: frozenset[Columns]
    ) -> ClassErrors:
        """The noise floor: the errors of sums of noisy cells.

        noisy: gives the noisy shares of a marginal.
        """
        classes: dict[str, list[Floats]] = {}
        for name in (EDGES, SUMS):
            for columns, true in self._true.get(name, {}).items():
                marginal = tuple(sorted(columns))
                if marginal in measured:
                    cells = noisy(marginal) if marginal == columns else noisy(marginal).T
                    cells = cells.reshape(len(true), -1)
                    error = cells.cumsum(axis=1)[:, : true.shape[1]] - true
                    classes.setdefault(_class(name, columns, measured), []).append(error)
        return classes

    def _shares(self, people: People) -> dict[str, dict[Columns, Floats]]:
        """The shares of people with a value, or with any, whose number is below each threshold.

        By class, such as EDGES, and by columns (the value's, if any, and the number's or the
        sum's): (values, thresholds).
        """
        numbers = people.domain.numbers
        result: dict[str, dict[Columns, Floats]] = {}
        for number, declared in numbers.items():
            starts = np.array(declared.bin_starts)
            middles = ((starts[:-1] + starts[1:]) // 2)[np.diff(starts) > 1]
            for name, ends in ((EDGES, starts[1:-1]), (WITHIN, middles)):
                cells = np.searchsorted(ends, people.numbers[number], side="right")
                if len(ends):
                    for c in self._listed:
                        shares = _below(people, (c,), cells, len(ends))
                        result.setdefault(name, {})[c, number] = shares
        if not numbers:
            return result
        first = len(people.domain.columns)
        for name, sums in ((SUMS, self._declared), (OTHER_SUMS, self._others)):
            for column, projection in enumerate(sums, first):
                cells = projection.cells(people.domain, people.numbers)
                for condition in self._conditions:
                    shares = _below(people, condition, cells, len(projection.thresholds))
                    result.setdefault(name, {})[*condition, column] = shares
        return result


def _below(people: People, condition: Columns, cells: NDArray[np.int64], thresholds: int) -> Floats:
    """The shares of people with a value and with a cell up to a threshold, (values, thresholds).

    condition: the column of the values; without a column there is a single value.
    """
    values, index = 1, np.minimum(cells, thresholds)
    for column in condition:
        values = people.domain.sizes[column]
        # A person beyond the last threshold, or absent, is in a cell that is not counted.
        index = index + people.codes[:, column].astype(np.int64) * (thresholds + 1)
    counts = np.bincount(index, minlength=values * (thresholds + 1))
    shares: Floats = counts.reshape(values, -1)[:, :thresholds].cumsum(axis=1) / max(people.N, 1)
    return shares


def _class(name: str, columns: Columns, measured: frozenset[Columns]) -> str:
    if name != EDGES:
        return name
    return f"{name}, {'measured' if tuple(sorted(columns)) in measured else 'held out'}"


Codes = NDArray[np.integer]
_STEPS = 60


def indicators(codes: Codes, sizes: Sequence[int]) -> scipy.sparse.csr_matrix:
    """Indicators of values, (rows, sum of sizes + 1); the last column is ones.

    codes: (rows, columns).
    sizes: the numbers of values of the columns.
    """
    rows, columns = codes.shape
    starts = np.cumsum([0, *sizes], dtype=np.int64)
    positions = np.concatenate(
        [codes.astype(np.int64) + starts[:-1], np.full((rows, 1), starts[-1])], axis=1
    )
    ends = np.arange(rows + 1) * (columns + 1)
    shape = (rows, int(starts[-1]) + 1)
    return scipy.sparse.csr_matrix((np.ones(positions.size), positions.reshape(-1), ends), shape)


@dataclass(frozen=True, eq=False)
class Classifier:
    """weights: (features, classes)."""

    weights: NDArray[np.float64]

    def probabilities(self, features: scipy.sparse.csr_matrix) -> NDArray[np.float64]:
        """(rows, classes)."""
        return _softmax(np.asarray(features @ self.weights))


def fitted_classifier(features: scipy.sparse.csr_matrix, labels: Codes, classes: int) -> Classifier:
    """Learns labels, codes of `classes` classes, from features; the last feature is constant.

    The weights (features, classes) maximise the sum of log softmax(features @ weights) at the
    labels, less half the squares of all weights but those of the constant.
    """
    shape = (features.shape[1], classes)
    targets = np.zeros((features.shape[0], classes))
    targets[np.arange(len(targets)), labels] = 1
    across = features.T.tocsr()

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = flat.reshape(shape)
        scores = np.asarray(features @ weights)
        likely = _softmax(scores)
        of_labels = likely[np.arange(len(targets)), labels]
        penalised = weights.copy()
        penalised[-1] = 0
        value = -np.log(np.maximum(of_labels, 1e-300)).sum() + np.square(penalised).sum() / 2
        return float(value), (np.asarray(across @ (likely - targets)) + penalised).reshape(-1)

    end = scipy.optimize.minimize(loss, np.zeros(shape).reshape(-1), jac=True, method="L-BFGS-B",
                   options={"maxiter": _STEPS})  # fmt: skip
    return Classifier(end.x.reshape(shape))


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return shares


def macro_f1(true: Codes, predicted: Codes) -> float:
    """The mean over classes, true or predicted, of the harmonic mean of precision and recall."""
    scores = []
    for label in np.union1d(true, predicted):
        correct = int(((true == label) & (predicted == label)).sum())
        scores.append(2 * correct / (int((true == label).sum()) + int((predicted == label).sum())))
    return float(np.mean(scores))


MOST_WAYS, MOST_SETS, MOST_CELLS = 4, 100, 100_000
_LEARNT = 4_000  # rows that a classifier is trained and tested on, at most
_PAIR = 2_500  # cells of a pair whose values together tell true rows from synthetic ones, at most
PMSE, F1 = "pMSE", "macro F1"


def judged_sets(domain: PeopleDomain) -> tuple[Columns, ...]:
    """The sets of columns with judged marginals."""
    columns, chosen = range(len(domain.columns)), list[Columns]()
    for ways in range(1, min(MOST_WAYS, len(columns)) + 1):
        sets = [s for s in itertools.combinations(columns, ways) if domain.cells(s) <= MOST_CELLS]
        if len(sets) > MOST_SETS:
            drawn = np.random.default_rng(0).choice(len(sets), MOST_SETS, replace=False)
            sets = [sets[i] for i in sorted(drawn)]
        chosen += sets
    return tuple(chosen)


@dataclass(frozen=True, eq=False)
class TableJudge:
    """Compares marginals with the true table of people. Confidential."""

    people: People

    @cached_property
    def shares(self) -> dict[Columns, Floats]:
        """The judged marginals of the true table, as shares of people."""
        return {s: _shares(self.people, s) for s in judged_sets(self.people.domain)}

    def data_set(self, synthetic: People, measured: frozenset[Columns]) -> ClassErrors:
        """The errors of a table.

        measured: the sets of columns that the release measured.
        """
        errors = {s: _shares(synthetic, s) - true for s, true in self.shares.items()}
        return _by_class(errors, measured)

    def measurements(
        self, noisy: Callable[[Columns], Floats], measured: frozenset[Columns]
    ) -> ClassErrors:
        """The noise floor: the errors of the measured marginals.

        noisy: gives the noisy shares of a marginal.
        """
        errors = {s: noisy(s) - t for s, t in self.shares.items() if s in measured}
        return _by_class(errors, measured)

    def scores(self, synthetic: People, seed: int) -> dict[str, float]:
        """Total variations by number of columns, pMSE and F1 of a table."""
        scores: dict[str, float] = {}
        distances: dict[int, list[float]] = {}
        for columns, true in self.shares.items():
            variation = np.abs(_shares(synthetic, columns) - true).sum() / 2
            distances.setdefault(len(columns), []).append(float(variation))
        for ways, variations in distances.items():
            scores[f"TV of {_ways(ways)}"] = float(np.mean(variations))
            scores[f"worst TV of {_ways(ways)}"] = max(variations)
        rng = np.random.default_rng(seed)
        real, rows = (_learnt_rows(rng, table.codes) for table in (self.people, synthetic))
        sizes = self.people.domain.sizes
        if len(rows):
            scores[PMSE] = pmse(real, rows, sizes)
            targets = range(len(sizes))
            scores[F1] = float(np.mean([target_f1(rows, real, sizes, t) for t in targets]))
        return scores


def pmse(true: NDArray[np.integer], synthetic: NDArray[np.integer], sizes: Sequence[int]) -> float:
    """The success of a logistic regression in telling true from synthetic rows, 0 to 1/4.

    The mean squared distance of probabilities from the share of true rows, on the training rows
    (Woo, Reiter, Oganian, Karr 2009). Features are the values of columns and of pairs of columns.
    So even two samples of the same people are not at 0.
    """
    rows = np.concatenate([true, synthetic]).astype(np.int64)
    pairs = [
        (a, b)
        for a, b in itertools.combinations(range(len(sizes)), 2)
        if sizes[a] * sizes[b] <= _PAIR
    ]
    features = [rows, *(rows[:, [a]] * sizes[b] + rows[:, [b]] for a, b in pairs)]
    feature_sizes = (*sizes, *(sizes[a] * sizes[b] for a, b in pairs))
    matrix = indicators(np.concatenate(features, axis=1), feature_sizes)
    labels = np.repeat([0, 1], [len(true), len(synthetic)])
    likely = fitted_classifier(matrix, labels, 2).probabilities(matrix)[:, 1]
    return float(np.square(likely - len(synthetic) / len(rows)).mean())


def target_f1(
    train: NDArray[np.integer], test: NDArray[np.integer], sizes: Sequence[int], target: int
) -> float:
    """Macro F1 on test rows of a classifier of the column `target` by the other columns."""
    predictors = [c for c in range(len(sizes)) if c != target]

    def features(rows: NDArray[np.integer]) -> scipy.sparse.csr_matrix:
        return indicators(rows[:, predictors], [sizes[c] for c in predictors])

    classifier = fitted_classifier(features(train), train[:, target], sizes[target])
    predicted = classifier.probabilities(features(test)).argmax(axis=1)
    return macro_f1(test[:, target], predicted)


def _learnt_rows(rng: np.random.Generator, codes: NDArray[np.integer]) -> NDArray[np.integer]:
    rows: NDArray[np.integer] = codes[rng.permutation(len(codes))[:_LEARNT]]
    return rows


def _shares(people: People, columns: Columns) -> Floats:
    counts: Floats = marginal_counts(people, columns) / max(people.N, 1)
    return counts


def _by_class(errors: Mapping[Columns, Floats], measured: frozenset[Columns]) -> ClassErrors:
    """The errors by number of columns, and by whether the release measured the marginal."""
    classes: dict[str, list[Floats]] = {}
    for columns, error in errors.items():
        state = "measured" if columns in measured else "held out"
        classes.setdefault(f"{_ways(len(columns))}, {state}", []).append(error)
    return classes


def _ways(columns: int) -> str:
    return "1 column" if columns == 1 else f"{columns} columns"
