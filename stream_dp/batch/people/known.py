"""Interactions of columns published by other releases, at no cost for a fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Known:
    """An interaction of the people whom the fit looks at.

    columns: in increasing order; of none the value is the number of people.
    values: one axis for each column, numbers of people, which sum to 0 along every axis.
    variance: of the noise in a cell, before it was centred; independent of all other noise.
    """

    columns: tuple[int, ...]
    values: NDArray[np.float64]
    variance: float
