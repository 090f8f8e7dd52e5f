"""How rho is spent on residuals: the number of people, one-ways, all pairs, then triples or pairs.

Noisy answers alone decide what the last phase measures: triples of columns, where the noise of the
median one would be below NOISIEST, or else once more the pairs that showed a signal.

Weights: noise variances in proportion to prod n_i^(3/2) minimise the sum of squared errors over
the cells of all marginals of a phase at a given cost. (With variance s_A / prod n_i^2 in a cell of
the interaction and prod (n_i - 1) degrees of freedom, minimise sum_A prod (n_i - 1) s_A / prod
n_i^2 at fixed sum_A prod n_i (n_i - 1) / s_A.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..phases import Everything, NoisyAnswers, Phase
from .residuals import Columns, Residuals
from .targets import Targets

# Parts of rho; what is left goes to the last phase.
NUMBER, ONE_WAYS, PAIRS = Fraction(2, 100), Fraction(23, 100), Fraction(30, 100)
MOST_TRIPLE, MOST_TRIPLES = 20_000, 250_000  # cells of one triple, and of all together
NOISIEST = 0.5  # total variation: the most noise of the median triple that is worth measuring
SIGNAL = 3.0  # standard deviations of a pair's sum of squares above that of noise alone


@dataclass(frozen=True)
class ResidualPlan:
    """The phases of a fit to residuals; see `phases.NextPhase`.

    residuals: all candidates.
    rho: the budget.
    """

    residuals: Residuals
    rho: Fraction

    @property
    def rounds(self) -> int:
        return 4 if self.residuals.domain.moves else 3

    def phase(self, number: int, answers: NoisyAnswers) -> Phase | None:
        """The phase of a number, from 0, given the answers of those before it."""
        moves = self.residuals.domain.moves
        parts = [NUMBER * moves, ONE_WAYS, PAIRS]
        parts.append(1 - sum(parts, Fraction(0)))
        if not moves:
            number += 1
        if number < 3:
            sets = [a for a in self.residuals.sets if len(a) == number]
        elif number == 3:
            sets = self.last(answers)
        else:
            return None
        numbers = tuple(self.residuals.numbers[a] for a in sets)
        weights = tuple(self._weight(a) for a in sets)
        return Everything(parts[number] * self.rho, numbers, weights)

    def _weight(self, columns: Columns) -> Fraction:
        # Of whole numbers' reciprocals, so that the variances stay short fractions.
        return Fraction(1, (1 << 70) // math.isqrt(self.residuals.domain.cells(columns) ** 3 << 20))

    def last(self, answers: NoisyAnswers) -> list[Columns]:
        """What the rest of rho measures: triples, or the pairs that showed a signal."""
        domain = self.residuals.domain
        triples, total = list[Columns](), 0
        for a in sorted((a for a in self.residuals.sets if len(a) == 3), key=domain.cells):
            total += domain.cells(a)
            if total <= MOST_TRIPLES:
                triples.append(a)
        if triples and self._noise(triples, answers) < NOISIEST:
            return sorted(triples)
        signals = Targets.of(self.residuals, answers).signals()
        return [a for a, signal in signals.items() if signal > SIGNAL] or list(signals)

    def _noise(self, triples: list[Columns], answers: NoisyAnswers) -> float:
        """The noise of the median triple as total variation, were all measured."""
        left = 1 - NUMBER * self.residuals.domain.moves - ONE_WAYS - PAIRS
        numbers = tuple(self.residuals.numbers[a] for a in triples)
        weights = tuple(self._weight(a) for a in triples)
        variances = Everything(left * self.rho, numbers, weights).variances(self.residuals)
        n = self.residuals.domain.size
        if n is None:
            n = max(1, int(answers.values[0]))
        # Half the sum, over the cells, of absolute normal noise of variance s / prod n_i^2, which
        # centring lessens to prod (1 - 1 / n_i) of that.
        sizes = self.residuals.domain.sizes
        each = [
            math.sqrt(variances[i] * 2 / math.pi * math.prod(1 - 1 / sizes[c] for c in a)) / (2 * n)
            for i, a in zip(numbers, triples, strict=True)
        ]
        return float(np.median(each))
