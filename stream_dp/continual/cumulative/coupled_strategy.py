"""The measurement strategy that couples neighbouring thresholds of a cumulative release.

z_b(t) is the number of people whose b-th event is at t. Only a person of total b - 1 can have the
b-th event, and N_{b-1}(s), the people of total b - 1 before s, is itself estimated. So the strategy
measures how far z_b(t) is from a part p of the people who could have the event:

    y_b(t) = sum over tau <= t of f_b[t - tau] g_b(tau) (z_b(tau) - p_b(tau) M_b(tau)),
    M_b(tau) = sum over s <= tau of h_b[tau - s] N_{b-1}(s).

f_b are the coefficients of (1 - x)^-(f0 + f1 / b) and h_b those of (1 - x)^(h0 + h1 / b). For the
first threshold N_0 is 0 under add_remove, where the number of people is private, and
-sum over r < s of z_1(r) under replacement, where it is public. As a matrix,

    y_b = A_b z_b + B_b z_{b-1},

with lower-triangular A_b. The rows are rounded to multiples of 2^-16, and every row gets integer
noise of the same variance. The number of periods occurs nowhere: a shorter study uses the leading
rows. The constants (`PRIVATE_SIZE`, `PUBLIC_SIZE`) minimise the root mean square error over all
sums at a given cost, for all numbers of periods together.

The matrix of all thresholds together is square and triangular in time. So forward substitution
gives the best linear unbiased estimate, and no later period improves it.

Without a horizon the weights of the rows fall with the period. Row t of the closed form above is
multiplied by an integer m_t = about 64 (600 / t)^(3/16), and every row gets integer noise of the
same variance. So an early period is measured more precisely than a late one, and no weight depends
on the number of periods.

Cost. Let q_t(h) be the squared change of the closed form's rows of period t by a history or a pair
of histories h, Q_t = q_1 + .. + q_t, and c_t the largest Q_t(h). The weights fall, so by partial
summation

    sum_{s <= t} m_s^2 q_s = m_t^2 Q_t + sum_{s < t} (m_s^2 - m_{s+1}^2) Q_s
                          <= m_t^2 c_t + sum_{s < t} (m_s^2 - m_{s+1}^2) c_s

for every h. The bound needs costs of the closed form, or upper bounds of them, up to period t
alone. It rises with t, and the noise is scaled so that at `MOST_TOTALS` periods it is rho. The
exponent is chosen so that no sum has more than 1.5 times the variance that it has in a study that
declares `MOST_TOTALS` periods.

A study that declares fewer periods has smaller errors (`benchmarks/total_weights.py`).

Costs, and variances of the sums over that of the noise, come from tables. `variances` computes the
latter with a linear algebra library. That takes 10 seconds for `LONGEST` periods, and the last
digits depend on the machine. So the table has them for every number of periods, rounded up to 15
binary digits: no standard error is too small, and none is more than 0.004 % too large. `python -m
kit.coupled_gains` in `tests` writes the table. Costs are in squared units of the rows.
`HistoryCosts` (`tests/kit/coupled_costs.py`) computes the same whole numbers, in seconds for a pair
at 120 periods and in minutes above 300. A compiled copy of its inner loop made
`coupled_costs.json`.
"""

from __future__ import annotations

import json
import lzma
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cache, cached_property, lru_cache
from importlib.resources import files

import numpy as np
import scipy
from numpy.typing import NDArray

from stream_dp.study.panel_releases import MOST_TOTALS

from ..counters.toeplitz import power_coefficients, toeplitz

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BITS = 16  # rows are multiples of 2^-16
_FACTOR_BITS = 32  # factors of gains and odds are multiples of 2^-32
_NEAR_TIE = 2.0**-20  # far above the error of a sum of floats, in units of a row's entries
DIGITS = Context(prec=40)


