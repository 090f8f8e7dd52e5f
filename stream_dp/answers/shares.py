"""Shares: ratios of two noisy numbers, with Fieller's interval, for the noise and for sampling.

Let v and n be the noisy numbers, with variances V_v and V_n and covariance C. The standard error of
the share s = v / n is that of the first order. The interval of Fieller 1954 holds all shares p with

    (v - p n)^2  <=  z^2 (V_v - 2 p C + p^2 V_n),

so it covers as a normal interval does however noisy n is. If the people are a random sample,
v - p n also varies by the sampling, with variance k p (1 - p) for k = n * design effect * (1 -
fraction). This term is added to the bracket: without noise the interval is Wilson's (1927).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stream_dp.errors import UserError
from stream_dp.study.survey_design import Sampling

from .answer import QUANTILE, Interval, Sampled
from .blocks import Floats
from .system import Answers

_CERTAIN = 1e-13  # of a share's variance without correlation: below it, a rounding of floats
UNCLEAR = "share: the noisy number of people is not clearly positive; ask for --count"


class ShareIntervals(NamedTuple):
    """Shares, standard errors, low and high ends, (n,) each; NaN for shares without an interval."""

    values: Floats
    errors: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Ratios:
    """Noisy values over noisy numbers of people, (n,) each.

    variances, of_people: of each value and number of people
    together: the covariance of each value with its number of people
    """

    values: Floats
    variances: Floats
    people: Floats
    of_people: Floats
    together: Floats

    @classmethod
    def of(
        cls, value: float, variance: float, people: float, of_people: float, together: float
    ) -> Ratios:
        """A single ratio."""
        numbers = (value, variance, people, of_people, together)
        return cls(*(np.array([number]) for number in numbers))

    def intervals(self, z: float = QUANTILE) -> ShareIntervals:
        """The intervals of the noise. z: standard errors to each side of a normal answer."""
        shares, noise = self._shares(z)
        n = self.people
        low, high = self._ends(shares, noise, np.zeros_like(shares), z)
        return ShareIntervals(shares, np.sqrt(noise) / n, low, high)

    def sampled(self, design: Sampling, z: float = QUANTILE) -> ShareIntervals:
        """The intervals of noise and sampling together. Each contains the interval of the noise."""
        shares, noise = self._shares(z)
        sampling = design.factor * np.maximum(self.people, 0.0)
        clipped = np.clip(shares, 0.0, 1.0)
        low, high = self._ends(shares, noise, sampling, z)
        alone = self._ends(shares, noise, np.zeros_like(shares), z)
        errors = np.sqrt(noise + sampling * clipped * (1 - clipped)) / self.people
        return ShareIntervals(shares, errors, np.fmin(low, alone[0]), np.fmax(high, alone[1]))

    def _shares(self, z: float) -> tuple[Floats, Floats]:
        """The shares, and the variance of v - s n for the share s."""
        nn = self.of_people
        clear = self.people > z * np.sqrt(np.maximum(nn, 0.0))
        shares = self.values / np.where(clear, self.people, np.nan)
        squares = self.variances - 2 * shares * self.together + shares**2 * nn
        certain = squares <= _CERTAIN * (self.variances + shares**2 * nn)
        return shares, np.where(certain, 0.0, squares)

    def _ends(
        self, shares: Floats, noise: Floats, sampling: Floats, z: float
    ) -> tuple[Floats, Floats]:
        """The roots of the inequality, written in the distance from the share; NaN without roots.

        sampling: k of every share.
        """
        a = self.people**2 - z * z * (self.of_people - sampling)
        b = z * z * (shares * self.of_people - self.together + sampling * (0.5 - shares))
        c = z * z * (noise + sampling * shares * (1 - shares))
        squares = b * b + a * c
        # A sum below 0 has no root: a share far outside of 0 to 1.
        reach = np.sqrt(np.where(squares < 0, np.nan, squares))
        return shares + (b - reach) / a, shares + (b + reach) / a


def fieller_share(value: Answers, people: Answers, z: float) -> tuple[float, float, Interval]:
    """The `fieller_ratio` of two single answers."""
    return fieller_ratio(single_ratio(value, people), z)


def single_ratio(value: Answers, people: Answers) -> Ratios:
    """The ratio of two single answers."""
    together = float(value.covariance(people)[0, 0])
    return Ratios.of(value.value, value.variance, people.value, people.variance, together)


def fieller_ratio(ratio: Ratios, z: float) -> tuple[float, float, Interval]:
    """The share, the first-order standard error and Fieller's interval of a single ratio.

    Raises UserError where the number of people is not clearly above 0, so that this is no interval.
    """
    share, error, low, high = (float(column[0]) for column in ratio.intervals(z))
    if np.isnan(share):
        raise UserError(UNCLEAR)
    return share, error, (low, high)


def sampled_shares(ratios: Ratios, design: Sampling | None) -> list[Sampled | None]:
    """The intervals of noise and sampling together, where the study declares its sampling."""
    if design is None:
        return [None] * ratios.values.size
    _, errors, low, high = ratios.sampled(design)
    columns = zip(errors.tolist(), low.tolist(), high.tolist(), strict=True)
    return [
        None if np.isnan(error) else Sampled(error, (below, above), design.label)
        for error, below, above in columns
    ]
