"""Numbers of rows for a panel from noisy histograms (Bun et al. 2024, Algorithm 1).

Padded counts seldom fall below 0, and then debiased answers from the panel are unbiased. Without
padding the noisy counts are projected onto possible ones (none below 0, fixed sums): the error is
smaller, but single answers are biased where counts are near 0. All of it is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .base import Counts
from .splits import (
    project_nonnegative,
    project_present,
    project_to_most,
    project_to_total,
    shift_to_totals,
)
from .window_design import WindowDesign


@dataclass(frozen=True)
class WindowTargets:
    """How many rows of a panel get each pattern, and later each new symbol.

    design: what is measured
    padded: whether `padding` rows are added to every pattern, otherwise counts are projected
    padding: n_pad, 0 where counts are projected
    rows: the public number of people or the declared cap, None where the size is noisy
    """

    design: WindowDesign
    padded: bool
    padding: int
    rows: int | None

    def first(self, answers: Counts, coins: np.random.Generator) -> tuple[Counts, Counts]:
        """t = k: the histogram before and after repair (no count below 0), (q^k,) each.

        Where the number of people is public both sum to it; a cap limits the repaired one.
        """
        design = self.design
        cells = answers + self.padding
        cap = None if self.rows is None else self.rows + self.padding * design.bins
        if design.absent is not None and cap is not None:
            return self._with_absences(cells, cap, coins)
        if design.neighbours != "add_remove":
            if self.rows is not None and not self.padded:
                cells = shift_to_totals(cells[None], np.array([self.rows]), coins)[0]
                return cells, project_nonnegative(cells[None], coins)[0]
            cap = None  # the noisy total may exceed the number of people
        if self.padded:
            return cells, project_to_most(cells, cap, coins)
        total = max(0, int(cells.sum()))
        return cells, project_to_total(cells, total if cap is None else min(total, cap), coins)

    def later(
        self, totals: Counts, answers: Counts, coins: np.random.Generator
    ) -> tuple[Counts, Counts]:
        """t > k: rows of each overlap by new symbol, before and after repair, (overlaps, q) each.

        totals: (overlaps,) the rows that end in each overlap
        answers: the noisy histogram of the measured patterns
        coins: for remainders

        Step 3 of Algorithm 1: the nearest numbers with these sums, rounded at random. In an open
        population the overlap of k - 1 absences has one more absence that is not measured: it gets
        the rows that the other symbols leave.
        """
        q, absent = self.design.q, self.design.absent
        noisy = np.zeros(self.design.bins, np.int64)
        noisy[self.design.measured] = answers
        unrepaired = shift_to_totals(noisy.reshape(-1, q), totals, coins)
        if absent is None:
            return unrepaired, project_nonnegative(unrepaired, coins)
        assert self.design.absent_pattern is not None
        overlap = self.design.absent_pattern // q
        others = np.arange(q) != absent
        unrepaired[overlap] = 0
        unrepaired[overlap, others] = noisy.reshape(-1, q)[overlap, others] + self.padding
        unrepaired[overlap, absent] = totals[overlap] - unrepaired[overlap].sum()
        present = int(totals.sum() - unrepaired[:, absent].sum())
        return unrepaired, project_present(unrepaired, absent, present, coins)

    def _with_absences(
        self, cells: Counts, rows: int, coins: np.random.Generator
    ) -> tuple[Counts, Counts]:
        """Histograms (q^k,) that sum to `rows`, before and after repair.

        cells: the padded noisy counts of the measured patterns
        rows: the rows of the panel; k absences get what the cells leave of them
        coins: for remainders

        The repair projects the cells to their own noisy sum, as far as there are rows: what is
        added to cells below 0 is subtracted from other cells, not from the k absences.
        """
        design, absent_pattern = self.design, self.design.absent_pattern
        unrepaired, targets = np.zeros((2, design.bins), np.int64)
        unrepaired[design.measured] = cells
        unrepaired[absent_pattern] = rows - cells.sum()
        total = min(max(int(cells.sum()), 0), rows)
        targets[design.measured] = project_to_total(cells, total, coins)
        targets[absent_pattern] = rows - total
        return unrepaired, targets


def repair_notes(unrepaired: Counts, targets: Counts) -> dict[str, int]:
    """Public numbers about a repair: counts below 0, and rows moved."""
    return {
        "cells_below_zero": int((unrepaired < 0).sum()),
        "rows_moved_by_repair": int(np.abs(targets - unrepaired).sum()),
    }
