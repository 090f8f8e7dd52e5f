"""Weights of synthetic rows that bring many marginals nearer to their targets at once.

Of all weights w (sum 1) those with the least
    KL(w | even) + sum_A sum over cells (marginal_A(w) - target_A)^2 / (2 slack_A):
maximum entropy with relaxed constraints (Dudik, Phillips, Schapire 2004). The dual has a multiplier
for each cell. A block of them, those of one marginal, is raised together: multipliers by
(target - share - slack * multiplier) / (share + slack), which is iterative proportional fitting
where slack is 0. Blocks take turns until the weights rest.

`balanced_rows` draws rows by such weights: each row stands there its expected number of times,
rounded up or down. The roundings are chosen so that given marginals come as near as they can to
those of the weights (balanced sampling, Deville and Tille 2004, by exchange): a row that was
rounded up and one that was rounded down change places as long as that helps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data.domain import Int64Array

Floats = NDArray[np.float64]
_SWEEPS = 40
_LARGEST_STEP = 1.0
_REST = 1e-4  # share of people whom a sweep moves at most in the end, a marginal


class Wanted(NamedTuple):
    """A marginal of rows and its target.

    cells: (rows,) the cell of each row.
    target: (cells,) shares.
    slack: (cells,) or one number: the variance of a share that the target leaves.
    """

    cells: NDArray[np.int32]
    target: Floats
    slack: Floats | float


def row_weights(rows: int, marginals: Sequence[Wanted]) -> Floats:
    """(rows,) weights, sum 1, at the minimum of the module's objective."""
    weights = np.full(rows, 1 / rows)
    multipliers = [np.zeros(len(m.target)) for m in marginals]
    for _ in range(_SWEEPS):
        moved = 0.0
        for multiplier, (cells, target, slack) in zip(multipliers, marginals, strict=True):
            share = np.bincount(cells, weights, len(target))
            pull = (target - share - slack * multiplier) / (share + slack + 1e-3 / rows)
            step = np.clip(pull, -_LARGEST_STEP, _LARGEST_STEP)
            multiplier += step
            weights *= np.exp(step)[cells]
            weights /= weights.sum()
            moved = max(moved, float(share @ np.abs(step)))
        if moved < _REST:
            break
    return weights


_EXCHANGES, _LOOKED_AT = 60, 20_000  # at most, and the drawn rows that each looks at


def balanced_rows(
    rng: np.random.Generator,
    weights: Floats,
    people: int,
    codes: NDArray[np.unsignedinteger],
    marginals: Sequence[Wanted],
) -> Int64Array:
    """(people,) the numbers of rows, in random order; see the module.

    weights: (rows,), sum 1.
    codes: (rows, columns), of which neighbours in order make up for each other's rounding first.
    marginals: that the roundings are to keep.
    """
    expected = weights * people
    times = np.floor(expected).astype(np.int64)
    missing = people - int(times.sum())
    order = np.lexsort(codes.T[::-1])
    ends = np.cumsum((expected - times)[order])
    marks = (np.arange(missing) + rng.random()) / max(missing, 1) * ends[-1]
    chosen = order[np.searchsorted(ends, marks, side="right").clip(max=len(order) - 1)]
    up = np.zeros(len(weights), np.bool_)
    up[chosen] = True
    _exchange(rng, up, expected - times, marginals)
    times += up
    rows = np.repeat(np.arange(len(weights)), times)
    # A row that two marks hit stands there once: others that fall short take its place.
    if len(rows) < people:
        rest = np.argsort(times - expected, kind="stable")[: people - len(rows)]
        rows = np.concatenate([rows, rest])
    return rng.permutation(rows)


def _exchange(
    rng: np.random.Generator,
    up: NDArray[np.bool_],
    fractions: Floats,
    marginals: Sequence[Wanted],
) -> None:
    """Exchanges rows that are rounded up and down. up: (rows,), changed in place."""
    apart = [np.bincount(m.cells, up - fractions, len(m.target)) for m in marginals]
    loss, at_once = (
        sum(float(d @ d) for d in apart),
        max(1, min(int(up.sum()), _LOOKED_AT // 2) // 20),
    )
    every = np.flatnonzero(fractions > 0)
    for _ in range(_EXCHANGES):
        free = every if len(every) <= _LOOKED_AT else rng.choice(every, _LOOKED_AT, replace=False)
        pull = np.zeros(len(free))
        for distance, m in zip(apart, marginals, strict=True):
            pull += distance[m.cells[free]]
        pull += rng.random(len(free)) * 1e-3
        is_up = up[free]
        most = min(at_once, int(is_up.sum()), int((~is_up).sum()))
        if not most:
            break
        down = free[is_up][np.argpartition(-pull[is_up], most - 1)[:most]]
        raised = free[~is_up][np.argpartition(pull[~is_up], most - 1)[:most]]
        changed = [
            distance
            - np.bincount(m.cells[down], minlength=len(distance))
            + np.bincount(m.cells[raised], minlength=len(distance))
            for distance, m in zip(apart, marginals, strict=True)
        ]
        after = sum(float(d @ d) for d in changed)
        if after < loss:
            apart, loss = changed, after
            up[down], up[raised] = False, True
        elif at_once == 1:
            break
        else:
            at_once = max(1, at_once // 2)
