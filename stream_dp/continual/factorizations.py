"""Counters from real factorizations A = B C of the prefix sums, and lower bounds of their error.

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
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .counters import BITS, Counter, Floats, IntMatrix, TriangularCounter, prefix_sums, rounded

MOST_GAMMA2 = 128  # steps: all shorter ones together take about half a second
GAP = 2e-4  # between a factorization and its lower bound
_MOST_ROUNDS = 500
_TOEPLITZ = 512  # Toeplitz counters are the leading blocks of one of this length, or a double
_BLOCK = 128  # counters of about one length are the last rows and columns of one
_ANCHORS = 8  # every eighth length starts from uniform weights
_KAPPA = 0.1  # the factor of the logarithm in `_perturbed`
_TAIL_FROM = 1 << 14  # from here on `unbounded_column2` bounds the tail by an integral


@lru_cache(maxsize=8)
def _root(n: int) -> Floats:
    """f_0..f_{n-1}, coefficients of (1 - z)^(-1/2): f_j = f_{j-1} (2j - 1) / (2j)."""
    j = np.arange(1, n)
    return np.concatenate([[1.0], np.cumprod((2 * j - 1) / (2 * j))])


def _toeplitz(first: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
    """The lower-triangular Toeplitz matrix of a first column."""
    n = first.shape[0]
    lag = np.arange(n)[:, None] - np.arange(n)[None, :]
    matrix: Floats = np.where(lag >= 0, first[np.maximum(lag, 0)], 0).astype(float)
    return matrix


def _toeplitz_counter(name: str, column: IntMatrix) -> TriangularCounter:
    """The counter whose C is Toeplitz, from the first column of 2^16 C (n,).

    C's inverse and B are Toeplitz, too: the inverse has the coefficients of 1 / C(z).
    """

    def decode() -> Floats:
        inverse = np.zeros(column.size)
        inverse[0] = 1 / (column[0] / (1 << BITS))
        for j in range(1, column.size):
            inverse[j] = -(column[1 : j + 1] * inverse[:j][::-1]).sum() / column[0]
        return _toeplitz(inverse.cumsum())

    return TriangularCounter(name, _toeplitz(column).astype(np.int64), decode)


def _leading(longer: Counter, n: int) -> Counter:
    """The first n steps of a counter with one row for each step."""
    return TriangularCounter(longer.name, longer.encode[:n, :n], lambda: longer.decode[:n, :n])


def trailing(longer: Counter, n: int) -> Counter:
    """The counter of the last n rows and columns of a counter with one row for each step.

    The inverse of such a block is the block of the inverse.
    """
    encode = longer.encode[longer.length - n :, longer.length - n :]
    return TriangularCounter(
        longer.name, encode, lambda: longer.decode[longer.length - n :, longer.length - n :]
    )


def _toeplitz_size(n: int) -> int:
    """The least of 512, 1024, 2048, ... that is not below n."""
    return max(_TOEPLITZ, 1 << (n - 1).bit_length())


@lru_cache(maxsize=4)
def _long_sqrt(size: int) -> Counter:
    return _toeplitz_counter("sqrt", np.rint(_root(size) * (1 << BITS)).astype(np.int64))


@lru_cache(maxsize=512)
def sqrt(n: int) -> Counter:
    """The square root (Henzinger, Upadhyay, Upadhyay 2023).

    B and C are Toeplitz with the coefficients of (1 - z)^(-1/2). The leading blocks do not depend
    on the length.
    """
    return _leading(_long_sqrt(_toeplitz_size(n)), n)


@lru_cache(maxsize=1024)
def normalised(n: int) -> Counter:
    """The square root with its columns scaled to norm 1, and B = A C^-1.

    Late columns of the square root have smaller norms, so their entries would cost less than the
    budget allows. A column's norm depends on how many steps are left: a shorter counter is the last
    rows and columns of a longer one.
    """
    return trailing(_long_normalised(-(-n // _BLOCK) * _BLOCK), n)


@lru_cache(maxsize=16)
def _long_normalised(size: int) -> Counter:
    f = _root(size)
    real: Floats = _toeplitz(f) / np.sqrt(np.cumsum(f**2))[::-1]
    return TriangularCounter("normalised", rounded(real))


@dataclass(frozen=True, eq=False)
class _Certified:
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
def _certified(n: int, rounds: int = _MOST_ROUNDS) -> _Certified:
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
    return _Certified(p, total, float(rows.max()), gram)


def _between(n: int) -> Floats:
    """A start for n steps: between the points of the two nearest anchors.

    The points are nearly constant in the middle, where entries are left out or repeated.
    """
    low, high = (_certified(m).point for m in (n - n % _ANCHORS, n + _ANCHORS - n % _ANCHORS))
    left, right = n - n // 2, n // 2
    cut = np.concatenate([high[:left], high[high.size - right :]]) * high.size
    half = low.size // 2
    middle = np.full(n - low.size, low[half])
    grown = np.concatenate([low[:half], middle, low[half:]]) * low.size
    part = math.log(n / low.size) / math.log(high.size / low.size)
    p = grown ** (1 - part) * cut**part
    start: Floats = p / p.sum()
    return start


@lru_cache(maxsize=MOST_GAMMA2)
def gamma2(n: int) -> Counter:
    """The factorization with the least possible worst error, to within GAP (certified).

    The error depends on X = C^T C alone (B B^T = A X^-1 A^T), so C can be replaced by a lower
    triangular matrix: the Cholesky factor of X from its last row upwards. `_certified` computes X.
    Raises ValueError above MOST_GAMMA2.
    """
    if n > MOST_GAMMA2:
        raise ValueError(f"gamma2: at most {MOST_GAMMA2} steps")
    gram = _certified(n).gram
    flipped = np.linalg.cholesky(gram[::-1, ::-1]).T
    real: Floats = flipped[::-1, ::-1] / np.float64(gram.diagonal().max()) ** 0.5
    return TriangularCounter("gamma2", rounded(real))


@lru_cache(maxsize=512)
def lower_bound(n: int) -> float:
    """A lower bound of the worst error of every factorization, in units of 1/sqrt(2 rho).

    Of a separate counter, with a rho of its own. Up to MOST_GAMMA2 the certificate of `gamma2`,
    above it six rounds from the uniform start. Computed in floats, right to about 1e-12.
    """
    return _certified(n).lower if n <= MOST_GAMMA2 else _certified(n, 6).lower


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


def _perturbed(n: int) -> Floats:
    """c_j = f_j / (1 + ln(j + 1) / 10)^2, j < n."""
    column: Floats = _root(n) / (1 + _KAPPA * np.log(np.arange(1, n + 1))) ** 2
    return column


@lru_cache(maxsize=4)
def _long_unbounded(size: int) -> Counter:
    # Rounded down, so that the bound of the real column's norm holds for the rounded one.
    return _toeplitz_counter("unbounded", np.floor(_perturbed(size) * (1 << BITS)).astype(np.int64))


@lru_cache(maxsize=512)
def unbounded(n: int) -> Counter:
    """A counter that needs no horizon: the leading block of an infinite Toeplitz matrix.

    The squared norm of the square root's column is about ln(n)/pi and has no limit. Dividing by
    powers of the logarithm makes it summable (after Jacobsen and Fawaz 2025, arXiv 2506.15018, who
    perturb the generating function (1 - z)^(-1/2), while here its coefficients are perturbed).
    C's first column is c_j = f_j / (1 + ln(j + 1)/10)^2, rounded down to the lattice, and B's is
    that of 1 / ((1 - z) C(z)): nothing depends on n. All entries of C are at or above 0. Of the
    powers and factors tried (0.6 to 2, 0.05 to 1) these have about the least error from 12 to
    2000 steps: 2.20 at 12, 2.79 at 60, 3.84 at 600; with a horizon 1.62, 2.09 and 2.80.
    """
    return _leading(_long_unbounded(_toeplitz_size(n)), n)


@lru_cache(maxsize=1)
def unbounded_column2() -> Fraction:
    """An upper bound of the squared norm of the infinite column of `unbounded`, in lattice units.

    Exact sum of the first N = 2^14 squares, and for the others c_j^2 <= f_j^2 / (1 + k ln(j+1))^4,
    k = 1/10. f_j^2 (j + 1/4) rises (the ratio of neighbours is 1 + 1/(16 j^3 - 12 j^2)) to 1/pi,
    so f_j^2 < 1/(pi (j + 1/4)) <= r/(pi (j + 1)) with r = (N + 1)/(N + 1/4). The terms fall, so
    their sum is at most the integral r/pi of dx / (x (1 + k ln x)^4) from N on, that is
    r / (3 pi k) (1 + k ln N)^-3. Rounding down makes no entry larger.
    """
    n = _TAIL_FROM
    known = np.floor(_perturbed(n) * (1 << BITS)).astype(np.int64)
    ratio = (n + 1) / (n + 0.25)
    tail = ratio / (3 * math.pi * _KAPPA) * (1 + _KAPPA * math.log(n)) ** -3
    # A margin far above the rounding of these few operations.
    return int((known**2).sum()) + Fraction(tail * (1 + 1e-9)) * (1 << 2 * BITS)