@dataclass(frozen=True, kw_only=True)
class StrategyConstants:
    """The constants of the closed form, in decimals, equal on every machine.

    f0, f1: the exponent of the filter f_b is -(f0 + f1 / b)
    h0, h1: the exponent of h_b is h0 + h1 / b
    threshold, lag, period, first: ln g_b(t) = threshold ln(b + 1) + lag ln(t - b + 2)
        + period ln(t + 1) + first / b
    odds, odds_threshold, odds_lag: logit p_b(t) = odds + odds_threshold ln(b + 1)
        + odds_lag ln(t - b + 2)
    coupled_first: whether the first threshold has a number of people to be compared with
    """

    f0: float
    f1: float
    h0: float
    h1: float
    threshold: str
    lag: str
    period: str
    first: str
    odds: str
    odds_threshold: str
    odds_lag: str
    coupled_first: bool


PRIVATE_SIZE = StrategyConstants(
    f0=0.204,
    f1=0.256,
    h0=0.218,
    h1=0.241,
    threshold="-0.095",
    lag="-0.074",
    period="0.306",
    first="0.137",
    odds="-0.118",
    odds_threshold="0.240",
    odds_lag="-0.152",
    coupled_first=False,
)
PUBLIC_SIZE = StrategyConstants(
    f0=0.278,
    f1=0.046,
    h0=0.282,
    h1=0.004,
    threshold="-0.117",
    lag="-0.069",
    period="0.279",
    first="-0.137",
    odds="-0.634",
    odds_threshold="0.329",
    odds_lag="-0.102",
    coupled_first=True,
)


def strategy_factors(constants: StrategyConstants, periods: int) -> Integers:
    """The factors of gains and odds in units of 2^-32, (5, periods).

    Rows: of the gain by threshold b = 1, 2, .., by lag t - b = 0, 1, .. and by period
    t = 1, 2, ..; of the odds by threshold and by lag. Decimals have the same digits on every
    machine, unlike the exponential function of floats.
    """

    def exponential(value: Decimal) -> int:
        scaled = DIGITS.multiply(DIGITS.exp(value), Decimal(1 << _FACTOR_BITS))
        return int(scaled.to_integral_value())

    logs = [DIGITS.ln(Decimal(n)) for n in range(2, periods + 2)]
    c = constants
    numbers = range(1, periods + 1)
    rows = [
        [
            Decimal(c.threshold) * log + Decimal(c.first) / b
            for b, log in zip(numbers, logs, strict=True)
        ],
        [Decimal(c.lag) * log for log in logs],
        [Decimal(c.period) * log for log in logs],
        [Decimal(c.odds) + Decimal(c.odds_threshold) * log for log in logs],
        [Decimal(c.odds_lag) * log for log in logs],
    ]
    return np.array([[exponential(value) for value in row] for row in rows], np.int64)


@dataclass(frozen=True, eq=False)
class _Threshold:
    """The vectors of threshold b, (n,) each.

    filter: f_b by lag
    sums: the running sums of h_b by lag
    gains, parts: g_b and p_b by period from b on
    """

    filter: Floats
    sums: Floats
    gains: Floats
    parts: Floats


class CoupledRows(ABC):
    """The rows of a coupled measurement, in integers, for a number of periods."""

    @property
    @abstractmethod
    def periods(self) -> int: ...

    @abstractmethod
    def row(self, b: int, t: int) -> tuple[Integers, Integers]:
        """The row of y_b(t): on z_b(b..t), and on z_{b-1}(b-1..t-1), (t - b + 1,) each.

        The second is empty for b = 1.
        """

    @abstractmethod
    def block(self, b: int, count: int) -> tuple[Integers, Integers]:
        """The first rows of threshold b in matrices A_b and B_b, (count, count) each.

        Column i of A_b is z_b(b + i), column i of B_b is z_{b-1}(b - 1 + i); B_1 is 0.
        """

    def variances(self) -> Iterator[Floats]:
        """Yields for b = 1, 2, .. the variances of the unbiased sums S_b(b..T), (T - b + 1,).

        The noise of every row has variance 1. S_b(t) sums z_b, the people with their b-th event at
        a period, up to t. From A_b z_b + B_b z_{b-1} = y_b the errors of z_b have the covariance
        A^-1 (I + B V B') A'^-1, where V is that of z_{b-1}. Sums in both directions give that of
        S_b, whose diagonal is yielded.
        """
        covariance = np.zeros((self.periods + 1, self.periods + 1))
        for b in range(1, self.periods + 1):
            count = self.periods - b + 1
            a_rows, b_rows = (rows.astype(np.float64) for rows in self.block(b, count))
            noise = np.eye(count) + b_rows @ covariance[:count, :count] @ b_rows.T
            covariance = _divided(a_rows, _divided(a_rows, noise).T)
            yield covariance.cumsum(axis=0).cumsum(axis=1).diagonal().copy()


