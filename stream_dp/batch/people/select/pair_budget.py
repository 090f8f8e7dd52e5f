"""How a table of people spends rho by default: on all pairs at once, on picked pairs, or on none.

Three public numbers decide: the columns, rho and the number of people, which is public or the first
noisy answer. The rule and its reasons: `docs/mechanisms/selection.md`. The
constants were chosen on one survey at four budgets (`benchmarks/people_numbers.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ...rounds.phases import SELECTION
from ..measure.residual_counts import Columns, Residuals
from ..measure.residual_noise import median_variation, residual_phase
from ..people_table import PeopleDomain

CLEAR = 50.0  # deviations of noise: the signal of the median pair, if all are measured at once
SHARE = Fraction(3, 4)  # of rho: what the rule supposes that all pairs have together
LARGE = 1_000  # cells of the median pair: no tree has room for larger ones
MANY = 24  # columns of which all pairs are measured at once only if their noise is below PRECISE
PRECISE = 0.018  # total variation: the noise of the median of all pairs, if they have SHARE of rho
MOST_WITH_TRIPLES = 50  # columns: with more of them no triple is measured
SINGLES = 0.025  # total variation: the noise of the median single column where pairs are picked
LEAST_SINGLES, MOST_SINGLES = Fraction(15, 100), Fraction(60, 100)  # of rho
PAIR = 0.15  # total variation: the noise of the median pair, as far as there is rho for it
NOISIEST_PAIR = 0.5  # total variation: with more noise no pair is picked
ROUNDS = 16


@dataclass(frozen=True, eq=False)
class Choice:
    """The use of rho on the columns of `domain`.

    rho: the budget without what counts people.
    """

    domain: PeopleDomain
    rho: Fraction

    def fewest_at_once(self, pairs: Sequence[Columns]) -> float:
        """The fewest people of whom all pairs are measured at once; 0 where pairs are large.

        The strongest dependence of m and n values, m >= n, has the squared norm 1 / m - 1 / (m n):
        one column follows from the other. Noise of variance v in a cell has (m - 1)(n - 1) v, with
        a deviation of sqrt(2 (m - 1)(n - 1)) v.

        Of many columns the noise must be small as well. A tree of picked pairs leaves out the
        dependence of other pairs, however much rho there is: about as much as that noise.
        """
        is_large = float(np.median([self.domain.cells(a) for a in pairs])) > LARGE
        if is_large and not self.many:
            return 0
        residuals = Residuals(self.domain, tuple(pairs))
        variances = residual_phase(residuals, pairs, SHARE * self.rho).variances(residuals)
        precise = median_variation(residuals, variances, 1) / PRECISE if self.many else 0
        signals = []
        for candidate, variance in variances.items():
            first, second = (self.domain.sizes[c] for c in pairs[candidate])
            cells, largest = first * second, max(first, second)
            noise = float(variance) / cells**2 * math.sqrt(2 * ((first - 1) * (second - 1)))
            signals.append((1 / largest - 1 / cells) / noise)
        return max(precise, math.sqrt(CLEAR / float(np.median(signals))))

    @property
    def many(self) -> bool:
        return len(self.domain.columns) >= MANY

    def singles_share(self, people: int, least: Fraction = LEAST_SINGLES) -> Fraction:
        """The share of rho for single columns where pairs are picked: `least` or more."""
        sets = tuple((c,) for c in range(len(self.domain.columns)))
        residuals = Residuals(self.domain, sets)
        variances = residual_phase(residuals, sets, self.rho).variances(residuals)
        noise = median_variation(residuals, variances, people)
        percent = min(math.ceil(100 * (noise / SINGLES) ** 2), 100)
        return min(max(Fraction(percent, 100), least), max(MOST_SINGLES, least))

    def picks(self, pairs: Sequence[Columns], rho: Fraction, people: int) -> int:
        """The number of picks that rho pays for before noise falls; may be 0."""
        if not pairs:
            return 0
        residuals = Residuals(self.domain, tuple(pairs))
        variances = {i: squared / 2 for i, squared in enumerate(residuals.squared)}
        noise = median_variation(residuals, variances, people) / math.sqrt((1 - SELECTION) * rho)
        if noise > NOISIEST_PAIR:
            return 0
        return max(1, int(min((PAIR / noise) ** 2, ROUNDS * most_picks(len(self.domain.columns)))))


def most_picks(columns: int) -> int:
    """How many pairs a round picks at most: a quarter of the columns, but over 6 an eighth.

    With more picks each has less rho and a larger error: at 50 columns 6 are better than 12, at 100
    12 are better than 25 (`benchmarks/people_rounds.py --rounds`).
    """
    return min(columns // 4, max(6, columns // 8))


def divided_picks(picks: int, columns: int) -> tuple[int, int]:
    """The number of rounds for `picks`, and the number of picks in a round."""
    per_round = max(1, min(most_picks(columns), math.ceil(picks / ROUNDS)))
    return max(1, picks // per_round), per_round
