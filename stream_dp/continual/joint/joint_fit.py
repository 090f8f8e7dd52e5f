"""One panel for patterns and sums: nearest to both in the metric of their noise.

The rows of a panel fall into cells of which nothing more is known: at t = k all are in one, later
those with the same last k - 1 symbols z and the same running total b are. Let x be the rows of each
cell by what they get: a pattern at t = k, later a symbol. x is at or above 0 and sums to the
cell's rows. It gives patterns p and sums S_b, and
    minimises  |p - g|^2 / s + sum_b (S_b - y_b)^2 / v_b,
the first in the metric of `panel_fit.py`, with g and y the targets and v the variances of the
sums. Of several such x the method takes one that treats rows of different cells alike, as it starts
from the same shares in all of them and moves each in proportion to its rows.

Three things keep noise from adding up over the periods. Their constants were found on twelve panels
and judged on seven others.

- The events e_zb of a cell stay near to its share r_zb / r_z of the rows in the overlap: at t > k
  the distance has a term  (e_zb - e_z r_zb / r_z)^2 / (4 sqrt(v_b) m_zb + 1). Here r are rows, e_z
  the events of the overlap and m_zb the events that the patterns alone would give the cell. Without
  this term a sum with a low estimate gives events to cells where hardly anybody has an event, and
  no later period takes them back: S_1 rises at most by the events of rows that had none. The noise
  would push to one side and stay. Cells with many events are free to differ.
- The sums have 5/4 of their weight: an error of a sum stays, a pattern leaves the window.
- In a closed population coarse sums of three symbols or more have a quarter of the weight that they
  have in a window's panel (`coarse_sums.py`), and the sums then have twice the weight. Runs of
  symbols that are not the event have more weight.

Whole numbers then come from a linear programme whose matrix is totally unimodular: its vertices
are integral. All of it is post-processing of noisy numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from ..repeatable_products import largest_eigenvalue, product
from ..window.coarse_sums import LEAST_SYMBOLS
from ..window.panel_fit import (
    STILL,
    Absences,
    PatternMetric,
    descended,
    held_sums,
    nearest_on_simplex,
    nearest_panel,
    projection_of,
    with_present,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_STEADY = 0.01  # of the rows of the largest cell, if that is less than a standard deviation
_FAR = 1000.0  # the cost of missing a margin by one, above any cost inside the margins
_MOST_STEPS = 500
_SPREAD = 4.0  # of a cell's events around its share, in standard deviations of the sums
_LASTING = 1.25  # the weight of sums; twice as much beside coarse sums
_COARSE = 0.25  # of the weight of coarse sums in a window's panel
_RUNS = 16.0  # the weight of runs of symbols that are not the event, before this quarter


@dataclass(frozen=True, eq=False)
class Sums:
    """Noisy sums of people with at least b events, b = 1..t.

    values: (t,) their estimates; at t > k less what the panel has already
    variances: (t,)
    """

    values: Floats
    variances: Floats


def nearest_first(
    target: Floats,
    rows: int,
    metric: PatternMetric,
    sums: Sums,
    events: Ints,
    absences: Absences | None = None,
    *,
    coarse: bool = False,
) -> Floats:
    """The histogram (q^k,) of a panel at t = k.

    target: (q^k,) the estimates of patterns
    rows: of the panel
    metric: of the patterns' noise
    sums: S_1..S_k
    events: (q^k,) how many events a pattern has
    absences: where people come and go
    coarse: whether coarse sums are kept nearer to their estimates (`coarse_sums.py`)
    """
    total = np.array([float(rows)])
    projected = projection_of(total, target.size, absences)
    counted = (events >= np.arange(1, sums.values.size + 1)[:, None]).astype(np.float64)
    variances = _weighed(sums, metric, coarse=coarse)
    scaled = counted / np.sqrt(variances)[:, None]
    # A symbol is the event if the pattern of this symbol alone has events.
    alike = np.arange(metric.q) * ((target.size - 1) // (metric.q - 1))
    symbols = np.flatnonzero(events[alike])
    pull, steepest = _pattern_slope(target, metric, symbols, coarse=coarse)
    curvature = steepest + largest_eigenvalue(product(scaled, scaled.T))
    other_patterns = np.arange(target.size) != (-1 if absences is None else absences.pattern)

    def after(point: Floats) -> Floats:
        """A projected gradient step: to the patterns' targets, and to the sums by 1 / variance."""
        off = np.where(other_patterns, point - target, 0.0)
        missed = (product(counted, point) - sums.values) / variances
        slope = pull(off) + product(counted.T, missed)
        return projected(point - slope / curvature)

    fitted = descended(
        projected(target), after, _MOST_STEPS, still=_still(metric, sums, np.array([rows]))
    )
    if absences is not None:
        fitted[absences.pattern] = rows - absences.others
    return fitted


