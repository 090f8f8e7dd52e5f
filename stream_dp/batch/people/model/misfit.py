"""How far a fitted mixture is from the noisy pairs, in units of their noise. Costs nothing.

A model that cannot hold the dependence of a table loses it, or invents dependence between pairs
that have none. All pairs are measured, so either shows: chi squared of the measured interactions of
pairs about the model's, over its degrees of freedom, is about 1 where only noise is missed, less
as far as the model follows the noise, and larger where the model is far.
"""

from __future__ import annotations

import numpy as np

from ..measure.residual_counts import centred
from ..measure.targets import Targets
from .block_mixture import Layout, Params, pair_shares
from .chi_squared import reduced_chi_squared
from .goal import FINEST


def misfit(layout: Layout, params: Params, targets: Targets) -> float:
    """Chi squared of all pairs over its degrees of freedom."""
    squares, freedom, finest = 0.0, 0, (FINEST / targets.people) ** 2
    shares = pair_shares(layout, params, targets.dependence)
    for columns in targets.dependence:
        measured, variance = targets.interactions[columns]
        apart = centred(shares[columns]) - measured
        squares += float(np.square(apart).sum()) / max(variance, finest)
        freedom += (measured.shape[0] - 1) * (measured.shape[1] - 1)
    return reduced_chi_squared(squares, freedom)
