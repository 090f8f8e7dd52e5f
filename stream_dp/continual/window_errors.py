"""How far the numbers of a window release may be off: Theorem 3.2 of Bun et al. 2024."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from .window_design import WindowDesign


@dataclass(frozen=True)
class WindowErrors:
    """Padding, bounds on errors and the panel's bias.

    design: what is measured, with which noise
    failure: beta, the probability that the bounds leave open
    padded: whether rows are added to every bin; otherwise counts are projected
    rows: the public number of people or the declared cap, None where the size is noisy
    """

    design: WindowDesign
    failure: Fraction
    padded: bool
    rows: int | None

    @property
    def _spread(self) -> float:
        """Subgaussian parameter of the worst bin, of estimates or panel.

        As in Theorem 3.2 of the paper: a sum of independent discrete Gaussians has its variance
        as proxy. Rounding to a given sum moves each of q siblings by less than 1, by 0 on average
        whatever happened before: proxy at most 1/4. A bin carries on roundings of different
        overlaps as it does contrasts, with weights whose squares add up to at most q / (q - 1):
        the roundings' proxy is at most 1/2 together, and they are independent of the noise.
        """
        return math.sqrt(self.design.worst_variance) + math.sqrt(0.5)

    @property
    def padding(self) -> int:
        """n_pad: no measured bin falls below 0, with probability 1 - beta (Theorem 3.2 of the
        paper, one-sided, q^k R bins). 0 where noisy counts are projected."""
        if not self.padded:
            return 0
        return math.ceil(
            self._spread * math.sqrt(2 * self._log(self.design.bins * self.design.releases))
        )

    @property
    def raised(self) -> float:
        """Rows that a pattern which nobody has gets on average, where noise below 0 is raised to
        it: the mean of the positive part of a Gaussian, and less where others share what is
        raised."""
        return math.sqrt(float(self.design.worst_variance) / (2 * math.pi))

    @property
    def bias(self) -> str:
        """How the panel's own answers are biased, in words."""
        if not self.padded:
            return (
                "counts below 0 are raised to 0 and others lowered: small counts are too large (a"
                f" pattern that nobody has gets up to about {self.raised:.0f} rows on average),"
                " large ones too small"
            )
        bins = self.design.bins
        added = self.padding * bins
        part = "" if self.rows is None else f", {added / (self.rows + added):.0%} of all"
        return (
            f"padded by {self.padding} rows for each of {bins} patterns ({added} rows{part}):"
            " shares computed from it are biased towards uniform"
        )

    @property
    def error_bound(self) -> float:
        """lambda of Theorem 3.2: no bin at any t is off by more, with probability 1 - beta.

        It holds of the estimates, and of the panel's measured bins if no count fell below 0.
        """
        cells = self.design.bins * self.design.releases
        return self._spread * math.sqrt(2 * self._log(2 * cells))

    def _log(self, events: int) -> float:
        return math.log(events / self.failure)
