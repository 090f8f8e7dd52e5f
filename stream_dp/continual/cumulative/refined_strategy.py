"""The coupled measurement with rows that are refined for one number of periods.

The closed form (`coupled_strategy.py`) has the same constants for every number of periods. A
refined row multiplies each entry of the closed form by exp(P). P is a polynomial of degree `DEGREE`
in

    ln(lag + 1), the periods between the event and the row;
    ln(age), the periods in which the event was possible, with its own;
    ln(b) and 1 / b, of the threshold;
    ln(left), the periods from the row to the last one, with its own;
    ln(T), of the number of periods T.

A polynomial for A_b and another one for B_b serve many T (`SERVED`). `python -m
kit.refined_rows` in `tests` found their constants with an optimiser, and wrote them into a table
with the exact costs of the rounded rows (`kit.coupled_costs`) and the variances of the sums. P is
computed from decimals by single products and sums of floats, and rounded to a multiple of 2^-10. So
every machine has the same rows, and a study stores none of them.

A number of periods outside `SIZES` uses the leading rows of the next size.
"""

from __future__ import annotations

import lzma
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property
from importlib.resources import files
from itertools import combinations_with_replacement

import numpy as np

from .coupled_strategy import (
    DIGITS,
    CostTable,
    CoupledRows,
    CoupledStrategy,
    Floats,
    Integers,
    coupled_strategy,
    gains_of,
)

TABLE = "refined_totals.xz"
_SHORT = (*range(2, 26), 28, 31, 34, 37, 41, 45, 49)
SIZES = {
    False: (*_SHORT, 53, 57, 61, 67, 73, 79, 85, 105, 113, 121),
    True: (*_SHORT, 61),
}  # by whether the number of people is public; one more than 24, 36, .. is for late entry
SERVED = {False: (121,), True: (49, 61)}  # the most periods of each set of constants
MOST_REFINED = {public_size: most[-1] for public_size, most in SERVED.items()}
DEGREE = 4
CONSTANT_BITS = 20  # constants are multiples of 2^-20
_EXPONENT_BITS = 10  # exponents are multiples of 2^-10
_FEATURES = 6
_MOST_POWERS = (DEGREE, DEGREE, DEGREE, DEGREE, 1, 2)  # of the features in a monomial
MONOMIALS = tuple(
    features
    for degree in range(DEGREE + 1)
    for features in combinations_with_replacement(range(_FEATURES), degree)
    if all(features.count(f) <= most for f, most in enumerate(_MOST_POWERS))
)


@cache
def _half_logs(count: int) -> Floats:
    """ln(1) / 2, ln(2) / 2, .. up to `count`, with the same digits on every machine."""
    return np.array([float(DIGITS.ln(Decimal(n)) / 2) for n in range(1, count + 1)])


@cache
def _exponential(units: int) -> float:
    """exp(units 2^-10), with the same digits on every machine."""
    return float(DIGITS.exp(Decimal(units) / (1 << _EXPONENT_BITS)))


def exponents(threshold: int, periods: int) -> Iterator[Floats]:
    """The value of each of `MONOMIALS` by row and column of a threshold's matrices, (n, n) each.

    n is the number of periods from the threshold to the last one. Row i and column j have the lag
    i - j; entries above the diagonal have no meaning.
    """
    count = periods - threshold + 1
    logs = _half_logs(max(periods, 30))
    row, column = np.indices((count, count))
    features = (
        logs[np.maximum(row - column, 0)],
        logs[column],
        np.full((count, count), logs[threshold - 1]),
        logs[count - 1 - row],
        np.full((count, count), 1 / threshold),
        np.full((count, count), logs[periods - 1] - logs[29]),
    )
    for monomial in MONOMIALS:
        value = np.ones((count, count))
        for feature in monomial:
            value = value * features[feature]
        yield value


