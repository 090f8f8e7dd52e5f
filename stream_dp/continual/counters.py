"""Stream counters: all prefix sums of a stream, released as it arrives.

Every counter here is a factorization A = B C of the prefix-sum matrix A (lower-triangular ones):
C x + noise is measured, one entry at each time, and B decodes it. C is an integer matrix, so
that what meets the noise is an integer.

The cost of a set of counters, one for each threshold b, is a maximum over histories: a person
enters counter b at time t_b, and t_1 < t_2 < ... `path_costs` finds it exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..study import Neighbours

IntMatrix = NDArray[np.int64]

# Charges follow the exact cost of every prefix up to this horizon: work grows with T^4.
MOST_PREFIXES = 100


@dataclass(frozen=True, eq=False)
class Counter:
    """encode: C, (n, n) lower triangular int64; decode: B, (n, n) lower triangular int64."""

    encode: IntMatrix
    decode: IntMatrix

    @property
    def length(self) -> int:
        return int(self.encode.shape[0])

    @property
    def worst_gain(self) -> int:
        """Largest squared row norm of B: the worst released variance over the noise's."""
        return int((self.decode**2).sum(axis=1).max())


@lru_cache(maxsize=512)
def tree(n: int) -> Counter:
    """The binary tree counter (Bun24, Algorithm 3; Chan, Shi, Song 2011) for n steps.

    At step i the node of the 2^j steps that end at i is measured, 2^j the largest power of 2
    that divides i; the sum to i adds the nodes of i's binary digits, so its variance is
    popcount(i) times a node's. An entry is in at most floor(log2 n) + 1 nodes. Other nodes
    are never used, so they are not measured: costs that count every dyadic node of the tree
    (1.347 times the add_remove cost for T = 12 and equal budgets) are above the exact ones
    (1.243).
    """
    encode = np.zeros((n, n), np.int64)
    decode = np.zeros((n, n), np.int64)
    for i in range(1, n + 1):
        encode[i - 1, i - (i & -i) : i] = 1
        left = i
        while left:
            decode[i - 1, left - 1] = 1
            left -= left & -left
    return Counter(encode, decode)


def path_costs(
    counters: Sequence[Counter], weights: Sequence[int], neighbours: Neighbours, *, prefixes: bool
) -> list[int]:
    """Exact worst cost over histories after each period, in units of sum_b w_b ||C_b dx_b||^2.

    counters: for b = 1..T, of length T - b + 1. add_remove: one increasing path t_1 < t_2 < ...
    (or never, from some b on). Otherwise two paths, the old person's and the new one's.
    prefixes=False: the final cost alone. Dynamic programme from b = T down; F_b[s, s'] is the
    largest cost of counters b.. when counter b - 1 was entered at s and s'.
    """
    horizon = len(counters)
    cuts = range(1, horizon + 1) if prefixes else (horizon,)
    return [_worst(counters, weights, neighbours, t) for t in cuts]


def _worst(
    counters: Sequence[Counter], weights: Sequence[int], neighbours: Neighbours, t: int
) -> int:
    single = neighbours == "add_remove"
    # Times are 1..t, and t + 1 stands for never (or not yet, which costs nothing so far).
    best: IntMatrix = np.zeros(t + 2, np.int64) if single else np.zeros((t + 2, t + 2), np.int64)
    for b in range(t, 0, -1):
        seen = counters[b - 1].encode[: t - b + 1, : t - b + 1]
        gram = np.zeros((t + 2, t + 2), np.int64)
        # Floats multiply faster, and these are whole numbers far below 2^53.
        gram[b : t + 1, b : t + 1] = (seen.T.astype(float) @ seen.astype(float)).astype(np.int64)
        own = gram.diagonal()
        if single:
            total = weights[b - 1] * own + best
            total[:b] = 0
            later = np.maximum.accumulate(total[::-1])[::-1]
            best = np.append(later[1:], later[-1])
        else:
            total = weights[b - 1] * (own[:, None] + own[None, :] - 2 * gram) + best
            total[:b], total[:, :b] = 0, 0
            later = np.maximum.accumulate(total[::-1, ::-1], axis=0)
            later = np.maximum.accumulate(later, axis=1)[::-1, ::-1]
            best = later[np.ix_(_after(t), _after(t))]
    return int(best.reshape(-1)[0])


def _after(t: int) -> list[int]:
    """The first time allowed after s, for s = 0..t+1; never is followed by never."""
    return [*range(1, t + 2), t + 1]


def shares(counters: Sequence[Counter]) -> tuple[int, ...]:
    """Weights (inverse noise variances up to a unit): every counter gets the same worst variance.

    rho_b in proportion to counter b's worst variance at unit budget (the corrected form of the
    paper's split, whose printed weights starve the last counters).
    """
    return tuple(counter.worst_gain for counter in counters)


@lru_cache(maxsize=64)
def tree_costs(horizon: int, neighbours: Neighbours) -> tuple[int, ...]:
    """`path_costs` of T trees with their `shares`: of every prefix, or (large T) of the last."""
    counters = [tree(horizon - b) for b in range(horizon)]
    prefixes = horizon <= MOST_PREFIXES
    return tuple(path_costs(counters, shares(counters), neighbours, prefixes=prefixes))
