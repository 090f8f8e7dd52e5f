"""Pairs of columns as candidates that are picked by how badly a model answers them.

Measured are residuals; scores are about the pairs' marginals, whose counts one person changes
least. A score is the sum of |count - rounded answer| over a marginal's cells, less the error that
noise would leave (AIM's quality score). A row that comes or goes changes one count by 1, a row that
is replaced at most two, and so the score. Where columns are to be predicted, scores of pairs that
hold one count LABELLED times (AIM's weights of a workload), and so does the largest change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import pi, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from ...data.domain import Int64Array
from ...groups.workload.candidates import excess_errors
from ..measure.residual_counts import Columns, Residuals, marginal_counts
from ..people_table import People, PeopleDomain

MOST_CANDIDATE_CELLS = 10_000_000  # of all pairs to pick from
LABELLED = 4  # how many times the score of a pair counts that holds a label


@dataclass(frozen=True, eq=False)
class RankedPairs(Residuals):
    """Pairs as `phases.Ranked` has them.

    labels: columns that are to be predicted.
    """

    labels: frozenset[int] = frozenset()

    @property
    def sensitivity(self) -> int:
        return (2 if self.domain.replaced else 1) * (LABELLED if self.labels else 1)

    def judged(self, data: People) -> Callable[[Sequence[int]], Int64Array]:
        """The counts are those of pairs' marginals."""
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
        """Scores of marginals; deviations are of the noise in an entry of a pair's residual."""
        sizes = np.diff(self.starts)[list(candidates)]
        noise = [self.noise(i, d) for i, d in zip(candidates, deviations, strict=True)]
        scores = excess_errors(sizes, true, model, np.array(noise))
        times = [LABELLED if self.labels & {*self.sets[i]} else 1 for i in candidates]
        return scores * np.array(times, np.int64)

    def noise(self, candidate: int, deviation: float) -> float:
        """What noise of that deviation in a residual's entries adds up to over a marginal's cells.

        An entry is `cells` times one of the interaction; absolute normal noise has the mean
        sqrt(2 / pi) of its deviation, and centring lessens it.
        """
        sizes = [self.domain.sizes[c] for c in self.sets[candidate]]
        return sqrt(2 / pi) * deviation * sqrt(prod(1 - 1 / n for n in sizes))


def ranked_pairs(
    domain: PeopleDomain, most: int, labels: frozenset[int] = frozenset()
) -> RankedPairs:
    """No column, single columns, and the pairs to pick from: the smallest.

    most: cells of a pair.
    labels: columns that are to be predicted.
    """
    columns = range(len(domain.columns))
    pairs, total = list[Columns](), 0
    for a in sorted(
        ((a, b) for b in columns for a in range(b)), key=lambda a: (domain.cells(a), a)
    ):
        total += domain.cells(a)
        if domain.cells(a) <= most and total <= MOST_CANDIDATE_CELLS:
            pairs.append(a)
    return RankedPairs(domain, ((), *((c,) for c in columns), *sorted(pairs)), labels)
