"""The errors of a repetition on a known panel, and their sums over repetitions. CONFIDENTIAL.

Errors are in people, by answer, query and period; NaN if a query has no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dp.continual.mechanism_interface import Step

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# The periods with a release, from 1, and the step of the mechanism at each period.
Steps = Sequence[tuple[int, Step]]


class QueryLabel(NamedTuple):
    """A query's text, its kind and its width; see `panel_report.QueryErrors`."""

    text: str
    kind: str
    width: int


@dataclass(frozen=True)
class Trial:
    """The errors of a repetition, or of several repetitions added up.

    A cell is a bin in a period, or a sum S_b at a period t >= b.
    """

    repetitions: int
    # Sums of errors, sums of squared errors and largest absolute errors: (answers, queries,
    # periods) each.
    total: Floats
    squares: Floats
    worst: Floats
    # The number of cells, and the squared errors summed over them: (answers,) each.
    cells: Ints
    cell_squares: Floats
    # Sums over repetitions of the square of a repetition's squared errors: of a query in all
    # periods, (answers, queries), and of all cells, (answers,).
    query_fourths: Floats
    cell_fourths: Floats
    # Each repetition's largest absolute error of any cell: (repetitions, answers).
    cell_worst: Floats
    # The number of repetitions that had to repair a synthetic count.
    repaired: int

    def __add__(self, trial: Trial) -> Trial:
        return Trial(
            repetitions=self.repetitions + trial.repetitions,
            total=self.total + trial.total,
            squares=self.squares + trial.squares,
            worst=np.maximum(self.worst, trial.worst),
            cells=self.cells,
            cell_squares=self.cell_squares + trial.cell_squares,
            query_fourths=self.query_fourths + trial.query_fourths,
            cell_fourths=self.cell_fourths + trial.cell_fourths,
            cell_worst=np.concatenate([self.cell_worst, trial.cell_worst]),
            repaired=self.repaired + trial.repaired,
        )


def single_trial(
    errors: Floats, *, cells: Ints, cell_squares: Floats, cell_worst: Floats, steps: Steps
) -> Trial:
    """Makes the trial of a single repetition.

    errors: (answers, queries, periods).
    cells, cell_squares: as in `Trial`.
    cell_worst: (answers,), the largest absolute error of any cell.
    steps: the steps of the mechanism.
    """
    repaired = any(any(step.notes.values()) for _, step in steps)
    return Trial(
        repetitions=1,
        total=errors,
        squares=errors**2,
        worst=np.abs(errors),
        cells=cells,
        cell_squares=cell_squares,
        query_fourths=np.nansum(errors**2, axis=2) ** 2,
        cell_fourths=cell_squares**2,
        cell_worst=cell_worst[None],
        repaired=int(repaired),
    )
