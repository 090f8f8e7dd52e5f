"""The coupled measurement with rows that are the best for one number of periods, from a table.

The closed form (`coupled_strategy.py`) has the same constants for every number of periods. The rows
here are free. `python -m kit.refined_rows` in `tests` found them with an optimiser, rounded them to
integers, and wrote them into the table with their exact costs (`coupled_costs.py`) and the
variances of the sums. So every machine has the same numbers, and a study stores none of them.

A number of periods without rows of its own uses the leading rows of the next longer one.
"""

from __future__ import annotations

import lzma
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from .coupled_cost_table import CostTable
from .coupled_gains import digits_of, gains_of
from .coupled_strategy import CoupledRows, Floats, Integers

TABLE = "refined_rows.xz"
SIZES = (*range(2, 26), 37, 49, 61)  # one period more than 24, 36, 48 and 60 is for late entry


@dataclass(frozen=True, eq=False)
class RefinedStrategy(CoupledRows):
    """The rows of a number of periods.

    blocks: of each threshold b the matrices A_b and B_b, as `CoupledRows.block`
    single, pair: the costs of one history, and of two
    gains: of each threshold the variances of the sums for integer noise of variance 1, rounded up
    """

    blocks: tuple[tuple[Integers, Integers], ...]
    single: CostTable
    pair: CostTable
    gains: tuple[Floats, ...]

    @property
    def periods(self) -> int:
        return len(self.blocks)

    def row(self, b: int, t: int) -> tuple[Integers, Integers]:
        rows, before = self.block(b, t - b + 1)
        return rows[-1], before[-1] if b > 1 else before[-1, :0]

    def block(self, b: int, count: int) -> tuple[Integers, Integers]:
        rows, before = self.blocks[b - 1]
        return rows[:count, :count], before[:count, :count]


def refined_strategy(*, public_size: bool, periods: int) -> RefinedStrategy:
    """The rows of a number of periods, or of the next longer one in the table.

    public_size: whether the number of people is public
    """
    return _strategy(public_size, bisect_left(SIZES, periods))


@cache
def _strategy(public_size: bool, index: int) -> RefinedStrategy:
    """The strategy of SIZES[index] periods in the table; see `packed_table`."""
    periods = SIZES[index]
    weights, costs, gains = (
        np.split(numbers[int(public_size)], np.cumsum([count(n) for n in SIZES]))[index]
        for numbers, count in zip(_numbers(), _COUNTS, strict=True)
    )
    lengths = [*range(periods, 0, -1)]
    triangles = np.split(weights, np.cumsum([n * (n + 1) // 2 for n in _matrix_sizes(periods)]))
    matrices = []
    for n, triangle in zip(_matrix_sizes(periods), triangles, strict=False):
        matrix = np.zeros((n, n), np.int64)
        matrix[np.tri(n, dtype=bool)] = triangle
        matrices.append(matrix)
    matrices.insert(1, np.zeros_like(matrices[0]))  # nothing is below the first threshold
    single, pair = (
        CostTable(
            without_entries=tuple(map(int, both[:periods])),
            with_entries=tuple(map(int, both[periods:])),
        )
        for both in np.split(costs, 2)
    )
    return RefinedStrategy(
        tuple(zip(matrices[::2], matrices[1::2], strict=True)),
        single,
        pair,
        tuple(np.split(gains_of(gains), np.cumsum(lengths)[:-1])),
    )


def _matrix_sizes(periods: int) -> list[int]:
    """Of A_1, A_2, B_2, A_3, B_3, .."""
    return [n for n in range(periods, 0, -1) for _ in range(1 if n == periods else 2)]


# How many numbers a size has in the table: entries of the lower triangles, costs, gains.
_COUNTS: tuple[Callable[[int], int], ...] = (
    lambda periods: periods * (periods + 1) * (2 * periods + 1) // 6,
    lambda periods: 2 * (2 * periods - 1),
    lambda periods: periods * (periods + 1) // 2,
)
_FORMS = ("<i2", "<i4", "<i4")


@cache
def _numbers() -> tuple[Integers, ...]:
    """The numbers of all sizes as `_COUNTS` has them, (2, numbers) each: private size first."""
    data = lzma.decompress(files(__package__).joinpath(TABLE).read_bytes())
    arrays = []
    for form, count in zip(_FORMS, _COUNTS, strict=True):
        width, size = np.dtype(form).itemsize, 2 * sum(map(count, SIZES))
        by_byte = np.frombuffer(data[: width * size], np.uint8).reshape(width, -1)
        arrays.append(by_byte.T.copy().view(form).astype(np.int64).reshape(2, -1))
        data = data[width * size :]
    return tuple(arrays)


def packed_table(private: Sequence[RefinedStrategy], public: Sequence[RefinedStrategy]) -> bytes:
    """The bytes of the table, from the strategies of `SIZES`.

    All weights, then all costs, then all gains. Of numbers of a kind all first bytes come first,
    then all second ones, because similar bytes side by side compress well.
    """
    numbers: tuple[list[Integers], ...] = ([], [], [])
    weights, costs, gains = numbers
    for strategy in (*private, *public):
        matrices = [matrix for block in strategy.blocks for matrix in block]
        del matrices[1]  # B_1: nothing is below the first threshold
        weights += [matrix[np.tri(len(matrix), dtype=bool)] for matrix in matrices]
        for table in (strategy.single, strategy.pair):
            costs += [np.array(table.without_entries), np.array(table.with_entries)]
        gains += [digits_of(of_threshold) for of_threshold in strategy.gains]
    packed = b""
    for kind, form in zip(numbers, _FORMS, strict=True):
        every = np.concatenate(kind)
        narrow = every.astype(form)
        if not np.array_equal(narrow, every):
            raise ValueError("a number of the table does not fit its bytes")
        packed += narrow.view(np.uint8).reshape(-1, narrow.itemsize).T.tobytes()
    return lzma.compress(packed, preset=9)
