"""Finds the constants of refined totals, and writes their table.

`python -m kit.refined_rows` takes an hour of CPU time, and a C compiler. With `costs` after the
name it keeps the constants of the table, and takes 10 minutes.

The aim is the mean fourth power of the variances of all sums, times the eighth power of the cost,
so that no sum is far above the others, averaged over the numbers of periods in `TRAINED`. L-BFGS
starts from the closed form. The largest cost over all histories is smoothed as
log(sum exp(sharpness cost)) / sharpness, by the recursions of `coupled_costs.py` with sums instead
of maxima; its gradient follows from the chances of the histories under these weights.

Nothing here needs to be right for privacy: the rows are rounded to integers, and their exact costs
are those of `HistoryCosts`.
"""

from __future__ import annotations

import ctypes
import lzma
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from kit import coupled_costs
from kit.coupled_costs import HistoryCosts
from kit.coupled_gains import digits_of
from stream_dp.continual.cumulative import refined_strategy
from stream_dp.continual.cumulative.coupled_strategy import (
    PRIVATE_SINGLE,
    PUBLIC_PAIR,
    CostTable,
    Integers,
    coupled_strategy,
)
from stream_dp.continual.cumulative.refined_strategy import (
    CONSTANT_BITS,
    MONOMIALS,
    SERVED,
    SIZES,
    RefinedStrategy,
    exponents,
)

Floats = NDArray[np.float64]
Blocks = list[tuple[Floats, Floats]]  # of each threshold: A_b and B_b, lower triangular
Smooth = Callable[[Blocks, float], tuple[float, Blocks]]

POWER = 4
TRAINED = {
    (False, 121): (4, 12, 24, 60, 120),
    (True, 49): (3, 5, 8, 12, 24, 44),
    (True, 61): (4, 12, 26, 60),
}  # by the number of people, and by `SERVED`
# Sharpness over the number of periods at most, sharpness at most, steps.
STAGES = {
    False: ((10, 1e4, 80), (30, 1e4, 150), (100, 1e4, 150)),
    True: ((10, 500, 150), (20, 500, 150)),
}
_REFUSED, _MOST_EXPONENT = 1e3, 8.0
_EMPTY = CostTable(without_entries=(), with_entries=())


class Trained:
    """A number of periods whose error the constants minimise."""

    def __init__(self, periods: int, *, public_size: bool) -> None:
        self.periods, self.public_size = periods, public_size
        closed = coupled_strategy(public_size=public_size, periods=periods)
        cost = (PUBLIC_PAIR if public_size else PRIVATE_SINGLE).without_entries[periods - 1]
        blocks = [closed.block(b, periods - b + 1) for b in range(1, periods + 1)]
        self.closed = [
            np.concatenate([_lower(block[which]) for block in blocks]) / cost**0.5
            for which in (0, 1)
        ]
        self.values = np.concatenate(
            [
                np.stack([_lower(value) for value in exponents(b, periods)], axis=1)
                for b in range(1, periods + 1)
            ]
        )

    def objective(self, constants: Floats, sharpness: float) -> tuple[float, Floats]:
        """log of error and cost, with a term that keeps the cost near 1; and the gradient."""
        powers = [np.clip(self.values @ c, -_MOST_EXPONENT, _MOST_EXPONENT) for c in constants]
        entries = [closed * np.exp(p) for closed, p in zip(self.closed, powers, strict=True)]
        blocks = _blocks(*entries)
        smooth = smooth_pair if self.public_size else smooth_single
        with np.errstate(all="ignore"):
            cost, by_cost = smooth(blocks, sharpness)
            error, by_error = log_error(blocks)
        if not (np.isfinite(cost) and np.isfinite(error)):
            return _REFUSED, np.zeros_like(constants)
        log_cost = float(np.log(cost))
        scale = (1 + 2 * log_cost) / cost
        gradient = [
            self.values.T
            @ (
                np.concatenate(
                    [
                        _lower(c[which] * scale + e[which])
                        for c, e in zip(by_cost, by_error, strict=True)
                    ]
                )
                * entries[which]
            )
            for which in (0, 1)
        ]
        return log_cost + log_cost**2 + error, np.array(gradient)


def refined_constants(
    periods: Sequence[int], *, public_size: bool, steps: int | None = None
) -> Integers:
    """The constants that L-BFGS finds for some numbers of periods, in units of 2^-CONSTANT_BITS.

    steps: of each stage at most
    """
    trained = [Trained(n, public_size=public_size) for n in periods]
    gram = sum(_gram(one) for one in trained) / len(trained)
    values, vectors = np.linalg.eigh(gram + 1e-7 * np.trace(gram) / len(gram) * np.eye(len(gram)))
    scaled = 0.3 * vectors / np.sqrt(values)
    point = np.zeros((2, len(MONOMIALS)))
    for sharpness, most, stage_steps in STAGES[public_size]:

        def objective(
            point: Floats, sharpness: float = sharpness, most: float = most
        ) -> tuple[float, Floats]:
            constants = point.reshape(2, -1) @ scaled.T
            parts = [
                one.objective(constants, min(sharpness * one.periods, most)) for one in trained
            ]
            gradient = sum(part[1] for part in parts) @ scaled
            return sum(part[0] for part in parts), gradient.ravel()

        options = {"maxiter": min(steps or stage_steps, stage_steps), "maxcor": 40}
        found = minimize(objective, point.ravel(), jac=True, method="L-BFGS-B", options=options)
        point = found.x.reshape(2, -1)
    return np.rint(point @ scaled.T * (1 << CONSTANT_BITS)).astype(np.int64)


