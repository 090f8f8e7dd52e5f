"""The mixture of products of blocks, fitted to noisy interactions; see `adaptive_fit.Model`.

The defaults were chosen on three tables (a survey of 60,000, 3,000 of it, and six pairs of columns
that determine each other) and tried on others: `benchmarks/people.py`. Needs JAX, the `batch`
extra.

Strongly dependent columns form blocks, which every row of the mixture models jointly.

The goal of the fit is the shares of pairs and triples, with weights. A triple's shares are those
that its pairs imply, plus its measured interaction. The interaction is not shrunk: the model has
far fewer parameters than the triples have cells, so the fit averages their noise. Weights are in
proportion to the inverse variance of a cell's noise.

The people of a mixture may be weighted to meet linear thresholds of numbers (`projections.py`).
The histograms of the projections, and of each with each label, are measured as residuals beside
those of the columns. The projections are further columns of one table, so the costs are those of
`residual_counts.py`. Under replacement its maximum runs over the patterns of agreeing columns that
numbers can have (`residual_counts.py`), or over all patterns if the numbers have many values.
The mixture of blocks is fitted to the columns alone. People drawn from it get weights until the
histograms of projections and of single columns are met as far as their noise shows a difference;
synthetic people are drawn by these weights.

The weights of synthetic people bring histograms nearer to noisy shares. Of all weights w (shares of
people, sum 1) those with the least
    trust * KL(w || even) + sum over cells (share under w - wanted)^2 / (2 variance):
maximum entropy with relaxed constraints (Dudik, Phillips, Schapire 2004). The dual is smooth and
convex: minimise log of the mean over people of exp(their cells' multipliers), less wanted @
multipliers, plus trust / 2 * sum of variance * multiplier^2. L-BFGS finds its minimum. What is
given is noisy or synthetic: post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from ..data.domain import Int64Array
from ..rounds.adaptive_fit import Unasked
from ..rounds.phases import NoisyAnswers
from ..synthesizer import Known
from .block_mixture import (
    Goal,
    Layout,
    Params,
    fitted,
    name_of,
    pair_shares,
    row_blocks,
    starting_params,
)
from .people_draw import drawn_cells, drawn_people
from .people_table import People
from .projections import Projection, widened
from .residual_counts import Columns, Residuals
from .structural_zeros import IMPOSSIBLE
from .target_shares import Past, Table, Targets, fused

Floats = NDArray[np.float64]
_WEIGHT_STEPS = 200


class Histogram(NamedTuple):
    """cells: (N,) by person; target: noisy shares by cell; variance: of the noise in a share."""

    cells: Int64Array
    target: Floats
    variance: float


def entropic_weights(histograms: Sequence[Histogram], trust: float) -> Floats:
    """(N,) weights of people, sum 1, at the minimum of the module's dual.

    With a multiplier m_c and a target share b_c of each cell c of all histograms, the dual is
        log mean over people of exp(sum of m_c of their cells) - m b + trust / 2 sum s_c m_c^2.

    trust: how many people the even weights are worth; with more they change less.
    """
    starts = np.cumsum([0, *(len(h.target) for h in histograms)])
    cells = [h.cells + start for h, start in zip(histograms, starts[:-1], strict=True)]
    target = np.concatenate([h.target for h in histograms])
    relaxation = trust * np.repeat([h.variance for h in histograms], np.diff(starts))

    def tilted(multipliers: Floats) -> tuple[Floats, float]:
        """The weights, and the logarithm of the mean."""
        tilts = np.zeros(len(cells[0]))
        for histogram_cells in cells:
            tilts += multipliers[histogram_cells]
        highest = float(tilts.max())
        weights = np.exp(tilts - highest)
        total = float(weights.sum())
        return weights / total, highest + float(np.log(total / len(tilts)))

    def dual(multipliers: Floats) -> tuple[float, Floats]:
        """The value and its gradient."""
        weights, value = tilted(multipliers)
        shares = np.zeros(starts[-1])
        for histogram_cells in cells:
            shares += np.bincount(histogram_cells, weights, minlength=len(shares))
        pull = relaxation * multipliers
        value += float(multipliers @ (pull / 2 - target))
        return value, shares - target + pull

    end = scipy.optimize.minimize(
        dual, np.zeros(starts[-1]), jac=True, method="L-BFGS-B", options={"maxiter": _WEIGHT_STEPS}
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
class LinearMixture(Unasked):
    """See `adaptive_fit.Model`.

    mixture: of the columns alone.
    projections: whose columns follow them in what is measured.
    residuals: what is measured.
    targets: what was measured of the projections; None before anything is learnt.
    """

    mixture: BlockMixture
    projections: tuple[Projection, ...]
    residuals: Residuals
    targets: Targets | None = None

    def learn(self, measured: NoisyAnswers) -> tuple[LinearMixture, float]:
        """Fits the mixture to the measured sets that have no projection."""
        of_table = Targets.of(self.residuals, measured, self.mixture.known)
        targets = fused(of_table, self.mixture.past)
        columns = len(self.mixture.residuals.domain.columns)  # the projections follow these
        plain = {a: v for a, v in targets.interactions.items() if all(c < columns for c in a)}
        goal = Targets(self.mixture.residuals, targets.people, plain)
        mixture, error = self.mixture.fitted_to(goal)
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


FINEST = 0.5  # people: noise below it is as good as none, and weighs no more


def mixture_goal(layout: Layout, targets: Targets) -> Goal:
    """The goal of one-ways, pairs and the measured triples."""
    values, offsets = layout.offsets[-1], layout.offsets
    finest = (FINEST / targets.people) ** 2
    smallest = max(finest, min(targets.interactions[pair].variance for pair in targets.dependence))

    def weight(columns: Columns) -> np.float32:
        return np.float32(smallest / max(targets.interactions[columns].variance, finest))

    def cells(column: int) -> slice:
        return slice(offsets[column], offsets[column + 1])

    ones = np.concatenate(targets.one_ways).astype(np.float32)
    ones_weight = np.repeat([weight((c,)) for c in range(len(layout.sizes))], layout.sizes)
    outer, outer_weight = (np.zeros((values, values), np.float32) for _ in range(2))
    product, product_weight = (np.zeros((layout.pair_cells, values), np.float32) for _ in range(2))
    inner, inner_weight = {}, {}
    for columns in layout.inner:
        if columns not in targets.interactions:  # a pair that nobody asked for
            shape = [layout.sizes[c] for c in columns]
            inner[name_of(columns)] = np.zeros(shape, np.float32)
            inner_weight[name_of(columns)] = np.float32(0)
            continue
        shares = targets.pair(columns) if len(columns) == 2 else triple_shares(targets, columns)
        inner[name_of(columns)] = shares.astype(np.float32)
        inner_weight[name_of(columns)] = weight(columns)
    for columns in targets.dependence:
        if not layout.inside(columns):
            block = cells(columns[0]), cells(columns[1])
            outer[block], outer_weight[block] = targets.pair(columns), weight(columns)
    for columns, (pair, single) in layout.split.items():
        order = [columns.index(c) for c in (*pair, single)]
        shares = np.transpose(triple_shares(targets, columns), order)
        rows = layout.pairs[pair]
        product[rows, cells(single)] = shares.reshape(-1, shares.shape[2])
        product_weight[rows, cells(single)] = weight(columns)
    return Goal(
        ones=ones,
        ones_weight=ones_weight,
        outer=outer,
        outer_weight=outer_weight,
        product=product,
        product_weight=product_weight,
        inner=inner,
        inner_weight=inner_weight,
    )


def triple_shares(targets: Targets, columns: Columns) -> Table:
    """The shares of three columns: their pairs' shares, and the measured interaction."""
    sizes = targets.sizes
    shares = targets.interactions[columns].values + 1 / prod(sizes[c] for c in columns)
    for ways, sign in ((1, -1), (2, 1)):
        for subset in combinations(columns, ways):
            marginal = targets.one_ways[subset[0]] if ways == 1 else targets.pair(subset)
            shape = [sizes[c] if c in subset else 1 for c in columns]
            spread_over = prod(sizes[c] for c in columns if c not in subset)
            shares = shares + sign * marginal.reshape(shape) / spread_over
    return shares


