"""Draws people in strata: from rows of a mixture, or from the cliques of a junction tree.

Every row of the mixture has its even share of the people. Within a row the people of a cell are its
expected number, rounded so that the row's total is exact; remainders of rounding are added to the
next row's. So the number of people in a cell differs from its expectation by about 1. Cells of
different blocks meet at random within a row.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from ..measure.residual_counts import Columns

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


def draw_clique(
    rng: np.random.Generator,
    clique: Columns,
    known: Columns,
    table: NDArray[np.float64],
    codes: Codes,
) -> None:
    """Draws a clique's columns of people whose columns `known` are drawn already.

    table: the clique's distribution, one axis for each column.
    codes: (N, columns) of the people; the clique's new columns are written.
    """
    new = tuple(c for c in clique if c not in known)
    shape = {c: table.shape[i] for i, c in enumerate(clique)}
    order = [clique.index(c) for c in (*known, *new)]
    rows = np.transpose(table, order).reshape(prod(shape[c] for c in known), -1)
    group = np.zeros(len(codes), np.int64)
    for c in known:
        group = group * shape[c] + codes[:, c]
    places = np.argsort(group, kind="stable")
    counts = np.bincount(group, minlength=len(rows))
    here = np.flatnonzero(counts)
    # A group that the model gives next to nobody is drawn evenly.
    cells = np.concatenate(drawn_cells(rng, rows[here] + np.finfo(float).tiny, counts[here]))
    drawn = np.unravel_index(cells, [shape[c] for c in new])
    for c, values in zip(new, drawn, strict=True):
        codes[places, c] = values
