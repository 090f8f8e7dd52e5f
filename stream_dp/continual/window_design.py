"""What a window release measures, with which noise, and what that costs.

At t = k the histogram of everybody's last k symbols is measured. Later either the whole
histogram is measured again (`histogram`: Bun, Gaboardi, Neunhoeffer, Zhang 2024, Algorithm 1), or
only what the rows' own pasts leave open: the contrasts inside each overlap (`contrasts`).

Privacy. `window_costs.py` computes the exact worst cost of periods 1..t over all pairs of
neighbours; the noise is scaled so that it is rho at the horizon. The paper states sensitivity 1
while it defines neighbours by replacement: at its noise replace_one costs 2 rho.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

from stream_dp.panel import window_symbols
from stream_dp.privacy.noise import exact_variance
from stream_dp.study import Neighbours, Strategy

from .base import Counts, Demand
from .contrasts import Contrasts, Floats
from .window_costs import prefix_costs


@dataclass(frozen=True)
class WindowDesign:
    """The measurements of a window release and their noise.

    values: the q symbols
    width: k, the periods of a pattern
    horizon: T, the number of periods
    rho: the cost of all periods together under `neighbours`
    neighbours: the neighbouring relation
    strategy: what is measured after t = k, 'histogram' or 'contrasts'
    absent: the code of the symbol 'absent' where people come and go (then k absences are never
        measured), otherwise None
    moves: the release is of one stratum, and a person may be replaced by one of another stratum:
        it costs at least twice a person's coming or going (`privacy/ledger.py` says why)
    """

    values: tuple[int | str, ...]
    width: int
    horizon: int
    rho: Fraction
    neighbours: Neighbours
    strategy: Strategy
    absent: int | None
    moves: bool

    @property
    def q(self) -> int:
        return len(self.values)

    @property
    def bins(self) -> int:
        return int(self.q**self.width)

    @property
    def releases(self) -> int:
        """R = T - k + 1."""
        return self.horizon - self.width + 1

    @cached_property
    def contrasts(self) -> Contrasts:
        """What later steps measure under `contrasts`; and where the unseen pattern is."""
        return Contrasts(self.q, self.width, self.absent)

    @cached_property
    def measured(self) -> NDArray[np.int64]:
        """The codes of the patterns that a histogram measures: all but k absences."""
        every = np.arange(self.bins)
        return every if self.absent is None else every[every != self.contrasts.unseen]

    def costs(self, releases: int, first: Fraction) -> tuple[Fraction, ...]:
        """The exact worst cost of the first 1..releases releases, in units of 1 / (2 b).

        first: b over the noise variance of the first histogram.
        """
        own, alone = (
            prefix_costs(
                self.q,
                self.width,
                releases,
                relation,
                first=first,
                contrasts=self.strategy == "contrasts",
                open_=self.absent is not None,
            )
            for relation in (self.neighbours, "add_remove")
        )
        if not self.moves or self.neighbours == "add_remove":
            return own
        return tuple(max(a, 2 * b) for a, b in zip(own, alone, strict=True))

    @cached_property
    def sensitivity2(self) -> int:
        """Squared L2 sensitivity of a histogram: 1 under add_remove, otherwise 2 (1 where only
        one pattern is measured)."""
        return int(self.costs(1, Fraction(1))[0])

    @cached_property
    def ratio(self) -> Fraction:
        """a / b, the first histogram's noise variance over that of later steps.

        The mean variance of a bin over all releases is x a + y b; the worst cost is at most
        f / (2 a) + g / (2 b), f the first step's and g the later ones'. At a given cost the mean
        is smallest at a / b = sqrt(y f / (x g)): here to two digits.
        """
        if self.strategy == "histogram" or self.releases == 1:
            return Fraction(1)
        x, y = self.contrasts.mean_shares(self.releases)
        later = float(self.costs(self.releases, Fraction(0))[-1])
        return Fraction(f"{math.sqrt(y * self.sensitivity2 / (x * later)):.2g}")

    @cached_property
    def _prefix_costs(self) -> tuple[Fraction, ...]:
        """Of the first 1..R releases, in units of 1 / (2 b)."""
        return self.costs(self.releases, 1 / self.ratio)

    @cached_property
    def variance(self) -> Fraction:
        """a, of every bin's noise in the first histogram; in all of them, R D2 / (2 rho), where
        histograms are all that is measured."""
        return self.ratio * self.later_variance

    @cached_property
    def later_variance(self) -> Fraction:
        """b, of a bin's noise in later steps, or as `contrasts.py` scales it: the cost is rho."""
        return self._prefix_costs[-1] / (2 * self.rho)

    @property
    def charges(self) -> tuple[Fraction, ...]:
        """Increments of the exact worst cost of periods 1..t; their sum is rho."""
        costs = (Fraction(0), *self._prefix_costs)
        each = [self.rho * (b - a) / costs[-1] for a, b in pairwise(costs)]
        return (*[Fraction(0)] * (self.width - 1), *each)

    @cached_property
    def worst_variance(self) -> Fraction:
        """The largest noise variance of an unbiased answer to a bin."""
        if self.strategy == "histogram":
            return self.variance
        return self.contrasts.worst_variance(self.variance, self.later_variance, self.releases)

    @cached_property
    def mean_variance(self) -> float:
        """The mean over releases and measured bins of the noise variance of a bin, of the estimates
        and of a panel in which nothing falls below 0."""
        if self.strategy == "histogram":
            return float(self.variance)
        x, y = self.contrasts.mean_shares(self.releases)
        return x * float(self.variance) + y * float(self.later_variance)

    def bin_variances(self, t: int) -> Floats:
        """Of every bin's unbiased answer at t >= k, (q^k,), from the noise's own variances."""
        if self.strategy == "contrasts":
            a = exact_variance(self.variance)
            return self.contrasts.variances(a, self.later_variance, t - self.width)
        variances = np.zeros(self.bins)
        variances[self.measured] = exact_variance(self.variance)
        return variances

    def measures_contrasts(self, t: int) -> bool:
        """Whether contrasts are measured at t, and not a histogram."""
        return self.strategy == "contrasts" and t > self.width

    def demand(self, t: int) -> Demand:
        """The noise of the measurements at t, (variance, size) each."""
        if t < self.width:
            return ()
        if self.measures_contrasts(t):
            return self.contrasts.demand(self.later_variance)
        return ((self.variance, self.measured.size),)

    def measure(self, t: int, counts: Counts) -> Counts:
        """What is measured at t of the histogram of the last k symbols, (q^k,): int64 (n,)."""
        if t < self.width:
            return np.zeros(0, np.int64)
        return (
            self.contrasts.measure(counts) if self.measures_contrasts(t) else counts[self.measured]
        )

    def matrix(self, t: int) -> csr_array:
        """The measurements at t >= k as rows on the histogram: int64 (n, q^k)."""
        if self.measures_contrasts(t):
            return self.contrasts.design()
        return csr_array(eye_array(self.bins, dtype=np.int64, format="csr")[self.measured])

    def query(self, code: int) -> str:
        """The pattern of a bin, in the words of a query."""
        (digits,) = window_symbols(np.array([code]), self.q, self.width)
        return "pattern " + shlex.join(str(self.values[d]) for d in digits)

    @cached_property
    def bin_words(self) -> tuple[str, ...]:
        """The queries of the measured patterns, in the order of their codes."""
        words = [shlex.quote(str(value)) for value in self.values]
        rows = window_symbols(self.measured, self.q, self.width)
        return tuple(" ".join(["pattern", *(words[d] for d in row)]) for row in rows)

    @cached_property
    def contrast_words(self) -> tuple[str, ...]:
        """The queries of a later step's measurements."""
        return self.contrasts.words([shlex.quote(str(value)) for value in self.values])
