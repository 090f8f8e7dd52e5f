"""Products and inverses of float matrices with the same bits on every machine.

A linear algebra library adds in an order that depends on the processor. Here every operation is
one of IEEE 754 on whole arrays, in an order that is written down. What a step computes from noisy
answers uses these, so that a study goes on elsewhere as if it had stayed.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def product(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """left @ right: (n,) for (n, m) and (m,), (n, p) for (n, m) and (m, p)."""
    if right.ndim == 1:
        return np.asarray(np.ascontiguousarray(left * right).sum(axis=-1))
    total = np.zeros((left.shape[0], right.shape[1]), np.result_type(left, right))
    for column, row in zip(left.T, right, strict=True):
        total += column[:, None] * row
    return total


def inverse_below(lower: Floats) -> Floats:
    """The inverse of a lower-triangular matrix, (n, n), row by row."""
    inverse = np.zeros(lower.shape)
    for i in range(len(lower)):
        inverse[i, :i] = -product(lower[i : i + 1, :i], inverse[:i, :i])[0] / lower[i, i]
        inverse[i, i] = 1 / lower[i, i]
    return inverse


def solved_below(lower: Floats | NDArray[np.int64], right: Floats) -> Floats:
    """The solution x of lower @ x = right by forward substitution: (n,) for (n, n) and (n,)."""
    solution = np.zeros(right.shape)
    for i in range(len(lower)):
        solution[i] = (right[i] - product(lower[i, :i], solution[:i])) / lower[i, i]
    return solution


def factor_below(matrix: Floats) -> Floats:
    """The lower-triangular factor L of a positive definite matrix L L', (n, n) (Cholesky)."""
    lower = np.zeros(matrix.shape)
    for i in range(len(matrix)):
        lower[i, :i] = solved_below(lower[:i, :i], matrix[i, :i])
        lower[i, i] = math.sqrt(matrix[i, i] - float(product(lower[i, :i], lower[i, :i])))
    return lower


def largest_eigenvalue(matrix: Floats) -> float:
    """An upper bound, near, of the largest eigenvalue of a matrix of positive numbers (n, n).

    The largest ratio of (matrix x)_i to x_i is one for every positive x (Collatz and Wielandt).
    """
    x, ratios = np.ones(len(matrix)), np.ones(len(matrix))
    for _ in range(60):
        image = product(matrix, x)
        ratios = image / x
        x = image / image.max()
    return float(ratios.max())


def power(base: NDArray[np.int64] | int, exponent: Fraction) -> Floats:
    """base^exponent by square roots; the exponent is n / 2^r."""
    result = np.asarray(base, np.float64) ** 0
    for _ in range(exponent.numerator):
        result = result * base
    for _ in range(int(math.log2(exponent.denominator))):
        result = np.sqrt(result)
    return result
