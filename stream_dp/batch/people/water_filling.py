"""The second measurement of pairs: where it lowers the predicted error most (water-filling).

All pairs of columns are measured first, with half of what is left. Each noisy pair then says how
much of its dependence shows, and the other half goes where it helps. One formula gives "measure all
pairs again", "a few selected pairs" and "only what shows", without the cost of a selection.

A pair A of m and n values has K = m n cells, d = (m - 1)(n - 1) degrees of freedom, and noise of
variance v in a share. The unbiased energy of its dependence is
    S = max(|I_A - I_i x I_j|^2 - d v, v / 1000).
A ridge estimate with precision p of a share has the total variation, up to a factor,
    e(p) = sqrt(K d S / (S p + d)).
Minimise sum c_A e_A(p_A) over p_A >= 1 / v_A at the cost sum u_A (p_A - 1 / v_A), where
u_A = prod n (n - 1) / (2 (K N)^2) is the rho of a unit of precision and c_A the pair's weight. With
the multiplier mu of the cost,
    p_A = max(1 / v_A, ((c_A sqrt(K d S) S / (2 mu u_A))^(2/3) - d) / S),
and bisection finds mu. The precisions are floats of noisy answers: post-processing. The round
states them as whole numbers (`phases.Weighed`), and the filter charges what is left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..rounds.phases import NoisyAnswers, PrivacyFilter, Weighed
from ..synthesizer import Known
from .pair_filter import precision
from .residual_counts import Columns, Residuals
from .target_shares import Targets

Floats = NDArray[np.float64]
LABELLED = 4.0  # how many times the error of a pair counts that holds a label
_LEAST = 1e-3  # times the noise of a share: the least energy of a dependence
_STEPS = 100  # of bisection
_STATED = 1 << 60  # precisions are stated as whole parts of this


@dataclass(frozen=True, eq=False)
class WaterFilling:
    """The phase that measures pairs once more; see `people_plan.LastPhase`.

    residuals: all candidates.
    rho: the phase's budget.
    labels: columns that are to be predicted.
    known: what is known besides.
    before: the filter that earlier phases leave.
    """

    residuals: Residuals
    rho: Fraction
    labels: frozenset[int]
    known: tuple[Known, ...]
    before: PrivacyFilter

    def last_phase(self, people: int, answers: NoisyAnswers) -> Weighed:
        """The phase that follows noisy answers."""
        targets = Targets.of(self.residuals, answers, self.known)
        added = self.added(targets)
        largest, entries = max(added.values()), dict[int, int]()
        for columns, share in added.items():
            stated = int(share / largest * _STATED) // self.residuals.domain.cells(columns) ** 2
            if stated:
                entries[self.residuals.numbers[columns]] = stated
        return self.stated(entries)

    @property
    def alike(self) -> Weighed:
        """The phase if all pairs show alike."""
        cells = self.residuals.domain.cells
        return self.stated({i: int(precision(cells(a))) for i, a in enumerate(self.residuals.sets)})

    def stated(self, precisions: Mapping[int, int]) -> Weighed:
        """The phase with these precisions of entries, up to a factor, by candidate."""
        weights = tuple(Fraction(1, entry) for entry in precisions.values())
        return Weighed(self.rho, tuple(precisions), weights, self.before)

    def added(self, targets: Targets) -> dict[Columns, float]:
        """By pair, the precision of a share that is added; a pair that gets none is left out."""
        pairs = [a for a in targets.interactions if len(a) == 2]
        cells = np.array([self.residuals.domain.cells(a) for a in pairs], float)
        norms = np.array([self.residuals.squared_norm(a) for a in pairs], float)
        unit = norms / 2 / (cells * targets.people) ** 2
        noise = np.array([targets.interactions[a].variance for a in pairs])
        freedom = np.array([targets.freedom(a) for a in pairs], float)
        shown = np.array([targets.energies[a] for a in pairs])
        energy = np.maximum(shown, _LEAST * noise)
        weights = np.array([LABELLED if self.labels & {*a} else 1.0 for a in pairs])
        gain = weights * np.sqrt(cells * freedom * energy) * energy / (2 * unit)

        def precisions(multiplier: float) -> Floats:
            wanted: Floats = (np.power(gain / multiplier, 2 / 3) - freedom) / energy
            return np.maximum(wanted - 1 / noise, 0)

        low, high = -100.0, 300.0  # logarithms of the multiplier
        for _ in range(_STEPS):
            middle = (low + high) / 2
            is_dear = precisions(math.exp(middle)) @ unit > float(self.rho)
            low, high = (middle, high) if is_dear else (low, middle)
        found = precisions(math.exp(low))
        return {a: float(x) for a, x in zip(pairs, found, strict=True) if x > 0}
