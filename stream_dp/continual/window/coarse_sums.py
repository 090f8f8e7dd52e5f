"""Coarse sums of a window's histogram, which a fitted panel keeps nearer to their estimates.

Where noisy counts of rare patterns are raised to 0, their errors add up in every sum over many of
them: a state that few people are in would be far too frequent. So the distance that a panel
minimises (`panel_fit.py`) gets a term for each of three kinds of sums, for every symbol v and
j = 1..k: people with v in at least j of the k periods; people with v in each of the last j; and for
a rare v, people with v in at least one of the last j. A sum over a set A adds
    w (sum over A of p - g)^2 / |A|
to the squared distance in units of the noise; the first two kinds have such a term for the
complement of A, too. People with v in each of the last k - 1 have a larger weight: rows leave v by
noise and do not come back, so that too few would have had v in every period. In a joint panel that
weight made totals worse where v is the event, so there only other symbols have it. The weights are
constants, found on simulated and real panels and judged on others. Histograms of two symbols gain
nothing and have no such terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEAST_SYMBOLS = 3
WEIGHT, RUN_WEIGHT, RARE_WEIGHT = 2.0, 10.0, 10.0
LEAST_RUN = 2  # periods: a shorter run is a single period
RARE = 0.2  # standard deviations a pattern: a symbol with fewer people in its patterns is rare
_POWER_STEPS = 60


@dataclass(frozen=True)
class CoarseSums:
    """The terms of the coarse sums in the distance of a panel, for noise of variance 1.

    q: the number of symbols
    width: k
    rare: the rare symbols
    runs: the weight of the people with a symbol in each of the last k - 1 periods
    usual: the symbols that have the usual weight instead
    """

    q: int
    width: int
    rare: tuple[int, ...] = ()
    runs: float = WEIGHT
    usual: tuple[int, ...] = ()

    @cached_property
    def _levels(self) -> NDArray[np.int64]:
        """By feature and pattern the largest j whose set has the pattern: (features, q^k).

        A feature is a kind of sums of one symbol: q of periods with it, q of runs of it up to now,
        then one for each rare symbol.
        """
        codes = np.arange(self.q**self.width)[:, None]
        digits = codes // self.q ** np.arange(self.width) % self.q  # the newest first
        occurs = digits == np.arange(self.q)[:, None, None]
        numbers = occurs.sum(axis=2)
        runs = np.logical_and.accumulate(occurs, axis=2).sum(axis=2)
        recent = np.logical_or.accumulate(occurs[list(self.rare)], axis=2).sum(axis=2)
        return np.concatenate([numbers, runs, recent])

    @cached_property
    def _memberships(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Every feature with every pattern of a level above 0: (n,) each.

        Their positions in (features, q^k), their patterns, and their levels in (features, k + 1),
        numbered through. Of many symbols most patterns have level 0 in most features.
        """
        features, patterns = self._levels.nonzero()
        levels = self._levels[features, patterns]
        positions = features * self.q**self.width + patterns
        return positions, patterns, features * (self.width + 1) + levels

    @cached_property
    def _weights(self) -> tuple[Floats, Floats]:
        """The weights of sums and of complements, over their patterns: (features, k) each."""
        bins = self.q**self.width
        members = self._sums_of(np.ones(bins))  # |A|
        runs, rare = slice(self.q, 2 * self.q), slice(2 * self.q, None)
        weights = np.full(members.shape, WEIGHT)
        weights[rare] = RARE_WEIGHT
        outside = np.full(members.shape, WEIGHT)
        outside[rare] = 0.0
        if self.width > LEAST_RUN:
            all_but_one = self.width - 2  # the column of j = k - 1
            weights[runs, all_but_one] = self.runs
            weights[[runs.start + symbol for symbol in self.usual], all_but_one] = WEIGHT
        return weights / members, outside / (bins - members)

    def _sums_of(self, values: Floats) -> Floats:
        """The sum of values (q^k,) over every set: (features, k)."""
        features, (_, patterns, levels) = len(self._levels), self._memberships
        by_level = np.bincount(levels, values[patterns], features * (self.width + 1))
        return by_level.reshape(features, -1)[:, :0:-1].cumsum(axis=1)[:, ::-1]

    def slope(self, off: Floats) -> Floats:
        """Half the gradient of the terms at the distances off: (q^k,) for (q^k,).

        A pattern gets w / |A| times the sum over A for every set A with it, and likewise for every
        complement. With the level l of a feature it lies in the sets j = 1..l and in the
        complements of j = l + 1..k.
        """
        sums, (inside, outside) = self._sums_of(off), self._weights
        of_complements = outside * (off.sum() - sums)
        by_level = np.zeros((len(sums), self.width + 1))
        by_level[:, 1:] = (inside * sums - of_complements).cumsum(axis=1)
        by_level += of_complements.sum(axis=1)[:, None]
        positions, _, levels = self._memberships
        gradients = np.repeat(by_level[:, 0], off.size)
        gradients[positions] = by_level.ravel()[levels]
        return np.asarray(gradients.reshape(len(sums), -1).sum(axis=0))

    @cached_property
    def most(self) -> float:
        """An upper bound of the largest eigenvalue (Collatz and Wielandt)."""
        x, ratio = np.ones(self.q**self.width), 0.0
        for _ in range(_POWER_STEPS):
            image = self.slope(x)
            ratio = float((image / x).max())
            x = image / image.max()
        return ratio

    def rare_symbols(self, target: Floats, deviation: float) -> tuple[int, ...]:
        """The symbols with hardly more people in any of the k periods than noise.

        target: (q^k,) the estimates
        deviation: the standard deviation of the noise, in people
        """
        seen = self._levels[: self.q] > 0
        people = np.where(seen, target, 0.0).sum(axis=1)
        limits = RARE * deviation * seen.sum(axis=1)
        return tuple(np.flatnonzero(people < limits).tolist())


@lru_cache(maxsize=32)
def coarse_sums(
    q: int,
    width: int,
    rare: tuple[int, ...] = (),
    runs: float = WEIGHT,
    usual: tuple[int, ...] = (),
) -> CoarseSums:
    """The coarse sums of every shape, rare symbols and weights of runs, cached."""
    return CoarseSums(q, width, rare, runs, usual)
