"""Rounds that pick pairs of columns by how badly a model answers them.

Source: McKenna, Mullins, Sheldon, Miklau 2022, "AIM" (arXiv 2201.12677): its scores, its annealed
noise and its exact inference. This version measures residuals of pairs, with exact noise, several
in a round; the tree that its pairs need is bounded when they are picked.

Scores are about the pairs' marginals, whose counts one person changes least. A score is the
error; where the default picks among many columns, guesses if they are larger.
- Error: the sum of |count - rounded answer| over a marginal's cells, less the error that noise
  would leave. A row that comes or goes changes one count by 1, a row that is replaced at most two,
  and so the error.
- Guesses: how many more people the best guess of one column from the other finds than the guess
  that the model holds for likeliest. It is the sum over values of (largest count - largest count of
  the model's likeliest cells), for the column that makes it larger. A row changes each of these two
  sums of maxima by 0 or 1, so their difference by at most 1, and a replaced row by at most 2. Noise
  is no part of it. Where one column is a function of the other, a fit finds the few cells that hold
  people, however many cells the pair has: without this such a pair would not be picked.
Where columns are to be predicted, scores of pairs that hold a label count LABELLED times (AIM's
weights of a workload), and so does the largest change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import pi, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from ..data.domain import Int64Array
from ..groups.workload.candidates import excess_errors
from ..rounds.adaptive_fit import Annealed
from ..rounds.phases import PrivacyFilter
from ..synthesizer import Known
from .junction_tree import MOST_CELLS, JunctionTree, open_pairs
from .pair_filter import PairFilter
from .people_table import People, PeopleDomain
from .residual_counts import Columns, Residuals, marginal_counts

MOST_PAIR = MOST_CELLS // 2  # cells of a pair to pick from
MOST_CANDIDATE_CELLS = 10_000_000  # of all pairs to pick from
LABELLED = 4  # how many times the score of a pair counts that holds a label


@dataclass(frozen=True, eq=False)
class RankedPairs(Residuals):
    """Ranked pairs: see `phases.Ranked`.

    labels: columns that are to be predicted.
    guessing: whether guesses count as well as errors.
    """

    labels: frozenset[int] = frozenset()
    guessing: bool = False

    @property
    def sensitivity(self) -> int:
        return (2 if self.domain.replaced else 1) * (LABELLED if self.labels else 1)

    def score_counter(self, data: People) -> Callable[[Sequence[int]], Int64Array]:
        """The counts are those of pairs' marginals."""

        @cache
        def counts(candidate: int) -> Int64Array:
            return marginal_counts(data, self.sets[candidate]).reshape(-1)

        return lambda candidates: np.concatenate([counts(i) for i in candidates])

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
        if self.guessing:
            scores = np.maximum(scores, self.guesses(candidates, true, model))
        weights = [LABELLED if self.labels & {*self.sets[i]} else 1 for i in candidates]
        return scores * np.array(weights, np.int64)

    def guesses(
        self, candidates: Sequence[int], true: Int64Array, model: NDArray[np.float64]
    ) -> Int64Array:
        """(candidates,) people whom a guess finds and the model's does not; see the module."""
        result: Int64Array = np.zeros(len(candidates), np.int64)
        shapes = [tuple(self.domain.sizes[c] for c in self.sets[i]) for i in candidates]
        for shape in {*shapes}:
            which = [p for p, other in enumerate(shapes) if other == shape]
            first = np.cumsum([0, *map(prod, shapes)])[which]
            cells = first[:, None] + np.arange(prod(shape))
            counts = true[cells].reshape(-1, *shape)
            likely = model[cells].reshape(-1, *shape)
            for axis in (1, 2):
                likeliest = likely >= likely.max(axis, keepdims=True)
                found = np.where(likeliest, counts, 0).max(axis)
                missed = (counts.max(axis) - found).sum(axis=1)
                result[which] = np.maximum(result[which], missed)
        return result

    def noise(self, candidate: int, deviation: float) -> float:
        """The sum over a marginal's cells of the noise of `deviation` in a residual's entries.

        An entry is `cells` times a cell of the interaction. Absolute normal noise has the mean
        sqrt(2 / pi) of its deviation, and centring lessens it.
        """
        sizes = [self.domain.sizes[c] for c in self.sets[candidate]]
        return sqrt(2 / pi) * deviation * sqrt(prod(1 - 1 / n for n in sizes))


def ranked_pairs(domain: PeopleDomain, labels: frozenset[int] = frozenset()) -> RankedPairs:
    """No column, single columns, and the pairs to pick from: the smallest.

    labels: columns that are to be predicted.
    """
    columns = range(len(domain.columns))
    pairs, total = list[Columns](), 0
    for pair in sorted(combinations(columns, 2), key=lambda a: (domain.cells(a), a)):
        total += domain.cells(pair)
        if domain.cells(pair) <= MOST_PAIR and total <= MOST_CANDIDATE_CELLS:
            pairs.append(pair)
    return RankedPairs(domain, ((), *((c,) for c in columns), *sorted(pairs)), labels)


def picking_phase(
    pairs: RankedPairs,
    rho: Fraction,
    rounds: int,
    picks: int,
    base: tuple[Columns, ...] = (),
    labels: frozenset[int] = frozenset(),
    before: PrivacyFilter | None = None,
) -> Annealed:
    """Rounds of picks, within the room of the model's tree.

    rounds: how many there are if noise does not fall.
    picks: pairs that each round picks, at most.
    base: sets of columns that the tree holds from the beginning.
    labels: columns of which each picked pair holds one; none: any pair.
    before: the filter that earlier phases leave; None if these rounds are the first.
    """
    candidates = pickable_pairs(pairs, labels)

    def allowed(measured: Sequence[int]) -> list[int]:
        sets = (pairs.sets[i] for i in measured)
        picked = tuple(dict.fromkeys(a for a in sets if len(a) == 2))
        room = open_pairs(pairs.domain.sizes, base, picked, MOST_CELLS)
        return [i for a in room if (i := pairs.numbers.get(a)) in candidates]

    return Annealed(
        rho,
        candidates=tuple(candidates),
        first=rho / (rounds * picks),
        picks=picks,
        allowed=allowed,
        before=(before or PairFilter(pairs)).allowing(rho),
    )


def pickable_pairs(pairs: RankedPairs, labels: frozenset[int]) -> dict[int, Columns]:
    """The pairs to pick from, by candidate."""
    return {
        i: a
        for i, a in enumerate(pairs.sets)
        if len(a) == 2
        and pairs.domain.cells(a) <= MOST_PAIR
        and not (labels and labels.isdisjoint(a))
    }


def known_sets(domain: PeopleDomain, known: Sequence[Known]) -> tuple[Columns, ...]:
    """The sets of a tree at the beginning: the sets of rules.

    Published sets of two columns and more are added if the tree has room for them.
    """
    rules = domain.zeros.sets
    base = tuple(dict.fromkeys((*rules, *(k.columns for k in known if len(k.columns) > 1))))
    return rules if JunctionTree.of(domain.sizes, base).cells > MOST_PAIR else base
