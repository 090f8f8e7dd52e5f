"""Exact tables of the laws of noise, and the exact cost of double-geometric noise.

Every entry of a table of cumulative probabilities is proved to be rounded correctly.

A law here is symmetric on the integers, with weights exp(-slope |k| - bend |k| (|k| - 1) / 2): the
discrete Gaussian, and the double-geometric distribution (Ghosh, Roughgarden, Sundararajan 2012).
All arithmetic is on integers that bound the true value from below and from above. An entry counts
as proved if both bounds have the same floor; otherwise the bounds are computed again with twice
the guard bits.

The cost of double-geometric noise in zCDP is a supremum over all orders. Let X have P(X = x) = c
q^|x| with q = exp(-decay) and c = (1 - q) / (1 + q), let one person change a count by k > 0, and
let D_a be the Renyi divergence of order a between X + k and X. The order of the two does not
matter, because X is symmetric. rho is the supremum of D_a / a over all a > 1.

**It is the limit for a -> 1, the Kullback-Leibler divergence**

    KL(k) = decay E(|X - k| - |X|) = decay (k - 2 (q + ... + q^k) / (1 + q)),

for k = 1 it is decay tanh(decay / 2). Proof. Put u = a - 1/2. Then

    exp((a - 1) D_a) = sum_x P(x)^(1/2 + u) P(x - k)^(1/2 - u) = M(u),

because P(x) P(x - k) = c^2 q^(|x| + |x - k|) and P(x) / P(x - k) = exp(decay (|x - k| - |x|)):

    M(u) = c q^(k/2) (2 cosh(k z) / (1 - q) + sum_(0 < x < k) exp((k - 2 x) z)),   z = decay u.

M is even and entire. With s = exp(2 z), the bracket times (1 - q) (s - 1) s^(k/2) is

    s^k (s - q) - (1 - q s).

Where it is 0, s^k (s - q) / (1 - q s) is 1. That quotient is below 1 in size inside the unit circle
and above 1 outside of it, so |s| = 1: z is imaginary, and v = u^2 is negative, for M(0) > 0. As a
function of v M is entire of order 1/2, hence M = M(0) prod (1 + v / b_n) with all b_n > 0
(Hadamard): log M is concave in v. It is 0 at v = 1/4, and (a - 1) a = u^2 - 1/4, so that

    D_a / a = log M / ((a - 1) a) = (log M(v) - log M(1/4)) / (v - 1/4)

is the slope of a chord of a concave function from 1/4 on. It falls with v, and its supremum is the
limit for v -> 1/4, which is that of D_a. For several counts, with independent noise, log M is the
sum of theirs, concave as well: the supremum for a whole change is the sum of the KL(|k|), and so is
that of several answers together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

_BITS = 128  # of the exponential function, and as many more as the decay has zeros in front
_DIGITS = 15


def geometric_rho(decay: Fraction, changes: Iterable[int]) -> Fraction:
    """Computes the cost of counts with double-geometric noise, at most 1e-12 of it too large.

    decay: of the noise, above 0.
    changes: by how much one person changes each of the counts, at the worst.

    The exact cost is irrational; see above. The result is the cost, rounded up to 15 digits.
    """
    bits = _BITS + 2 * (1 / decay).__ceil__().bit_length()
    low, _ = exponential(decay, bits)
    q = Fraction(low, 1 << bits)  # at most exp(-decay); the cost falls with q
    return rounded_up(sum((decay * _mean_gain(abs(k), q) for k in changes), Fraction(0)))


def _mean_gain(change: int, q: Fraction) -> Fraction:
    """Computes E(|X - k| - |X|) = k - 2 (q + ... + q^k) / (1 + q), exactly.

    change: k >= 0. q: the ratio in P(X = x) = c q^|x|.
    """
    powers = sum((q**j for j in range(1, change + 1)), Fraction(0))
    return change - 2 * powers / (1 + q)


def rounded_up(value: Fraction) -> Fraction:
    """Rounds a value up to a decimal number of 15 digits, and to 0 if it is at most 0."""
    if value <= 0:
        return Fraction(0)
    exponent = len(str(value.numerator)) - len(str(value.denominator)) - _DIGITS
    unit = Fraction(10) ** exponent
    return -(-value // unit) * unit


Bounds = tuple[int, int]


@dataclass(frozen=True)
class Law:
    """A symmetric law on the integers, with weights exp(-slope |k| - bend |k| (|k| - 1) / 2)."""

    slope: Fraction
    bend: Fraction

    @classmethod
    def gaussian(cls, variance: Fraction) -> Law:
        """The discrete Gaussian: weights exp(-k^2 / (2 variance))."""
        return cls(1 / (2 * variance), 1 / variance)

    @classmethod
    def geometric(cls, decay: Fraction) -> Law:
        """The double-geometric law: weights exp(-decay |k|)."""
        return cls(decay, Fraction(0))


@dataclass(frozen=True)
class Table:
    """Cumulative probabilities F as integers of `bits` bits.

    bits: of a word.
    first: the least k in the table.
    floors: floor(2^bits F(k)) for k from `first` on; the first is 0 and the last 2^bits - 1.

    Let u be uniform in [0, 1) and its first `bits` bits the word U. The value of u is the least k
    with u < F(k). If U is no entry of the table, u lies on the same side of every F(k) as U does
    of its floor, so the value is decided. If U is an entry, more bits are needed.
    """

    bits: int
    first: int
    floors: tuple[int, ...]


def exponential(exponent: Fraction, bits: int) -> Bounds:
    """Bounds 2^bits exp(-exponent) by integers, for exponent >= 0.

    The bounds are at most 2 apart for large `bits`.
    The series of exp(-y) alternates and its terms fall for y <= 1, so that partial sums lie on
    either side. y is the exponent halved until it is at most 1/2; its value is squared as often.
    """
    halvings = max(0, (2 * exponent.numerator // exponent.denominator).bit_length())
    work = bits + 2 * halvings + 8
    sums = []
    for y in _around(exponent / (1 << halvings), work):
        term, total, n = Fraction(1), Fraction(1), 0
        partial: list[Fraction] = []
        while term * (1 << work) >= 1 or len(partial) < 2:
            n += 1
            term = term * y / n
            total += term if n % 2 == 0 else -term
            partial.append(total)
        sums.append((min(partial[-2:]), max(partial[-2:])))
    # exp(-y) falls: its least value is at the larger y.
    low = sums[1][0].numerator * (1 << work) // sums[1][0].denominator
    high = -(-sums[0][1].numerator * (1 << work) // sums[0][1].denominator)
    for _ in range(halvings):
        low, high = low * low >> work, -(-high * high >> work)
    return low >> work - bits, -(-high >> work - bits)


def _around(value: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Returns multiples of 2^-bits on either side of a value."""
    scaled = value.numerator << bits
    low, high = scaled // value.denominator, -(-scaled // value.denominator)
    return Fraction(low, 1 << bits), Fraction(high, 1 << bits)


