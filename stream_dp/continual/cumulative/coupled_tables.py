"""Costs of the coupled measurement, and variances of its sums over that of its noise, from tables.

`CoupledStrategy.variances` computes the variances with a linear algebra library. That takes 10
seconds for `LONGEST` periods, and the last digits depend on the machine. So the table has them for
every number of periods, rounded up to 15 binary digits: no standard error is too small, and none is
more than 0.004 % too large. `python -m kit.coupled_gains` in `tests` writes the table.

Costs are in squared units of the rows. `HistoryCosts` (`tests/kit/coupled_costs.py`) computes the
same whole numbers, in seconds for a pair at 120 periods and in minutes above 300. A compiled copy
of its inner loop made `coupled_costs.json`.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from .coupled_strategy import Floats

PERIODS: tuple[int, ...] = (*range(1, 301), *range(325, 576, 25), 610)


@dataclass(frozen=True, kw_only=True)
class CostTable:
    """Exact costs by number of periods.

    without_entries: of `PERIODS`
    with_entries: of 1, 2, .. periods
    """

    without_entries: tuple[int, ...]
    with_entries: tuple[int, ...]


_TABLES = json.loads(files(__package__).joinpath("coupled_costs.json").read_bytes())
PRIVATE_SINGLE, PRIVATE_PAIR, PUBLIC_PAIR = (
    CostTable(**{part: tuple(costs) for part, costs in _TABLES[name].items()})
    for name in ("private_single", "private_pair", "public_pair")
)
"""One person is added or removed, or replaced; the number of people is private, or public."""


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
