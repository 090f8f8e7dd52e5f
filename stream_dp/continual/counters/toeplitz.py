"""Counters with a Toeplitz matrix C."""

from __future__ import annotations

import numpy as np

from .stream_counters import BITS, Counter, Floats, IntMatrix, TriangularCounter

_SHORTEST = 512  # Toeplitz counters are the leading blocks of one of this length, or a double


def power_coefficients(exponent: float, count: int) -> Floats:
    """The first coefficients of (1 - x)^-exponent, (count,)."""
    j = np.arange(1, count)
    return np.concatenate([[1.0], np.cumprod((j - 1 + exponent) / j)])


def toeplitz(first: Floats) -> Floats:
    """The lower-triangular Toeplitz matrix of a first column."""
    count = first.size
    padded = np.concatenate([first[::-1], np.zeros(count - 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, count)
    return np.ascontiguousarray(windows[::-1])


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

    return TriangularCounter(toeplitz(column.astype(float)).astype(np.int64), decode)


def leading(longer: Counter, n: int) -> Counter:
    """The first n steps of a counter with a row per step."""
    return TriangularCounter(longer.encode[:n, :n], lambda: longer.decode[:n, :n])


def toeplitz_size(n: int) -> int:
    """The least of 512, 1024, 2048, ... that is not below n."""
    return max(_SHORTEST, 1 << (n - 1).bit_length())
