"""The counter of the least worst error."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .factorizations import MOST_GAMMA2, certified
from .methods import CounterMethod
from .stream_counters import Counter, Floats, TriangularCounter, rounded


@lru_cache(maxsize=MOST_GAMMA2)
def gamma2(n: int) -> Counter:
    """The factorization with the least possible worst error, to within GAP (certified).

    The error depends on X = C^T C alone (B B^T = A X^-1 A^T), so C can be replaced by a lower
    triangular matrix: the Cholesky factor of X from its last row upwards. `certified` computes X.
    Raises ValueError above MOST_GAMMA2.
    """
    if n > MOST_GAMMA2:
        raise ValueError(f"gamma2: at most {MOST_GAMMA2} steps")
    gram = certified(n).gram
    flipped = np.linalg.cholesky(gram[::-1, ::-1]).T
    real: Floats = flipped[::-1, ::-1] / np.float64(gram.diagonal().max()) ** 0.5
    return TriangularCounter(rounded(real))


METHOD = CounterMethod(
    title="counters of the least worst error (gamma2-optimal factorization)",
    of_length=gamma2,
    longest=MOST_GAMMA2,
    nested=False,
)
