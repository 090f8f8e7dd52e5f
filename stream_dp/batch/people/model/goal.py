"""The goal of a mixture of blocks: the shares of pairs and triples, and their weights.

A triple's shares are those that its pairs imply, plus its measured interaction. The interaction is
not shrunk: the model has far fewer parameters than the triples have cells, so the fit averages
their noise. Weights are in proportion to the inverse variance of a cell's noise.
"""

from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np

from ..measure.residual_counts import Columns
from ..measure.targets import Table, Targets
from .block_mixture import Goal, Layout, name_of

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
