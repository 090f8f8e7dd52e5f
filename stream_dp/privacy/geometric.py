"""The cost of double-geometric noise in zCDP: its supremum over all orders, proved.

Let X have P(X = x) = c q^|x| with q = exp(-decay) and c = (1 - q) / (1 + q), let one person change
a count by k > 0, and let D_a be the Renyi divergence of order a between X + k and X. The order of
the two does not matter, because X is symmetric. rho is the supremum of D_a / a over all a > 1.

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

from collections.abc import Iterable
from fractions import Fraction

from .exact_tables import exponential

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
    """Rounds a positive value up to a decimal number of 15 digits."""
    if value <= 0:
        return Fraction(0)
    exponent = len(str(value.numerator)) - len(str(value.denominator)) - _DIGITS
    unit = Fraction(10) ** exponent
    return -(-value // unit) * unit
