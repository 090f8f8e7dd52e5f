"""An eps below that of zCDP, for studies whose noise is discrete Gaussian alone.

The claim and the formula: `docs/proofs/gaussian-epsilon.md`. In short: a discrete Gaussian answer
of variance s to an integer count is a continuous Gaussian answer of variance (1 - f) s, rounded at
random, up to a factor of probabilities that `_distance` bounds.

Proof. First, continuous answers. Let answer j of continuous Gaussian noise cost the pair of
neighbours rho_j, which depends on earlier outputs. Given these, its privacy loss has the
distribution N(rho_j, 2 rho_j). Let a last answer, which only helps an attacker, cost what is left
of rho. Then E exp(i u L_j) = exp((i u - u^2) rho_j) for each loss L_j given the past. So
exp(i u sum_{i <= j} L_i - (i u - u^2) sum_{i <= j} rho_i) is a martingale. The costs add up to rho
always. So the whole loss has the distribution N(rho, 2 rho), which is the loss of one Gaussian
answer of cost rho. The privacy loss determines delta for every eps (Balle and Wang 2018, Theorem 8,
for one answer).

Second, from continuous to discrete. Draw y from N(x, (1 - f) s) for an integer x. Then draw an
integer z with probability proportional to exp(-(z - y)^2 / (2 f s)). This z is post-processing of
a continuous answer. By Poisson's summation formula the sum of these weights is
sqrt(2 pi f s) (1 + u(y)) with

    u(y) = 2 sum_{m >= 1} q^(m^2) cos(2 pi m y),  q = exp(-2 pi^2 f s).

The product of both densities is, as a function of y, a normal density of variance f (1 - f) s times
exp(-(z - x)^2 / (2 s)). So P(z) is the probability of the discrete Gaussian with parameter s and
centre x, times a constant that is at least 1, times E[1 / (1 + u(Y))] for a normal Y. With
1 / (1 + u) = 1 - u + u^2 / (1 + u) this expectation lies between 1 - a and 1 + a + b^2 / (1 - b),

    a = 2 q t / (1 - q) >= |E u(Y)|,  t = exp(-2 pi^2 f (1 - f) s),  b = 2 q / (1 - q) >= |u|.

So the logarithm of the factor of probabilities has a range of at most
eta(s) = a + b^2 / (1 - b) + a / (1 - a).

Third, all answers. Replace the noise of every count that changes. Counts that do not change keep
their noise. The costs are now at most rho / (1 - f). The probabilities of all outputs change by a
factor whose logarithm has a range of at most H >= sum eta(s) over the counts that change. This adds
H to eps, and delta is multiplied by at most e^H. A count that changes costs at least 1 / (2 s), and
these costs add up to at most rho. Each term of s eta(s) has the form s exp(-c s) with
c >= 2 pi^2 f, times a falling factor, so that it falls for s >= L. So
sum eta(s) <= 2 rho L eta(L) = H, which proves the claim.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from .zcdp import epsilon

_DIGITS = 50  # of decimals
_SLACK = 1 + Decimal("1e-30")  # far more than all rounding of decimals together
_LEAST = Decimal("1e-6")
_LEAST_EXPONENT = 2.5  # of the first Fourier coefficient
_TAIL = Decimal("0.5")  # the least argument of a tail of the normal law
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")


@lru_cache(maxsize=1024)
def gaussian_epsilon(rho: Fraction, delta: Fraction, least: Fraction) -> Decimal:
    """Bounds the eps of (eps, delta)-DP, rounded up to 6 decimals; at most that of zCDP.

    rho: what discrete Gaussian answers to integer counts cost the worst pair of neighbours, chosen
        adaptively or not.
    least: no variance of their noise is smaller.
    """
    above = epsilon(rho, delta)
    if rho == 0:
        return above
    share = _best_share(float(rho), least, float(above))
    if share is None:
        return above
    with localcontext(prec=_DIGITS):
        distance = _distance(rho, share, least)
        cost = rho / (1 - share)
        mu = (2 * Decimal(cost.numerator) / Decimal(cost.denominator)).sqrt() * _SLACK
        target = Decimal(delta.numerator) / Decimal(delta.denominator) / distance.exp() / _SLACK
        low, high = 0, int(above / _LEAST)
        if not _fits(high * _LEAST, mu, target):
            return above
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _fits(middle * _LEAST, mu, target) else (middle, high)
        found = high * _LEAST + distance * _SLACK
        return min(above, found.quantize(_LEAST, rounding=ROUND_CEILING))


def _best_share(rho: float, least: Fraction, above: float) -> Fraction | None:
    """A good f, not always the best; None if no f is allowed."""
    best: tuple[float, Fraction] | None = None
    for step in range(13, 200):
        share = Fraction(step, 100) / Fraction(math.ceil(least * 1000), 1000)
        exponent = 2 * math.pi**2 * float(share * least)
        if share < Fraction(1, 2) and exponent > _LEAST_EXPONENT:
            extra = 0.6 * above * float(share) + 14 * rho * float(least) * math.exp(-2 * exponent)
            if best is None or extra < best[0]:
                best = extra, share
    return None if best is None else best[1]


def _distance(rho: Fraction, share: Fraction, least: Fraction) -> Decimal:
    """Bounds H: by ln of how much probabilities of discrete and of rounded Gaussian answers differ.

    rho: what all answers cost. share: f, the part of the variance that rounding at random adds.
    least: s2, the least variance.

    For one answer whose count changes, with variance s2, ln of the factor lies in a range of length
    eta(s2). By rho the sum of 1 / (2 s2) over such answers is at most rho, and s2 eta(s2) falls
    from s2 = 1 / (2 pi^2 f (2 - f)) on. So the sum of eta is at most 2 rho s2 eta(s2) at `least`.
    """
    f, s2, r = (Decimal(x.numerator) / Decimal(x.denominator) for x in (share, least, rho))
    square = 2 * _PI * _PI
    q = (-square * f * s2).exp()
    mean = 2 * q * (-square * f * (1 - f) * s2).exp() / (1 - q)
    largest = 2 * q / (1 - q)
    eta = mean + largest * largest / (1 - largest) + mean / (1 - mean)
    return 2 * r * s2 * eta * _SLACK


def _fits(eps: Decimal, mu: Decimal, delta: Decimal) -> bool:
    """Whether a Gaussian answer whose mean moves by mu deviations is (eps, delta)-DP.

    Balle, Wang 2018, Theorem 8: delta = P(Z > a) - exp(eps) P(Z > b), a = eps / mu - mu / 2 and
    b = a + mu. With Mills' ratio R this is phi(a) (R(a) - R(b)), as exp(eps) phi(b) = phi(a).
    """
    a = eps / mu - mu / 2
    if a < _TAIL:
        return False
    density = (-a * a / 2).exp() / (2 * _PI).sqrt()
    return density * (_mills(a)[1] - _mills(a + mu)[0]) * _SLACK <= delta


def _mills(x: Decimal) -> tuple[Decimal, Decimal]:
    """Bounds P(Z > x) / phi(x) from both sides, for x > 0.

    Consecutive approximants of Laplace's fraction 1 / (x + 1 / (x + 2 / (x + ...))) lie on either
    side of the ratio. About exp(-2 x sqrt(2 terms)) is between them.
    """
    enough, approximants = 10 + int(150 / (x * x)), []
    for terms in (enough, enough + 1):
        value = x
        for k in range(terms, 0, -1):
            value = x + k / value
        approximants.append(1 / value)
    low, high = sorted(approximants)
    return low / _SLACK, high * _SLACK