@lru_cache(maxsize=16)
def table(law: Law, bits: int) -> Table:
    """Makes the table of a law for words of `bits` bits.

    Raises ValueError unless the weights fall.
    """
    if law.slope <= 0 or law.bend < 0:
        raise ValueError("the weights of noise must fall")
    guard = 64
    while (floors := _floors(law, bits, guard)) is None:
        guard *= 2
    mirrored = [(1 << bits) - 1 - floor for floor in floors]
    return Table(bits, -len(floors), (*reversed(floors), *mirrored))


def decided(law: Law, word: int, bits: int, draw_bits: Callable[[], int]) -> int:
    """Decides the value of a word that is an entry of its table.

    draw_bits: gives `bits` further bits.
    """
    length = bits
    while True:
        word, length = word << bits | draw_bits(), length + bits
        larger = table(law, length)
        entry = bisect_left(larger.floors, word)
        if larger.floors[entry] != word:
            return larger.first + entry


def _floors(law: Law, bits: int, guard: int) -> list[int] | None:
    """Computes floor(2^bits P(X >= m)) for m from 1 on, until it is 0.

    By symmetry F(-m) = P(X >= m), and F(m - 1) = 1 - P(X >= m), whose floor is 2^bits - 1 less this
    floor because the bounds of P(X >= m) hold no multiple of 2^-bits.

    Returns None if `guard` is too small.
    """
    work = bits + guard
    unit = 1 << work
    low, high = [unit], [unit]
    ratio_low, ratio_high = exponential(law.slope, work)
    bend_low, bend_high = exponential(law.bend, work) if law.bend else (unit, unit)
    while high[-1] >> guard // 2:
        low.append(low[-1] * ratio_low >> work)
        high.append(-(-high[-1] * ratio_high >> work))
        ratio_low = ratio_low * bend_low >> work
        ratio_high = -(-ratio_high * bend_high >> work)
    if ratio_high >= unit:
        return None
    # Beyond the last weight the ratios are at most this one.
    tail_low, tail_high = 0, -(-high[-1] * ratio_high // (unit - ratio_high))
    tails: list[Bounds] = []
    for weight_low, weight_high in zip(reversed(low[1:]), reversed(high[1:]), strict=True):
        tail_low, tail_high = tail_low + weight_low, tail_high + weight_high
        tails.append((tail_low, tail_high))
    all_low, all_high = unit + 2 * tail_low, unit + 2 * tail_high
    floors = []
    for tail_low, tail_high in reversed(tails):
        floor, remainder = divmod(tail_low << bits, all_high)
        if not remainder or floor != (tail_high << bits) // all_low:
            return None
        floors.append(floor)
        if not floor:
            return floors
    return None
