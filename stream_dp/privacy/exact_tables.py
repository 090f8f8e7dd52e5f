"""Tables of cumulative probabilities, with a proof that every entry is rounded correctly.

A law here is symmetric on the integers, with weights exp(-slope |k| - bend |k| (|k| - 1) / 2): the
discrete Gaussian, and the double-geometric distribution (Ghosh, Roughgarden, Sundararajan 2012).
All arithmetic is on integers that bound the true value from below and from above. An entry counts
as proved if both bounds have the same floor; otherwise the bounds are computed again with twice
the guard bits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

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