def _gram(one: Trained) -> Floats:
    weights = one.closed[0] ** 2 + one.closed[1] ** 2
    return np.asarray((one.values * weights[:, None]).T @ one.values / (one.closed[0] ** 2).sum())


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


def _lower(matrix: NDArray[np.generic]) -> Floats:
    return np.asarray(matrix[np.tri(len(matrix), dtype=bool)], np.float64)


def _blocks(own: Floats, below: Floats) -> Blocks:
    """The matrices of all thresholds, from their lower triangles."""
    blocks: Blocks = []
    periods = next(n for n in range(own.size + 2) if n * (n + 1) * (n + 2) // 6 == own.size)
    first = 0
    for n in range(periods, 0, -1):
        last = first + n * (n + 1) // 2
        both = np.zeros((2, n, n))
        both[:, np.tri(n, dtype=bool)] = own[first:last], below[first:last]
        blocks.append((both[0], both[1]))
        first = last
    return blocks


def refined(periods: int, constants: Integers, *, public_size: bool) -> RefinedStrategy:
    """The strategy of some constants, with its exact costs."""
    closed = coupled_strategy(public_size=public_size, periods=periods)
    return with_costs(RefinedStrategy(closed, constants, _EMPTY, _EMPTY, ()))


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
    gains = tuple(strategy.variances())
    return RefinedStrategy(strategy.closed, strategy.constants, single, pair, gains)


def compiled_largest(folder: Path) -> Callable[[Floats, Floats], Floats]:
    """A compiled copy of `coupled_costs.largest_sums`, 50 times as fast. Needs a C compiler."""
    library = folder / "pair_costs.so"
    source = Path(__file__).with_name("pair_costs.c")
    subprocess.run(
        [
            *("cc", "-O3", "-march=native", "-ffast-math", "-fno-finite-math-only"),
            *("-shared", "-fPIC", "-o", str(library), str(source)),
        ],
        check=True,
    )
    function = ctypes.CDLL(str(library)).largest_sums
    array = np.ctypeslib.ndpointer(np.float64, ndim=2, flags="C")
    function.argtypes, function.restype = [ctypes.c_long] * 2 + [array] * 3, None

    def largest(start: Floats, cross: Floats) -> Floats:
        size, states = cross.shape
        result = np.empty((states, states))
        arrays = (np.ascontiguousarray(start), np.ascontiguousarray(cross), result)
        function(size, states, *arrays)
        return result

    return largest


def packed_table(private: Sequence[RefinedStrategy], public: Sequence[RefinedStrategy]) -> bytes:
    """The bytes of the table, from the strategies of `SIZES`.

    The sets of constants, then of every size the differences of costs and gains. Of all numbers the
    first bytes come first, then all second ones, because similar bytes side by side compress well.
    """
    numbers: list[Integers] = []
    for strategies, served in zip((private, public), SERVED.values(), strict=True):
        numbers += [s.constants.ravel() for s in strategies if s.periods in served]
        for strategy in strategies:
            for table in (strategy.single, strategy.pair):
                for costs in (table.without_entries, table.with_entries):
                    numbers.append(_differences(np.array(costs, np.int64)))
            numbers += [_differences(digits_of(gains)) for gains in strategy.gains]
    all_numbers = np.concatenate(numbers)
    folded = ((all_numbers << 1) ^ (all_numbers >> 63)).astype("<u8")
    return lzma.compress(folded.view(np.uint8).reshape(-1, 8).T.tobytes(), preset=9)


def _differences(values: Integers) -> Integers:
    """The first value, then by how much each is above the one before."""
    return np.append(values[:1], values[1:] - values[:-1])


def write_table(*, keep_constants: bool) -> None:
    """Computes the table, and writes it into the library."""
    every = []
    with TemporaryDirectory() as folder:
        largest = compiled_largest(Path(folder))
        for public_size, sizes in SIZES.items():
            constants = dict[int, Integers]()
            for most in SERVED[public_size]:
                trained = TRAINED[public_size, most]
                constants[most] = (
                    refined_strategy.refined_strategy(
                        public_size=public_size, periods=most
                    ).constants
                    if keep_constants
                    else refined_constants(trained, public_size=public_size)
                )
            with patch.object(coupled_costs, "largest_sums", largest):
                every.append(
                    [
                        refined(
                            n,
                            constants[min(most for most in constants if n <= most)],
                            public_size=public_size,
                        )
                        for n in sizes
                    ]
                )
    path = Path(refined_strategy.__file__).with_name(refined_strategy.TABLE)
    path.write_bytes(packed_table(*every))


if __name__ == "__main__":
    write_table(keep_constants=sys.argv[1:] == ["costs"])
