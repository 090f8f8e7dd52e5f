"""All pairs of columns at once, then triples, or once more the pairs that showed a signal.

Noisy answers alone decide the last phase: it measures triples if the noise of the median triple
would be below NOISIEST.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from stream_dp.study import PeopleRelease

from ...rounds.phases import Everything, NoisyAnswers, PrivacyFilter
from ..known import Known
from ..measure.residual_counts import Columns, Residuals
from ..measure.residual_noise import median_variation, residual_phase
from ..measure.targets import Targets
from ..people_table import PeopleDomain

# Shares of rho; the last phase has the rest.
NUMBER, ONE_WAYS, PAIRS = Fraction(2, 100), Fraction(23, 100), Fraction(30, 100)
MOST_TRIPLE, MOST_TRIPLES = 20_000, 250_000  # cells of one triple, and of all together
NOISIEST = 0.5  # total variation: the most noise of the median triple that is worth measuring
LABELLED = 16  # how many times less a pair's variance is that holds a label
SIGNAL = 3.0  # standard deviations of a pair's sum of squares above that of noise alone


def label_columns(release: PeopleRelease) -> frozenset[int]:
    """The columns of a release that are to be predicted."""
    return frozenset(release.names.index(name) for name in release.labels or ())


def smallest_triples(domain: PeopleDomain, triples: Sequence[Columns]) -> list[Columns]:
    """The smallest triples: of at most MOST_TRIPLE cells, and MOST_TRIPLES together."""
    total, result = 0, list[Columns]()
    for columns in sorted(triples, key=lambda a: (domain.cells(a), a)):
        total += domain.cells(columns)
        if domain.cells(columns) <= MOST_TRIPLE and total <= MOST_TRIPLES:
            result.append(columns)
    return sorted(result)


@dataclass(frozen=True, eq=False)
class AllPairs:
    """The phases that follow the number of people.

    residuals: all candidates.
    rho: the budget, with what counts people.
    labels: columns that are to be predicted: each set of the last phase holds one, and pairs that
        do are measured LABELLED times as precisely as others. None: all sets are alike.
    known: what others have published.
    before: the filter after the number of people.
    """

    residuals: Residuals
    rho: Fraction
    labels: frozenset[int]
    known: tuple[Known, ...]
    before: PrivacyFilter

    def sets(self, ways: int) -> list[Columns]:
        """All sets of `ways` columns."""
        return [a for a in self.residuals.sets if len(a) == ways]

    @cached_property
    def phases(self) -> tuple[Everything, Everything]:
        """Single columns, then pairs."""
        singles = residual_phase(
            self.residuals, self.sets(1), ONE_WAYS * self.rho, before=self.before
        )
        pairs = residual_phase(
            self.residuals,
            self.sets(2),
            PAIRS * self.rho,
            importance=lambda columns: LABELLED if self.labels & {*columns} else 1,
            before=singles.charged,
        )
        return singles, pairs

    @cached_property
    def _before_last(self) -> PrivacyFilter:
        return self.phases[1].charged

    def last(self, sets: Sequence[Columns]) -> Everything:
        """The last phase, if `sets` are measured."""
        spent = NUMBER * self.residuals.domain.moves + ONE_WAYS + PAIRS
        return residual_phase(
            self.residuals, sets, (1 - spent) * self.rho, before=self._before_last
        )

    def last_sets(self, people: int, answers: NoisyAnswers) -> list[Columns]:
        """The sets of the last phase: triples, or the pairs that showed a signal."""
        triples = self.triples
        if triples:
            variances = self.last(triples).variances(self.residuals)
            if median_variation(self.residuals, variances, people) < NOISIEST:
                return triples
        signals = Targets.of(self.residuals, answers, self.known).signals
        return [a for a in self.repeated if signals[a] > SIGNAL] or self.repeated

    @property
    def repeated(self) -> list[Columns]:
        """The pairs that may be measured once more."""
        return self._labelled(self.sets(2))

    @property
    def triples(self) -> list[Columns]:
        """The triples that may be measured: the smallest."""
        return smallest_triples(self.residuals.domain, self._labelled(self.sets(3)))

    def _labelled(self, sets: Sequence[Columns]) -> list[Columns]:
        return [a for a in sets if not self.labels or self.labels & {*a}]
