"""Reconcile two sets of targets in one panel: a bounded transportation problem, integral.

The rows of a panel fall into cells (z, b): the recent symbols and the running total. A window
mechanism says how many rows of each z should get the event, a cumulative one how many of each b.
The panel can follow both only if both give the same number of events in all, and if the cells
have the rows for it. Everything here is post-processing of noisy numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_FAR = 1000.0  # a margin missed by one costs more than any shape of the inside
_MOST_STEPS = 5000


@dataclass(frozen=True)
class Reconciled:
    """Rows of a panel that get the event.

    moves: int64 (Z, B), of each cell
    row_moved, column_moved: by how many rows the margins leave their targets, in all
    """

    moves: Ints
    row_moved: int
    column_moved: int


def reconcile(
    room: Ints,
    rows: Floats,
    columns: Floats,
    spreads: tuple[Floats, Floats],
    coins: np.random.Generator,
) -> Reconciled:
    """Integers 0 <= moves <= room whose margins are as near as possible to the targets.

    room: (Z, B) rows in each cell
    rows: (Z,) real targets
    columns: (B,) real targets
    spreads: the standard deviations of both
    coins: for rounding

    First the nearest real margins, by weighted least squares; they are rounded at
    random, unbiased, to whole numbers of equal sums. Inside, the moves follow the distribution of
    largest entropy with these margins (a logistic model in z and b), so that the choice adds no
    dependence of its own, and one linear programme makes them whole: its matrix is totally
    unimodular, so its vertices are integral.
    """
    real = nearest(room, (rows, columns), spreads)
    total = int(np.floor(real.sum() + coins.random()))
    by_row = round_to_total(real.sum(axis=1), room.sum(axis=1), total, coins)
    by_column = round_to_total(real.sum(axis=0), room.sum(axis=0), total, coins)
    moves = _vertex(room, _likely(room, by_row, by_column), by_row, by_column, coins)
    off = [
        np.abs(moves.sum(axis=axis) - aim).sum()
        for axis, aim in zip((1, 0), (rows, columns), strict=True)
    ]
    return Reconciled(moves, round(float(off[0])), round(float(off[1])))


def nearest(room: Ints, aims: tuple[Floats, Floats], spreads: tuple[Floats, Floats]) -> Floats:
    """Real moves (Z, B) within 0..room whose margins are nearest to the aims.

    Minimises sum d_z^2 / s_z^2 + sum d_b^2 / s_b^2, d the misses: accelerated projected gradient
    (Beck and Teboulle 2009) with a pace for every cell, begun anew where it overshoots
    (O'Donoghue and Candes 2015), until no cell moves by a thousandth of a row.
    """
    heavy, light = (1 / np.maximum(spread, 0.1) ** 2 for spread in spreads)
    used = room > 0
    pace = np.outer(heavy, np.ones_like(light)) * np.maximum(used.sum(axis=1), 1)[:, None]
    pace += light * np.maximum(used.sum(axis=0), 1)
    moves: Floats = room / 2
    ahead = moves
    speed = 1.0
    for _ in range(_MOST_STEPS):
        slope = (heavy * (ahead.sum(axis=1) - aims[0]))[:, None]
        slope = slope + light * (ahead.sum(axis=0) - aims[1])
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

    Systematic sampling of the fractions: each entry is rounded up with probability its fraction,
    where the target's own sum is the total.
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
        one = coins.permutation(free)[: abs(gap)]
        rounded[one] += np.sign(gap)
        gap = total - int(rounded.sum())
    return rounded


def _likely(room: Ints, rows: Ints, columns: Ints) -> Floats:
    """Largest entropy: each row gets the event with odds exp(alpha_z + beta_b); Newton's method."""
    z, b = room.shape
    n = room.astype(float)
    x = np.zeros(z + b)
    goal = np.concatenate([rows, columns]).astype(float)
    for _ in range(15):  # the linear programme makes up for what is missing
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
    rows: Ints,
    columns: Ints,
    coins: np.random.Generator,
) -> Ints:
    """The integral moves nearest to `ideal` (in absolute value) among those of best margins.

    moves = base + up - down with base = floor(ideal); every margin may be missed at a high cost.
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
        [rows - np.bincount(place_z, base, z), columns - np.bincount(place_b, base, b)]
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
    if solution.x is None:  # no failure may follow a draw; margins are then missed by a few rows
        return np.clip(np.rint(ideal), 0, room).astype(np.int64)
    change = np.rint(solution.x[:n] - solution.x[n : 2 * n]).astype(np.int64)
    moves = np.zeros(room.shape, np.int64)
    moves[place_z, place_b] = np.clip(base + change, 0, limits)
    return moves
