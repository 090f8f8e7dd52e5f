"""A mixture whose people are weighted to meet linear thresholds of numbers (`projections.py`).

The histograms of the projections, and of each with each label, are measured as residuals beside
those of the columns. The projections are further columns of one table, so the costs are those of
`residual_counts.py`. Under replacement its maximum runs over all patterns of agreeing columns, also
those that no numbers have: the cost is an upper bound there, and exact where rows come and go.
The mixture of blocks is fitted to the columns alone. People drawn from it get weights until the
histograms of projections and of single columns are met as far as their noise shows a difference;
synthetic people are drawn by these weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...data.domain import Int64Array
from ...rounds.phases import NoisyAnswers
from ..compress.projections import Projection, widened
from ..measure.month_fusion import fused
from ..measure.residual_counts import Columns, Residuals
from ..measure.targets import Targets
from ..people_table import People
from .mixture_model import BlockMixture
from .weighting import Histogram, drawn_rows, entropic_weights

_TRUST = 1.0  # times the people: what the mixture's own shares of projections are worth
_FINEST = 0.5  # people: noise below it is as good as none


@dataclass(frozen=True, eq=False)
class LinearMixture:
    """See `loop.Model`.

    mixture: of the columns alone.
    projections: whose columns follow them in what is measured.
    residuals: what is measured.
    targets: what was measured of the projections; None before anything is learnt.
    """

    mixture: BlockMixture
    projections: tuple[Projection, ...]
    residuals: Residuals
    targets: Targets | None = None

    def answers(self, rows: Int64Array) -> NDArray[np.float64]:
        raise NotImplementedError("no phase of residuals picks")

    def learn(self, measured: NoisyAnswers) -> tuple[LinearMixture, float]:
        own = Targets.of(self.residuals, measured, self.mixture.known)
        targets = fused(own, self.mixture.past)
        columns = len(self.mixture.residuals.domain.columns)
        unwidened = {a: v for a, v in targets.interactions.items() if all(c < columns for c in a)}
        mixture, error = self.mixture.fitted_to(
            Targets(self.mixture.residuals, targets.people, unwidened)
        )
        return replace(self, mixture=mixture, targets=targets), error

    def sample(self, seed: int) -> People:
        assert self.targets is not None  # it has learnt
        people = self.mixture.sample(seed)
        wide = widened(self.residuals.domain, people, self.projections).codes.astype(np.int64)
        columns = len(people.domain.columns)
        # Single columns too, which the weights would otherwise be free to move.
        sets = (a for a in self.targets.interactions if len(a) == 1 or a[-1] >= columns)
        histograms = [self._histogram(wide, a) for a in sets]
        weights = entropic_weights(histograms, _TRUST * self.targets.people)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        labels = sorted({a[0] for a in self.targets.interactions if a and a[0] < columns <= a[-1]})
        order = np.lexsort([wide[:, columns], *(wide[:, c] for c in labels)])
        rows = drawn_rows(rng, weights, order)
        numbers = {c: codes[rows] for c, codes in people.numbers.items()}
        return People(people.domain, people.codes[rows], numbers)

    def _histogram(self, wide: NDArray[np.int64], columns: Columns) -> Histogram:
        """The measured shares of a column, or of a projection with a label."""
        targets = self.targets
        assert targets is not None
        sizes = [targets.sizes[c] for c in columns]
        cells = np.ravel_multi_index([wide[:, c] for c in columns], sizes)
        shares = targets.one_ways[columns[0]] if len(columns) == 1 else targets.pair(columns)
        finest = (_FINEST / targets.people) ** 2
        variance = max(targets.interactions[columns].variance, finest)
        return Histogram(cells, shares.reshape(-1), variance)
