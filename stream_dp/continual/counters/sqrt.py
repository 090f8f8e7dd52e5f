"""The square-root counter."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .methods import CounterMethod
from .stream_counters import BITS, Counter
from .toeplitz import leading, root_coefficients, toeplitz_counter, toeplitz_size


@lru_cache(maxsize=4)
def _long_sqrt(size: int) -> Counter:
    return toeplitz_counter(np.rint(root_coefficients(size) * (1 << BITS)).astype(np.int64))


@lru_cache(maxsize=512)
def sqrt(n: int) -> Counter:
    """The square root (Henzinger, Upadhyay, Upadhyay 2023).

    B and C are Toeplitz with the coefficients of (1 - z)^(-1/2). The leading blocks do not depend
    on the length.
    """
    return leading(_long_sqrt(toeplitz_size(n)), n)


METHOD = CounterMethod(
    title="square-root counters (Henzinger, Upadhyay, Upadhyay 2023)",
    of_length=sqrt,
)