@dataclass(frozen=True, eq=False)
class CoupledStrategy(CoupledRows):
    """The rows of the closed form, in units of 2^-16.

    constants: of the closed form
    factors: from `strategy_factors`
    """

    constants: StrategyConstants
    factors: Integers

    @property
    def periods(self) -> int:
        return int(self.factors.shape[1])

    def row(self, b: int, t: int) -> tuple[Integers, Integers]:
        """See `CoupledRows.row`.

        At the i-th time the row of A has f g + sums[i + 1], and that of B has -sums[i], where
        sums[i] = sum over times l >= i of f g p at l, times the sum of h up to the lag l - i.
        """
        threshold = self._thresholds[b - 1]
        count = t - b + 1
        filtered = threshold.filter[:count][::-1] * threshold.gains[:count]
        if b == 1 and not self.constants.coupled_first:
            return _units(filtered), np.zeros(0, np.int64)
        compared = filtered * threshold.parts[:count]
        sums = np.correlate(compared, threshold.sums[:count], "full")[count - 1 :]

        def exact_before(i: int) -> float:
            return math.fsum(compared[i:] * threshold.sums[: count - i])

        lower_row = -_rounded(sums, exact_before)
        filtered[:-1] += sums[1:]

        def exact_own(i: int) -> float:
            unshared = threshold.filter[count - 1 - i] * threshold.gains[i]
            products = compared[i + 1 :] * threshold.sums[: count - 1 - i]
            return math.fsum([unshared, *products])

        return _rounded(filtered, exact_own), lower_row if b > 1 else lower_row[:0]

    def block(self, b: int, count: int) -> tuple[Integers, Integers]:
        """See `CoupledRows.block`: all rows at once, with the entries of `row`.

        Column i of `sums` is the weight of a person who belongs to N_{b-1} from period b + i on. A
        person of z_{b-1}(b - 1 + i) does, so B_b has -sums in the same column. A person of
        z_b(b + i) leaves N_{b-1} one period later, so A_b has sums one column to the left.

        Sums of floats differ in their last digits by the order of their terms. So an entry near a
        tie of rounding may differ from that of `row`, whose sums are exact there: its row is
        replaced.
        """
        threshold = self._thresholds[b - 1]
        filtered = toeplitz(threshold.filter[:count]) * threshold.gains[:count]
        if b == 1 and not self.constants.coupled_first:
            return _units(filtered), np.zeros((count, count), np.int64)
        compared = filtered * threshold.parts[:count]
        sums = compared @ toeplitz(threshold.sums[:count])
        lower_rows = -_units(sums)
        coupled = filtered.copy()
        coupled[:, :-1] += sums[:, 1:]
        rows = _units(coupled)
        near_tie = _near_tie(sums) | _near_tie(coupled)
        if b == 1:  # no threshold below
            lower_rows[:] = 0
        for i in np.flatnonzero(near_tie.any(axis=1)):
            rows[i, : i + 1], exact = self.row(b, b + int(i))
            lower_rows[i, : exact.size] = exact
        return rows, lower_rows

    @cached_property
    def _thresholds(self) -> tuple[_Threshold, ...]:
        """The vectors of thresholds 1, 2, ...

        By `strategy_factors` g_b(t) is the product of three factors: of b, of t - b and of t. p_b
        is odds / (1 + odds), and the odds are a factor of b times one of t - b. The running sums
        of (1 - x)^h are (1 - x)^(h - 1).
        """
        c, unit = self.constants, 2.0**-_FACTOR_BITS
        threshold, lag, period, odds_threshold, odds_lag = self.factors * unit
        vectors = []
        for b in range(1, self.periods + 1):
            count = self.periods - b + 1
            odds = odds_threshold[b - 1] * odds_lag[:count]
            vectors.append(
                _Threshold(
                    filter=power_coefficients(c.f0 + c.f1 / b, count),
                    sums=power_coefficients(1 - (c.h0 + c.h1 / b), count),
                    gains=threshold[b - 1] * lag[:count] * period[b - 1 :],
                    parts=odds / (1 + odds),
                )
            )
        return tuple(vectors)


