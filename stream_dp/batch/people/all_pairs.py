"""All pairs of columns at once, then triples, or once more the pairs that showed a signal.

Noisy answers alone decide the last phase: it measures triples if the noise of the median triple
would be below NOISIEST.

`Choice` says how a table of people spends rho by default: on all pairs at once, on picked pairs, or
on none. Three public numbers decide: the columns, rho and the number of people, which is public or
the first noisy answer. The rule and its reasons: `docs/mechanisms/selection.md`. The constants were
chosen on one survey at four budgets (`benchmarks/people_numbers.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from stream_dp.study import PeopleRelease

from ..rounds.phases import SELECTION, Everything, NoisyAnswers, PrivacyFilter
from ..synthesizer import Known
from .pair_filter import median_variation, residual_phase
from .people_table import PeopleDomain
from .residual_counts import Columns, Residuals
from .target_shares import Targets

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
    precise: whether all pairs of many columns are measured at once only with little noise.
    """

    domain: PeopleDomain
    rho: Fraction
    precise: bool = True

    def fewest_at_once(self, pairs: Sequence[Columns]) -> float:
        """The number of people from which on all pairs are measured at once, in one round.

        Of fewer people, rounds pick pairs. 0 if the median pair has more than LARGE cells.

        The strongest dependence of m and n values, m >= n, has the squared norm 1 / m - 1 / (m n):
        one column follows from the other. Noise of variance v in a cell has (m - 1)(n - 1) v, with
        a deviation of sqrt(2 (m - 1)(n - 1)) v.

        Noise in shares falls with the number of people N, and in squares with N^2. So the signal
        of the median pair is CLEAR deviations at N = sqrt(CLEAR / its signal for one person).

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
        return self.precise and len(self.domain.columns) >= MANY

    def singles_share(self, people: int, least: Fraction = LEAST_SINGLES) -> Fraction:
        """The share of rho for single columns where pairs are picked: `least` or more.

        All of rho gives the median column `noise`, and a share f of it noise / sqrt(f). The result
        is the f that makes this SINGLES, in whole percent.
        """
        sets = tuple((c,) for c in range(len(self.domain.columns)))
        residuals = Residuals(self.domain, sets)
        variances = residual_phase(residuals, sets, self.rho).variances(residuals)
        noise = median_variation(residuals, variances, people)
        percent = min(math.ceil(100 * (noise / SINGLES) ** 2), 100)
        return min(max(Fraction(percent, 100), least), max(MOST_SINGLES, least))

    def picks(self, pairs: Sequence[Columns], rho: Fraction, people: int) -> int:
        """The number of picks that rho pays for before noise falls; may be 0.

        A single pick with all of rho has the median noise `noise`; k picks have noise * sqrt(k)
        each. The result is the k that makes this PAIR.
        """
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
    """The triples of fewest cells: MOST_TRIPLE cells each at most, MOST_TRIPLES together.

    Ordered by columns. The cells of too large triples count towards MOST_TRIPLES, too.
    """
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

    def last_phase(self, people: int, answers: NoisyAnswers) -> Everything:
        """The last phase, as noisy answers say."""
        return self.last(self.last_sets(people, answers))

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
