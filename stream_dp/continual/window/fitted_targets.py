"""Numbers of rows for a window release's panel, from its estimates.

The panel is the nearest possible one to the estimates in the metric of their noise
(`panel_fit.py`): of histograms this is step 3 of Bun et al. 2024, Algorithm 1, where nothing falls
below 0. Where counts may fall below 0, the target of residuals is not the estimate alone:

- What a pattern did not get for several periods is made up: a fifth of the carry is added, and the
  carry grows by the estimate less the panel, but stays within four standard deviations.
- A pattern of few people has nearly as many in the next period, but its estimate is mostly noise.
  So its target leans to the mean of the estimates of all periods, which forgets old ones. Within a
  standard deviation the target is the mean; from three on, where the pattern must have changed,
  the estimate. With three symbols or more, an estimate that is too far from the mean for chance
  replaces the mean. The mean is nowhere clipped at 0, so that sums over patterns keep their
  estimates. The carry makes up for this, too. Where people come and go nothing leans: it made
  panels worse.

So neither can delay real changes for long. With padding the panel follows the estimates alone, with
errors of rounding that are independent of them. All of it is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from stream_dp.study import Strategy

from ..mechanism_interface import Counts
from . import coarse_sums
from .panel_fit import Absences, PatternMetric, nearest_panel
from .window_design import WindowDesign


def round_to_sums(real: NDArray[np.float64], totals: Counts, coins: np.random.Generator) -> Counts:
    """Every number of `real` (z, q) rounded up or down. The rows sum to totals (z,).

    The rows of `real` must sum to the totals, up to floating point. Each number is rounded up with
    the probability of its fractional part, so that every count is unbiased (systematic sampling in
    random order): with the fractional parts of a row side by side, one random number u in [0, 1)
    marks the points u, u + 1, u + 2, ..., and a number is rounded up if its part has a mark.
    """
    floors = np.floor(real)
    fractions = real - floors
    rows, columns = real.shape
    order = coins.random(real.shape).argsort(axis=1)
    order += np.arange(0, rows * columns, columns)[:, None]  # places in the flat array
    ups = np.maximum(totals - floors.sum(axis=1), 0)
    passed = np.minimum(fractions.take(order).cumsum(axis=1), ups[:, None])
    passed[:, -1] = ups
    marks = np.floor(passed + coins.random((rows, 1))).astype(np.int64)
    marks[:, 1:] -= marks[:, :-1].copy()
    result: Counts = floors.astype(np.int64, order="C")
    result.reshape(-1)[order] += marks
    return result


Floats = NDArray[np.float64]

LEAST = 1e-2  # the least variance used as a weight, so that no weight is infinite
CARRIED = 0.2  # of the carry, that is added to the target
FEW = 2.0  # standard deviations: a pattern with a smaller mean has few people
NEAR, CHANGED = 1.0, 3.0  # standard deviations: the target is the mean up to, the estimate from
BEGUN, REPLACED = 2.75, 3.65  # standard deviations: the estimate replaces the mean, from and fully
NEWEST = Fraction(1, 3)  # the least weight of the newest estimate in the mean
REACH = 4.0  # standard deviations within which the carry stays


@dataclass(frozen=True)
class FittedTargets:
    """The number of a panel's rows with every pattern.

    design: what is measured
    padding: rows that are added to every pattern, 0 without padding
    rows: the public number of people or the declared cap, None where the size is noisy
    """

    design: WindowDesign
    padding: int
    rows: int | None

    @property
    def carries(self) -> bool:
        """Whether targets are more than the estimates: histograms have the paper's own panel."""
        return self._residuals and not self.padding

    @property
    def _residuals(self) -> bool:
        return self.design.strategy == Strategy.RESIDUALS

    def metric(self, t: int) -> PatternMetric:
        """Of the noise of the estimates at t."""
        design = self.design
        ahead = min(design.width - 1, design.horizon - t) if self._residuals else 0
        return PatternMetric(
            q=design.q,
            bins=design.bins,
            ahead=ahead,
            exponent=design.measurement.exponent or Fraction(1),
            variance=max(float(design.scale), LEAST),
        )

    def target(self, t: int, histogram: Floats, carry: Floats, mean: Floats) -> Floats:
        """What the panel is to be near to at t: (q^k,).

        histogram: (q^k,) the estimates
        carry: (q^k,) what patterns did not get before; empty for histograms
        mean: (q^k,) of the estimates before t; empty for histograms

        Let z be how many standard deviations the estimate is from the mean. A pattern of few people
        moves to the mean by min(|z|, NEAR (CHANGED - |z|) / (CHANGED - NEAR)), at least 0: all the
        way up to NEAR, and not at all from CHANGED on.
        """
        target = histogram + self.padding
        if not self.carries:
            return target
        target = target + CARRIED * carry
        if self.design.absent is not None:
            return target
        deviations = np.sqrt(self.design.bin_variances(t))
        mean = self.averaged(t, histogram, mean)
        few = np.abs(mean) < FEW * deviations
        z = (target - mean) / np.where(deviations > 0, deviations, 1.0)
        taper = np.maximum(CHANGED - np.abs(z), 0.0) / (CHANGED - NEAR)
        moved = np.sign(z) * np.minimum(np.abs(z), NEAR * taper)
        return target - np.where(few, moved * deviations, 0.0)

    def averaged(self, t: int, histogram: Floats, mean: Floats) -> Floats:
        """The mean of the estimates up to t with fading weights. Parameters: see `target`.

        With three symbols or more, an estimate that is too far from the mean for chance replaces
        it: a transition has begun. Panels of two symbols gain nothing by it.
        """
        if not self.carries:
            return mean
        earlier = t - self.design.width
        weight = float(max(Fraction(1, earlier + 1), NEWEST))
        if not earlier or self.design.q < coarse_sums.LEAST_SYMBOLS:
            return mean + weight * (histogram - mean)
        # Of a mean of independent estimates; with the least weight w it is w / (2 - w).
        of_mean = max(1 / earlier, float(NEWEST / (2 - NEWEST)))
        deviations = np.sqrt(self.design.bin_variances(t) * (1 + of_mean))
        off = np.abs(histogram - mean) / np.where(deviations > 0, deviations, 1.0)
        begun = np.clip((off - BEGUN) / (REPLACED - BEGUN), 0.0, 1.0)
        return mean + (weight + (1 - weight) * begun) * (histogram - mean)

    def size(self, histogram: Floats) -> int:
        """The panel's number of rows: public, a cap, or the noisy number of people."""
        design, extra = self.design, self.padding * self.design.bins
        noisy = max(0, round(float(histogram.sum())) + extra)
        if self.rows is None or (self._public and extra and not self._residuals):
            return noisy  # the paper's padded panel, whose total is that of its noisy histogram
        if self._public or design.absent is not None:
            return self.rows + extra
        return min(noisy, self.rows + extra)

    @property
    def _public(self) -> bool:
        """Whether the number of people is public."""
        design = self.design
        return design.absent is None and design.neighbours != "add_remove"

    def absences(
        self, target: Floats, totals: Counts, coins: np.random.Generator
    ) -> Absences | None:
        """How many rows are to be absent, None where nobody comes and goes.

        Rows fall into parts by their last k - 1 symbols. In the part of k - 1 absences, those that
        are present now have a noisy number; the pattern of k absences gets the other rows.

        totals: as in `rows_of`
        """
        design, pattern = self.design, self.design.absent_pattern
        if pattern is None or design.absent is None:
            return None
        block = pattern * totals.size // design.bins
        blocks = target.reshape(totals.size, -1)
        room, rest = int(totals[block]), int(totals.sum() - totals[block])
        noisy = blocks[block].sum() - target[pattern]
        other_rows = np.clip(np.floor(noisy + coins.random()), 0, room)
        if totals.size == 1:
            # Of one period: who does not have the pattern is present.
            present = float(other_rows) if design.width == 1 else None
            return Absences(
                pattern, float(other_rows), absent=design.absent, q=design.q, present=present
            )
        fitted_rows = float(np.clip(np.delete(blocks, design.absent, axis=1).sum(), 0, room + rest))
        other_rows = np.clip(other_rows, min(fitted_rows - rest, room), fitted_rows)
        present = float(min(fitted_rows, other_rows + rest))
        return Absences(
            pattern, float(other_rows), absent=design.absent, q=design.q, present=present
        )

    def rows_of(
        self, t: int, target: Floats, totals: Counts, coins: np.random.Generator
    ) -> tuple[Counts, dict[str, int]]:
        """How many rows get each pattern at t, int64 (q^k,), and public notes about the fit.

        totals: at t = k the number of rows; later those that end in each overlap
        coins: for remainders
        """
        absences = self.absences(target, totals, coins)
        sums, metric = totals.astype(np.float64), self.metric(t)
        fitted = nearest_panel(
            target, sums, metric, absences, coarse=self._residuals, runs=coarse_sums.RUN_WEIGHT
        )
        counts = round_to_sums(fitted.reshape(totals.size, -1), totals, coins).ravel()
        return counts, self._notes(target, fitted, totals, absences)

    def carried(self, t: int, histogram: Floats, carry: Floats, panel: Counts) -> Floats:
        """The carry after t. panel: its histogram at t, (q^k,)."""
        if not self.carries:
            return carry
        reach = REACH * np.sqrt(self.design.bin_variances(t))
        new_carry: Floats = np.clip(carry + histogram + self.padding - panel, -reach, reach)
        if self.design.absent_pattern is not None:
            new_carry[self.design.absent_pattern] = 0
        return new_carry

    def _notes(
        self, target: Floats, fitted: Floats, totals: Counts, absences: Absences | None
    ) -> dict[str, int]:
        """Public notes: counts below 0 before the repair, and the rows that the repair moved.

        target, fitted: (q^k,) histograms, before and after the fit to counts of at least 0
        totals: (overlaps,) the sums of consecutive cells
        absences: of the pattern that is not measured; no note counts this cell

        `linear` is the histogram nearest to `target` with the right sums, in which counts may be
        below 0: each overlap's missing sum is spread evenly over its measured cells.
        """
        cells = target.reshape(totals.size, -1)  # (overlaps, cells of an overlap)
        sums, measured = totals.astype(np.float64), np.ones(cells.shape, bool)
        if absences is not None:
            measured.ravel()[absences.pattern] = False
            sums[absences.pattern * totals.size // self.design.bins] = absences.others
        measured_sums = (cells * measured).sum(axis=1)
        gap_per_cell = (sums - measured_sums) / np.maximum(measured.sum(axis=1), 1)
        linear = np.where(measured, cells + gap_per_cell[:, None], 0.0)
        moved = np.where(measured, np.abs(fitted.reshape(cells.shape) - linear), 0.0)
        return {
            "cells_below_zero": int((linear < -1e-6).sum()),
            "rows_moved_by_repair": round(float(moved.sum())),
        }