def nearest_later(
    room: Ints,
    target: Floats,
    metric: PatternMetric,
    sums: Sums,
    events: Ints,
    absences: Absences | None = None,
    *,
    coarse: bool = False,
) -> Floats:
    """The rows of every cell by new symbol at t > k, float64 (Z, B, q).

    room: (Z, B) rows of each cell
    target: (q^k,) the estimates of patterns
    metric: of the patterns' noise
    sums: how far S_1..S_B are to rise
    events: the symbols that are the event
    absences: where people come and go
    coarse: whether coarse sums are kept nearer to their estimates (`coarse_sums.py`)

    The gradient by the event in a cell has three parts: of the patterns (`slope`), of the sums
    (`missed`), and of the term that holds cells to their shares (`uneven`, with weight `stiff`).
    """
    overlaps, q = len(room), metric.q
    ends, reached = room.sum(axis=1).astype(np.float64), room.sum(axis=0)
    without_sums = nearest_panel(target, ends, metric, absences, coarse=coarse).reshape(overlaps, q)
    if absences is not None:
        # How many are present is that of patterns alone: the sums then move both ways from there,
        # where clipping cells at 0 would add people.
        target = target.reshape(overlaps, q).copy()
        target[absences.pattern // q] = without_sums[absences.pattern // q]
        target = target.ravel()
    happens = np.isin(np.arange(q), events).astype(np.float64)
    pull, steepest = _pattern_slope(target, metric, events, coarse=coarse)
    variances = _weighed(sums, metric, coarse=coarse)
    cell_shares = room / np.maximum(ends, 1)[:, None]
    expected = cell_shares * product(without_sums, happens)[:, None]
    stiff = 1 / (_SPREAD * np.sqrt(sums.variances) * expected + 1)
    together = (cell_shares**2 * stiff).sum(axis=1)
    # An upper bound of the steepest slope, row by row, over the rows of a cell.
    steep = steepest * ends[:, None] + len(events) * reached / variances
    steep = steep + 2 * len(events) * (stiff * room + (together * ends)[:, None])
    pace = room / np.maximum(steep, 1e-300)
    flat = room.ravel().astype(np.float64)

    def projected(cells: Floats) -> Floats:
        return nearest_on_simplex(cells.reshape(-1, q), flat).ravel()

    def after(point: Floats) -> Floats:
        slope = pull(point.sum(axis=1).ravel() - target).reshape(overlaps, 1, q)
        moves = product(point.reshape(-1, q), happens).reshape(room.shape)
        missed = (moves.sum(axis=0) - sums.values) / variances
        uneven = stiff * (moves - cell_shares * moves.sum(axis=1)[:, None])
        uneven = uneven - (cell_shares * uneven).sum(axis=1)[:, None]
        moved = point - pace[:, :, None] * (slope + (missed + uneven)[:, :, None] * happens)
        return projected(moved).reshape(point.shape)

    shares = without_sums / np.maximum(ends, 1)[:, None]
    start = room[:, :, None] * shares[:, None, :]
    pace_of_cell = np.maximum(pace, 1e-300)[:, :, None]
    fitted = descended(
        start, after, _MOST_STEPS, pace=pace_of_cell, still=_still(metric, sums, room)
    )
    if absences is None:
        return fitted
    return with_present(fitted.ravel(), projected, absences).reshape(fitted.shape)


def _pattern_slope(
    target: Floats, metric: PatternMetric, events: Ints, *, coarse: bool
) -> tuple[Callable[[Floats], Floats], float]:
    """Half the gradient of the patterns' squared distance, and its largest eigenvalue.

    events: the symbols that are the event

    The gradient is a function of distances (q^k,).
    """
    if not coarse or metric.q < LEAST_SYMBOLS:
        return metric.slope, metric.most
    coarse_target = held_sums(target, metric, _RUNS, tuple(events.tolist()))
    weight = _COARSE / metric.variance
    return (
        lambda off: metric.slope(off) + weight * coarse_target.slope(off),
        metric.most + weight * coarse_target.most,
    )


def _weighed(sums: Sums, metric: PatternMetric, *, coarse: bool) -> Floats:
    """The variances over the weights that the sums have in the distance, (B,)."""
    doubled = 2 if coarse and metric.q >= LEAST_SYMBOLS else 1
    return sums.variances / (_LASTING * doubled)


def _still(metric: PatternMetric, sums: Sums, rows: Ints) -> float:
    """By how many rows numbers may still move where the method ends. rows: of the cells"""
    deviation = math.sqrt(min(metric.variance, float(sums.variances.min())))
    return STILL * min(deviation, _STEADY * float(rows.max(initial=1)))


def rounded_moves(moves: Floats, room: Ints, coins: np.random.Generator) -> Ints:
    """Integers (Z, B) near real moves within 0..room, with margins near the margins of the moves.

    The margins are rounded at random without bias, to equal sums; a linear programme finds the
    integers nearest to the moves (sum of absolute differences) with these margins.
    """
    total = int(np.floor(moves.sum() + coins.random()))
    by_row = rounded_to_total(moves.sum(axis=1), room.sum(axis=1), total, coins)
    by_column = rounded_to_total(moves.sum(axis=0), room.sum(axis=0), total, coins)
    return _vertex(room, moves, (by_row, by_column), coins)


def rounded_to_total(target: Floats, limit: Ints, total: int, coins: np.random.Generator) -> Ints:
    """Integers near the target, 0 <= x <= limit, with sum `total` (as far as limits allow).

    Systematic sampling of the fractional parts: if the target sums to the total, each entry is
    rounded up with the probability of its fractional part.
    """
    low = np.floor(target)
    steps = np.cumsum(target - low)
    ups = np.diff(np.floor(np.append(0.0, steps) + coins.random()))
    rounded: Ints = np.clip(low + ups, 0, limit).astype(np.int64)
    gap = total - int(rounded.sum())
    while gap:
        free = np.flatnonzero(rounded < limit) if gap > 0 else np.flatnonzero(rounded > 0)
        if free.size == 0:
            break
        changed = coins.permutation(free)[: abs(gap)]
        rounded[changed] += np.sign(gap)
        gap = total - int(rounded.sum())
    return rounded


def _vertex(
    room: Ints,
    ideal: Floats,
    aims: tuple[Ints, Ints],
    coins: np.random.Generator,
) -> Ints:
    """The integer moves nearest to `ideal` (sum of absolute differences) with the best margins.

    room: (Z, B) rows in each cell
    ideal: (Z, B) real moves
    aims: the sums of rows (Z,) and of columns (B,)
    coins: for ties

    moves = base + up - down with base = floor(ideal). The linear programme has the variables (up,
    down, missed) >= 0 and an equation for each margin: the sum of base + up - down, plus what is
    missed either way, is the aim. It minimises (1 - f) up + (1/2 + f) down + _FAR missed, where f
    is the fraction of ideal.
    """
    z, b = room.shape
    place_z, place_b = np.nonzero(room)
    n, cell = place_z.shape[0], np.arange(place_z.shape[0])
    base = np.floor(ideal[place_z, place_b]).astype(np.int64)
    limits = room[place_z, place_b]
    fraction = ideal[place_z, place_b] - base
    sums_of_moves = scipy.sparse.csr_array(
        (np.ones(2 * n), (np.append(place_z, z + place_b), np.tile(cell, 2))), shape=(z + b, n)
    )
    missed = scipy.sparse.csr_array(
        (np.tile([1.0, -1.0], z + b), (np.repeat(np.arange(z + b), 2), np.arange(2 * (z + b)))),
        shape=(z + b, 2 * (z + b)),
    )
    matrix = scipy.sparse.hstack([sums_of_moves, -sums_of_moves, missed], format="csr")
    margins = np.concatenate(
        [aims[0] - np.bincount(place_z, base, z), aims[1] - np.bincount(place_b, base, b)]
    )
    # Ties fall at random.
    noise = 1e-3 * coins.random(2 * n)
    cost = np.concatenate([1 - fraction, 0.5 + fraction]) + noise
    cost = np.append(cost, np.full(2 * (z + b), _FAR))
    bounds = np.concatenate(
        [
            np.stack([np.zeros(n), limits - base], axis=1),
            np.stack([np.zeros(n), base], axis=1),
            np.stack([np.zeros(2 * (z + b)), np.full(2 * (z + b), np.inf)], axis=1),
        ]
    )
    solution = scipy.optimize.linprog(
        cost, A_eq=matrix, b_eq=margins, bounds=bounds, method="highs-ds"
    )
    if solution.x is None:  # no step may fail after its draw: accept slightly different margins
        return np.clip(np.rint(ideal), 0, room).astype(np.int64)
    change = np.rint(solution.x[:n] - solution.x[n : 2 * n]).astype(np.int64)
    moves = np.zeros(room.shape, np.int64)
    moves[place_z, place_b] = np.clip(base + change, 0, limits)
    return moves
