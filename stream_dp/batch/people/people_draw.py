"""Draws people in strata: from rows of a mixture, or from the cliques of a junction tree.

Every row of the mixture has its even share of the people. Within a row the people of a cell are its
expected number, rounded so that the row's total is exact; remainders of rounding are added to the
next row's. So the number of people in a cell differs from its expectation by about 1. Cells of
different blocks meet at random within a row. The people of a number's bin are spread evenly over
its points: the number of people below any threshold inside a bin is its expectation, up to one.

Under declared orders numbers are drawn evenly in their bins, each by itself. A row whose numbers
break an order is drawn again, number by number: each evenly between the bounds that its bin and the
other columns leave. After every number the bounds are made tight again, so that the next number has
a bound that some numbers of the others meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

from stream_dp.study.column_rules import column_cells
from stream_dp.study.scale import Numbers

from ..data.domain import Codes, Int64Array
from .people_table import People, PeopleDomain
from .residual_counts import Columns
from .structural_zeros import ColumnOrder, number_ranges


class _Bounds:
    """Bounds of some rows' numbers, by column.

    least, most: by column, (N,) the smallest and the largest number that a row may have.
    has_number: by column, (N,) whether a row has a number; a row may be 'absent' instead.
    """

    def __init__(self, ranges: Mapping[int, Int64Array]) -> None:
        """ranges: by column, (N, 2) the first and last number; first > last is no number."""
        self.least = {c: r[:, 0].copy() for c, r in ranges.items()}
        self.most = {c: r[:, 1].copy() for c, r in ranges.items()}
        self.has_number = {c: r[:, 0] <= r[:, 1] for c, r in ranges.items()}
        self.rows = len(next(iter(self.has_number.values())))

    def binds(self, order: ColumnOrder) -> NDArray[np.bool_]:
        """(N,) whether an order of two columns applies to a row: the row has a number in both.

        An order that compares a column with 0 (None in its place) needs one number alone.
        """
        result = np.ones(self.rows, np.bool_)
        for c in (order.low, order.high):
            if c is not None:
                result &= self.has_number[c]
        return result

    def tighten(self, orders: tuple[ColumnOrder, ...]) -> None:
        """Narrows the bounds to the numbers that some numbers of the other columns allow.

        An order low + gap <= high raises the least number of `high` to that of `low` plus the gap,
        and lowers the largest number of `low` to that of `high` less the gap.
        """
        for _ in range(len(self.has_number)):  # as long as the longest path of orders
            for order in orders:
                bound = self.binds(order)
                if order.high is not None:
                    least = (0 if order.low is None else self.least[order.low]) + order.gap
                    raised = np.maximum(self.least[order.high], least)
                    self.least[order.high] = np.where(bound, raised, self.least[order.high])
                if order.low is not None:
                    most = (0 if order.high is None else self.most[order.high]) - order.gap
                    lowered = np.minimum(self.most[order.low], most)
                    self.most[order.low] = np.where(bound, lowered, self.most[order.low])

    def broken(self, orders: tuple[ColumnOrder, ...]) -> NDArray[np.bool_]:
        """(N,) whether an order is broken by the numbers `least`."""
        result = np.zeros(self.rows, np.bool_)
        for order in orders:
            low = 0 if order.low is None else self.least[order.low]
            high = 0 if order.high is None else self.least[order.high]
            result |= self.binds(order) & (low + order.gap > high)
        return result


def ordered_numbers(
    rng: np.random.Generator, domain: PeopleDomain, codes: Codes, drawn: Mapping[int, Codes]
) -> dict[int, Codes]:
    """The codes of numbers by column, drawn again in rows whose numbers break an order.

    Such a row gets new numbers, column by column: uniform between the bounds that its bins, the
    orders and its new numbers so far leave.

    codes: (N, columns), which keep the rules.
    drawn: by column that is a number, (N,) the codes of the numbers.
    """
    orders = domain.zeros.orders
    used = sorted({c for order in orders for c in (order.low, order.high) if c is not None})
    result = {c: np.asarray(points, np.int64).copy() for c, points in drawn.items()}
    redrawn = [c for c in used if c in domain.numbers]
    if not redrawn:
        return dict(drawn)
    cells = {c: column_cells(domain.columns[c].values, domain.numbers.get(c)) for c in used}
    bin_ranges = {c: number_ranges(cells[c])[codes[:, c]] for c in used}
    drawn_ranges = {c: r.copy() for c, r in bin_ranges.items()}  # from a number to itself
    for c in redrawn:
        points = domain.numbers[c].scale.points
        is_number = bin_ranges[c][:, 0] <= bin_ranges[c][:, 1]
        number = (points.start + points.step * result[c])[is_number]
        drawn_ranges[c][is_number] = number[:, None]
    rows = np.flatnonzero(_Bounds(drawn_ranges).broken(orders))
    bounds = _Bounds({c: r[rows] for c, r in bin_ranges.items()})
    for c in redrawn:
        bounds.tighten(orders)
        points, has_number = domain.numbers[c].scale.points, bounds.has_number[c]
        first = -((points.start - bounds.least[c]) // points.step)  # rounded up
        last = (bounds.most[c] - points.start) // points.step
        chosen = first + (rng.random(len(rows)) * (last - first + 1)).astype(np.int64)
        result[c][rows] = np.where(has_number, chosen, result[c][rows])
        number = points.start + points.step * chosen
        bounds.least[c] = np.where(has_number, number, bounds.least[c])
        bounds.most[c] = np.where(has_number, number, bounds.most[c])
    return dict(result)


def drawn_cells(
    rng: np.random.Generator,
    rows: NDArray[np.float64],
    people: Int64Array,
    possible: NDArray[np.bool_] | None = None,
) -> list[NDArray[np.int64]]:
    """By row, the cells of its people, in random order.

    A cell's number of people is its expected number, rounded. What rounding leaves out goes to the
    next row (`remainder`), so that it does not add up over rows.

    rows: (K, cells) each row's distribution.
    people: (K,) each row's number of people.
    possible: (K, cells) which cells people may have; by default all of them.
    """
    order = rng.permutation(len(rows))
    remainder: NDArray[np.float64] = rng.random(rows.shape[1:]) - 0.5
    remainder -= remainder.mean()
    result: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * len(rows)
    for k in order:
        expected = rows[k] / rows[k].sum() * people[k] + remainder
        if possible is None:
            counts = _rounded(expected, people[k])
        else:
            counts = np.zeros(len(expected), np.int64)
            counts[possible[k]] = _rounded(expected[possible[k]], people[k])
        remainder = expected - counts
        result[k] = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    return result


def _rounded(expected: NDArray[np.float64], people: int) -> Int64Array:
    """Whole numbers near the expected ones, of so many people together."""
    counts = np.maximum(np.floor(expected), 0).astype(np.int64)
    missing = int(people - counts.sum())
    while missing > 0:
        most_below = np.argsort(counts - expected, kind="stable")[:missing]
        counts[most_below] += 1
        missing -= len(most_below)
    while missing < 0:
        most_above = np.argsort(np.where(counts > 0, expected - counts, np.inf), kind="stable")
        lowered = most_above[: min(-missing, int((counts > 0).sum()))]
        counts[lowered] -= 1
        missing += len(lowered)
    return counts


def draw_clique(
    rng: np.random.Generator,
    clique: Columns,
    drawn: Columns,
    table: NDArray[np.float64],
    codes: Int64Array,
    possible: NDArray[np.bool_] | None = None,
) -> None:
    """Draws a clique's columns of people, given their columns `drawn`.

    table: the clique's distribution, one axis for each column.
    possible: which of its cells people may have; by default all of them.
    codes: (N, columns) of the people; the clique's new columns are written.
    """
    new = tuple(c for c in clique if c not in drawn)
    shape = {c: table.shape[i] for i, c in enumerate(clique)}
    order = [clique.index(c) for c in (*drawn, *new)]
    rows = np.transpose(table, order).reshape(prod(shape[c] for c in drawn), -1)
    if possible is not None:
        possible = np.transpose(possible, order).reshape(rows.shape)
    group = np.zeros(len(codes), np.int64)
    for c in drawn:
        group = group * shape[c] + codes[:, c]
    people = np.argsort(group, kind="stable")
    counts = np.bincount(group, minlength=len(rows))
    groups = np.flatnonzero(counts)
    # A group that the model gives next to nobody is drawn evenly.
    likely = rows[groups] + np.finfo(float).tiny
    if possible is not None:
        possible = possible[groups]
        likely = np.where(possible, likely, 0)
    cells = np.concatenate(drawn_cells(rng, likely, counts[groups], possible))
    columns = np.unravel_index(cells, [shape[c] for c in new])
    for c, values in zip(new, columns, strict=True):
        codes[people, c] = values


def drawn_people(rng: np.random.Generator, domain: PeopleDomain, codes: Codes) -> People:
    """People of these codes, with numbers drawn in their bins."""
    numbers = {c: drawn_numbers(rng, codes[:, c], n) for c, n in domain.numbers.items()}
    if domain.zeros.orders:
        numbers = ordered_numbers(rng, domain, codes, numbers)
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
