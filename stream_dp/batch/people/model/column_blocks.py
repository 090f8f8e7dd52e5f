"""Blocks of strongly dependent columns, modelled jointly by every row of the mixture."""

from __future__ import annotations

from math import prod

import numpy as np

from ..measure.residual_counts import Columns
from ..measure.targets import Targets

MOST_CELLS = 1_000  # of a block, where triples are measured
MOST_CELLS_OF_PAIRS = 4_000  # where they are not: rows are then few, and blocks hold what matters
DEPENDENT = 0.15  # total variation of a pair from independence


def column_blocks(targets: Targets) -> tuple[Columns, ...]:
    """The blocks, with columns in increasing order; every column is in a block.

    Blocks are merged greedily by the noisy total variation of their most dependent pair, as far as
    it is above DEPENDENT and the merged block has no more cells than is set.
    """
    largest = MOST_CELLS_OF_PAIRS if targets.of_pairs else MOST_CELLS
    sizes = targets.sizes
    block = {c: frozenset({c}) for c in range(len(sizes))}
    variation = {
        pair: float(np.abs(estimate.values).sum() / 2)
        for pair, estimate in targets.dependence.items()
    }
    for (first, second), gap in sorted(variation.items(), key=lambda item: (-item[1], item[0])):
        merged = block[first] | block[second]
        if gap > DEPENDENT and prod(sizes[c] for c in merged) <= largest:
            block |= dict.fromkeys(merged, merged)
    return tuple(sorted(tuple(sorted(columns)) for columns in set(block.values())))
