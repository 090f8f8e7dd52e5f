"""The counter without a horizon."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from .methods import CounterMethod
from .stream_counters import BITS, Counter, Floats
from .toeplitz import leading, power_coefficients, toeplitz_counter, toeplitz_size

_KAPPA = 0.1  # the factor of the logarithm in `_perturbed`
_TAIL_FROM = 1 << 14  # from here on `unbounded_column2` bounds the tail by an integral


def _perturbed(n: int) -> Floats:
    """c_j = f_j / (1 + ln(j + 1) / 10)^2, j < n, f_j the coefficients of (1 - z)^(-1/2)."""
    column: Floats = power_coefficients(0.5, n) / (1 + _KAPPA * np.log(np.arange(1, n + 1))) ** 2
    return column


@lru_cache(maxsize=4)
def _long_unbounded(size: int) -> Counter:
    # Rounded down, so that the bound of the real column's norm holds for the rounded one.
    return toeplitz_counter(np.floor(_perturbed(size) * (1 << BITS)).astype(np.int64))


@lru_cache(maxsize=512)
def unbounded(n: int) -> Counter:
    """A counter that needs no horizon: the leading block of an infinite Toeplitz matrix.

    The squared norm of the square root's column is about ln(n)/pi and has no limit. Dividing by
    powers of the logarithm makes it summable (after Jacobsen and Fawaz 2025, arXiv 2506.15018, who
    perturb the generating function (1 - z)^(-1/2), while here its coefficients are perturbed).
    C's first column is c_j = f_j / (1 + ln(j + 1)/10)^2, rounded down to the lattice, and B's is
    that of 1 / ((1 - z) C(z)): nothing depends on n. All entries of C are at or above 0. Of the
    powers and factors tried (0.6 to 2, 0.05 to 1) these have about the least error from 12 to
    2000 steps: 2.20 at 12, 2.79 at 60, 3.84 at 600; with a horizon 1.62, 2.09 and 2.80.
    """
    return leading(_long_unbounded(toeplitz_size(n)), n)


@lru_cache(maxsize=1)
def unbounded_column2() -> Fraction:
    """An upper bound of the squared norm of the infinite column of `unbounded`, in lattice units.

    Exact sum of the first N = 2^14 squares, and for the others c_j^2 <= f_j^2 / (1 + k ln(j+1))^4,
    k = 1/10. f_j^2 (j + 1/4) rises (the ratio of neighbours is 1 + 1/(16 j^3 - 12 j^2)) to 1/pi,
    so f_j^2 < 1/(pi (j + 1/4)) <= r/(pi (j + 1)) with r = (N + 1)/(N + 1/4). The terms fall, so
    their sum is at most the integral r/pi of dx / (x (1 + k ln x)^4) from N on, that is
    r / (3 pi k) (1 + k ln N)^-3. Rounding down makes no entry larger.
    """
    n = _TAIL_FROM
    leading = np.floor(_perturbed(n) * (1 << BITS)).astype(np.int64)
    ratio = (n + 1) / (n + 0.25)
    tail = ratio / (3 * math.pi * _KAPPA) * (1 + _KAPPA * math.log(n)) ** -3
    # A margin far above the rounding of these few operations.
    return int((leading**2).sum()) + Fraction(tail * (1 + 1e-9)) * (1 << 2 * BITS)


METHOD = CounterMethod(
    title="counters without a horizon (after Jacobsen, Fawaz 2025)",
    of_length=unbounded,
    endless_column2=unbounded_column2,
)
