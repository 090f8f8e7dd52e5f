"""The exact cost of the coupled measurement over all histories of one person.

A person's b-th event is at t_b, with t_1 < t_2 < ... and none from some b on. The rows of threshold
b then change by a + c: a is column t_b of A_b, c is column t_{b-1} of B_b. So the terms of the
squared change depend on neighbouring events alone, and dynamic programming over b gives the exact
maximum, in integers. Under add_remove it is over one history:

    V_b(t) = max over s < t of V_{b-1}(s) + |a_t + c_s|^2,

and a history that ends at s pays |c_s|^2 in threshold b + 1. Under replacement the same recursion
is over pairs of histories, where "no further event" is one more state.

Entry is threshold 0. With every event shifted by one period the measurement of entries and totals
over T periods is that of totals over T + 1 periods, without the last row of entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stream_dp.continual.cumulative.coupled_strategy import CoupledRows, Floats


@dataclass(frozen=True, eq=False)
class HistoryCosts:
    """The largest squared changes of the rows of periods 1..t.

    strategy: of at least t periods, t + 1 with entries
    entries: whether the first threshold is entry
    """

    strategy: CoupledRows
    entries: bool = False

    def single(self, t: int) -> int:
        """The cost under addition or removal of a person.

        worst[s] is V_b(s), and |a_t + c_s|^2 = |c_s|^2 + 2 c_s a_t + |a_t|^2.
        """
        worst: Floats = np.zeros(1)
        best = 0.0
        for b, rows, rows_below in self._blocks(t):
            squares = (rows**2).sum(axis=0)
            if b == 1:
                worst = squares
                continue
            count = squares.size
            ended = np.zeros(worst.size)  # |c_s|^2
            ended[:count] = (rows_below**2).sum(axis=0)
            best = max(best, float((worst + ended).max()))  # of histories that end at s
            cross = rows_below.T @ rows
            together = (worst + ended)[:count, None] + 2 * cross + squares
            together[np.tri(count, k=-1, dtype=bool)] = -np.inf  # t of b is after s of b - 1
            worst = together.max(axis=0)
        return int(max(best, worst.max()))

    def pair(self, t: int) -> int:
        """The cost under replacement of a person by another person.

        worst[s, r] is V_b for last events at s and r; the last index is no event. With the events t
        and u of b, the change of the rows is (a_t - a_u) + (c_s - c_r).
        """
        worst = np.zeros((1, 1))
        for b, rows, rows_below in self._blocks(t):
            count = len(rows)
            distances = _distances(rows, count + 1)
            if b == 1:
                worst = distances
                continue
            size = len(worst)  # the times of the last event, then none
            cross = np.zeros((size, count + 1))
            cross[:count, :count] = 2 * rows_below.T @ rows
            worst = distances + largest_sums(worst + _distances(rows_below, size), cross)
        return int(worst.max())

    def _blocks(self, t: int) -> Iterator[tuple[int, Floats, Floats]]:
        last = t + self.entries
        for b in range(1, last + 1):
            rows, rows_below = self.strategy.block(b, t if b == 1 else last - b + 1)
            yield b, rows.astype(np.float64), rows_below.astype(np.float64)


def _distances(columns: Floats, size: int) -> Floats:
    """Squared distances between columns. Omitted columns are 0: (size, size)."""
    gram = np.zeros((size, size))
    count = columns.shape[1]
    gram[:count, :count] = columns.T @ columns
    norms = gram.diagonal()
    squared: Floats = norms[:, None] + norms - 2 * gram
    return squared


def largest_sums(start: Floats, cross: Floats) -> Floats:
    """For all states t, u the largest start[s, r] + change[s] - change[r] over states s, r.

    start: symmetric, (size, size)
    cross: (size, states); change is cross[:, t] - cross[:, u]

    A state precedes those at or after its place, and every state precedes the last. For each s the
    largest over r is bounded by what it was for u - 1, and becomes exact where the bound is the
    largest of all. So the result is exact, and most sums are left out.
    """
    size, states = cross.shape
    counts = [*range(1, states), size]
    rises = [0.0, *(float((cross[:n, n] - cross[:n, n - 1]).max()) for n in range(1, states - 1))]
    highest = np.maximum.accumulate(start, axis=1)
    largest = np.empty((states, states))
    for t, rows in enumerate(counts):
        bounds = np.full(rows, np.inf)
        for u, count in enumerate(counts[: t + 1]):
            change = cross[:rows, t] - cross[:rows, u]
            later_change = change[:count]
            simple = highest[:rows, count - 1] - later_change.min()
            if u == states - 1:
                bounds = simple
            else:
                bounds = np.maximum(bounds + rises[u], start[:rows, u] - later_change[u])
                bounds = np.minimum(bounds, simple)
            sums, best = bounds + change, -np.inf
            while sums[s := int(sums.argmax())] > best:
                bounds[s] = (start[s, :count] - later_change).max()
                sums[s] = bounds[s] + change[s]
                best = max(best, float(sums[s]))
            largest[t, u] = largest[u, t] = best
    return largest
