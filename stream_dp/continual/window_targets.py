"""Numbers of rows for a window release's panel, from noisy answers (Bun et al. 2024, Algorithm 1).

Padded counts seldom fall below 0, and debiased answers of the panel are unbiased then. Without
padding the noisy counts are projected onto what is possible: less error, but a bias of single
answers where counts are near 0. All of it is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .base import Counts
from .contrasts import backward
from .splits import (
    project_nonnegative,
    project_present,
    project_to_most,
    project_to_total,
    round_to_sums,
    shift_to_totals,
)
from .window_design import WindowDesign


@dataclass(frozen=True)
class WindowTargets:
    """How many rows of a panel get which pattern, and which new symbol.

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
        """t = k: the histogram before and after the repair of what is impossible, (q^k,) each.

        Where the number of people is public, both sum to it; a cap is kept by projection.
        """
        design = self.design
        bins, unseen = design.bins, design.contrasts.unseen
        cells = answers + self.padding
        cap = None if self.rows is None else self.rows + self.padding * bins
        if unseen is not None and cap is not None:
            return _with_unseen(cells, design.measured, unseen, cap, bins, coins)
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
        self,
        totals: Counts,
        answers: Counts,
        coins: np.random.Generator,
        people: int | None = None,
    ) -> tuple[Counts, Counts]:
        """t > k: rows of each overlap by new symbol, before and after repair, (overlaps, q) each.

        totals: (overlaps,) the rows that end in each overlap
        answers: the noisy answers of the period
        coins: for remainders
        people: how many are present by the estimates, where the panel's number may drift away
            from it; half of the gap is closed at each step (all of it would follow the noise)

        Step 3 of the algorithm: the nearest numbers with these sums, rounded at random. Contrasts
        leave the sums open to begin with. Where the overlap of absences is not measured as a
        whole, one more absence gets what is left.
        """
        q, absent, contrasts = self.design.q, self.design.absent, self.design.contrasts
        if self.design.strategy == "contrasts":
            inside, direct = contrasts.parts(answers)
            unrepaired = round_to_sums(totals[:, None] / q + backward(inside), totals, coins)
        else:
            noisy = np.zeros(self.design.bins, np.int64)
            noisy[self.design.measured] = answers
            direct = noisy[contrasts.direct]
            unrepaired = shift_to_totals(noisy.reshape(-1, q), totals, coins)
        if absent is None:
            return unrepaired, project_nonnegative(unrepaired, coins)
        gone = contrasts.gone
        unrepaired[gone] = 0
        unrepaired[gone, contrasts.direct % q] = direct + self.padding
        unrepaired[gone, absent] = totals[gone] - unrepaired[gone].sum()
        present = int(totals.sum() - unrepaired[:, absent].sum())
        present = present if people is None else (present + people) // 2
        return unrepaired, project_present(unrepaired, absent, present, coins)


def repair_notes(unrepaired: Counts, targets: Counts) -> dict[str, int]:
    """Public numbers about a repair: counts below 0, and rows moved."""
    return {
        "cells_below_zero": int((unrepaired < 0).sum()),
        "rows_moved_by_repair": int(np.abs(targets - unrepaired).sum()),
    }


def _with_unseen(
    cells: Counts,
    patterns: Counts,
    unseen: int,
    rows: int,
    bins: int,
    coins: np.random.Generator,
) -> tuple[Counts, Counts]:
    """Histograms (bins,) that sum to `rows`, before and after repair.

    `patterns` get the cells, and `unseen` what they leave. The repair projects the cells to their
    own noisy sum, as far as there are rows, so that cells raised to 0 are paid by other cells and
    not by the rest.
    """
    unrepaired, targets = np.zeros((2, bins), np.int64)
    unrepaired[patterns], unrepaired[unseen] = cells, rows - cells.sum()
    total = min(max(int(cells.sum()), 0), rows)
    targets[patterns], targets[unseen] = project_to_total(cells, total, coins), rows - total
    return unrepaired, targets
