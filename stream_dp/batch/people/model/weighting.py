"""Weights of synthetic people that bring histograms nearer to noisy shares.

Of all weights w (shares of people, sum 1) those with the least
    trust * KL(w || even) + sum over cells (share under w - wanted)^2 / (2 variance):
maximum entropy with relaxed constraints (Dudik, Phillips, Schapire 2004). The dual is smooth and
convex: minimise log of the mean over people of exp(their cells' multipliers), less wanted @
multipliers, plus trust / 2 * sum of variance * multiplier^2. L-BFGS finds its minimum. What is
given is noisy or synthetic: post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ...data.domain import Int64Array

Floats = NDArray[np.float64]
_STEPS = 200


class Histogram(NamedTuple):
    """cells: (N,) by person; target: noisy shares by cell; variance: of the noise in a share."""

    cells: Int64Array
    target: Floats
    variance: float


def entropic_weights(histograms: Sequence[Histogram], trust: float) -> Floats:
    """(N,) weights, sum 1.

    trust: how many people the even weights are worth; with more they change less.
    """
    starts = np.cumsum([0, *(len(h.target) for h in histograms)])
    cells = [h.cells + start for h, start in zip(histograms, starts[:-1], strict=True)]
    target = np.concatenate([h.target for h in histograms])
    loose = trust * np.repeat([h.variance for h in histograms], np.diff(starts))

    def tilted(multipliers: Floats) -> tuple[Floats, float]:
        tilts = np.zeros(len(cells[0]))
        for histogram_cells in cells:
            tilts += multipliers[histogram_cells]
        highest = float(tilts.max())
        weights = np.exp(tilts - highest)
        total = float(weights.sum())
        return weights / total, highest + float(np.log(total / len(tilts)))

    def dual(multipliers: Floats) -> tuple[float, Floats]:
        weights, value = tilted(multipliers)
        shares = np.zeros(starts[-1])
        for histogram_cells in cells:
            shares += np.bincount(histogram_cells, weights, minlength=len(shares))
        pull = loose * multipliers
        value += float(multipliers @ (pull / 2 - target))
        return value, shares - target + pull

    end = minimize(
        dual, np.zeros(starts[-1]), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS}
    )
    return tilted(end.x)[0]


def drawn_rows(rng: np.random.Generator, weights: Floats, order: Int64Array) -> Int64Array:
    """(N,) rows: a row appears weight times N times, rounded up or down systematically.

    order: of the rows; neighbours in it make up for each other's rounding.
    """
    expected = weights * len(weights)
    times = np.floor(expected).astype(np.int64)
    missing = len(weights) - int(times.sum())
    if missing > 0:
        ends = np.cumsum((expected - times)[order])
        marks = (np.arange(missing) + rng.random()) / missing * ends[-1]
        chosen = np.searchsorted(ends, marks, side="right").clip(max=len(order) - 1)
        np.add.at(times, order[chosen], 1)
    rows = np.repeat(np.arange(len(weights)), times)[: len(weights)]
    return rng.permutation(rows)
