"""Shrinks noisy interactions towards 0, by the known variance of their noise.

Three estimators compete for each table: one factor for all of it (James and Stein 1961), singular
values (a few strong directions), and single cells (a few strong cells). Each lessens a value x to
x (1 - t^2 / x^2), or to 0 below t, as Stein's factor does; t and the estimator are those with the
least unbiased estimate of the squared error (Stein 1981, SURE; for singular values Candes, Sing-
Long, Trzasko 2013, equation 9). All of it is post-processing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
_THRESHOLDS = np.arange(0.5, 5.01, 0.25)  # of cells, in standard deviations of the noise
_SPECTRAL = np.arange(0.5, 2.51, 0.125)  # of singular values, in those of a matrix of noise


class Shrunk(NamedTuple):
    """An estimate, its estimated squared error, and its effective degrees of freedom."""

    values: Table
    risk: float
    freedom: float


def shrunk(values: Table, variance: float) -> Shrunk:
    """The best of the estimators for a centred array of any number of axes.

    variance: of the noise in a cell before it was centred.
    """
    free = float(np.prod([n - 1 for n in values.shape]))
    best = min(
        (_scaled(values, variance, free), _cells(values, variance, free)), key=lambda s: s.risk
    )
    if values.ndim == 2 and min(values.shape) > 2:
        best = min((best, _spectral(values, variance, free)), key=lambda s: s.risk)
    return best


def _scaled(values: Table, variance: float, free: float) -> Shrunk:
    total = float(np.square(values).sum())
    lost = max(free - 2, 0.0) * variance
    if total <= lost:
        return Shrunk(np.zeros_like(values), total - free * variance, 0.0)
    factor = 1 - lost / total
    divergence = free * factor + 2 * lost / total
    risk = lost**2 / total - free * variance + 2 * variance * divergence
    return Shrunk(factor * values, risk, divergence)


def _cells(values: Table, variance: float, free: float) -> Shrunk:
    """Cells of a centred table have a little less noise than before, and are nearly independent."""
    noise = variance * free / values.size
    squares = np.square(values)
    best = None
    for t in _THRESHOLDS:
        large = squares > t * t * noise
        lost = np.where(large, t * t * noise / np.where(large, squares, 1), 1)
        divergence = float(np.where(large, 1 + lost, 0).sum())
        risk = float((squares * lost**2).sum()) - values.size * noise + 2 * noise * divergence
        if best is None or risk < best.risk:
            best = Shrunk(values * (1 - lost), risk, divergence)
    assert best is not None
    return best


def _spectral(values: Table, variance: float, free: float) -> Shrunk:
    m, n = (size - 1 for size in values.shape)
    u, s, v = np.linalg.svd(values, full_matrices=False)
    s = s[: min(m, n)]
    noise = variance**0.5 * (m**0.5 + n**0.5) / 2
    gaps = s[:, None] ** 2 - s[None, :] ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(np.abs(gaps) > 1e-12 * s[0] ** 2, 1 / gaps, 0)
    best = None
    for t in _SPECTRAL * noise:
        large = s > t
        safe = np.where(large, s, 1)
        f = np.where(large, s - t * t / safe, 0)
        divergence = float(
            np.where(large, 1 + (t / safe) ** 2, 0).sum()
            + abs(m - n) * (f / np.where(s > 0, s, 1)).sum()
            + 2 * ((s * f)[:, None] * inverse).sum()
        )
        risk = float(np.square(s - f).sum()) - free * variance + 2 * variance * divergence
        if best is None or risk < best.risk:
            best = Shrunk((u[:, : len(s)] * f) @ v[: len(s)], risk, divergence)
    assert best is not None
    return best
