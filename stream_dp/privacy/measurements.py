"""Noisy counts: the only values of a mechanism or a synthesizer that depend on true data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .noise import exact_variance


@dataclass(frozen=True)
class Measurements:
    """Unbiased counts with independent discrete Gaussian noise.

    queries: a description of each value.
    values: int64 (n,).
    variances: the parameter of the noise of each value.
    """

    queries: tuple[str, ...]
    values: NDArray[np.int64]
    variances: tuple[Fraction, ...]

    def standard_errors(self) -> NDArray[np.float64]:
        """Computes the standard error of each value, from the variance of the discrete Gaussian."""
        exact = {v: exact_variance(v) ** 0.5 for v in set(self.variances)}
        return np.array([exact[v] for v in self.variances], np.float64)

    @staticmethod
    def joined(measurements: Sequence[Measurements]) -> Measurements:
        """Concatenates measurements in the given order."""
        return Measurements(
            tuple(query for m in measurements for query in m.queries),
            np.concatenate([m.values for m in measurements]),
            tuple(variance for m in measurements for variance in m.variances),
        )
