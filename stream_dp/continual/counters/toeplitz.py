"""Counters whose C is a Toeplitz matrix."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .stream_counters import BITS, Counter, Floats, IntMatrix, TriangularCounter

_SHORTEST = 512  # Toeplitz counters are the leading blocks of one of this length, or a double


@lru_cache(maxsize=8)
def root_coefficients(n: int) -> Floats:
    """f_0..f_{n-1}, coefficients of (1 - z)^(-1/2): f_j = f_{j-1} (2j - 1) / (2j)."""
    j = np.arange(1, n)
    return np.concatenate([[1.0], np.cumprod((2 * j - 1) / (2 * j))])


def toeplitz(first: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
    """The lower-triangular Toeplitz matrix of a first column."""
    n = first.shape[0]
    lag = np.arange(n)[:, None] - np.arange(n)[None, :]
    matrix: Floats = np.where(lag >= 0, first[np.maximum(lag, 0)], 0).astype(float)
    return matrix


def toeplitz_counter(column: IntMatrix) -> TriangularCounter:
    """The counter whose C is Toeplitz, from the first column of 2^16 C (n,).

    C's inverse and B are Toeplitz, too: the inverse has the coefficients of 1 / C(z).
    """

    def decode() -> Floats:
        inverse = np.zeros(column.size)
        inverse[0] = 1 / (column[0] / (1 << BITS))
        for j in range(1, column.size):
            inverse[j] = -(column[1 : j + 1] * inverse[:j][::-1]).sum() / column[0]
        return toeplitz(inverse.cumsum())

    return TriangularCounter(toeplitz(column).astype(np.int64), decode)


def leading(longer: Counter, n: int) -> Counter:
    """The first n steps of a counter with one row for each step."""
    return TriangularCounter(longer.encode[:n, :n], lambda: longer.decode[:n, :n])


def toeplitz_size(n: int) -> int:
    """The least of 512, 1024, 2048, ... that is not below n."""
    return max(_SHORTEST, 1 << (n - 1).bit_length())
