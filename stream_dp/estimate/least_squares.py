"""Best linear unbiased estimates from independent noisy measurements, under linear equalities.

Unknown u (n,), measurements y = A u + e with independent errors of known variances, and E u = f
for certain. Of all linear answers w @ y + l @ f that are unbiased for g @ u whatever u is, that
is A^T w + E^T l = g, the one of least variance sum_i w_i^2 var_i solves

    [ A^T D^-1 A   E^T ] [ p ]   [ g ]
    [     E         0  ] [ l ] = [ 0 ],    w = D^-1 A p,    D = diag(variances)

(Gauss-Markov; generalized least squares with exact constraints). The matrix is sparse and factored
once; a question costs one solve. The factored matrix is regularized on its diagonal, so that
equalities may repeat and some unknowns may have no measurement; iterative refinement against the
true matrix removes the effect of the regularization. The variance is computed from the weights that
are used, so it is exactly theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_array, csr_array, diags_array, eye_array
from scipy.sparse.linalg import splu

Floats = NDArray[np.float64]

_REGULAR = 1e-8  # of the typical precision of an unknown
_MOST_STEPS = 60
_NEAR = 1e-13  # of the question's largest coefficient: how far from unbiased weights should be
_FAR = 1e-9  # and how far they may be


@dataclass(frozen=True, eq=False)
class Weighted:
    """An answer that is a linear function of the measurements.

    weights: (m,) on the measurements
    constant: what the equalities add
    value: weights @ measurements + constant
    """

    weights: Floats
    constant: float
    value: float

    def minus(self, other: Weighted, times: float) -> Weighted:
        """This answer minus `times` the other, from the same measurements."""
        return Weighted(
            self.weights - times * other.weights,
            self.constant - times * other.constant,
            self.value - times * other.value,
        )


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The linear system of measurements and equalities.

    design: A, (m, n)
    values: y, (m,)
    variances: of y, above 0
    equalities: E, (c, n)
    right_side: f, (c,)
    """

    design: csr_array
    values: Floats
    variances: Floats
    equalities: csr_array
    right_side: Floats

    def answer(self, question: Floats) -> Weighted | None:
        """The best unbiased answer to question @ u, (n,); None where there is none."""
        most = float(np.abs(question).max(initial=0.0))
        if not most:
            return Weighted(np.zeros(self.values.shape[0]), 0.0, 0.0)
        if self._factor is None:
            return None
        n, sizes = question.shape[0], self._sizes
        goal = sizes * np.concatenate([question / most, np.zeros(self.right_side.shape[0])])
        solution, left, off = np.zeros(goal.shape[0]), goal, np.inf
        for _ in range(_MOST_STEPS):
            solution = solution + self._factor.solve(left)
            left = goal - self._matrix @ solution
            off, before = float(np.abs(left / sizes).max()), off
            if off <= _NEAR or off > 0.9 * before:
                break
        solution = solution * sizes * most
        weights, rest = self._scaled @ solution[:n], solution[n:]
        bias = self.design.T @ weights + self.equalities.T @ rest - question
        if np.abs(bias).max() > _FAR * most:
            return None
        constant = float(rest @ self.right_side)
        return Weighted(weights, constant, float(weights @ self.values) + constant)

    def covariance(self, answer: Weighted, other: Weighted) -> float:
        """The covariance of two answers; of an answer with itself, its variance."""
        return float((answer.weights * self.variances) @ other.weights)

    @cached_property
    def _unit(self) -> float:
        """The typical variance with which an unknown is measured: precisions are in its terms."""
        precisions = (diags_array(1 / self.variances) @ self.design.power(2)).sum(axis=0)
        positive = precisions[precisions > 0]
        return float(1 / np.median(positive)) if positive.size else 1.0

    @cached_property
    def _scaled(self) -> csr_array:
        """D^-1 A in units of the typical precision: (m, n)."""
        return csr_array(diags_array(self._unit / self.variances) @ self.design)

    @cached_property
    def _sizes(self) -> Floats:
        """(n + c,): of unknowns and equalities, so that all have about the same precision."""
        precisions = (self.design.multiply(self._scaled)).sum(axis=0)
        unknowns = 1 / np.sqrt(np.where(precisions > 0, precisions, 1.0))
        terms = np.asarray(abs(self.equalities) @ unknowns)
        count = np.maximum(np.diff(self.equalities.indptr), 1)
        return np.concatenate([unknowns, count / np.where(terms > 0, terms, 1.0)])

    @cached_property
    def _matrix(self) -> csr_array:
        """The matrix, its rows and columns in these sizes."""
        precision = self.design.T @ self._scaled
        blocks = block_array(
            [[precision, self.equalities.T], [self.equalities, None]], format="csr"
        )
        sizes = diags_array(self._sizes)
        return csr_array(sizes @ blocks @ sizes)

    @cached_property
    def _factor(self) -> Any:
        """LU of the regularized matrix, None where even that is singular.

        It is quasi-definite: every symmetric order of elimination works, so the order may follow
        sparsity alone.
        """
        n, c = self.design.shape[1], self.equalities.shape[0]
        shift = block_array([[_REGULAR * eye_array(n), None], [None, -_REGULAR * eye_array(c)]])
        options = {"SymmetricMode": True}
        try:
            return splu(
                (self._matrix + shift).tocsc(),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=1e-3,
                options=options,
            )
        except RuntimeError:
            return None
