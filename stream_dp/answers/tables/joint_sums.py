"""Sums over people of functions of several columns, with the weights of the measurements in each.

The sum over people of f(x_A), a function of their values in columns A, is the sum over cells of
f times the marginal of A. By residuals (`people_counts.py`) it is the sum, over the subsets B of
A, of v_B times the mean of f over the other columns' values, over prod_B n_i. The weights are
projected to tables that sum to 0 along every column, as v_B does. So a subset for which they are 0
need not be measured. Other strategies of measurement answer cell by cell.

Rules of the table say that cells z of its pairs of columns are empty. A sum s is then estimated by
s - C_sz C_zz^-1 z, for the noisy counts z of these cells and the covariances C: the best linear
unbiased estimate, if the people keep the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from math import prod

import numpy as np
import scipy

from stream_dp.study.families import Measured

from .conjunction import Conjunction
from .people_counts import (
    count_weights,
    measured_groups,
    people_count,
    people_weights,
    rows_of_cells,
)
from .possible_rows import Bools
from .table_facts import Floats, Ints, PublishedTables, Weights

MOST_CELLS = 1 << 16  # of columns together, for residuals
MOST_SINGLE_CELLS = 2_000  # where each cell has an answer of its own
MOST_RULED = 2_000  # cells of a pair with rules, and empty cells of all pairs; more are left out
_NOTHING = 1e-12  # of a weight, relative to the largest
FAR = 3.0  # standard errors by which rules may move an estimate
_ROUNDING = 1e-6  # of a variance
_RIDGE = 1e-9  # of a variance, so that empty cells may determine one another


class NotMeasured(Exception):
    """Raised for a sum that the measurements do not determine.

    columns: the columns that were not measured together.
    cells: their cells, if these are too many; 0 otherwise.
    """

    def __init__(self, columns: Sequence[str], cells: int = 0) -> None:
        super().__init__(", ".join(columns))
        self.columns, self.cells = tuple(columns), cells


@dataclass(frozen=True, eq=False)
class JointSums:
    """Unbiased sums: weights @ the measurements + constants.

    weights: (sums, measurements)
    constants: (sums,)
    """

    weights: scipy.sparse.csr_array
    constants: Floats

    @staticmethod
    def of(answers: Sequence[Weights], measurements: int) -> JointSums:
        """The sums of answers, of so many measurements."""
        sums = np.repeat(np.arange(len(answers)), [answer.rows.size for answer in answers])
        entries = np.concatenate([answer.weights for answer in answers])
        where = (sums, np.concatenate([answer.rows for answer in answers]))
        shape = (len(answers), measurements)
        constants = np.array([answer.constant for answer in answers])
        return JointSums(scipy.sparse.csr_array((entries, where), shape=shape), constants)

    def values(self, published: PublishedTables) -> Floats:
        values: Floats = self.weights @ published.values + self.constants
        return values

    def in_noise(self, published: PublishedTables) -> scipy.sparse.csr_array:
        """(sums, measurements) the weights in units of the noise: errors times its transpose."""
        return scipy.sparse.csr_array(self.weights * np.sqrt(published.variances)[None, :])


@dataclass(frozen=True, eq=False)
class JointTable:
    """Columns of a table, with what was measured of them together.

    columns: in the table's order.
    """

    columns: tuple[str, ...]
    published: PublishedTables

    @cached_property
    def shape(self) -> tuple[int, ...]:
        values = self.published.columns["people"]
        return tuple(len(values[name]) for name in self.columns)

    def sums(self, functions: Floats) -> JointSums:
        """The sums of functions of the columns. Raises NotMeasured.

        functions: (sums, values of the first column, values of the second, ...).
        """
        residuals = self.published.declared.data_set.measured is Measured.RESIDUALS
        if (cells := prod(self.shape)) > (MOST_CELLS if residuals else MOST_SINGLE_CELLS):
            raise NotMeasured(self.columns, cells)
        return self._of_residuals(functions) if residuals else self._of_cells(functions)

    def counts(self, cells: Bools) -> JointSums | None:
        """The counts of marked cells that are measured; None without any. cells: a mark for each.

        Values that were measured as one are counted as one, if all of their cells are marked.
        """
        if self.published.declared.data_set.measured is Measured.RESIDUALS:
            marked = np.argwhere(cells)
            indicators = np.zeros((len(marked), *self.shape))
            indicators[np.arange(len(marked)), *marked.T] = 1
            with suppress(NotMeasured):
                return self._of_residuals(indicators)
            return None
        groups = product(*(measured_groups(name, self.published) for name in self.columns))
        counts = [
            _count(dict(zip(self.columns, group, strict=True)), self.published)
            for group in groups
            if cells[np.ix_(*group)].all()
        ]
        measured = [count for count in counts if count is not None]
        return JointSums.of(measured, self.published.values.size) if measured else None

    def _of_residuals(self, functions: Floats) -> JointSums:
        """The sums from residuals v_B of subsets B of the columns: sum over B of entries_B @ v_B.

        entries_B is the mean of the function over the other columns, centred along those of B,
        divided by the cells of B. functions: (sums, values of each column...).
        """
        sums, largest = len(functions), float(np.abs(functions).max(initial=0.0))
        rows, weights, constants = [np.zeros(0, np.int64)], [np.zeros((sums, 0))], np.zeros(sums)
        for subset in self._subsets:
            others = tuple(1 + c for c in range(len(self.columns)) if c not in subset)
            entries = functions.mean(others)
            for axis in range(1, entries.ndim):
                entries = entries - entries.mean(axis, keepdims=True)
            if np.abs(entries).max(initial=0.0) <= _NOTHING * largest:
                continue
            entries = entries.reshape(sums, -1) / prod(entries.shape[1:])
            repeated = self._measured[subset]
            if not repeated and subset:
                raise NotMeasured([self.columns[c] for c in subset])
            if not repeated:
                constants = entries[:, 0] * people_count(self.published)
            precisions = [1 / self.published.variances[one[0]] for one in repeated]
            for one, precision in zip(repeated, precisions, strict=True):
                rows.append(one)
                weights.append(entries * (precision / sum(precisions)))
        positions, entries = np.concatenate(rows), np.hstack(weights)
        where = (np.repeat(np.arange(sums), positions.size), np.tile(positions, sums))
        shape = (sums, self.published.values.size)
        return JointSums(
            scipy.sparse.csr_array((entries.reshape(-1), where), shape=shape), constants
        )

    @property
    def _subsets(self) -> Iterator[tuple[int, ...]]:
        places = range(len(self.columns))
        return (a for count in range(len(places) + 1) for a in combinations(places, count))

    @cached_property
    def _measured(self) -> dict[tuple[int, ...], list[Ints]]:
        """By subset of the columns, the rows of every measurement of its residual."""
        result = {}
        for subset in self._subsets:
            names = [self.columns[c] for c in subset]
            values = [self.published.residual_columns[name] for name in names]
            result[subset] = rows_of_cells(names, values, self.published)
        return result

    def _of_cells(self, functions: Floats) -> JointSums:
        weights, constants = self._cells
        flat = functions.reshape(len(functions), -1)
        return JointSums(
            scipy.sparse.csr_array(scipy.sparse.csr_array(flat) @ weights), flat @ constants
        )

    @cached_property
    def _cells(self) -> tuple[scipy.sparse.csr_array, Floats]:
        """(cells, measurements) the weights of the count in every cell, and the constants."""
        answers = list[Weights]()
        for codes in product(*map(range, self.shape)):
            by_column = {name: (c,) for name, c in zip(self.columns, codes, strict=True)}
            answer = _count(by_column, self.published)
            if answer is None:
                raise NotMeasured(self.columns)
            answers.append(answer)
        counts = JointSums.of(answers, self.published.values.size)
        return counts.weights, counts.constants


def _count(codes: Mapping[str, tuple[int, ...]], published: PublishedTables) -> Weights | None:
    """The count of people with these values of columns."""
    if not codes and "groups" not in published.tables:
        return people_weights(published)
    return count_weights(Conjunction("", "people", {"people": codes}), published)


@dataclass(frozen=True, eq=False)
class EmptyCells:
    """Cells of pairs of columns that rules leave empty.

    counts: their noisy counts.
    """

    counts: JointSums
    published: PublishedTables

    @staticmethod
    def of(columns: Sequence[str], published: PublishedTables) -> EmptyCells | None:
        """The empty cells of the pairs of columns that were measured together; None without any."""
        ruled, found, left = published.possible_rows, list[JointSums](), MOST_RULED
        named = [name for name in published.names["people"] if name in {*columns} & {*ruled.cells}]
        for pair in combinations(named, 2):
            joint = JointTable(pair, published)
            if prod(joint.shape) > MOST_RULED:
                continue
            cells = ~ruled.together(*pair)
            if 0 < cells.sum() <= left and (counts := joint.counts(cells)) is not None:
                found.append(counts)
                left -= len(counts.constants)
        if not found:
            return None
        weights = scipy.sparse.vstack([sums.weights for sums in found], format="csr")
        constants = np.concatenate([sums.constants for sums in found])
        return EmptyCells(JointSums(scipy.sparse.csr_array(weights), constants), published)

    @cached_property
    def _noise(self) -> scipy.sparse.csr_array:
        return self.counts.in_noise(self.published)

    @cached_property
    def _factor(self) -> tuple[Floats, bool]:
        covariance = (self._noise @ self._noise.T).toarray()
        np.fill_diagonal(covariance, np.diag(covariance) * (1 + _RIDGE))
        factor: tuple[Floats, bool] = scipy.linalg.cho_factor(covariance)
        return factor

    def given(self, sums: JointSums) -> JointSums:
        """The best linear unbiased sums, if the cells are empty."""
        shared = (self._noise @ sums.in_noise(self.published).T).toarray()
        factors: Floats = scipy.linalg.cho_solve(self._factor, shared).T
        weights = sums.weights - scipy.sparse.csr_array(factors) @ self.counts.weights
        constants = sums.constants - factors @ self.counts.constants
        return JointSums(scipy.sparse.csr_array(weights), constants)


def moved_too_far(moved: Floats, before: Floats, after: Floats) -> bool:
    """Whether rules move an estimate by more than its noise explains (Hausman 1978).

    The best estimate is not correlated with the difference from another unbiased one, so the
    difference of the variances is the variance of the difference.

    moved, before, after: (estimates,) the differences, and the variances without and with rules.
    """
    variances = np.maximum(before - after, _ROUNDING * before)
    return bool((np.abs(moved) > FAR * np.sqrt(variances)).any())
