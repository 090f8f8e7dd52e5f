"""Lower bounds of the error of counters, and the factorization that reaches them.

The bounds are of a counter that is measured by itself; several that are measured together may do
better. The worst error of a factorization, in units of 1/sqrt(2 rho), is the largest row norm of B
times the largest column norm of C; the least possible is the norm gamma2(A). For any probability
vectors p, q the sum of singular values of diag(sqrt p) A diag(sqrt q) is at most gamma2(A): with
A = B C it is at most the product of the Frobenius norms of diag(sqrt p) B and C diag(sqrt q),
whose squares are averages of squared row and column norms. So every p and q give a lower bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .stream_counters import Floats, prefix_sums

MOST_GAMMA2 = 128  # steps: all shorter ones together take about half a second
GAP = 2e-4  # between a factorization and its lower bound
_MOST_ROUNDS = 500
_ANCHORS = 8  # every eighth length starts from uniform weights


@dataclass(frozen=True, eq=False)
class Certified:
    """A factorization with its lower bound.

    point: p of the dual, (n,)
    lower: its value, a lower bound of gamma2
    upper: the worst error of the factorization
    gram: X = C^T C of the factorization, (n, n)
    """

    point: Floats
    lower: float
    upper: float
    gram: Floats


@lru_cache(maxsize=512)
def certified(n: int, rounds: int = _MOST_ROUNDS) -> Certified:
    """The fixed point p_i <- (U S U^T)_ii / tr S, with U S V^T = diag(sqrt p) A diag(sqrt q).

    At each p, q the factorization B = diag(p)^(-1/2) U S^(1/2), C = S^(1/2) V^T diag(q)^(-1/2) has
    squared row norms (U S U^T)_ii / p_i and column norms (V S V^T)_jj / q_j. If all are tr S, its
    worst error is tr S, which is the lower bound: it is optimal. A with its columns in reverse
    order is symmetric. So with q the reverse of p the matrix to decompose is symmetric too: U = W,
    S = |L| of its eigenvalues, and V is W reversed, up to signs.

    Each round multiplies p by the square of the fixed point's correction, which halves the number
    of rounds. It stops when the worst error is within GAP of the lower bound, so the certificate
    does not depend on a proof of convergence. The result depends on n alone, not on earlier calls:
    every eighth length starts from uniform weights, others from the two of these around it.
    """
    reversed_sums = prefix_sums(n)[:, ::-1]
    p = _between(n) if n > _ANCHORS and n % _ANCHORS and rounds == _MOST_ROUNDS else np.ones(n) / n
    for _ in range(rounds):
        root = np.sqrt(p)
        values, w = np.linalg.eigh(root[:, None] * reversed_sums * root)
        s = np.abs(values)
        total = float(s.sum())
        rows = (w**2) @ s / p
        if float(rows.max()) <= total * (1 + GAP):
            break
        before, p = p, p * (rows / total) ** 2
        p = p / p.sum()
    else:
        if rounds == _MOST_ROUNDS:
            raise ArithmeticError(f"gamma2: no certificate for {n} steps")
        p = before
    side = w / np.sqrt(p)[:, None]
    gram: Floats = ((side * s) @ side.T)[::-1, ::-1]
    return Certified(p, total, float(rows.max()), gram)


def _between(n: int) -> Floats:
    """A start for n steps: between the points of the two nearest anchors.

    The points are nearly constant in the middle, where entries are left out or repeated.
    """
    low, high = (certified(m).point for m in (n - n % _ANCHORS, n + _ANCHORS - n % _ANCHORS))
    left, right = n - n // 2, n // 2
    cut = np.concatenate([high[:left], high[high.size - right :]]) * high.size
    half = low.size // 2
    middle = np.full(n - low.size, low[half])
    grown = np.concatenate([low[:half], middle, low[half:]]) * low.size
    part = math.log(n / low.size) / math.log(high.size / low.size)
    p = grown ** (1 - part) * cut**part
    start: Floats = p / p.sum()
    return start


@lru_cache(maxsize=512)
def lower_bound(n: int) -> float:
    """A lower bound of the worst error of every factorization, in units of 1/sqrt(2 rho).

    Of a separate counter, with a rho of its own. Up to MOST_GAMMA2 the certificate of `gamma2`,
    above it six rounds from the uniform start. Computed in floats, right to about 1e-12.
    """
    return certified(n).lower if n <= MOST_GAMMA2 else certified(n, 6).lower


@lru_cache(maxsize=512)
def lower_mean(n: int) -> float:
    """A lower bound of the root mean square error of a separate counter: p uniform, best q."""
    a, q = prefix_sums(n) / math.sqrt(n), np.full(n, 1 / n)
    best = 0.0
    for _ in range(6):
        _, s, vt = np.linalg.svd(a * np.sqrt(q))
        best = max(best, float(s.sum()))
        q = (s @ (vt**2)) ** 2 / q
        q = q / q.sum()
    return best
