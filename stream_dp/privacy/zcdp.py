"""Zero-concentrated differential privacy: costs as exact fractions, and the (eps, delta) they mean.

A (discrete) Gaussian answer of squared L2 sensitivity D2 and variance s2 costs
rho = D2 / (2 s2) (Bun and Steinke 2016; Canonne, Kamath, Steinke 2020, Theorem 4). Costs add up,
also when later steps are chosen adaptively.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction

from scipy.optimize import minimize_scalar


def gaussian_rho(sensitivity2: Fraction | int, variance: Fraction) -> Fraction:
    """Cost of one Gaussian answer: squared sensitivity over twice the variance."""
    return Fraction(sensitivity2) / (2 * variance)


def epsilon(rho: Fraction, delta: Fraction) -> Decimal:
    """The eps of (eps, delta)-DP that rho-zCDP implies, rounded up to 6 decimals.

    Canonne, Kamath, Steinke 2020, Proposition 12 and Corollary 13: for every alpha > 1,
    eps = alpha rho + [ln(1/delta) + (alpha - 1) ln(1 - 1/alpha) - ln(alpha)] / (alpha - 1).
    Every alpha gives a valid eps, so the search for a good one may be approximate; the value
    at the alpha found is computed with 50 digits. Raises ValueError unless 0 < delta < 1.
    """
    if not 0 < delta < 1:
        raise ValueError("delta must lie between 0 and 1")
    if rho < 0:
        raise ValueError("rho must not be negative")
    if rho == 0:
        return Decimal(0)

    def bound(log_excess: float) -> float:
        a = 1 + math.exp(log_excess)
        tail = -math.log(delta) + (a - 1) * math.log1p(-1 / a) - math.log(a)
        return a * float(rho) + tail / (a - 1)

    # The best alpha - 1 is near sqrt(ln(1/delta) / rho); the bracket is generous around it.
    centre = 0.5 * math.log(max(-math.log(delta), 1e-9) / float(rho))
    found = minimize_scalar(bound, bounds=(centre - 12, centre + 12), method="bounded")
    alpha = Fraction(1 + math.exp(float(found.x)))
    with localcontext(prec=50):
        a = _decimal(alpha)
        tail = -_decimal(delta).ln() + (a - 1) * (1 - 1 / a).ln() - a.ln()
        value = a * _decimal(rho) + tail / (a - 1)
        return max(Decimal(0), value).quantize(Decimal("1e-6"), rounding=ROUND_CEILING)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
