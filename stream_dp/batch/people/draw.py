"""Draws people from a mixture of blocks, in strata: rows of the mixture, then cells of a block.

Every row of the mixture has its even share of the people. Within a row the people of a cell are its
expected number, rounded so that the row's total is exact; remainders of rounding are added to the
next row's. So the number of people in a cell differs from its expectation by about 1. Cells of
different blocks meet at random within a row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]


def drawn_cells(
    rng: np.random.Generator, rows: NDArray[np.float64], people: Codes
) -> list[NDArray[np.int64]]:
    """By row, the cells of its people, in random order.

    rows: (K, cells) each row's distribution.
    people: (K,) each row's number of people.
    """
    order = rng.permutation(len(rows))
    left: NDArray[np.float64] = rng.random(rows.shape[1:]) - 0.5
    left -= left.mean()
    result: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * len(rows)
    for k in order:
        wanted = rows[k] / rows[k].sum() * people[k] + left
        counts = np.maximum(np.floor(wanted), 0).astype(np.int64)
        missing = int(people[k] - counts.sum())
        if missing > 0:
            ends = np.argsort(counts - wanted, kind="stable")
            counts[ends[:missing]] += 1
        while missing < 0:
            ends = np.argsort(np.where(counts > 0, wanted - counts, np.inf), kind="stable")
            lowered = ends[: min(-missing, int((counts > 0).sum()))]
            counts[lowered] -= 1
            missing += len(lowered)
        left = wanted - counts
        result[k] = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    return result
