"""A mixture whose people are weighted to meet linear thresholds of numbers (`projections.py`).

The histograms of the projections, and of each with each label, are measured as residuals beside
those of the columns. The projections are further columns of one table, so the costs are those of
`residual_counts.py`. Under replacement its maximum runs over all patterns of agreeing columns, also
those that no numbers have: the cost is an upper bound there, and exact where rows come and go.
The mixture of blocks is fitted to the columns alone. People drawn from it get weights until the
histograms of projections and of single columns are met as far as their noise shows a difference;
synthetic people are drawn by these weights.

Weights of synthetic people that bring histograms nearer to noisy shares.

Of all weights w (shares of people, sum 1) those with the least
    trust * KL(w || even) + sum over cells (share under w - wanted)^2 / (2 variance):
maximum entropy with relaxed constraints (Dudik, Phillips, Schapire 2004). The dual is smooth and
convex: minimise log of the mean over people of exp(their cells' multipliers), less wanted @
multipliers, plus trust / 2 * sum of variance * multiplier^2. L-BFGS finds its minimum. What is
given is noisy or synthetic: post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from ...data.domain import Int64Array
from ...rounds.phases import NoisyAnswers
from ..compress.projections import Projection, widened
from ..measure.month_fusion import fused
from ..measure.residual_counts import Columns, Residuals
from ..measure.targets import Targets
from ..people_table import People
from .mixture_model import BlockMixture

Floats = NDArray[np.float64]
_STEPS = 200


class Histogram(NamedTuple):
    """cells: (N,) by person; target: noisy shares by cell; variance: of the noise in a share."""

    cells: Int64Array
    target: Floats
    variance: float


def entropic_weights(histograms: Sequence[Histogram], trust: float) -> Floats:
    """(N,) weights, sum 1.

    trust: how many people the even weights are worth; with more they change less.
    """
    starts = np.cumsum([0, *(len(h.target) for h in histograms)])
    cells = [h.cells + start for h, start in zip(histograms, starts[:-1], strict=True)]
    target = np.concatenate([h.target for h in histograms])
    loose = trust * np.repeat([h.variance for h in histograms], np.diff(starts))

    def tilted(multipliers: Floats) -> tuple[Floats, float]:
        tilts = np.zeros(len(cells[0]))
        for histogram_cells in cells:
            tilts += multipliers[histogram_cells]
        highest = float(tilts.max())
        weights = np.exp(tilts - highest)
        total = float(weights.sum())
        return weights / total, highest + float(np.log(total / len(tilts)))

    def dual(multipliers: Floats) -> tuple[float, Floats]:
        weights, value = tilted(multipliers)
        shares = np.zeros(starts[-1])
        for histogram_cells in cells:
            shares += np.bincount(histogram_cells, weights, minlength=len(shares))
        pull = loose * multipliers
        value += float(multipliers @ (pull / 2 - target))
        return value, shares - target + pull

    end = scipy.optimize.minimize(
        dual, np.zeros(starts[-1]), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS}
    )
    return tilted(end.x)[0]


def drawn_rows(rng: np.random.Generator, weights: Floats, order: Int64Array) -> Int64Array:
    """(N,) rows: a row appears weight times N times, rounded up or down systematically.

    order: of the rows; neighbours in it make up for each other's rounding.
    """
    expected = weights * len(weights)
    times = np.floor(expected).astype(np.int64)
    missing = len(weights) - int(times.sum())
    if missing > 0:
        ends = np.cumsum((expected - times)[order])
        marks = (np.arange(missing) + rng.random()) / missing * ends[-1]
        chosen = np.searchsorted(ends, marks, side="right").clip(max=len(order) - 1)
        np.add.at(times, order[chosen], 1)
    rows = np.repeat(np.arange(len(weights)), times)[: len(weights)]
    return rng.permutation(rows)


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
        """The people's cells in a measured table, with the noisy shares of the cells.

        wide: (N, columns) codes of synthetic people; the projections are the last columns.
        columns: a single column, or the column of a label and that of a projection.
        """
        targets = self.targets
        assert targets is not None
        sizes = [targets.sizes[c] for c in columns]
        cells = np.ravel_multi_index([wide[:, c] for c in columns], sizes)
        shares = targets.one_ways[columns[0]] if len(columns) == 1 else targets.pair(columns)
        finest = (_FINEST / targets.people) ** 2  # a variance below it is taken as this one
        variance = max(targets.interactions[columns].variance, finest)
        return Histogram(cells, shares.reshape(-1), variance)
