"""How rho is spent on residuals: the number of people, one-ways, all pairs, then triples or pairs.

Noisy answers alone decide what the last phase measures: triples of columns, where the noise of the
median one would be below NOISIEST, or else once more the pairs that showed a signal.

Weights: noise variances in proportion to prod n_i^(3/2) minimise the sum of squared errors over
the cells of all marginals of a phase at a given cost. (With variance s_A / prod n_i^2 in a cell of
the interaction and prod (n_i - 1) degrees of freedom, minimise sum_A prod (n_i - 1) s_A / prod
n_i^2 at fixed sum_A prod n_i (n_i - 1) / s_A.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from stream_dp.study import PeopleRelease

from ...rounds.phases import Everything, NoisyAnswers, Phase
from ..known import Known
from ..measure.residual_counts import Columns, Residuals
from ..measure.residual_noise import noise_variation, precision
from ..measure.targets import Targets

# Parts of rho; what is left goes to the last phase.
NUMBER, ONE_WAYS, PAIRS = Fraction(2, 100), Fraction(23, 100), Fraction(30, 100)
MOST_TRIPLE, MOST_TRIPLES = 20_000, 250_000  # cells of one triple, and of all together
NOISIEST = 0.5  # total variation: the most noise of the median triple that is worth measuring
LABELLED = 16  # how many times less a pair's variance is that holds a label
SIGNAL = 3.0  # standard deviations of a pair's sum of squares above that of noise alone


def label_columns(release: PeopleRelease) -> frozenset[int]:
    """The columns of a release that are to be predicted."""
    return frozenset(release.names.index(name) for name in release.labels or ())


@dataclass(frozen=True)
class ResidualPlan:
    """The phases of all pairs at once; see `people_plan.PeoplePlan`.

    residuals: all candidates.
    rho: the budget.
    labels: columns that are to be predicted: each set of the last phase holds one, and pairs that
        do are measured LABELLED times as precisely as others. None: all sets are alike.
    known: what others have published.
    """

    residuals: Residuals
    rho: Fraction
    labels: frozenset[int] = frozenset()
    known: tuple[Known, ...] = ()

    @property
    def workload(self) -> Residuals:
        """All that may be measured."""
        return self.residuals

    @property
    def may_pick(self) -> tuple[bool, ...]:
        """Never: see `people_plan.PeoplePlan`."""
        return (False,)

    def picks_pairs(self, answers: NoisyAnswers) -> bool:
        """Never: see `people_plan.PeoplePlan`."""
        return False

    def tree(self, answers: NoisyAnswers) -> None:
        """No graphical model: see `people_plan.PeoplePlan`."""

    @property
    def most_rounds(self) -> int:
        """Of all phases."""
        return 4 if self.residuals.domain.moves else 3

    def phase(self, number: int, answers: NoisyAnswers) -> Phase | None:
        """The phase of a number, from 0, given the answers of those before it."""
        if not self.residuals.domain.moves:
            number += 1
        if number > 3:
            return None
        return self.of(number, self.sets(number) if number < 3 else self.last(answers))

    def sets(self, number: int) -> list[Columns]:
        """All sets of so many columns."""
        return [a for a in self.residuals.sets if len(a) == number]

    def of(self, number: int, sets: Sequence[Columns]) -> Everything:
        """The phase of a number of columns; 3 is the last one, whatever it measures."""
        parts = [NUMBER * self.residuals.domain.moves, ONE_WAYS, PAIRS]
        parts.append(1 - sum(parts, Fraction(0)))
        numbers = tuple(self.residuals.numbers[a] for a in sets)
        weights = tuple(self._weight(a) for a in sets)
        return Everything(parts[number] * self.rho, numbers, weights)

    def _weight(self, columns: Columns) -> Fraction:
        times = LABELLED if len(columns) == 2 and self.labels & {*columns} else 1
        return 1 / (times * precision(self.residuals.domain.cells(columns)))

    def last(self, answers: NoisyAnswers) -> list[Columns]:
        """What the rest of rho measures: triples, or the pairs that showed a signal."""
        triples = self.triples
        if triples and self._noise(triples, answers) < NOISIEST:
            return triples
        signals = Targets.of(self.residuals, answers, self.known).signals
        return [a for a in self.again if signals[a] > SIGNAL] or self.again

    @property
    def again(self) -> list[Columns]:
        """The pairs that may be measured once more."""
        return [a for a in self.sets(2) if not self.labels or self.labels & {*a}]

    @property
    def triples(self) -> list[Columns]:
        """The triples that may be measured: the smallest, up to MOST_TRIPLES cells."""
        domain = self.residuals.domain
        triples, total = list[Columns](), 0
        wanted = (a for a in self.sets(3) if not self.labels or self.labels & {*a})
        for a in sorted(wanted, key=domain.cells):
            total += domain.cells(a)
            if total <= MOST_TRIPLES:
                triples.append(a)
        return sorted(triples)

    def _noise(self, triples: list[Columns], answers: NoisyAnswers) -> float:
        """The noise of the median triple as total variation, were all measured."""
        phase = self.of(3, triples)
        variances = phase.variances(self.residuals)
        n = self.residuals.domain.size
        if n is None:
            n = max(1, int(answers.values[0]))
        each = [
            noise_variation(self.residuals, a, float(variances[i]), n)
            for i, a in zip(phase.candidates, triples, strict=True)
        ]
        return float(np.median(each))