MOST_CELLS = 1_000  # of a block, where triples are measured
MOST_CELLS_OF_PAIRS = 4_000  # where they are not: rows are then few, and blocks hold what matters
DEPENDENT = 0.15  # total variation of a pair from independence


def column_blocks(targets: Targets) -> tuple[Columns, ...]:
    """The blocks, with columns in increasing order; every column is in a block.

    Blocks are merged greedily by the noisy total variation of their most dependent pair, as far as
    it is above DEPENDENT and the merged block has no more cells than is set. Columns that
    structural rules tie together are in one block from the beginning.
    """
    largest = MOST_CELLS_OF_PAIRS if targets.of_pairs else MOST_CELLS
    sizes = targets.sizes
    block = {c: frozenset({c}) for c in range(len(sizes))}
    for tied in targets.residuals.domain.zeros.tied():
        block |= dict.fromkeys(tied, frozenset(tied))
    variation = {
        pair: float(np.abs(estimate.values).sum() / 2)
        for pair, estimate in targets.dependence.items()
    }
    for (first, second), gap in sorted(variation.items(), key=lambda item: (-item[1], item[0])):
        merged = block[first] | block[second]
        if gap > DEPENDENT and prod(sizes[c] for c in merged) <= largest:
            block |= dict.fromkeys(merged, merged)
    return tuple(sorted(tuple(sorted(columns)) for columns in set(block.values())))


