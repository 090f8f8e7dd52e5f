"""Stream counters: all prefix sums of a stream, released during the stream.

Every counter is a factorization A = B C of the prefix-sum matrix A (lower-triangular ones): C x
+ noise is measured row by row as the stream x arrives, and B decodes it. 2^m C is a matrix of
integers and x counts people, so integer noise (discrete Gaussian) is added to integers. B is
computed from the rounded C, so the decoded sums are unbiased.

Cost: a stream in which entry j changes by 1 changes the answers by column j of C, so the squared
L2 sensitivity is at most the largest squared column norm (`Counter.column2`). The cost of several
counters together is in `budgets.py`. Each kind of counter has a module with its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..repeatable_products import inverse_below

IntMatrix = NDArray[np.int64]
Floats = NDArray[np.float64]

BITS = 16  # m of a real factorization: its entries are rounded by at most 2^-17


@dataclass(frozen=True, eq=False)
class Counter:
    """A counter of n steps: a factorization A = B C of the prefix sums.

    encode: (rows, n) int64, 2^m C
    decode: (n, rows) float64, B; row i is 0 for what is measured after step i
    times: (rows,) int64, ascending, the step (from 1) at which each row is measured; a row uses
        no later entry
    scale: 2^m; decode @ encode / scale is A

    The entries of a threshold's stream sum to at most the number of people N. So a row is at most
    N max|encode|, below 2^57 for 2^40 people. int64 holds its sum with any noise that a plan
    accepts.

    The binary tree of 4 steps measures, one row a step, the sums of the steps 1, 1-2, 3 and 1-4;
    the third prefix sum adds two of them, so its variance is twice that of the noise:

    >>> from stream_dp.continual.counters.tree import tree
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

    encode: IntMatrix
    decode: Floats
    times: IntMatrix
    scale: int = 1

    @property
    def length(self) -> int:
        """The length T of the stream."""
        return int(self.decode.shape[0])

    def rows(self, step: int) -> int:
        """How many rows are measured up to a step."""
        return int(np.searchsorted(self.times, step, side="right"))

    def row(self, step: int) -> IntMatrix:
        """The measured rows of a step, on the entries so far: (rows, step)."""
        return self.encode[self.rows(step - 1) : self.rows(step), :step]

    def weights(self, step: int) -> Floats:
        """Weights of the measured rows so far. The sum at a step is weights @ rows, in units of 1 /
        2^m.
        """
        return self.decode[step - 1, : self.rows(step)]

    @cached_property
    def gains(self) -> Floats:
        """The variance of every sum over the variance of the integer noise, (n,).

        These are the squared row norms of B / 2^m.
        """
        return _squared_rows(self.decode) / self.scale**2

    @property
    def worst_gain(self) -> Fraction:
        """The largest gain: the exact value of a float, whose rounding is about 1e-14."""
        return Fraction(float(self.gains.max()))

    @cached_property
    def column2(self) -> int:
        """The largest squared column norm of `encode`: the squared sensitivity to one entry."""
        return int((self.encode**2).sum(axis=0).max())

    @property
    def errors(self) -> Floats:
        """The standard deviation of every sum, (n,), in units of 1/sqrt(2 rho).

        rho is the cost of this counter alone where one entry changes by 1.
        """
        deviations: Floats = np.sqrt(self.gains * self.column2)
        return deviations


def _squared_rows(matrix: Floats) -> Floats:
    squares: Floats = (matrix * matrix).sum(axis=1)
    return squares


class TriangularCounter(Counter):
    """A counter with a row per step. B is computed at the first use.

    encode: lower-triangular 2^16 C, (n, n)
    decode: gives B; without it, B is computed from `encode`
    """

    def __init__(self, encode: IntMatrix, decode: Callable[[], Floats] | None = None) -> None:
        # The fields of a frozen value; B is a property here.
        times = np.arange(1, len(encode) + 1)
        vars(self).update(encode=encode, times=times, scale=1 << BITS, _given=decode)

    @property
    def length(self) -> int:
        return int(self.times.size)

    def rows(self, step: int) -> int:
        return min(max(step, 0), self.length)

    @cached_property
    def decode(self) -> Floats:
        given_decoder: Callable[[], Floats] | None = vars(self)["_given"]
        return decoding(self.encode, self.scale) if given_decoder is None else given_decoder()


def decoding(encode: IntMatrix, scale: int) -> Floats:
    """B of a lower-triangular 2^m C (n, n): the sums of the rows of the inverse."""
    decode: Floats = np.cumsum(inverse_below(encode / scale), axis=0)
    return decode


def trailing(longer: Counter, n: int) -> Counter:
    """The counter of the last n rows and columns of a counter with a row per step.

    The inverse of such a block is the block of the inverse.
    """
    encode = longer.encode[longer.length - n :, longer.length - n :]
    return TriangularCounter(
        encode, lambda: longer.decode[longer.length - n :, longer.length - n :]
    )


ONCE = Counter(np.ones((1, 1), np.int64), np.ones((1, 1)), np.ones(1, np.int64))
