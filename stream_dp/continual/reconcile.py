"""Reconcile two sets of targets in one panel: a bounded transportation problem, integral.

The rows of a panel fall into cells (z, b): the recent symbols and the running total. A window
mechanism gives how many rows of each z should get the event, a cumulative one how many of each b.
The panel can follow both only if both give the same number of events in all, and if the cells
have enough rows. Everything here is post-processing of noisy numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_FAR = 1000.0  # the cost of missing a margin by one, above any cost inside the margins
_MOST_STEPS = 5000  # of the projected gradient


class Margins(NamedTuple):
    """A number for every row and for every column of the cells.

    rows: (Z,)
    columns: (B,)
    """

    rows: Floats
    columns: Floats


@dataclass(frozen=True)
class Reconciled:
    """How many rows of a panel get the event.

    moves: int64 (Z, B), rows of each cell
    row_moved: the sum over z of the distance to the target
    column_moved: the sum over b of the distance to the target
    """

    moves: Ints
    row_moved: int
    column_moved: int


def reconcile(
    room: Ints,
    aims: Margins,
    spreads: Margins,
    coins: np.random.Generator,
) -> Reconciled:
    """Integers 0 <= moves <= room whose margins are as near as possible to the targets.

    room: (Z, B) rows in each cell
    aims: real targets of the margins
    spreads: the standard deviations of the targets
    coins: for rounding

    First the nearest real margins are computed by weighted least squares, and rounded at random
    without bias to integers with equal sums. Inside the margins the moves follow the distribution
    of largest entropy (a logistic model in z and b), which adds no dependence between z and b. A
    linear programme makes them integers: its matrix is totally unimodular, so its vertices are
    integral.
    """
    real = nearest(room, aims, spreads)
    total = int(np.floor(real.sum() + coins.random()))
    by_row = round_to_total(real.sum(axis=1), room.sum(axis=1), total, coins)
    by_column = round_to_total(real.sum(axis=0), room.sum(axis=0), total, coins)
    moves = _vertex(room, _likely(room, by_row, by_column), (by_row, by_column), coins)
    row_misses = np.abs(moves.sum(axis=1) - aims.rows)
    column_misses = np.abs(moves.sum(axis=0) - aims.columns)
    return Reconciled(moves, round(float(row_misses.sum())), round(float(column_misses.sum())))


def nearest(room: Ints, aims: Margins, spreads: Margins) -> Floats:
    """Real moves (Z, B) within 0..room whose margins are nearest to the aims.

    Minimises sum d_z^2 / s_z^2 + sum d_b^2 / s_b^2, with d the distances to the aims and s the
    spreads, by accelerated projected gradient (Beck and Teboulle 2009) with a step size for every
    cell and restarts where it overshoots (O'Donoghue and Candes 2015). It stops when no cell moves
    by a thousandth of a row.
    """
    heavy, light = (1 / np.maximum(spread, 0.1) ** 2 for spread in spreads)
    used = room > 0
    pace = np.outer(heavy, np.ones_like(light)) * np.maximum(used.sum(axis=1), 1)[:, None]
    pace += light * np.maximum(used.sum(axis=0), 1)
    moves: Floats = room / 2
    ahead = moves
    speed = 1.0
    for _ in range(_MOST_STEPS):
        slope = (heavy * (ahead.sum(axis=1) - aims.rows))[:, None]
        slope = slope + light * (ahead.sum(axis=0) - aims.columns)
        after: Floats = np.clip(ahead - slope / pace, 0, room)
        if np.abs(after - moves).max() < 1e-3:
            return after
        if ((ahead - after) * (after - moves)).sum() > 0:
            speed = 1.0
        faster = (1 + np.sqrt(1 + 4 * speed**2)) / 2
        ahead = after + (speed - 1) / faster * (after - moves)
        moves, speed = after, faster
    return moves


def round_to_total(target: Floats, limit: Ints, total: int, coins: np.random.Generator) -> Ints:
    """Integers near the target, 0 <= x <= limit, that sum to `total` (as far as limits allow).

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


def _likely(room: Ints, rows: Ints, columns: Ints) -> Floats:
    """The moves of largest entropy with these margins, by Newton's method.

    Each row gets the event with odds exp(alpha_z + beta_b).
    """
    z, b = room.shape
    n = room.astype(float)
    x = np.zeros(z + b)
    goal = np.concatenate([rows, columns]).astype(float)
    for _ in range(15):  # the linear programme corrects the remaining error
        chance = 1 / (1 + np.exp(-np.clip(x[:z, None] + x[None, z:], -30, 30)))
        mean, spread = n * chance, n * chance * (1 - chance)
        slope = goal - np.concatenate([mean.sum(axis=1), mean.sum(axis=0)])
        if np.abs(slope).max() < 0.25:
            break
        curve = np.block(
            [[np.diag(spread.sum(axis=1)), spread], [spread.T, np.diag(spread.sum(axis=0))]]
        )
        curve[np.diag_indices(z + b)] += 1e-3
        x += np.clip(solve(curve, slope), -2, 2)
    result: Floats = n * (1 / (1 + np.exp(-np.clip(x[:z, None] + x[None, z:], -30, 30))))
    return result


def _vertex(
    room: Ints,
    ideal: Floats,
    aims: tuple[Ints, Ints],
    coins: np.random.Generator,
) -> Ints:
    """The integer moves nearest to `ideal` (sum of absolute differences) with the best margins.

    room: (Z, B) rows in each cell
    ideal: (Z, B) real moves
    aims: the margins by row (Z,) and by column (B,)
    coins: for ties

    moves = base + up - down with base = floor(ideal); a margin may be missed at a high cost.
    """
    z, b = room.shape
    place_z, place_b = np.nonzero(room)
    n, cell = place_z.shape[0], np.arange(place_z.shape[0])
    base = np.floor(ideal[place_z, place_b]).astype(np.int64)
    limits = room[place_z, place_b]
    fraction = ideal[place_z, place_b] - base
    inside = csr_array(
        (np.ones(2 * n), (np.append(place_z, z + place_b), np.tile(cell, 2))), shape=(z + b, n)
    )
    slack = csr_array(
        (np.tile([1.0, -1.0], z + b), (np.repeat(np.arange(z + b), 2), np.arange(2 * (z + b)))),
        shape=(z + b, 2 * (z + b)),
    )
    matrix = hstack([inside, -inside, slack], format="csr")
    margins = np.concatenate(
        [aims[0] - np.bincount(place_z, base, z), aims[1] - np.bincount(place_b, base, b)]
    )
    # Rounding up is the cheaper the larger the fraction; ties fall at random.
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
    solution = linprog(cost, A_eq=matrix, b_eq=margins, bounds=bounds, method="highs-ds")
    if solution.x is None:  # no step may fail after its draw: accept slightly different margins
        return np.clip(np.rint(ideal), 0, room).astype(np.int64)
    change = np.rint(solution.x[:n] - solution.x[n : 2 * n]).astype(np.int64)
    moves = np.zeros(room.shape, np.int64)
    moves[place_z, place_b] = np.clip(base + change, 0, limits)
    return moves
