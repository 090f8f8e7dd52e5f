"""The part of a joint release's rho for its windows, from theory.

With a part s of rho the mean square errors of patterns and of totals are W / s and C / (1 - s). W
and C are those with all of rho, over those of the paper's forms of the same rho and relation:
histograms of all windows, and a binary tree for each threshold with an equal part of rho. The sum
of both ratios is least for s = sqrt(W) / (sqrt(W) + sqrt(C)). Where people enter late windows gain
less over histograms, so W is larger and windows get more. The part follows from the study alone.
It does not depend on rho: both errors are those of a small rho, whose noise is nearly continuous.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from stream_dp.study import Neighbours, Strategy

from ..cumulative.cumulative import Cumulative
from ..window.window import FixedWindow

_STEP = 100  # parts are in percent
_SMALL = Fraction(1, 10**6)  # rho


def best_window_share(window: FixedWindow, totals: Cumulative) -> Fraction:
    """The part for windows, in percent. window, totals: of any rho."""
    window, totals = replace(window, rho=_SMALL), replace(totals, rho=_SMALL)
    histograms = replace(window, strategy=Strategy.HISTOGRAM).mean_variance
    patterns = math.sqrt(window.mean_variance / histograms)
    sums = totals.rmse / rmse_of_trees(totals.horizon, totals.rho, totals.neighbours)
    return Fraction(round(_STEP * patterns / (patterns + sums)), _STEP)


def rmse_of_trees(horizon: int, rho: Fraction, neighbours: Neighbours) -> float:
    """The root mean square error of all S_b(t) with a tree for each b and equal parts of rho.

    The tree of n steps has L levels, so its noise has the variance L T / (2 rho), twice that under
    replacement. The sum of i steps adds as many nodes as i has digits 1 in binary.
    """
    pairs = 1 if neighbours == "add_remove" else 2
    nodes = total = 0
    for steps in range(1, horizon + 1):
        nodes += steps.bit_count()
        total += nodes * steps.bit_length()
    cells = horizon * (horizon + 1) // 2
    return math.sqrt(pairs * horizon * total / (2 * rho * cells))
