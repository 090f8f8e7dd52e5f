"""Lower confidence bounds on the rho of a mechanism, from scores of its outputs in two worlds.

The worlds differ by `size` people, whom one statement about a single person covers: rho-zCDP for
one person is (size^2 rho)-zCDP for them (Bun and Steinke 2016, Proposition 1.9). So a cost C of
all of them together shows that rho is at least C / size^2.

A score is any function of one run's output that looks at nothing else. What holds for the output
holds for the score, as post-processing costs nothing.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]
APART = 4.0  # standard deviations that the worlds of an audit are to be apart
_ORDERS = (1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)


class TwoScores(NamedTuple):
    """The scores of repeated runs in the two worlds, and the people in which the worlds differ.

    first, second: (runs,) each; scores above 0 speak for the second world.
    size: the number of people.
    normal: whether the scores may be taken as normal.
    alone: of parts whose charge covers them without all others: name, charge and scores.
    """

    first: Floats
    second: Floats
    size: int
    normal: bool = True
    alone: tuple[tuple[str, Fraction, TwoScores], ...] = ()


def best_bound(scores: TwoScores, error: float) -> float:
    """The larger of both lower bounds on rho; of other scores than normal ones the counted one."""
    counted = counted_bound(scores, error)
    return max(counted, gaussian_bound(scores, error)) if scores.normal else counted


def gaussian_bound(scores: TwoScores, error: float) -> float:
    """The lower bound on rho for scores that are normal, with one variance for both worlds.

    Two normal worlds whose means are d standard deviations apart have the Renyi divergence
    a d^2 / 2 at every order a. So they cost d^2 / 2. The estimate of d has the variance
    2 / n + d^2 / (4 n - 4), to the first order in 1 / n: from the means, and from the deviation.

    error: the probability that the bound is above the truth, at most.
    """
    first, second = scores.first, scores.second
    runs = len(first)
    deviation = math.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2)
    shift = float(second.mean() - first.mean())
    if deviation == 0:
        return math.inf if shift else 0.0
    apart = shift / deviation
    least = apart - scipy.stats.norm.isf(error) * math.sqrt(2 / runs + apart**2 / (4 * runs - 4))
    return float(max(least, 0.0) ** 2 / 2 / scores.size**2)


def counted_bound(scores: TwoScores, error: float) -> float:
    """The lower bound on rho without an assumption about the distribution of scores.

    The event "the score is above 0" has a probability in each world, whose exact limits
    Clopper and Pearson (1934) give from its frequency. An event with the probabilities p and q has
    the Renyi divergence D_a(p, q) at order a, and rho is at least D_a(p, q) / a at every order.

    error: the probability that the bound is above the truth, at most.
    """
    runs = len(scores.first)
    above = int((scores.second > 0).sum())
    wrong = int((scores.first > 0).sum())
    # Both limits hold together with probability 1 - error, and the event may be turned around.
    likely = float(scipy.stats.beta.ppf(error / 2, above, runs - above + 1)) if above else 0.0
    rare = float(scipy.stats.beta.isf(error / 2, wrong + 1, runs - wrong)) if wrong < runs else 1.0
    if likely <= rare:
        return 0.0
    pairs = ((likely, rare), (1 - rare, 1 - likely))
    best = max(_divergence(p, q, order) / order for p, q in pairs for order in _ORDERS)
    return best / scores.size**2


def _divergence(p: float, q: float, order: float) -> float:
    """The Renyi divergence of a coin with probability p from one with probability q; 0 < q < 1."""
    parts = [(p, q), (1 - p, 1 - q)]
    if order == 1:
        return sum(a * math.log(a / b) for a, b in parts if a)
    total = sum(math.exp(order * math.log(a) + (1 - order) * math.log(b)) for a, b in parts if a)
    return math.log(total) / (order - 1)