_STEPS, _RATE = 800, 0.1
_FEWEST, _MOST = 4, 400  # rows


@dataclass(frozen=True, eq=False)
class BlockMixture(Unasked):
    """A mixture of products of blocks; see `adaptive_fit.Model`.

    residuals: the measured interactions.
    known: interactions that others have published.
    seed: of the first parameters.
    people: the number of people, public or noisy.
    layout, params: of the fitted mixture; None before it has learnt.
    """

    residuals: Residuals
    seed: int
    known: tuple[Known, ...] = ()
    past: Past | None = None
    people: int = 1
    layout: Layout | None = None
    params: Params | None = None

    def learn(self, measured: NoisyAnswers) -> tuple[BlockMixture, float]:
        return self.fitted_to(fused(Targets.of(self.residuals, measured, self.known), self.past))

    def fitted_to(self, targets: Targets) -> tuple[BlockMixture, float]:
        """Returns the mixture fitted to these shares, and its misfit of pairs."""
        layout = mixture_layout(targets, self.known)
        start = starting_params(layout, targets.one_ways, self.seed)
        for columns, possible in self.residuals.domain.zeros.possible.items():
            # A softmax has no gradient where it is 0: what is impossible stays so.
            name = name_of(columns) if len(columns) == 2 else f"tilt {columns[0]}"
            start[name] = start[name] + np.where(possible, 0, IMPOSSIBLE).astype(np.float32)
        goal = mixture_goal(layout, targets)
        params = fitted(layout, start, goal, _STEPS, _RATE)
        shares = pair_shares(layout, params, targets.dependence)
        error = targets.misfit(shares, (FINEST / targets.people) ** 2)
        return replace(self, people=targets.people, layout=layout, params=params), error

    def sample(self, seed: int) -> People:
        assert self.layout is not None  # it has learnt
        assert self.params is not None
        layout, rng = self.layout, np.random.default_rng(seed)
        people = np.full(layout.rows, self.people // layout.rows)
        people[: self.people - people.sum()] += 1
        codes = np.empty((self.people, len(layout.sizes)), np.min_scalar_type(max(layout.sizes)))
        for block, rows in zip(layout.blocks, row_blocks(layout, self.params), strict=True):
            flat = np.asarray(rows, np.float64).reshape(layout.rows, -1)
            possible = flat > 0 if self.residuals.domain.zeros.possible else None
            cells = np.concatenate(drawn_cells(rng, flat, people, possible))
            values = np.unravel_index(cells, [layout.sizes[c] for c in block])
            for c, column in zip(block, values, strict=True):
                codes[:, c] = column
        return drawn_people(rng, self.residuals.domain, codes[rng.permutation(self.people)])


def mixture_layout(targets: Targets, known: Sequence[Known] = ()) -> Layout:
    """Blocks and rows from the noisy dependence of pairs; its triples are those measured.

    The rows have about half as many parameters as the pairs of different blocks have effective
    degrees of freedom: more of them fit noise. Each known interaction of three columns, which is
    more precise than what the fit measures, adds all of its own: neither the pairs' logits nor so
    few rows can follow it.
    """
    blocks = column_blocks(targets)
    block_of = {c: block for block in blocks for c in block}
    freedom = sum(
        pair.freedom for (a, b), pair in targets.dependence.items() if block_of[a] != block_of[b]
    )
    triples = {k.columns for k in known if len(k.columns) == 3}
    freedom += sum(math.prod(targets.sizes[c] - 1 for c in columns) for columns in triples)
    rows = math.ceil(2 * freedom / sum(n - 1 for n in targets.sizes))
    measured = tuple(columns for columns in targets.interactions if len(columns) == 3)
    return Layout(targets.sizes, blocks, min(max(rows, _FEWEST), _MOST), measured)
