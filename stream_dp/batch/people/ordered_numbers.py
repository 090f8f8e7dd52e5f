"""Numbers drawn in their bins under declared orders.

Numbers are drawn evenly in their bins, each by itself. A row whose numbers break an order is drawn
again, number by number: each evenly between the bounds that its bin and the other columns leave.
After every number the bounds are made tight again, so that the next number has a bound that some
numbers of the others meet.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream_dp.study.column_rules import column_cells

from ..data.domain import Codes, Int64Array
from .people_table import PeopleDomain
from .structural_zeros import ColumnOrder, number_ranges


class _Bounds:
    """Bounds of some rows' numbers, by column. least, most, counted: (N,) arrays by column."""

    def __init__(self, ranges: Mapping[int, Int64Array]) -> None:
        """ranges: by column, (N, 2) the first and last number; first > last is no number."""
        self.least = {c: r[:, 0].copy() for c, r in ranges.items()}
        self.most = {c: r[:, 1].copy() for c, r in ranges.items()}
        self.counted = {c: r[:, 0] <= r[:, 1] for c, r in ranges.items()}
        self.rows = len(next(iter(self.counted.values())))

    def binds(self, order: ColumnOrder) -> NDArray[np.bool_]:
        """(N,) whether an order of two columns applies to a row: the row has a number in both.

        An order that compares a column with 0 (None in its place) needs one number alone.
        """
        result = np.ones(self.rows, np.bool_)
        for c in (order.low, order.high):
            if c is not None:
                result &= self.counted[c]
        return result

    def tighten(self, orders: tuple[ColumnOrder, ...]) -> None:
        for _ in range(len(self.counted)):  # as long as the longest path of orders
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
    ranges = {c: number_ranges(cells[c])[codes[:, c]] for c in used}
    now = {c: r.copy() for c, r in ranges.items()}
    for c in redrawn:
        points = domain.numbers[c].scale.points
        has_number = ranges[c][:, 0] <= ranges[c][:, 1]
        number = (points.start + points.step * result[c])[has_number]
        now[c][has_number] = number[:, None]
    rows = np.flatnonzero(_Bounds(now).broken(orders))
    bounds = _Bounds({c: r[rows] for c, r in ranges.items()})
    for c in redrawn:
        bounds.tighten(orders)
        points, counted = domain.numbers[c].scale.points, bounds.counted[c]
        first = -((points.start - bounds.least[c]) // points.step)
        last = (bounds.most[c] - points.start) // points.step
        chosen = first + (rng.random(len(rows)) * (last - first + 1)).astype(np.int64)
        result[c][rows] = np.where(counted, chosen, result[c][rows])
        number = points.start + points.step * chosen
        bounds.least[c] = np.where(counted, number, bounds.least[c])
        bounds.most[c] = np.where(counted, number, bounds.most[c])
    return dict(result)
