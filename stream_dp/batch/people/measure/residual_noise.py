"""The noise of measured residuals: weights that share a budget, and the errors of marginals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations

from .residual_counts import Columns, Residuals


def precision(cells: int) -> Fraction:
    """In proportion to cells^(-3/2), a whole number, so that variances stay short fractions."""
    return Fraction((1 << 70) // math.isqrt(cells**3 << 20))


def noise_variation(residuals: Residuals, columns: Columns, variance: float, people: int) -> float:
    """The noise of an interaction as total variation.

    That is half the sum, over the cells, of absolute normal noise of variance s / prod n_i^2, which
    centring lessens to prod (1 - 1 / n_i) of that.

    variance: of the noise in an entry of its residual.
    people: their number, at least 1.
    """
    sizes = [residuals.domain.sizes[c] for c in columns]
    each = math.sqrt(variance * 2 / math.pi * math.prod(1 - 1 / n for n in sizes))
    return each / (2 * people)


def cell_deviation(
    residuals: Residuals, columns: Columns, precisions: Mapping[Columns, float]
) -> float:
    """The standard deviation of a cell of a marginal that is rebuilt from its interactions.

    precisions: of every entry of the residuals that are measured; without one there is no noise.
    An interaction's cell is an entry over the number of its cells, centred; the marginal has it
    spread over the values of its other columns.
    """
    domain = residuals.domain
    every, variance = domain.cells(columns), 0.0
    for ways in range(len(columns) + 1):
        for part in combinations(columns, ways):
            if part in precisions:
                centred = math.prod(1 - 1 / domain.sizes[c] for c in part)
                variance += centred / precisions[part] / every**2
    return math.sqrt(variance)
