"""Stream counters: all prefix sums of a stream, released as it arrives.

Every counter is a factorization A = B C of the prefix-sum matrix A (lower-triangular ones): C x
+ noise is measured row by row as the stream x arrives, and B decodes it. 2^m C is a matrix of
integers, so that what meets the noise is an integer: x counts people, and the noise is a discrete
Gaussian on the integers. B is made for the rounded C, so the decoded sums are unbiased.

Trees are here; factorizations into real matrices are in `factorizations.py`, what a set of
counters costs in `paths.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

IntMatrix = NDArray[np.int64]
Floats = NDArray[np.float64]

BITS = 16  # m of a real factorization: its entries are rounded by at most 2^-17


@dataclass(frozen=True, eq=False)
class Counter:
    """A counter of n steps: a factorization A = B C of the prefix sums.

    name: of its kind
    encode: (rows, n) int64, 2^m C
    decode: (n, rows) float64, B, whose i-th row is 0 for what is measured after i
    times: (rows,) int64, never falling, the step from 1 at which each row is measured: a row looks
        at no later entry
    scale: 2^m; decode @ encode / scale is A

    A counter of thresholds has a stream whose entries sum to at most the number of people N. So a
    row is at most N max|encode|, below 2^57 for 2^40 people: int64 holds it with any noise that
    `noise.py` draws for a plan that is not refused.

    The binary tree of 4 steps measures, one row a step, the sums of the steps 1, 1-2, 3 and 1-4;
    the third prefix sum adds two of them, so its variance is twice that of the noise:

    >>> counter = tree(4)
    >>> counter.encode.tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]]
    >>> stream = np.array([5, 0, 2, 1])
    >>> (counter.decode @ (counter.encode @ stream)).tolist()
    [5.0, 5.0, 7.0, 8.0]
    >>> counter.gains.tolist()
    [1.0, 1.0, 2.0, 1.0]
    >>> counter.column2  # the first entry is in three rows
    3
    """

    name: str
    encode: IntMatrix
    decode: Floats
    times: IntMatrix
    scale: int = 1

    @property
    def length(self) -> int:
        return int(self.decode.shape[0])

    def rows(self, step: int) -> int:
        """How many rows are measured up to a step."""
        return int(np.searchsorted(self.times, step, side="right"))

    @cached_property
    def gains(self) -> Floats:
        """(n,): variance of each sum over that of the integer noise, squared row norms of B/2^m."""
        squares: Floats = np.einsum("ij,ij->i", self.decode, self.decode) / self.scale**2
        return squares

    @property
    def worst_gain(self) -> Fraction:
        """The largest gain, exactly as it was computed (relative rounding about 1e-14)."""
        return Fraction(float(self.gains.max()))

    @cached_property
    def column2(self) -> int:
        """The largest squared column norm of `encode`: what one entry costs at most."""
        return int((self.encode**2).sum(axis=0).max())

    @property
    def errors(self) -> Floats:
        """(n,): standard deviations in units of 1/sqrt(2 rho), one entry changing by 1."""
        deviations: Floats = np.sqrt(self.gains * self.column2)
        return deviations


def prefix_sums(n: int) -> Floats:
    """A, (n, n)."""
    return np.tril(np.ones((n, n)))


def rounded_counter(name: str, real: Floats) -> Counter:
    """The counter of a lower-triangular C (n, n), rounded to multiples of 2^-16."""
    scale = 1 << BITS
    encode = np.rint(np.tril(real) * scale).astype(np.int64)
    n = encode.shape[0]
    solved = solve_triangular(encode / scale, prefix_sums(n).T, trans="T", lower=True)
    return Counter(name, encode, np.tril(solved.T), np.arange(1, n + 1), scale)


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
    decode = np.zeros((n, n))
    for i in range(1, n + 1):
        encode[i - 1, i - (i & -i) : i] = 1
        left = i
        while left:
            decode[i - 1, left - 1] = 1
            left -= left & -left
    return Counter("tree", encode, decode, np.arange(1, n + 1))


@lru_cache(maxsize=512)
def honaker(n: int) -> Counter:
    """All complete dyadic nodes, and the best unbiased use of those that are known (Honaker 2015,
    estimation from below).

    The sum of a node of height h is measured by itself (variance 1) and by its two halves'
    estimates (2 v_{h-1}); weighted by inverse variance v_h = 2 v_{h-1} / (2 v_{h-1} + 1), that is
    v_h = 2^h / (2^{h+1} - 1), and the weight of its own measurement is v_h. By induction nothing
    linear and unbiased in the nodes inside it is better. The sum to i adds the nodes of i's binary
    digits; those are disjoint, and no complete node up to i is outside them, so this is the best
    use of all that is measured by then.
    """
    nodes = [(i, h) for i in range(1, n + 1) for h in range((i & -i).bit_length())]
    row = {node: r for r, node in enumerate(nodes)}
    encode = np.zeros((len(nodes), n), np.int64)
    inside = np.zeros((len(nodes), len(nodes)))
    decode = np.zeros((n, len(nodes)))
    for r, (i, h) in enumerate(nodes):
        encode[r, i - (1 << h) : i] = 1
        own = (1 << h) / ((2 << h) - 1)
        inside[r, r] = own
        if h:
            halves = row[i, h - 1], row[i - (1 << (h - 1)), h - 1]
            inside[r] += (1 - own) * (inside[halves[0]] + inside[halves[1]])
    for i in range(1, n + 1):
        left = i
        while left:
            low = left & -left
            decode[i - 1] += inside[row[left, low.bit_length() - 1]]
            left -= low
    return Counter("honaker", encode, decode, np.array([i for i, _ in nodes], np.int64))


ONCE = Counter("once", np.ones((1, 1), np.int64), np.ones((1, 1)), np.ones(1, np.int64))
