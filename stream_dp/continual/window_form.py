"""What a window release declares, and what follows from it: costs, noise, errors, estimates.

At t = k the histogram of everybody's last k symbols is measured. Later either the whole
histogram is measured again (`histogram`: Bun, Gaboardi, Neunhoeffer, Zhang 2024, Algorithm 1), or
only what the rows' own pasts leave open: the contrasts inside each overlap (`contrasts`).

Privacy. The exact worst cost of periods 1..t over all pairs of neighbours is in
`window_costs.py`; the noise is scaled so that it is rho at the horizon. The paper states
sensitivity 1 while it defines neighbours by replacement: at its noise replace_one costs 2 rho.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

from stream_dp.errors import UserError
from stream_dp.panel import window_symbols
from stream_dp.privacy.noise import exact_variance
from stream_dp.study import Neighbours, Strategy
from stream_dp.study.model import NO_CONTRASTS

from .base import Counts, Demand
from .contrasts import Contrasts, Floats
from .window_costs import prefix_costs


@dataclass(frozen=True)
class WindowForm:
    """values: the q symbols; width k; horizon T; rho: cost of all releases together under
    `neighbours`; failure: the probability beta that the bounds below leave open.

    padded: n_pad rows are added to every bin, so that counts seldom fall below 0; otherwise noisy
    counts are projected onto what is possible. rows: the public number of people under
    replacement, otherwise a declared cap on the rows; None: the panel's size is noisy. absent: the
    code of the symbol 'absent' where people come and go: k absences are then never measured, and
    the pattern gets what the others leave of `rows`. moves: the release is of one stratum, and a
    person may be replaced by one of another: it costs at least twice a person's coming or going
    (`privacy/ledger.py` says why).
    """

    values: tuple[int | str, ...]
    width: int
    horizon: int
    rho: Fraction
    neighbours: Neighbours
    failure: Fraction = Fraction(1, 20)
    strategy: Strategy = "histogram"
    padded: bool = True
    rows: int | None = None
    absent: int | None = None
    moves: bool = False

    def __post_init__(self) -> None:
        if self.absent is not None and self.rows is None:
            raise ValueError("an open population needs a declared cap on its rows")

    @classmethod
    def best(
        cls,
        values: tuple[int | str, ...],
        width: int,
        horizon: int,
        rho: Fraction,
        neighbours: Neighbours,
        failure: Fraction = Fraction(1, 20),
        *,
        rows: int | None = None,
        absent: int | None = None,
        strategy: Strategy | None = None,
        padded: bool | None = None,
        moves: bool = False,
        grows: bool = False,
    ) -> Self:
        """The form with the smallest error in theory, but for what is declared.

        grows: people may enter late whom no earlier histogram counts. Contrasts take the total of
        every overlap from the period before, so they would be wrong by the newcomers for ever:
        then only histograms are a choice. Raises UserError where contrasts are asked for there.

        Strategy: the smaller mean variance of a bin over all releases. Contrasts measure only a
        share 1 - 1/q of each step, the first histogram carries the rest with noise of its own;
        under replacement a step costs more, rarely as much as that gains. Projection where `rows`
        is known: the true histogram is one of those projected onto, so the squared error of the
        first one falls, and where the number of people is public, that of the total vanishes and
        no row is padding. Where it is private, a noisy total is kept, and padding is unbiased.
        """
        padded = rows is None if padded is None else padded
        forms: tuple[Strategy, ...] = ("contrasts", "histogram")
        if strategy is not None or grows:
            forms = (strategy or "histogram",)
        if grows and strategy == "contrasts":
            raise UserError(f"strategy: {NO_CONTRASTS}")
        made = [
            cls(values, width, horizon, rho, neighbours, failure, form, padded, rows, absent, moves)
            for form in forms
        ]
        return min(made, key=lambda one: one.mean_variance)

    @property
    def title(self) -> str:
        how = ", contrasts" if self.strategy == "contrasts" else ""
        rows = "" if self.padded else ", projected"
        who = "" if self.absent is None else ", open population"
        source = "Bun et al. 2024, Algorithm 1"
        return f"fixed window{how}{rows}{who} ({'after ' if how or rows or who else ''}{source})"

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

    def _costs(self, releases: int, first: Fraction) -> tuple[Fraction, ...]:
        by, open_ = self.strategy == "contrasts", self.absent is not None
        own, alone = (
            prefix_costs(self.q, self.width, releases, n, first=first, contrasts=by, open_=open_)
            for n in (self.neighbours, "add_remove")
        )
        if not self.moves or self.neighbours == "add_remove":
            return own
        return tuple(max(a, 2 * b) for a, b in zip(own, alone, strict=True))

    @cached_property
    def sensitivity2(self) -> int:
        """Squared L2 sensitivity of a histogram: 1 under add_remove, otherwise 2 (1 where only
        one pattern is measured)."""
        return int(self._costs(1, Fraction(1))[0])

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
        later = float(self._costs(self.releases, Fraction(0))[-1])
        return Fraction(f"{math.sqrt(y * self.sensitivity2 / (x * later)):.2g}")

    @cached_property
    def _prefix_costs(self) -> tuple[Fraction, ...]:
        """Of the first 1..R releases, in units of 1 / (2 b)."""
        return self._costs(self.releases, 1 / self.ratio)

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
        found = np.zeros(self.bins)
        found[self.measured] = exact_variance(self.variance)
        return found

    @property
    def _spread(self) -> float:
        """Subgaussian parameter of the worst bin, of estimates or panel.

        As in Theorem 3.2 of the paper: a sum of independent discrete Gaussians has its variance
        as proxy. Rounding to a given sum moves each of q siblings by less than 1, by 0 on average
        whatever happened before: proxy at most 1/4. A bin carries on roundings of different
        overlaps as it does contrasts, with weights whose squares add up to at most q / (q - 1):
        the roundings' proxy is at most 1/2 together, and they are independent of the noise.
        """
        return math.sqrt(self.worst_variance) + math.sqrt(0.5)

    @property
    def padding(self) -> int:
        """n_pad: no measured bin falls below 0, with probability 1 - beta (Theorem 3.2 of the
        paper, one-sided, q^k R bins). 0 where noisy counts are projected."""
        if not self.padded:
            return 0
        return math.ceil(self._spread * math.sqrt(2 * self._log(self.bins * self.releases)))

    @property
    def raised(self) -> float:
        """Rows that a pattern which nobody has gets on average, where noise below 0 is raised to
        it: the mean of the positive part of a Gaussian, and less where others share what is
        raised."""
        return math.sqrt(float(self.worst_variance) / (2 * math.pi))

    @property
    def bias(self) -> str:
        """How the panel's own answers are biased, in words."""
        if not self.padded:
            return (
                "counts below 0 are raised to 0 and others lowered: small counts are too large (a"
                f" pattern that nobody has gets up to about {self.raised:.0f} rows on average),"
                " large ones too small"
            )
        added = self.padding * self.bins
        part = "" if self.rows is None else f", {added / (self.rows + added):.0%} of all"
        return (
            f"padded by {self.padding} rows for each of {self.bins} patterns ({added} rows{part}):"
            " shares computed from it are biased towards uniform"
        )

    @property
    def error_bound(self) -> float:
        """lambda of Theorem 3.2: no bin at any t is off by more, with probability 1 - beta.

        It holds of the estimates, and of the panel's measured bins if no count fell below 0.
        """
        return self._spread * math.sqrt(2 * self._log(2 * self.bins * self.releases))

    def _log(self, events: int) -> float:
        return math.log(events / self.failure)

    def is_later(self, t: int) -> bool:
        """Are contrasts what is measured at t?"""
        return self.strategy == "contrasts" and t > self.width

    def demand(self, t: int) -> Demand:
        if t < self.width:
            return ()
        if self.is_later(t):
            return self.contrasts.demand(self.later_variance)
        return ((self.variance, self.measured.size),)

    def measure(self, t: int, counts: Counts) -> Counts:
        """What is measured at t of the histogram of the last k symbols, (q^k,): int64 (n,)."""
        if t < self.width:
            return np.zeros(0, np.int64)
        return self.contrasts.measure(counts) if self.is_later(t) else counts[self.measured]

    def design(self, t: int) -> csr_array:
        """The measurements at t >= k as rows on the histogram: int64 (n, q^k)."""
        if self.is_later(t):
            return self.contrasts.design()
        return csr_array(eye_array(self.bins, dtype=np.int64, format="csr")[self.measured])

    def functional(self, t: int, weights: Floats) -> tuple[list[tuple[int, Floats]], float]:
        """The unbiased estimate of weights @ histogram at t >= k, from measurements up to t.

        weights: (q^k,), 0 on a pattern that is not measured, else ValueError. Returns periods with
        the coefficients on their measurements, and the estimate's variance, exact. Where the number
        of people n is public, asking for weights - mean and adding n mean has the least variance.
        """
        unseen = self.contrasts.unseen
        if unseen is not None and weights[unseen]:
            raise ValueError("nothing is known of the pattern that is not measured")
        first = self.width if self.strategy == "contrasts" else t
        held, found = weights.astype(float), []
        for period in range(t, first, -1):
            coefficients, held = self.contrasts.adjoint(held)
            found.append((period, coefficients))
        found = [(first, held[self.measured]), *reversed(found)]
        variance = 0.0
        for period, coefficients in found:
            demand = self.demand(period)
            noise = np.repeat([exact_variance(v) for v, _ in demand], [n for _, n in demand])
            variance += float(coefficients**2 @ noise)
        return found, variance

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
