"""Finds refined rows of the coupled measurement of totals, and writes their table.

`python -m kit.refined_rows` takes 5 CPU minutes. The number of periods changes nothing in a closed
form; here every row is free, for one number of periods. The aim is the mean fourth power of the
variances of all sums, times the eighth power of the cost, so that no sum is far above the others.
L-BFGS starts from the closed form. The largest cost over all histories is smoothed as
log(sum exp(sharpness cost)) / sharpness, by the recursions of `coupled_costs.py` with sums instead
of maxima; its gradient follows from the chances of the histories under these weights.

Nothing here needs to be right for privacy: the rows are rounded to integers, and their exact costs
are those of `HistoryCosts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from stream_dp.continual.cumulative import refined_strategy
from stream_dp.continual.cumulative.coupled_cost_table import CostTable
from stream_dp.continual.cumulative.coupled_costs import HistoryCosts
from stream_dp.continual.cumulative.coupled_strategy import coupled_strategy
from stream_dp.continual.cumulative.refined_strategy import SIZES, RefinedStrategy, packed_table

Floats = NDArray[np.float64]
Blocks = list[tuple[Floats, Floats]]  # of each threshold: A_b and B_b, lower triangular
Smooth = Callable[[Blocks, float], tuple[float, Blocks]]

POWER = 4
UNIT = 1 << 8  # of the rows, which are about 1
SHARPNESS = {False: ((100, 60), (600, 150), (2000, 100)), True: ((50, 60), (200, 80), (500, 120))}
_LEAST_PIVOT, _REFUSED = 1e-6, 1e9


def refined_blocks(periods: int, *, public_size: bool) -> Blocks:
    """The rows that L-BFGS finds, in floats, at a cost of about 1."""
    closed = coupled_strategy(public_size=public_size, periods=periods)
    costs = HistoryCosts(closed)
    cost = costs.pair(periods) if public_size else costs.single(periods)
    start = [closed.block(b, periods - b + 1) for b in range(1, periods + 1)]
    blocks = [(rows / cost**0.5, below / cost**0.5) for rows, below in start]
    smooth = smooth_pair if public_size else smooth_single
    point = _packed(blocks)
    for sharpness, steps in SHARPNESS[public_size]:

        def objective(
            point: Floats, sharpness: float = sharpness, smooth: Smooth = smooth
        ) -> tuple[float, Floats]:
            blocks = _unpacked(point, periods)
            if min(rows.diagonal().min() for rows, _ in blocks) <= _LEAST_PIVOT:
                return _REFUSED, np.zeros_like(point)
            cost, by_cost = smooth(blocks, sharpness)
            if not np.isfinite(cost):
                return _REFUSED, np.zeros_like(point)
            error, by_error = log_error(blocks)
            return cost + error, _packed(by_cost) + _packed(by_error)

        options = {"maxiter": steps, "maxcor": 20}
        point = minimize(objective, point, jac=True, method="L-BFGS-B", options=options).x
    return _unpacked(point, periods)


def log_error(blocks: Blocks) -> tuple[float, Blocks]:
    """log of the mean of v^POWER over all sums, over POWER, and its gradient.

    v is the variance of an unbiased sum for noise of variance 1 (`CoupledStrategy.variances`).
    """
    inverses, covariances, variances = [], [], []
    covariance = np.zeros((len(blocks) + 1,) * 2)
    for rows, below in blocks:
        n = len(rows)
        inverse = np.asarray(solve_triangular(rows, np.eye(n), lower=True))
        noise = np.eye(n) + below @ covariance[:n, :n] @ below.T
        covariance = inverse @ noise @ inverse.T
        inverses.append(inverse)
        covariances.append(covariance)
        variances.append(covariance.cumsum(axis=0).cumsum(axis=1).diagonal().copy())
    cells = sum(v.size for v in variances)
    mean = sum(float((v**POWER).sum()) for v in variances) / cells
    gradient: Blocks = []
    carried = np.zeros((0, 0))  # of the covariance of the threshold, by later thresholds
    for index in reversed(range(len(blocks))):
        (_, below), inverse, own = blocks[index], inverses[index], covariances[index]
        n = len(own)
        weights = variances[index] ** (POWER - 1) / cells / mean
        by_covariance = weights[::-1].cumsum()[::-1][np.maximum.outer(np.arange(n), np.arange(n))]
        by_covariance[: len(carried), : len(carried)] += carried
        spread = inverse.T @ by_covariance
        by_noise = spread @ inverse
        lower = covariances[index - 1][:n, :n] if index else np.zeros((n, n))
        gradient.append((-2 * spread @ own, 2 * by_noise @ below @ lower))
        carried = below.T @ by_noise @ below
    return float(np.log(mean)) / POWER, gradient[::-1]


def smooth_single(blocks: Blocks, sharpness: float) -> tuple[float, Blocks]:
    """The smoothed cost over one history, and its gradient."""
    steps: list[tuple[Floats, Floats]] = []  # of each threshold: log weights by t; chances of s
    ended: list[Floats] = []  # log weights of histories that end at s
    worst = np.zeros(0)
    for index, (rows, below) in enumerate(blocks):
        squares = sharpness * (rows**2).sum(axis=0)
        if not index:
            worst = squares
            steps.append((worst, np.zeros((0, 0))))
            continue
        n = len(rows)
        after = np.zeros(n + 1)
        after[:n] = sharpness * (below**2).sum(axis=0)
        ended.append(worst + after)
        paths = ended[-1][:n, None] + 2 * sharpness * below.T @ rows + squares
        paths[np.tri(n, k=-1, dtype=bool)] = -np.inf
        top = paths.max(axis=0)
        chances = np.exp(paths - top)
        sums = chances.sum(axis=0)
        worst = top + np.log(sums)
        steps.append((worst, chances / sums))
    ended.append(worst)
    every = np.concatenate(ended)
    total = every.max() + np.log(np.exp(every - every.max()).sum())
    gradient: Blocks = []
    chance = np.exp(ended[-1] - total)  # of an event of the threshold at t
    for index in reversed(range(len(blocks))):
        rows, below = blocks[index]
        if not index:
            gradient.append((2 * rows * chance, np.zeros_like(rows)))
            break
        n = len(rows)
        pairs = steps[index][1] * chance  # s, t
        before = np.exp(ended[index - 1] - total)
        before[:n] += pairs.sum(axis=1)
        by_rows = 2 * (rows * chance + below @ pairs)
        by_below = 2 * (below * before[:n] + rows @ pairs.T)
        gradient.append((by_rows, by_below))
        chance = before
    return float(total) / sharpness, gradient[::-1]


def smooth_pair(blocks: Blocks, sharpness: float) -> tuple[float, Blocks]:
    """The smoothed cost over two histories, and its gradient.

    The weight of states t, u of a threshold is the sum over states s, r of the threshold before
    that of exp(W[s, r] + x_s + y_r), a product of two vectors and a matrix. "No event" is the last
    state. Costs are at most about 1, so nothing vanishes below a sharpness of 600.
    """
    passed = []
    worst = np.zeros((0, 0))
    for index, (rows, below) in enumerate(blocks):
        n = len(rows)
        distances = sharpness * _distances(rows, n + 1)
        if not index:
            worst = distances
            passed.append(None)
            continue
        cross = np.zeros((n + 2, n + 1))
        cross[:n, :n] = 2 * sharpness * below.T @ rows
        allowed = np.ones((n + 2, n + 1), bool)
        allowed[:, :n] = ~np.tri(n + 2, n, k=-1, dtype=bool)
        weights = worst + sharpness * _distances(below, n + 2)
        top = weights.max()
        weights = np.exp(weights - top)
        t, u = np.tril_indices(n + 1)
        change = cross[:, t] - cross[:, u]
        one, one_top = _exponentials(change, allowed[:, t])
        other, other_top = _exponentials(-change, allowed[:, u])
        mixed = weights @ other
        sums = (one * mixed).sum(axis=0)
        if not sums.all():
            return np.inf, blocks
        worst = np.zeros((n + 1, n + 1))
        worst[t, u] = worst[u, t] = np.log(sums) + one_top + other_top + top
        worst += distances
        passed.append((weights, one, other, mixed, sums, t, u))
    top = worst.max()
    total = top + np.log(np.exp(worst - top).sum())
    gradient: Blocks = []
    chance = np.exp(worst - total)  # of the states t, u of the threshold
    for index in reversed(range(len(blocks))):
        rows, below = blocks[index]
        n = len(rows)
        padded = np.zeros((n, n + 1))
        padded[:, :n] = rows
        by_rows = padded @ _laplacian(chance)
        if passed[index] is None:
            gradient.append((by_rows[:, :n], np.zeros_like(rows)))
            break
        weights, one, other, mixed, sums, t, u = passed[index]
        scale = (chance[t, u] + np.where(t == u, 0, chance[u, t])) / sums
        before = weights * ((one * scale) @ other.T)
        flow = scale * (one * mixed - other * (one.T @ weights).T)
        by_cross = np.zeros((n + 1, n + 2))
        np.add.at(by_cross, t, flow.T)
        np.subtract.at(by_cross, u, flow.T)
        below_padded = np.zeros((n, n + 2))
        below_padded[:, :n] = below
        by_rows += 2 * below_padded @ by_cross.T
        by_below = 2 * padded @ by_cross + below_padded @ _laplacian(before)
        gradient.append((by_rows[:, :n], by_below[:, :n]))
        chance = before
    return float(total) / sharpness, gradient[::-1]


def _exponentials(values: Floats, allowed: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """exp(values - top) by column where allowed, and the tops."""
    masked = np.where(allowed, values, -np.inf)
    top = masked.max(axis=0)
    return np.exp(masked - top), top


def _distances(columns: Floats, size: int) -> Floats:
    """Squared distances between columns, of which missing ones are 0: (size, size)."""
    gram = np.zeros((size, size))
    n = columns.shape[1]
    gram[:n, :n] = columns.T @ columns
    norms = gram.diagonal()
    return np.asarray(norms[:, None] + norms - 2 * gram)


def _laplacian(chance: Floats) -> Floats:
    """Twice the matrix L for which tr(C L C') is the mean squared distance of columns of C."""
    both = chance + chance.T
    return np.asarray(2 * (np.diag(both.sum(axis=0)) - both))


def _packed(blocks: Sequence[tuple[Floats, Floats]]) -> Floats:
    return np.concatenate([m[np.tri(len(m), dtype=bool)] for block in blocks for m in block])


def _unpacked(point: Floats, periods: int) -> Blocks:
    blocks, first = [], 0
    for n in range(periods, 0, -1):
        below, count = np.tri(n, dtype=bool), n * (n + 1) // 2
        rows, lower = np.zeros((n, n)), np.zeros((n, n))
        rows[below] = point[first : first + count]
        if n < periods:
            lower[below] = point[first + count : first + 2 * count]
        blocks.append((rows, lower))
        first += 2 * count
    return blocks


def refined(periods: int, *, public_size: bool) -> RefinedStrategy:
    """The rounded rows with their exact costs."""
    blocks = refined_blocks(periods, public_size=public_size)
    unit = UNIT / blocks[0][0][0, 0]
    rounded = tuple(
        (np.rint(rows * unit).astype(np.int64), np.rint(below * unit).astype(np.int64))
        for rows, below in blocks
    )
    empty = CostTable(without_entries=(), with_entries=())
    return with_costs(RefinedStrategy(rounded, empty, empty, ()))


def with_costs(strategy: RefinedStrategy) -> RefinedStrategy:
    """The same rows with their exact costs and their variances."""
    costs, entries = HistoryCosts(strategy), HistoryCosts(strategy, entries=True)
    periods = range(1, strategy.periods + 1)
    single, pair = (
        CostTable(
            without_entries=tuple(map(without, periods)),
            with_entries=tuple(map(with_entry, periods[:-1])),
        )
        for without, with_entry in ((costs.single, entries.single), (costs.pair, entries.pair))
    )
    return RefinedStrategy(strategy.blocks, single, pair, tuple(strategy.variances()))


def write_table(sizes: Sequence[int] = SIZES) -> None:
    """Computes the table, and writes it into the library."""
    every = [[refined(n, public_size=public) for n in sizes] for public in (False, True)]
    path = Path(refined_strategy.__file__).with_name(refined_strategy.TABLE)
    path.write_bytes(packed_table(*every))


if __name__ == "__main__":
    write_table()
