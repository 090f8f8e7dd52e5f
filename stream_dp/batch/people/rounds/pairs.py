"""Pairs of columns as candidates that are picked by how badly a model answers them.

Measured are residuals; scores are about the pairs' marginals, whose counts one person changes
least. A score is the sum of |count - rounded answer| over a marginal's cells, less the error that
noise would leave (AIM's quality score). A row that comes or goes changes one count by 1, a row that
is replaced at most two, and so the score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import pi, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from ...data.domain import Int64Array
from ..residuals import Columns, Residuals, marginal_counts
from ..table import People, PeopleDomain

MOST_CANDIDATE_CELLS = 10_000_000  # of all pairs to pick from


@dataclass(frozen=True, eq=False)
class RankedPairs(Residuals):
    """See `phases.Ranked`."""

    @property
    def sensitivity(self) -> int:
        """The largest change of any score by one person."""
        return 2 if self.domain.replaced else 1

    def judged(self, data: People) -> Callable[[Sequence[int]], Int64Array]:
        """The function that gives the exact counts of pairs' marginals. Confidential."""
        known: dict[int, Int64Array] = {}

        def counts(candidates: Sequence[int]) -> Int64Array:
            for i in candidates:
                if i not in known:
                    known[i] = marginal_counts(data, self.sets[i]).reshape(-1)
            return np.concatenate([known[i] for i in candidates])

        return counts

    def scores(
        self,
        candidates: Sequence[int],
        true: Int64Array,
        model: NDArray[np.float64],
        deviations: Sequence[float],
    ) -> Int64Array:
        """(candidates,) integer scores, high where the model answers badly.

        true, model: exact counts of these pairs' cells and the model's.
        deviations: by candidate, of the noise in an entry of its residual.
        """
        sizes = np.diff(self.starts)[list(candidates)]
        errors = np.abs(true - np.rint(model).astype(np.int64))
        sums = np.add.reduceat(errors, np.cumsum(sizes) - sizes)
        noise = [self.noise(i, d) for i, d in zip(candidates, deviations, strict=True)]
        scores: Int64Array = sums - np.rint(noise).astype(np.int64)
        return scores

    def noise(self, candidate: int, deviation: float) -> float:
        """What noise of that deviation in a residual's entries adds up to over a marginal's cells.

        An entry is `cells` times one of the interaction; absolute normal noise has the mean
        sqrt(2 / pi) of its deviation, and centring lessens it.
        """
        sizes = [self.domain.sizes[c] for c in self.sets[candidate]]
        return sqrt(2 / pi) * deviation * sqrt(prod(1 - 1 / n for n in sizes))


def ranked_pairs(domain: PeopleDomain, most: int) -> RankedPairs:
    """No column, single columns, and the pairs to pick from: the smallest.

    most: cells of a pair.
    """
    columns = range(len(domain.columns))
    pairs, total = list[Columns](), 0
    for a in sorted(
        ((a, b) for b in columns for a in range(b)), key=lambda a: (domain.cells(a), a)
    ):
        total += domain.cells(a)
        if domain.cells(a) <= most and total <= MOST_CANDIDATE_CELLS:
            pairs.append(a)
    return RankedPairs(domain, ((), *((c,) for c in columns), *sorted(pairs)))
