"""Error bounds of a window release (Bun et al. 2024, Theorem 3.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from stream_dp.study import Strategy

from .fitted_targets import NEAR
from .window_design import WindowDesign


@dataclass(frozen=True, kw_only=True)
class BoundedWindow(WindowDesign):
    """A design with its padding, the bounds on its errors and the panel's bias.

    failure: beta, the probability with which the error bounds may be exceeded
    padded: n_pad rows are added to every bin, so that counts seldom fall below 0; otherwise noisy
        counts are projected onto possible ones
    """

    failure: Fraction = Fraction(1, 20)
    padded: bool = True

    @property
    def _spread(self) -> float:
        """Subgaussian parameter of the worst bin, for estimates and a padded panel.

        As in Theorem 3.2: a sum of independent discrete Gaussians is subgaussian with its variance
        parameter as proxy. A padded panel follows the estimates alone (`fitted_targets.py`), so
        it is off by roundings. Rounding to a fixed sum moves each of q siblings by less than 1, and
        by 0 on average whatever happened before: its proxy is at most 1/4. A bin inherits
        roundings of different overlaps, each shared equally among q symbols: with weights whose
        squares sum to at most q / (q - 1) <= 2. All roundings together have a proxy of at most 1/2,
        and they are independent of the noise.
        """
        return math.sqrt(self.worst_variance) + math.sqrt(0.5)

    @property
    def padding(self) -> int:
        """n_pad: with probability 1 - beta no measured bin falls below 0.

        Theorem 3.2, one-sided, for q^k R bins. 0 where noisy counts are projected.
        """
        if not self.padded:
            return 0
        return math.ceil(self._spread * math.sqrt(2 * self._log(self.bins * self.releases)))

    @property
    def raised(self) -> float:
        """About how many rows on average go to a pattern that nobody has, if counts are projected.

        The mean of the positive part of the noise (Gaussian); less where other patterns are
        lowered at the same time.
        """
        return math.sqrt(float(self.worst_variance) / (2 * math.pi))

    @property
    def bias(self) -> str:
        """The bias of the panel's answers, in words."""
        if not self.padded:
            leaning = (
                "; each count of few people also moves towards its earlier estimates, by up to"
                f" {NEAR * math.sqrt(self.worst_variance):.1f} rows"
            )
            leans = self.strategy == Strategy.RESIDUALS and self.absent is None
            return (
                "counts below 0 are raised to 0 and other counts are lowered, so small counts are"
                " too large (a pattern that nobody has gets up to about"
                f" {self.raised:.0f} rows on average) and large counts are too small"
                f"{leaning * leans}"
            )
        bins = self.bins
        added = self.padding * bins
        part = "" if self.rows is None else f", {added / (self.rows + added):.0%} of all"
        return (
            f"the panel has {self.padding} padding rows for each of {bins} patterns ({added}"
            f" rows{part}), so shares of its rows are biased towards uniform"
        )

    @property
    def error_bound(self) -> float:
        """lambda of Theorem 3.2: with probability 1 - beta no bin at any t has a larger error.

        It holds for the estimates, and for a padded panel's measured bins if no count fell below 0.
        """
        cells = self.bins * self.releases
        return self._spread * math.sqrt(2 * self._log(2 * cells))

    @property
    def bounded(self) -> str:
        """The queries within the bound, in words."""
        panel = ", and in the panel where no count fell below 0" if self.padded else ""
        return f"for every pattern, as estimated{panel}"

    def _log(self, events: int) -> float:
        return math.log(events / self.failure)
