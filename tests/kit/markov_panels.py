"""Simulated panels of persistent Markov chains."""

from __future__ import annotations

import numpy as np

from stream_dp.panel import Symbols


def markov_panel(seed: int, n: int, periods: int, symbols: int, stay: float) -> Symbols:
    """Simulates a panel, (n, periods) codes below `symbols`: a persistent Markov chain a person.

    The first symbol is uniform. With probability `stay` a period repeats the preceding symbol,
    otherwise it has a uniform symbol. Raises ValueError for numbers out of range.
    """
    if not (n >= 0 and periods >= 1 and 1 <= symbols <= 256 and 0 <= stay <= 1):
        raise ValueError("need n >= 0, periods >= 1, 1 to 256 symbols, and stay between 0 and 1")
    rng = np.random.default_rng(seed)
    columns = [rng.integers(symbols, size=n, dtype=np.uint8)]
    for _ in range(periods - 1):
        fresh = rng.integers(symbols, size=n, dtype=np.uint8)
        columns.append(np.where(rng.random(n) < stay, columns[-1], fresh))
    return np.stack(columns, axis=1)