@lru_cache(maxsize=8)
def coupled_strategy(*, public_size: bool, periods: int) -> CoupledStrategy:
    """The strategy in closed form.

    public_size: whether the number of people is public
    """
    constants = PUBLIC_SIZE if public_size else PRIVATE_SIZE
    return CoupledStrategy(constants, strategy_factors(constants, periods))


def _units(real: Floats) -> Integers:
    return np.rint(real * (1 << BITS)).astype(np.int64)


def _rounded(real: Floats, exact: Callable[[int], float]) -> Integers:
    """The units of some sums; `exact` gives the sum at a place, rounded once."""
    units = _units(real)
    for i in np.flatnonzero(_near_tie(real)):
        units[i] = round(exact(int(i)) * (1 << BITS))
    return units


def _divided(lower: Floats, right: Floats) -> Floats:
    return np.asarray(scipy.linalg.solve_triangular(lower, right, lower=True, check_finite=False))


def _near_tie(real: Floats) -> NDArray[np.bool_]:
    """Positions at which a new order of the float sum could change the rounded integer."""
    scaled = real * (1 << BITS)
    near_tie: NDArray[np.bool_] = np.abs(np.abs(scaled - np.floor(scaled)) - 0.5) < _NEAR_TIE
    return near_tie


_UNIT, _ROOTS = 64, 4  # 2^4 = 16 is the denominator of the exponent


@cache
def weight(t: int) -> int:
    """m_t = 64 (600 / t)^(3/16), rounded down; at least 64."""
    power = _UNIT**16 * MOST_TOTALS**3 // t**3
    for _ in range(_ROOTS):
        power = math.isqrt(power)
    return max(power, _UNIT)


def open_costs(costs: Sequence[int]) -> tuple[int, ...]:
    """Bounds of the cost of periods 1..t for every t: sums of m_t^2 (cost_t - cost_{t-1}).

    costs: of periods 1..t of the closed form, in which every row has weight 1 and not m_t.
    """
    bounds, bound, last_cost = [], 0, 0
    for t, cost in enumerate(costs, 1):
        bound += weight(t) ** 2 * (cost - last_cost)
        last_cost = cost
        bounds.append(bound)
    return tuple(bounds)


@dataclass(frozen=True, eq=False)
class OpenStrategy(CoupledRows):
    """The rows of the closed form with falling weights.

    closed: the closed form
    entries: whether the first threshold is entry, whose rows are one period later in the release
    """

    closed: CoupledStrategy
    entries: bool

    @property
    def periods(self) -> int:
        return self.closed.periods

    def _late(self, b: int) -> int:
        return int(self.entries and b > 1)

    def row(self, b: int, t: int) -> tuple[Integers, Integers]:
        scale = weight(t - self._late(b))
        rows, lower_row = self.closed.row(b, t)
        return scale * rows, scale * lower_row

    def block(self, b: int, count: int) -> tuple[Integers, Integers]:
        first = b - self._late(b)
        scales = np.array([[weight(first + i)] for i in range(count)])
        rows, lower_rows = self.closed.block(b, count)
        return scales * rows, scales * lower_rows


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
