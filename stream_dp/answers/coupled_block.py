"""The block of totals with thresholds measured together (`coupled_strategy.py`).

The rows of threshold b use its own entries z_b and those of the threshold below:
y_b = A_b z_b + B_b z_{b-1} + e_b. The information of all entries is block tridiagonal, so it has
a root R that is upper block bidiagonal, with R_b on the diagonal and X_b above it:

    R_b R_b' = A_b' D_b^-1 A_b + B_{b+1}' D_{b+1}^-1 B_{b+1} - X_{b+1} X_{b+1}',
    X_b R_b' = B_b' D_b^-1 A_b.

For a single release R_b = A_b' D_b^-1/2 and X_b = B_b' D_b^-1/2 are such a root. These are computed
when they are needed, because those of a long study fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from stream_dp.continual.cumulative.placed_counters import CoupledTotal
from stream_dp.errors import Inconsistent

from .blocks import UNLIKE, Floats, Ints, RootBlock, TotalMeasurements


@dataclass(frozen=True, eq=False)
class CoupledMeasurements:
    """The coupled measurements of a threshold so far.

    total: the threshold
    steps: how many entries the rows use
    values, variances: of the rows
    """

    total: CoupledTotal
    steps: int
    values: Floats
    variances: Floats

    @property
    def encode(self) -> Ints:
        """Integer rows on the entries, (rows, steps)."""
        return self.blocks()[0]

    def blocks(self) -> tuple[Ints, Ints]:
        """Integer rows on the entries, and on the first entries of the threshold below."""
        total = self.total
        rows, rows_below = total.budget.block(total.threshold, total.start + self.steps - 1)
        return rows, rows_below if total.below is not None else rows_below[:, :0]


@dataclass(frozen=True, eq=False)
class _Diagonal:
    """R_b, whether R_b is lower triangular, and the nonzero rows of X_b."""

    root: Floats
    lower: bool
    above: Floats

    def below(self, right: Floats) -> Floats:
        return np.asarray(scipy.linalg.solve_triangular(self.root, right, lower=self.lower))

    def transposed(self, right: Floats) -> Floats:
        return np.asarray(
            scipy.linalg.solve_triangular(self.root, right, lower=self.lower, trans="T")
        )


@dataclass(frozen=True, eq=False)
class CoupledBlock(RootBlock):
    """The people whose total reaches b, step by step, for every threshold b in ascending order.

    sizes: the number of steps of each threshold
    sources: what the releases measured of each threshold
    """

    sizes: tuple[int, ...]
    sources: Sequence[Sequence[TotalMeasurements]]

    @cached_property
    def _starts(self) -> Ints:
        return np.cumsum([0, *self.sizes])

    @property
    def measured(self) -> NDArray[np.bool_]:
        return np.ones(self._starts[-1], bool)

    @property
    def _single(self) -> bool:
        """Whether a single release has a row for each step."""
        return all(
            len(sources) == 1 and sources[0].values.size == size
            for sources, size in zip(self.sources, self.sizes, strict=True)
        )

    def _diagonal(self, index: int) -> _Diagonal:
        if not self._single:
            return self._joined[index]
        (source,) = self.sources[index]
        rows, rows_below = source.blocks()
        deviations = np.sqrt(source.variances)
        return _Diagonal(rows.T / deviations, False, rows_below.T / deviations)

    @cached_property
    def _joined(self) -> list[_Diagonal]:
        """For several releases; from the last threshold to the first, then turned around."""
        diagonals = []
        rest = np.zeros((0, 0))
        for index in reversed(range(len(self.sizes))):
            size = self.sizes[index]
            below = self.sizes[index - 1] if index else 0
            gram, cross, gram_below = (
                np.zeros((size, size)),
                np.zeros((below, size)),
                np.zeros((below,) * 2),
            )
            gram[: len(rest), : len(rest)] = rest[:size, :size]
            for source in self.sources[index]:
                rows, rows_below = (m / np.sqrt(source.variances)[:, None] for m in source.blocks())
                gram[: rows.shape[1], : rows.shape[1]] += rows.T @ rows
                cross[: rows_below.shape[1], : rows.shape[1]] += rows_below.T @ rows
                gram_below[: rows_below.shape[1], : rows_below.shape[1]] += (
                    rows_below.T @ rows_below
                )
            try:
                root = np.asarray(scipy.linalg.cholesky(gram, lower=True))
            except scipy.linalg.LinAlgError:
                raise Inconsistent(UNLIKE) from None
            above = np.asarray(scipy.linalg.solve_triangular(root, cross.T, lower=True)).T
            rest = gram_below - above @ above.T
            diagonals.append(_Diagonal(root, True, above))
        return diagonals[::-1]

    @cached_property
    def data(self) -> Floats:
        if self._single:
            return np.concatenate([o.values / np.sqrt(o.variances) for (o,) in self.sources])
        moment = np.zeros(self._starts[-1])
        for index, sources in enumerate(self.sources):
            start, start_below = self._starts[index], self._starts[max(index - 1, 0)]
            for source in sources:
                rows, rows_below = source.blocks()
                weighted = source.values / source.variances
                moment[start : start + rows.shape[1]] += rows.T @ weighted
                moment[start_below : start_below + rows_below.shape[1]] += rows_below.T @ weighted
        return self.below(moment[:, None])[:, 0]

    def below(self, right: Floats) -> Floats:
        solved = np.zeros(right.shape)
        for index, solution in self._backward(scipy.sparse.csr_array(right.T)):
            solved[self._starts[index] : self._starts[index + 1]] = solution
        return solved

    def _backward(self, questions: scipy.sparse.csr_array) -> Iterator[tuple[int, Floats]]:
        """R^-1 of questions (m, n), by threshold from the last threshold of the questions: (size,
        m).
        """
        columns = questions.tocsc()
        used = np.flatnonzero(np.diff(columns.indptr))
        if not used.size:
            return
        last = int(np.searchsorted(self._starts, used[-1], side="right")) - 1
        carried = np.zeros((0, questions.shape[0]))
        for index in range(last, -1, -1):
            right = columns[:, self._starts[index] : self._starts[index + 1]].toarray().T
            right[: len(carried)] -= carried
            diagonal = self._diagonal(index)
            solution = diagonal.below(right)
            carried = diagonal.above @ solution
            yield index, solution

    def coordinates(self, questions: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        blocks = [scipy.sparse.csr_array((questions.shape[0], size)) for size in self.sizes]
        for index, solution in self._backward(questions):
            blocks[index] = scipy.sparse.csr_array(solution.T)
        return scipy.sparse.csr_array(scipy.sparse.hstack(blocks, format="csr"))

    def spread(self, sums: scipy.sparse.csr_array, coordinates: scipy.sparse.csr_array) -> Floats:
        covariance = np.zeros((sums.shape[0], coordinates.shape[0]))
        of_sums, of_questions = sums.tocsc(), coordinates.tocsc()
        solution = np.zeros((0, coordinates.shape[0]))
        for index in range(len(self.sizes)):
            entries = slice(self._starts[index], self._starts[index + 1])
            diagonal = self._diagonal(index)
            right = of_questions[:, entries].toarray().T
            right -= diagonal.above.T @ solution[: len(diagonal.above)]
            solution = diagonal.transposed(right)
            covariance += of_sums[:, entries] @ solution
        return covariance

    def gram(self, sums: scipy.sparse.csr_array) -> Floats:
        total = np.zeros((sums.shape[0], sums.shape[0]))
        for _, solution in self._backward(sums):
            total += solution.T @ solution
        return total
