"""The noise of measured residuals: how phases divide a budget, and the errors of marginals.

Noise variances in proportion to prod n_i^(3/2) minimise the sum of squared errors over the cells of
all marginals of a phase at a given cost. (With variance s_A / prod n_i^2 in a cell of the
interaction and prod (n_i - 1) degrees of freedom, minimise sum_A prod (n_i - 1) s_A / prod n_i^2 at
fixed sum_A prod n_i (n_i - 1) / s_A.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from itertools import combinations

import numpy as np

from ...rounds.phases import Everything, PrivacyFilter
from .pair_filter import PairFilter
from .residual_counts import Columns, Residuals


def precision(cells: int) -> Fraction:
    """Returns cells^(-3/2) up to a factor, as a whole number: variances stay short fractions."""
    return Fraction((1 << 70) // math.isqrt(cells**3 << 20))


def residual_phase(
    residuals: Residuals,
    sets: Iterable[Columns],
    rho: Fraction,
    importance: Callable[[Columns], Fraction | int] = lambda columns: 1,
    before: PrivacyFilter | None = None,
) -> Everything:
    """The phase that measures the residuals of `sets` at the cost of rho.

    importance: of a set, the factor by which its variance is smaller.
    before: the filter that earlier phases leave; None for a first phase.
    """
    listed = tuple(sets)
    cells = residuals.domain.cells
    return Everything(
        rho,
        candidates=tuple(residuals.numbers[columns] for columns in listed),
        weights=tuple(1 / (precision(cells(a)) * importance(a)) for a in listed),
        before=before or PairFilter(residuals),
    )


def median_variation(
    residuals: Residuals, variances: Mapping[int, Fraction | float], people: int
) -> float:
    """The noise of the median interaction as total variation.

    The total variation is half the sum, over the cells, of absolute normal noise of variance
    s / prod n_i^2. Centring lessens this variance by the factor prod (1 - 1 / n_i).

    variances: by candidate, of the noise in an entry of its residual.
    people: their number, at least 1.
    """
    variations = []
    for candidate, variance in variances.items():
        sizes = [residuals.domain.sizes[c] for c in residuals.sets[candidate]]
        centring = math.prod(1 - 1 / n for n in sizes)
        variations.append(math.sqrt(float(variance) * 2 / math.pi * centring) / (2 * people))
    return float(np.median(variations))


def cell_deviation(
    residuals: Residuals, columns: Columns, precisions: Mapping[Columns, float]
) -> float:
    """The standard deviation of a cell of a marginal that is rebuilt from its interactions.

    precisions: by measured set, of an entry of its residual; other sets have no noise.

    An interaction's cell is an entry over the number of its cells, centred. The marginal spreads
    the interaction over the values of its other columns.
    """
    domain = residuals.domain
    cells, variance = domain.cells(columns), 0.0
    for ways in range(len(columns) + 1):
        for subset in combinations(columns, ways):
            if subset in precisions:
                centring = math.prod(1 - 1 / domain.sizes[c] for c in subset)
                variance += centring / precisions[subset] / cells**2
    return math.sqrt(variance)
