"""Draws people in strata: from rows of a mixture, or from the cliques of a junction tree.

Every row of the mixture has its even share of the people. Within a row the people of a cell are its
expected number, rounded so that the row's total is exact; remainders of rounding are added to the
next row's. So the number of people in a cell differs from its expectation by about 1. Cells of
different blocks meet at random within a row. The people of a number's bin are spread evenly over
its points: the number of people below any threshold inside a bin is its expectation, up to one.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from stream_dp.study.scale import Numbers

from ..data.domain import Codes, Int64Array
from .people_table import People, PeopleDomain
from .residual_counts import Columns


def drawn_cells(
    rng: np.random.Generator, rows: NDArray[np.float64], people: Int64Array
) -> list[NDArray[np.int64]]:
    """By row, the cells of its people, in random order.

    A cell's number of people is its expected number, rounded. What rounding leaves out goes to the
    next row (`remainder`), so that it does not add up over rows.

    rows: (K, cells) each row's distribution.
    people: (K,) each row's number of people.
    """
    order = rng.permutation(len(rows))
    remainder: NDArray[np.float64] = rng.random(rows.shape[1:]) - 0.5
    remainder -= remainder.mean()
    result: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * len(rows)
    for k in order:
        expected = rows[k] / rows[k].sum() * people[k] + remainder
        counts = np.maximum(np.floor(expected), 0).astype(np.int64)
        missing = int(people[k] - counts.sum())
        if missing > 0:
            most_below = np.argsort(counts - expected, kind="stable")
            counts[most_below[:missing]] += 1
        while missing < 0:
            most_above = np.argsort(np.where(counts > 0, expected - counts, np.inf), kind="stable")
            lowered = most_above[: min(-missing, int((counts > 0).sum()))]
            counts[lowered] -= 1
            missing += len(lowered)
        remainder = expected - counts
        result[k] = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    return result


def draw_clique(
    rng: np.random.Generator,
    clique: Columns,
    drawn: Columns,
    table: NDArray[np.float64],
    codes: Int64Array,
) -> None:
    """Draws a clique's columns of people, given their columns `drawn`.

    table: the clique's distribution, one axis for each column.
    codes: (N, columns) of the people; the clique's new columns are written.
    """
    new = tuple(c for c in clique if c not in drawn)
    shape = {c: table.shape[i] for i, c in enumerate(clique)}
    order = [clique.index(c) for c in (*drawn, *new)]
    rows = np.transpose(table, order).reshape(prod(shape[c] for c in drawn), -1)
    group = np.zeros(len(codes), np.int64)
    for c in drawn:
        group = group * shape[c] + codes[:, c]
    people = np.argsort(group, kind="stable")
    counts = np.bincount(group, minlength=len(rows))
    groups = np.flatnonzero(counts)
    # A group that the model gives next to nobody is drawn evenly.
    likely = rows[groups] + np.finfo(float).tiny
    cells = np.concatenate(drawn_cells(rng, likely, counts[groups]))
    columns = np.unravel_index(cells, [shape[c] for c in new])
    for c, values in zip(new, columns, strict=True):
        codes[people, c] = values


def drawn_people(rng: np.random.Generator, domain: PeopleDomain, codes: Codes) -> People:
    """People of these codes, with numbers drawn in their bins."""
    numbers = {c: drawn_numbers(rng, codes[:, c], n) for c, n in domain.numbers.items()}
    return People(domain, codes, numbers)


def drawn_numbers(rng: np.random.Generator, bins: Codes, numbers: Numbers) -> Codes:
    """(N,) codes of numbers, uniform on the points of a person's bin; 'absent' stays 'absent'."""
    codes = np.empty(len(bins), np.int64)
    for bin_, start in enumerate(numbers.starts):
        people = np.flatnonzero(bins == bin_)
        end = (*numbers.starts, len(numbers))[bin_ + 1]
        points = (np.arange(len(people)) + rng.random()) * (end - start) / max(len(people), 1)
        codes[people] = start + rng.permutation(points.astype(np.int64))
    return codes
