"""Checks of repeated studies. Each is also shown, where it is used, to reject what is wrong.

Errors are arrays (repetitions, ...). A right one fails a check at `z` standard errors with odds
of about 2e-9 for z = 6, where noise has a seed, and of 1e-15 for z = 8, for the system's own.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest

from stream_dp.privacy.noise import Draw, NoiseSource

Demand = tuple[tuple[Fraction, int], ...]
SMALL, RIGHT, LARGE = Fraction(95, 100), Fraction(1), Fraction(105, 100)
SCALES = (SMALL, RIGHT, pytest.param(LARGE, marks=pytest.mark.slow))


class Scaled:
    """A source whose noise has `scale` times the standard deviation that was demanded."""

    simulated = True

    def __init__(self, source: NoiseSource, scale: Fraction) -> None:
        self._source, self._scale = source, scale

    def draw(self, demand: Sequence[tuple[Fraction, int]]) -> Draw:
        return self._source.draw([(variance * self._scale**2, size) for variance, size in demand])


class DrawnAhead:
    """A source that draws for many repetitions at once: a call costs more than its values."""

    simulated = True

    def __init__(self, source: NoiseSource, repetitions: int) -> None:
        self._source, self._repetitions = source, repetitions
        self._ahead: dict[Demand, Iterator[Draw]] = {}

    def draw(self, demand: Sequence[tuple[Fraction, int]]) -> Draw:
        key = tuple(demand)
        draw = next(self._ahead.get(key, iter(())), None)
        if draw is None:
            self._ahead[key] = self._drawn(key)
            draw = next(self._ahead[key])
        return draw

    def _drawn(self, demand: Demand) -> Iterator[Draw]:
        many = self._source.draw([(v, size * self._repetitions) for v, size in demand])
        parts = [noise.reshape(self._repetitions, -1) for noise in many.noise]
        return (Draw(tuple(p[i] for p in parts), many.coins) for i in range(self._repetitions))


def spread_is(errors: np.ndarray, variance: float, z: float = 6) -> bool:
    """Is the mean square of all entries the variance? Repetitions are independent, entries may
    depend on each other."""
    squares = (errors.reshape(len(errors), -1) ** 2 / variance).mean(axis=1)
    return bool(abs(squares.mean() - 1) < z * squares.std() / len(errors) ** 0.5)


def unbiased(errors: np.ndarray, z: float = 6) -> bool:
    """Is the mean of every entry 0?"""
    return bool((np.abs(errors.mean(axis=0)) <= z * errors.std(axis=0) / len(errors) ** 0.5).all())


def uncorrelated(here: np.ndarray, there: np.ndarray, z: float = 6) -> bool:
    """Is the mean product of paired errors 0?"""
    products = (here * there).reshape(len(here), -1).mean(axis=1)
    return bool(abs(products.mean()) < z * products.std() / len(products) ** 0.5)


def sds(errors: np.ndarray) -> np.ndarray:
    """Root mean square at every time, of errors (repetitions, times, bins)."""
    return (errors.astype(float) ** 2).mean(axis=(0, 2)) ** 0.5
