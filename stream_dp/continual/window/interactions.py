"""The estimates of a window release about interactions of its periods, for each set of periods.

The marginal of a set A of periods is the sum of the interactions of all its subsets, each spread
evenly over its cells; an interaction sums to 0 along every period. Residuals measure the entries
of one A with noise of variance prod j (j + 1) s / w in the entry (j), which is noise of one
variance s / w along each of the orthogonal directions of the interaction (`residuals.py`). A
histogram with noise of variance s in every cell gives the interaction of A with the variance
s q^(k - |A|), independently for every A and every period.

A function of noisy answers alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.noise import exact_variance

from ..mechanism_interface import Counts
from .measurement_strategy import Histograms
from .residuals import Residuals, helmert, lengths
from .window import FixedWindow

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PeriodsInteraction:
    """A measured interaction.

    ago: its periods, as so many before that of the measurement, the oldest first.
    values: (q, .., q) numbers of people, which sum to 0 along every axis.
    variance: of the noise in a cell, before it was centred.
    """

    ago: tuple[int, ...]
    values: Floats
    variance: float


def period_interactions(
    window: FixedWindow, t: int, answers: Counts
) -> Iterator[PeriodsInteraction]:
    """The interactions measured by the answers at t >= k.

    Of a closed population; where people come and go or enter late there are none.
    """
    measurement = window.measurement
    if isinstance(measurement, Residuals):
        yield from _of_residuals(measurement, t, answers)
    elif isinstance(measurement, Histograms) and measurement.unseen is None:
        yield from _of_histogram(measurement, answers)


def _of_residuals(residuals: Residuals, t: int, answers: Counts) -> Iterator[PeriodsInteraction]:
    """The interactions of the answers: entries along Helmert rows h_j, 0 < j < q, of every period.

    An interaction is sum_j h_j / |h_j|^2 times the entry, period by period. The entry of j = 1 has
    the factor prod j (j + 1) = 2^|A| in its variance.
    """
    q, width, measured = residuals.q, residuals.width, residuals.entries(t)
    entries, variances = np.zeros(residuals.bins), np.zeros(residuals.bins)
    entries[measured], variances[measured] = answers, residuals.entry_variances(t)[measured]
    shape = (q,) * width
    back = (helmert(q)[1:] / lengths(q)[1:, None]).T  # (q, q - 1)
    for positions in _sets(width):
        if positions[-1] < width - 1 and t > width:
            continue  # measured before
        entries_of_set = tuple(slice(1, None) if i in positions else 0 for i in range(width))
        values = entries.reshape(shape)[entries_of_set]
        first = variances.reshape(shape)[tuple(int(i in positions) for i in range(width))]
        for axis in range(len(positions)):
            values = np.moveaxis(np.tensordot(back, values, (1, axis)), 0, axis)
        ago = tuple(width - 1 - i for i in positions)
        yield PeriodsInteraction(ago, values, float(first) / 2 ** len(positions))


def _of_histogram(histograms: Histograms, answers: Counts) -> Iterator[PeriodsInteraction]:
    """The interactions of a histogram: its marginals, centred along each of their periods."""
    histogram = answers.reshape((histograms.q,) * histograms.width).astype(np.float64)
    for positions in _sets(histograms.width):
        values = histogram.sum(axis=tuple(i for i in range(histograms.width) if i not in positions))
        for axis in range(len(positions)):
            values = values - values.mean(axis, keepdims=True)
        ago = tuple(histograms.width - 1 - i for i in positions)
        summed = histograms.q ** (histograms.width - len(positions))
        yield PeriodsInteraction(ago, values, exact_variance(histograms.noise) * summed)


def _sets(width: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, width + 1):
        yield from combinations(range(width), size)
