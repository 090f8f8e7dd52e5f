"""The unit of a model's error on its measurements."""

from __future__ import annotations

import math


def reduced_chi_squared(squares: float, freedom: int) -> float:
    """Chi squared over its degrees of freedom; nan where nothing measured could differ.

    squares: the sum of squared deviations, each over its variance.
    """
    return float(squares) / freedom if freedom else math.nan
