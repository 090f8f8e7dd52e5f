"""Blocks of a system: unknown counts with independent measurements, and a square root.

A block has n unknowns u and measurements y = A u + e with independent errors of variances D, of
full column rank. With any square root R of its information, R R' = A' D^-1 A, the best linear
unbiased estimate of g @ u is w @ data, where w = R^-1 g are the question's coordinates and
data = R^-1 A' D^-1 y; two estimates have the covariance w1 @ w2 (Gauss-Markov).
Raises Inconsistent where there is no such root in floats.

Totals with thresholds measured together (`coupled_strategy.py`) are one block, `CoupledBlock`. The
rows of threshold b use its own entries z_b and those of the threshold below:
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
from typing import Any, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from stream_dp.continual.cumulative.placed_counters import CoupledTotal
from stream_dp.errors import Inconsistent

Floats = NDArray[np.float64]
Ints = NDArray[Any]

# No mechanism's errors are: floats cannot hold the sum of information so different.
_FEW = 4  # questions of a single answer
UNLIKE = "public log: measurements with errors too unlike to be put together"


class Block(Protocol):
    """Unknowns and their measurements.

    measured: whether an unknown has a measurement, (n,)
    coordinates: (m, n), the row w = R^-1 g of every question g, a row of (m, n). The estimate of
        g @ u is w @ data, and the covariance of two estimates is w1 @ w2. 0 for unknowns without a
        measurement
    spread: the covariance of k sums of unknowns, (k, n), with questions: (k, m)
    gram: the covariance matrix of k sums of unknowns, (k, n): (k, k)
    data: R^-1 A' D^-1 y, (n,)
    """

    @property
    def measured(self) -> NDArray[np.bool_]: ...
    @property
    def data(self) -> Floats: ...
    def coordinates(self, questions: scipy.sparse.csr_array) -> scipy.sparse.csr_array: ...
    def spread(
        self, sums: scipy.sparse.csr_array, coordinates: scipy.sparse.csr_array
    ) -> Floats: ...
    def gram(self, sums: scipy.sparse.csr_array) -> Floats: ...


class RootBlock:
    """A block with a triangular root: spread, gram and coordinates by solving.

    below, above: R^-1 and R'^-1 times (n, m), dense
    """

    def below(self, right: Floats) -> Floats:
        raise NotImplementedError

    def above(self, right: Floats) -> Floats:
        raise NotImplementedError

    def coordinates(self, questions: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        return scipy.sparse.csr_array(self.below(questions.toarray().T).T)

    def spread(self, sums: scipy.sparse.csr_array, coordinates: scipy.sparse.csr_array) -> Floats:
        covariance: Floats = sums @ self.above(coordinates.toarray().T)
        return covariance

    def gram(self, sums: scipy.sparse.csr_array) -> Floats:
        coordinates = self.below(sums.toarray().T)
        return coordinates.T @ coordinates


@dataclass(frozen=True, eq=False)
class DiagonalBlock:
    """Unknowns with direct measurements.

    precision: the sum of the inverse variances of an unknown's measurements, (n,)
    moment: the sum of the measurements over their variances, (n,)
    """

    precision: Floats
    moment: Floats

    @property
    def measured(self) -> NDArray[np.bool_]:
        return self.precision > 0

    @cached_property
    def _inverse_root(self) -> Floats:
        root = np.zeros(self.precision.shape)
        np.divide(1.0, np.sqrt(self.precision), out=root, where=self.measured)
        return root

    @property
    def data(self) -> Floats:
        return self.moment * self._inverse_root

    def coordinates(self, questions: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        weighted = questions.data * self._inverse_root[questions.indices]
        rows = (weighted, questions.indices, questions.indptr)
        return scipy.sparse.csr_array(rows, shape=questions.shape)

    def spread(self, sums: scipy.sparse.csr_array, coordinates: scipy.sparse.csr_array) -> Floats:
        covariance: Floats = (self.coordinates(sums) @ coordinates.T).toarray()
        return covariance

    def gram(self, sums: scipy.sparse.csr_array) -> Floats:
        coordinates = self.coordinates(sums)
        covariance: Floats = (coordinates @ coordinates.T).toarray()
        return covariance


@dataclass(frozen=True, eq=False)
class BandedBlock(RootBlock):
    """Unknowns in the order of time, with measurements on neighbours only.

    design: A D^-1/2, (rows, n)
    values: D^-1/2 y, (rows,)
    """

    design: scipy.sparse.csr_array
    values: Floats

    @cached_property
    def measured(self) -> NDArray[np.bool_]:
        measured: NDArray[np.bool_] = np.asarray(abs(self.design).sum(axis=0)) > 0
        return measured

    @cached_property
    def _lower(self) -> Floats:
        """The Cholesky factor of the information of measured unknowns, by diagonals."""
        design = self.design[:, np.flatnonzero(self.measured)]
        information = scipy.sparse.coo_array(design.T @ design)
        distance = information.row - information.col
        band = np.zeros((int(distance.max(initial=0)) + 1, design.shape[1]))
        lower = distance >= 0
        band[distance[lower], information.col[lower]] = information.data[lower]
        try:
            return np.asarray(scipy.linalg.cholesky_banded(band, lower=True))
        except scipy.linalg.LinAlgError:
            raise Inconsistent(UNLIKE) from None

    @cached_property
    def data(self) -> Floats:
        return self.below((self.design.T @ self.values)[:, None])[:, 0]

    def below(self, right: Floats) -> Floats:
        return self._solved(right, np.arange(self._lower.shape[0]), self._lower)

    def above(self, right: Floats) -> Floats:
        upper = np.zeros_like(self._lower)
        band = upper.shape[0] - 1
        for away in range(band + 1):
            upper[band - away, away:] = self._lower[away, : upper.shape[1] - away]
        return self._solved(right, np.arange(0, -band - 1, -1), upper)

    def _solved(self, right: Floats, diagonals: Ints, band: Floats) -> Floats:
        solved = np.zeros(right.shape)
        widths = (int(diagonals.max()), int(-diagonals.min()))
        solved[self.measured] = scipy.linalg.solve_banded(widths, band, right[self.measured])
        return solved


class TotalMeasurements(Protocol):
    """The measurements of a threshold: rows on its entries, and on the entries of the threshold
    below.

    steps: how many entries they use
    values, variances: of the rows
    encode: integer rows on the entries, (rows, steps)
    """

    @property
    def steps(self) -> int: ...
    @property
    def values(self) -> Floats: ...
    @property
    def variances(self) -> Floats: ...
    @property
    def encode(self) -> Ints: ...
    def blocks(self) -> tuple[Ints, Ints]: ...


class Counter(Protocol):
    """encode: integer rows on the entries of its stream, (rows, n)"""

    @property
    def encode(self) -> Ints: ...


@dataclass(frozen=True, eq=False)
class CounterMeasurements:
    """A counter's measurements of its entries so far.

    counter: its first rows are measured
    steps: the number of entries in these rows
    values, variances: of the rows
    """

    counter: Counter
    steps: int
    values: Floats
    variances: Floats

    @property
    def encode(self) -> Ints:
        """Integer rows on the entries, (rows, steps). Not cached: long studies have hundreds."""
        return self.counter.encode[: self.values.size, : self.steps]

    def blocks(self) -> tuple[Ints, Ints]:
        """The rows on its entries. Empty for the entries of the threshold below."""
        return self.encode, np.zeros((self.values.size, 0))


@dataclass(frozen=True, eq=False)
class CounterBlock(RootBlock):
    """The people whose total reaches b, step by step, measured by at least a counter.

    size: n, the number of steps of the longest counter
    """

    size: int
    sources: Sequence[TotalMeasurements]

    @property
    def measured(self) -> NDArray[np.bool_]:
        return np.ones(self.size, bool)

    @property
    def _single(self) -> bool:
        """Whether a single counter has a row per step: its rows are a root."""
        return len(self.sources) == 1 and self.sources[0].values.size == self.size

    def _root(self) -> tuple[Floats, bool]:
        """R, and whether R is lower triangular. Not cached."""
        if self._single:
            (only,) = self.sources
            return only.encode.T / np.sqrt(only.variances), False
        information = np.zeros((self.size, self.size))
        for source in self.sources:
            scaled = source.encode / np.sqrt(source.variances)[:, None]
            steps = scaled.shape[1]
            information[:steps, :steps] += scaled.T @ scaled
        try:
            return np.asarray(scipy.linalg.cholesky(information, lower=True)), True
        except scipy.linalg.LinAlgError:
            raise Inconsistent(UNLIKE) from None

    @cached_property
    def data(self) -> Floats:
        if self._single:
            (only,) = self.sources
            return only.values / np.sqrt(only.variances)
        moment = np.zeros(self.size)
        for source in self.sources:
            moment[: source.steps] += source.encode.T @ (source.values / source.variances)
        return self.below(moment[:, None])[:, 0]

    def below(self, right: Floats) -> Floats:
        root, lower = self._root()
        return np.asarray(scipy.linalg.solve_triangular(root, right, lower=lower))

    def above(self, right: Floats) -> Floats:
        root, lower = self._root()
        return np.asarray(scipy.linalg.solve_triangular(root, right, lower=lower, trans="T"))


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
        """Whether a single release has a row per step."""
        return all(
            len(sources) == 1 and sources[0].values.size == size
            for sources, size in zip(self.sources, self.sizes, strict=True)
        )

    def _diagonal(self, index: int) -> _Diagonal:
        """R_b and X_b of the threshold b with this index."""
        if not self._single:
            return self._joined[index]
        (source,) = self.sources[index]
        rows, rows_below = source.blocks()
        deviations = np.sqrt(source.variances)
        return _Diagonal(rows.T / deviations, False, rows_below.T / deviations)

    @cached_property
    def _joined(self) -> list[_Diagonal]:
        """R_b and X_b for several releases, by the module's recursion from the last threshold on.

        carried: B_{b+1}' D^-1 B_{b+1} - X_{b+1} X_{b+1}' of the threshold above b.
        """
        diagonals = []
        carried = np.zeros((0, 0))
        for index in reversed(range(len(self.sizes))):
            size = self.sizes[index]
            below = self.sizes[index - 1] if index else 0
            gram, cross, gram_below = (
                np.zeros((size, size)),
                np.zeros((below, size)),
                np.zeros((below,) * 2),
            )
            gram[: len(carried), : len(carried)] = carried[:size, :size]
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
            carried = gram_below - above @ above.T
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
        """R^-1 of questions (m, n), as (size, m) by threshold, from their last threshold down.

        By back substitution, x_b = R_b^-1 (q_b - X_{b+1} x_{b+1}).
        """
        columns = questions.tocsc()
        used = np.flatnonzero(np.diff(columns.indptr))
        if not used.size:
            return
        last = int(np.searchsorted(self._starts, used[-1], side="right")) - 1
        from_above = np.zeros((0, questions.shape[0]))  # X_{b+1} x_{b+1}
        for index in range(last, -1, -1):
            right = columns[:, self._starts[index] : self._starts[index + 1]].toarray().T
            right[: len(from_above)] -= from_above
            diagonal = self._diagonal(index)
            solution = diagonal.below(right)
            from_above = diagonal.above @ solution
            yield index, solution

    def coordinates(self, questions: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        if questions.shape[0] <= _FEW:  # one conversion is faster than one for each threshold
            dense = np.zeros(questions.shape)
            for index, solution in self._backward(questions):
                dense[:, self._starts[index] : self._starts[index + 1]] = solution.T
            return scipy.sparse.csr_array(dense)
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
