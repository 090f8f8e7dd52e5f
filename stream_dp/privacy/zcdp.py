"""Zero-concentrated differential privacy: costs as exact fractions, and conversion to (eps, delta).

A (discrete) Gaussian answer of squared L2 sensitivity D2 and variance s2 costs
rho = D2 / (2 s2) (Bun and Steinke 2016; Canonne, Kamath, Steinke 2020, Theorem 4). Costs add up,
also when later steps are chosen adaptively.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from .exact_numbers import Number, exact_number

_LEAST = Decimal("1e-6")
_NEAR, _MOST_STEPS = Decimal("1e-12"), 60  # of the search for the best alpha


def gaussian_rho(sensitivity2: Number, variance: Number) -> Fraction:
    """Computes the cost of a Gaussian answer: squared sensitivity over twice the variance.

    Bun and Steinke 2016, Proposition 1.6; discrete: Canonne, Kamath, Steinke 2020, Theorem 4.
    Raises ValueError for a negative sensitivity, and for a variance that is not above 0.
    """
    change, spread = exact_number("sensitivity2", sensitivity2), exact_number("variance", variance)
    if change < 0:
        raise ValueError("sensitivity2: must not be negative")
    if spread <= 0:
        raise ValueError("variance: must be above 0")
    return change / (2 * spread)


def selection_rho(sensitivity: int, variance: Fraction, picks: int = 1) -> Fraction:
    """Computes the cost of `noise.noisy_top`: a pick costs as much as a Gaussian answer.

    sensitivity: D, by which one person changes a score at most.
    variance: of the choice.
    picks: the number of indices.

    Let no score change by more than D. With probabilities in proportion to exp(score / b) the
    logarithm of every ratio of probabilities lies in [-D/b + z, D/b + z], with z the change of the
    normaliser's logarithm: a range of 2 D/b. A mechanism whose range is eps is eps^2/8-zCDP (Cesar
    and Rogers 2021, by Hoeffding's lemma for that logarithm), here D^2 / (2 b^2).
    Later picks see the earlier ones only: costs add up.
    """
    return picks * gaussian_rho(sensitivity**2, variance)


def epsilon(rho: Number, delta: Number) -> Decimal:
    """Computes the eps of (eps, delta)-DP implied by rho-zCDP, rounded up to 6 decimals.

    The result is 0 for rho 0 only. Canonne, Kamath, Steinke 2020, Proposition 12 and Corollary 13:
    for every alpha > 1,
    eps = alpha rho + [ln(1/delta) + (alpha - 1) ln(1 - 1/alpha) - ln(alpha)] / (alpha - 1).
    Every alpha gives a valid eps, so the search for a good one may be approximate; eps at the
    resulting alpha is computed with 50 digits. Raises ValueError unless 0 < delta < 1.

    >>> epsilon(0.01, 1e-6)
    Decimal('0.621693')
    """
    return _epsilon(exact_number("rho", rho), exact_number("delta", delta))


@lru_cache(maxsize=1024)
def _epsilon(rho: Fraction, delta: Fraction) -> Decimal:
    """See `epsilon`: the least over alpha, rounded up. Any alpha gives a valid bound."""
    if not 0 < delta < 1:
        raise ValueError("delta: must lie between 0 and 1")
    if rho < 0:
        raise ValueError("rho: must not be negative")
    if rho == 0:
        return Decimal(0)

    with localcontext(prec=50):
        r, log_delta = _decimal(rho), _decimal(delta).ln()
        # Of the excess alpha - 1 the derivative is 0 where excess^2 rho + ln(alpha) = ln(1/delta).
        # In the excess's logarithm the left side is convex: from the right Newton's steps lead
        # straight to the root. They begin without ln(alpha).
        log_excess = (-log_delta / r).ln() / 2
        for _ in range(_MOST_STEPS):
            excess = log_excess.exp()
            square, log_alpha = excess * excess * r, (1 + excess).ln()
            step = (square + log_alpha + log_delta) / (2 * square + excess / (1 + excess))
            log_excess -= step
            if step < _NEAR:
                break
        excess = log_excess.exp()
        tail = -log_delta - excess * (1 + 1 / excess).ln() - (1 + excess).ln()
        value = max(_LEAST, (1 + excess) * r + tail / excess)
        return value.quantize(_LEAST, rounding=ROUND_CEILING)


def rho_within(max_epsilon: Fraction, delta: Fraction) -> Fraction:
    """Finds a rho near the largest that implies (max_epsilon, delta)-DP.

    Raises ValueError unless max_epsilon > 0.
    """
    if max_epsilon <= 0:
        raise ValueError("eps must be positive")
    low, high = Fraction(0), max_epsilon  # rho-zCDP never implies an eps below rho for delta < 1/2
    for _ in range(40):
        middle = (low + high) / 2
        fits = Fraction(epsilon(middle, delta)) <= max_epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low


def best_guess(rho: float) -> float:
    """Bounds the chance, in percent, to tell two equally likely neighbouring inputs apart.

    The chance is (1 + d) / 2 for the total variation distance d of the
    outputs. A rho-zCDP output has Kullback-Leibler divergence at most rho (Bun, Steinke 2016,
    Definition 1.1, as alpha goes to 1), hence d <= sqrt(rho / 2) (Pinsker) and
    d <= sqrt(1 - exp(-rho)) (Bretagnolle, Huber 1979).
    """
    distance = min(math.sqrt(rho / 2), math.sqrt(-math.expm1(-rho)), 1.0)
    return math.ceil(500 * (1 + distance) - 1e-9) / 10


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
