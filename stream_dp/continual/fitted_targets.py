"""Numbers of rows for a window release's panel, from windows measured as residuals.

The panel is the nearest possible one to the estimates in the metric of their noise
(`panel_fit.py`). What a pattern lacked in earlier periods comes later: the target is the
estimate and half of the carry, and the carry grows by the estimate less the panel. It stays within
two standard deviations of a pattern, so that it cannot delay real changes. With padding both are
of the padded counts. All of it is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .base import Counts
from .panel_fit import nearest_panel
from .splits import round_to_sums
from .window_design import WindowDesign

Floats = NDArray[np.float64]

_PART = 0.5  # of the carry, that is added to the target
_REACH = 2.0  # standard deviations within which the carry stays


@dataclass(frozen=True)
class FittedTargets:
    """How many rows of a panel get each pattern.

    design: what is measured
    padding: rows that are added to every pattern, 0 without padding
    rows: the public number of people or the declared cap, None where the size is noisy
    """

    design: WindowDesign
    padding: int
    rows: int | None

    def wanted(self, histogram: Floats) -> Floats:
        """The estimates with their padding: (q^k,)."""
        return histogram + self.padding

    def size(self, histogram: Floats) -> int:
        """The panel's number of rows: public, a cap, or the noisy number of people."""
        design, extra = self.design, self.padding * self.design.bins
        public = design.absent is not None or design.neighbours != "add_remove"
        if public and self.rows is not None:
            return self.rows + extra
        noisy = max(0, round(float(histogram.sum())) + extra)
        return noisy if self.rows is None else min(noisy, self.rows + extra)

    def rows_of(
        self, t: int, wanted: Floats, carry: Floats, totals: Counts, coins: np.random.Generator
    ) -> tuple[Counts, dict[str, int]]:
        """How many rows get each pattern at t, int64 (q^k,), and public notes about the fit.

        wanted: (q^k,) the estimates with their padding
        carry: (q^k,) what patterns did not get before t
        totals: at t = k the number of rows; later those that end in each overlap
        coins: for remainders
        """
        design, target = self.design, wanted + _PART * carry
        seen = self._seen(target, totals, coins)
        fitted = nearest_panel(
            target,
            totals.astype(np.float64),
            design.q,
            min(design.width - 1, design.horizon - t),
            design.form.exponent or Fraction(1),
            unseen=design.absent_pattern,
            seen=seen,
        )
        counts = round_to_sums(fitted.reshape(totals.size, -1), totals, coins).ravel()
        return counts, self._notes(target, fitted, totals, seen)

    def carried(self, t: int, wanted: Floats, carry: Floats, panel: Counts) -> Floats:
        """The carry after t. panel: its histogram at t, (q^k,)."""
        reach = _REACH * np.sqrt(self.design.bin_variances(t))
        after: Floats = np.clip(carry + wanted - panel, -reach, reach)
        if self.design.absent_pattern is not None:
            after[self.design.absent_pattern] = 0
        return after

    def _part_of_absences(self, parts: int) -> int:
        """Which of the parts of the patterns k absences are in."""
        assert self.design.absent_pattern is not None
        return self.design.absent_pattern * parts // self.design.bins

    def _seen(self, target: Floats, totals: Counts, coins: np.random.Generator) -> int:
        """Where k absences are unseen: how many rows of their part are not among them."""
        if self.design.absent_pattern is None:
            return 0
        part = self._part_of_absences(totals.size)
        cells = target.reshape(totals.size, -1)[part]
        noisy = cells.sum() - target[self.design.absent_pattern]
        return int(np.clip(np.floor(noisy + coins.random()), 0, totals[part]))

    def _notes(self, target: Floats, fitted: Floats, totals: Counts, seen: int) -> dict[str, int]:
        """How many counts the estimates alone would give below 0, and how many rows that moved."""
        cells = target.reshape(totals.size, -1)
        sums, known = totals.astype(np.float64), np.ones(cells.shape, bool)
        if self.design.absent_pattern is not None:
            known.ravel()[self.design.absent_pattern] = False
            sums[self._part_of_absences(totals.size)] = seen
        gap = (sums - (cells * known).sum(axis=1)) / np.maximum(known.sum(axis=1), 1)
        linear = np.where(known, cells + gap[:, None], 0.0)
        moved = np.where(known, np.abs(fitted.reshape(cells.shape) - linear), 0.0)
        return {
            "cells_below_zero": int((linear < -1e-6).sum()),
            "rows_moved_by_repair": round(float(moved.sum())),
        }
