"""The square-root counter with columns of norm 1."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .methods import CounterMethod
from .stream_counters import Counter, Floats, TriangularCounter, rounded, trailing
from .toeplitz import root_coefficients, toeplitz

_BLOCK = 128  # counters of about one length are the last rows and columns of one


@lru_cache(maxsize=1024)
def normalised(n: int) -> Counter:
    """The square root with its columns scaled to norm 1, and B = A C^-1.

    Late columns of the square root have smaller norms, so their entries would cost less than the
    budget allows. A column's norm depends on how many steps are left: a shorter counter is the last
    rows and columns of a longer one.
    """
    return trailing(_long_normalised(-(-n // _BLOCK) * _BLOCK), n)


@lru_cache(maxsize=16)
def _long_normalised(size: int) -> Counter:
    f = root_coefficients(size)
    real: Floats = toeplitz(f) / np.sqrt(np.cumsum(f**2))[::-1]
    return TriangularCounter(rounded(real))


METHOD = CounterMethod(title="column-normalised square-root counters", of_length=normalised)
