"""How a table of people spends rho by default: on all pairs at once, on picked ones, or on none.

With little budget for many columns all pairs at once are noise, and independent columns have less
error. So three public numbers decide, each from the columns, rho and the number of people, which is
public or the first noisy answer:

- All pairs are measured at once where, with SHARE of rho for all of them, the strongest dependence
  that the median pair can have is CLEAR deviations of its sum of squares above noise; the
  dependence that matters is weaker. If one column follows from the other, with m and n values and
  m >= n, the interaction has the squared norm 1 / m - 1 / (m n) with even shares. Noise of variance
  v in a cell has (m - 1)(n - 1) v, with a deviation of sqrt(2 (m - 1)(n - 1)) v.
  All pairs are also measured at once where the median pair has over LARGE cells: trees have no room
  for such pairs. With MANY columns and more they never are.
- Elsewhere pairs are picked in rounds, and single columns get so much of rho that the noise of the
  median one is SINGLES of total variation, within LEAST and MOST.
- There are so many picks that the noise of the median pair, before noise falls, is PAIR of total
  variation; one pick where that is NOISIEST at most; and with less budget single columns alone are
  measured.

The constants were chosen on one survey at four budgets (`benchmarks/people_numbers.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ...rounds.phases import SELECTION
from ..measure.residual_counts import Columns, Residuals
from ..measure.residual_noise import noise_variation, precision
from ..people_table import PeopleDomain

CLEAR = 50.0
SINGLES, LEAST, MOST = 0.025, Fraction(15, 100), Fraction(60, 100)
PAIR, NOISIEST = 0.15, 0.5
ROUNDS = 16
MANY = 24  # columns from which pairs are picked, or none is measured
LARGE = 1_000  # cells of the median pair: larger ones no tree has room for
SHARE = Fraction(3, 4)  # of rho: what the rule supposes that all pairs have together


@dataclass(frozen=True, eq=False)
class Choice:
    """See above.

    domain: the columns.
    rho: the budget, but for what counts people.
    """

    domain: PeopleDomain
    rho: Fraction

    def clearest(self, pairs: Sequence[Columns]) -> float:
        """The fewest people of whom all pairs are measured at once; 0 where pairs are large."""
        if float(np.median([self.domain.cells(a) for a in pairs])) > LARGE:
            return 0
        residuals = Residuals(self.domain, tuple(pairs))
        variances = _shared(residuals, SHARE * self.rho)
        signals = []
        for a, variance in zip(pairs, variances, strict=True):
            first, second = (self.domain.sizes[c] for c in a)
            cells, largest = first * second, max(first, second)
            cell = variance / cells**2
            free = (first - 1) * (second - 1)
            signals.append((1 / largest - 1 / cells) / (cell * math.sqrt(2 * free)))
        return math.sqrt(CLEAR / float(np.median(signals)))

    def singles(self, people: int, least: Fraction = LEAST) -> Fraction:
        """The part of rho that single columns get where pairs are picked; in hundredths.

        least: it gets no less.
        """
        sets = tuple((c,) for c in range(len(self.domain.columns)))
        residuals = Residuals(self.domain, sets)
        variances = _shared(residuals, self.rho)
        each = [
            noise_variation(residuals, a, v, people) for a, v in zip(sets, variances, strict=True)
        ]
        wanted = min(math.ceil(100 * (float(np.median(each)) / SINGLES) ** 2), 100)
        return min(max(Fraction(wanted, 100), least), max(MOST, least))

    def picks(self, pairs: Sequence[Columns], rho: Fraction, people: int) -> int:
        """How many picks rho pays for before noise falls, 0 where there are none."""
        residuals = Residuals(self.domain, tuple(pairs))
        each = [
            noise_variation(residuals, a, squared / 2, people)
            for a, squared in zip(pairs, residuals.squared, strict=True)
        ]
        alone = float(np.median(each)) / math.sqrt((1 - SELECTION) * rho)
        if alone > NOISIEST:
            return 0
        return max(1, int(min((PAIR / alone) ** 2, ROUNDS * most_picks(len(self.domain.columns)))))


def _shared(residuals: Residuals, rho: Fraction) -> list[float]:
    """Variances of noise in the entries of all residuals, measured together at this cost."""
    weights = [1 / precision(residuals.domain.cells(a)) for a in residuals.sets]
    scale = residuals.cost(range(residuals.candidates), weights) / rho
    return [float(w * scale) for w in weights]


def most_picks(columns: int) -> int:
    """How many pairs a round picks at most: a quarter of the columns, but over 6 an eighth.

    More have less rho each, and larger errors: at 50 columns 6 are better than 12, at 100 12 than
    25 (`benchmarks/people_rounds.py --rounds`).
    """
    return min(columns // 4, max(6, columns // 8))


def picking(picks: int, columns: int) -> tuple[int, int]:
    """In how many rounds so many picks are made, and how many in each."""
    each = max(1, min(most_picks(columns), math.ceil(picks / ROUNDS)))
    return max(1, picks // each), each
