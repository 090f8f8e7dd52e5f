"""The square-root counter."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .methods import CounterMethod
from .stream_counters import BITS, Counter
from .toeplitz import leading, power_coefficients, toeplitz_counter, toeplitz_size


@lru_cache(maxsize=4)
def _long_square_root(size: int) -> Counter:
    return toeplitz_counter(np.rint(power_coefficients(0.5, size) * (1 << BITS)).astype(np.int64))


@lru_cache(maxsize=512)
def square_root(n: int) -> Counter:
    """The square root of the prefix sums for n steps (Henzinger, Upadhyay, Upadhyay 2023).

    B and C are Toeplitz matrices with the coefficients f_j of (1 - z)^(-1/2), where f_0 = 1 and
    f_j = f_{j-1} (2j - 1) / (2j). A shorter counter is the leading block of a longer one. C is
    rounded to the lattice, and B is computed from the rounded C.
    """
    return leading(_long_square_root(toeplitz_size(n)), n)


METHOD = CounterMethod(
    title="square-root counters (Henzinger, Upadhyay, Upadhyay 2023)",
    of_length=square_root,
)
