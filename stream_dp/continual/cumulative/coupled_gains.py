"""Variances of the sums of the coupled measurement over that of its noise, from a table.

`CoupledStrategy.variances` computes them with a linear algebra library. That takes 10 seconds for
`LONGEST` periods, and the last digits depend on the machine. So the table has them for every number
of periods, rounded up to 15 binary digits: no standard error is too small, and none is more than
0.004 % too large. `python -m kit.coupled_gains` in `tests` writes the table.
"""

from __future__ import annotations

import lzma
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from .coupled_strategy import Floats

TABLES = {False: "coupled_gains.xz", True: "open_gains.xz"}  # by whether there is no horizon
LONGEST = 601  # periods: 600 with entries
DROPPED = 38  # of the 52 binary digits of a float
DIFFERENCES = 2  # neighbours are so alike that the table has their second differences


@cache
def coupled_gains(*, public_size: bool, open: bool = False) -> tuple[Floats, ...]:
    """The variances of S_b(b..LONGEST) for b = 1, 2, .. and integer noise of variance 1.

    public_size: whether the number of people is public
    open: whether the rows are those without a horizon; with entries, whose rows have larger
        weights, the variances are upper bounds

    Fewer periods have the leading ones of each. The inverse of `gains_table` in
    `tests/kit/coupled_gains.py`.
    """
    table = lzma.decompress(files(__package__).joinpath(TABLES[open]).read_bytes())
    by_byte = np.frombuffer(table, np.uint8).reshape(2, 4, -1)[int(public_size)]
    folded = by_byte.T.copy().view("<u4").ravel().astype(np.int64)
    numbers: NDArray[np.int64] = (folded >> 1) ^ -(folded & 1)
    for _ in range(DIFFERENCES):
        numbers = numbers.cumsum()
    return tuple(np.split(gains_of(numbers), np.cumsum(np.arange(LONGEST, 1, -1))))


def gains_of(digits: NDArray[np.int64]) -> Floats:
    """The floats with these digits."""
    return (digits << DROPPED).view(np.float64)