@dataclass(frozen=True, eq=False)
class RefinedStrategy(CoupledRows):
    """The rows of a number of periods.

    closed: the closed form of as many periods
    constants: of the polynomials of A and of B, in units of 2^-CONSTANT_BITS, (2, monomials)
    single, pair: the costs of one history, and of two
    gains: of each threshold the variances of the sums for integer noise of variance 1, rounded up
    """

    closed: CoupledStrategy
    constants: Integers
    single: CostTable
    pair: CostTable
    gains: tuple[Floats, ...]

    @property
    def periods(self) -> int:
        return self.closed.periods

    def row(self, b: int, t: int) -> tuple[Integers, Integers]:
        count = t - b + 1
        rows, lower_rows = self._blocks[b - 1]
        return rows[count - 1, :count], lower_rows[count - 1, : count if b > 1 else 0]

    def block(self, b: int, count: int) -> tuple[Integers, Integers]:
        rows, lower_rows = self._blocks[b - 1]
        return rows[:count, :count], lower_rows[:count, :count]

    @cached_property
    def _blocks(self) -> tuple[tuple[Integers, Integers], ...]:
        return tuple(self._refined(b) for b in range(1, self.periods + 1))

    def _refined(self, b: int) -> tuple[Integers, Integers]:
        """The matrices A_b and B_b."""
        count = self.periods - b + 1
        unit = 2.0 ** (_EXPONENT_BITS - CONSTANT_BITS)
        powers = np.zeros((2, count, count))
        for constants, value in zip(self.constants.T, exponents(b, self.periods), strict=True):
            powers += (constants * unit)[:, None, None] * value
        powers = np.where(np.tri(count, dtype=bool), powers, 0.0)
        units, positions = np.unique(np.rint(powers).astype(np.int64), return_inverse=True)
        factors = np.array([_exponential(int(n)) for n in units])[positions].reshape(powers.shape)
        rows, before = (
            np.rint(closed * factor).astype(np.int64)
            for closed, factor in zip(self.closed.block(b, count), factors, strict=True)
        )
        return rows, before


def refined_strategy(*, public_size: bool, periods: int) -> RefinedStrategy:
    """The rows of a number of periods, or of the next size, for at most `MOST_REFINED` periods.

    public_size: whether the number of people is public
    """
    return _strategy(public_size, bisect_left(SIZES[public_size], periods))


@cache
def _strategy(public_size: bool, index: int) -> RefinedStrategy:
    """The strategy of SIZES[public_size][index] periods in the table.

    `packed_table` of `tests/kit/refined_rows.py` writes the table.
    """
    periods = SIZES[public_size][index]
    constants, costs, gains = _tables()[public_size][index]
    single, pair = (
        CostTable(
            without_entries=tuple(map(int, costs_of_both[:periods])),
            with_entries=tuple(map(int, costs_of_both[periods:])),
        )
        for costs_of_both in np.split(costs, 2)
    )
    next_thresholds = np.cumsum(range(periods, 1, -1))  # threshold b has periods - b + 1 gains
    return RefinedStrategy(
        closed=coupled_strategy(public_size=public_size, periods=periods),
        constants=constants,
        single=single,
        pair=pair,
        gains=tuple(np.split(gains_of(gains), next_thresholds)),
    )


@cache
def _tables() -> tuple[list[tuple[Integers, Integers, Integers]], ...]:
    """The constants, costs and digits of gains of every size: private size first.

    The table has the numbers byte by byte: all first bytes, then all second ones. An even number
    2 n stands for n, an odd one 2 n - 1 for -n. Costs and gains are stored as differences.
    """
    data = lzma.decompress(files(__package__).joinpath(TABLE).read_bytes())
    by_byte = np.frombuffer(data, np.uint8).reshape(8, -1)
    folded = by_byte.T.copy().view("<u8").ravel().astype(np.int64)
    numbers = (folded >> 1) ^ -(folded & 1)

    def taken(count: int) -> Integers:
        nonlocal numbers
        first, numbers = numbers[:count], numbers[count:]
        return first

    tables = []
    for public_size, served in SERVED.items():
        sets = [taken(2 * len(MONOMIALS)).reshape(2, -1) for _ in served]
        by_size = []
        for periods in SIZES[public_size]:
            constants = sets[bisect_left(served, periods)]
            sums = [taken(count).cumsum() for count in _series(periods)]
            by_size.append((constants, np.concatenate(sums[:4]), np.concatenate(sums[4:])))
        tables.append(by_size)
    return tuple(tables)


def _series(periods: int) -> list[int]:
    """The lengths of the series of a size: of costs without and with entries, single and pair, then
    of the gains of every threshold."""
    return [periods, periods - 1] * 2 + [*range(periods, 0, -1)]
