"""The simulated poverty panel of Bun et al. 2024, Section 5.

No microdata is used or contained here, only published numbers. `poverty` draws people from the
distribution over the 4096 histories of 12 months that is nearest (in relative entropy) to a
persistent Markov chain while it meets the 26 numbers that the paper's figures show. What the
figures do not show (single months, spells across quarters, single households) comes from the
chain, not from the survey.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from stream_dp.panel import Symbols, window_codes

MONTHS = 12
HOUSEHOLDS = 23_374

# Read off Bun et al. 2024, Figures 1 to 4, to about 1e-4: share of households poor in at least 1
# month, at least 2 months, at least 2 consecutive months, and all 3 months of each quarter of 2021.
QUARTER_SHARES = (
    (0.12703, 0.11483, 0.11447, 0.10535),
    (0.13344, 0.11991, 0.11919, 0.10945),
    (0.12811, 0.11673, 0.11622, 0.10904),
    (0.12555, 0.11637, 0.11581, 0.10842),
)
# Read off Bun et al. 2024, Figures 5 to 8: households poor in at least 3 months so far, by months
# 3..12.
POOR_3_MONTHS = (2463, 2571, 2696, 2886, 2961, 3030, 3087, 3145, 3197, 3239)

# The chain that the model stays near: the probabilities that a poor month follows a poor one, and
# that a month that is not poor follows another.
STAY_POOR = 0.95
STAY_OUT = 0.993
# A fact may be missed by SLACK times its multiplier; the largest multiplier is about 3, so the
# misses stay under the read-off errors.
SLACK = 1e-5


def facts() -> NDArray[np.float64]:
    """Returns the 26 published facts as shares.

    They are four a quarter, then at least 3 months by month 3..12.
    """
    return np.concatenate([np.ravel(QUARTER_SHARES), np.array(POOR_3_MONTHS) / HOUSEHOLDS])


def fact_values(months: Symbols) -> NDArray[np.bool_]:
    """Marks the 26 properties of histories (rows, 12): (rows, 26)."""
    poor = months.astype(bool)
    columns = []
    for start in range(0, MONTHS, 3):
        a, b, c = poor[:, start], poor[:, start + 1], poor[:, start + 2]
        columns += [a | b | c, (a & b) | (b & c) | (a & c), (a & b) | (b & c), a & b & c]
    totals = poor.cumsum(axis=1)
    columns += [totals[:, month] >= 3 for month in range(2, MONTHS)]
    return np.stack(columns, axis=1)


def histories() -> Symbols:
    """Returns all 4096 histories of 12 months, (4096, 12).

    The first month is the highest binary digit.
    """
    codes = np.arange(1 << MONTHS)
    return (codes[:, None] >> np.arange(MONTHS - 1, -1, -1) & 1).astype(np.uint8)


@lru_cache(maxsize=1)
def model() -> NDArray[np.float64]:
    """Fits the probabilities of the 4096 histories.

    They are chain(h) exp(multipliers . facts(h)), normalised. The multipliers solve the dual of
    minimizing the relative entropy to the chain plus the squared
    misses over 2 SLACK; the dual is smooth and concave in them.
    """
    months = histories()
    values, targets = fact_values(months).astype(float), facts()
    base = np.log(_chain(months))

    def dual(multipliers: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = base + values @ multipliers
        top = logits.max()
        weight = np.exp(logits - top)
        total = weight.sum()
        loss = top + np.log(total) - targets @ multipliers + SLACK / 2 * multipliers @ multipliers
        return float(loss), (weight / total) @ values - targets + SLACK * multipliers

    options = {"maxiter": 5000, "maxfun": 10_000, "maxcor": 40, "ftol": 1e-15, "gtol": 1e-8}
    start = np.zeros(targets.size)
    multipliers = scipy.optimize.minimize(
        dual, start, jac=True, method="L-BFGS-B", options=options
    ).x
    logits = base + values @ multipliers
    weight: NDArray[np.float64] = np.exp(logits - logits.max())
    weight /= weight.sum()
    weight.setflags(write=False)
    return weight


def poverty(seed: int, n: int = HOUSEHOLDS) -> Symbols:
    """Simulates a poverty panel: n independent households by 12 months, 1 if poor, uint8.

    It matches the published facts to within sampling error (about .002 in a share at the default
    n) and is the same for the same seed.
    """
    rng = np.random.default_rng(seed)
    cumulative = model().cumsum()
    drawn = np.searchsorted(cumulative, rng.random(n) * cumulative[-1], side="right")
    rows: Symbols = histories()[np.minimum(drawn, cumulative.size - 1)]
    return rows


def _chain(months: Symbols) -> NDArray[np.float64]:
    """Computes the probability of every history under the stationary persistent chain."""
    moves = np.array([[STAY_OUT, 1 - STAY_OUT], [1 - STAY_POOR, STAY_POOR]])
    poor = (1 - STAY_OUT) / (2 - STAY_OUT - STAY_POOR)
    chance = np.where(months[:, 0] == 1, poor, 1 - poor)
    for month in range(1, MONTHS):
        steps = window_codes(months[:, month - 1 : month + 1], 2)
        chance = chance * moves.ravel()[steps]
    return chance
