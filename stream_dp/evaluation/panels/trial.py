"""A repetition of a declared release on a known panel, and sums over repetitions.

A plan has the common parts of all repetitions: the mechanism, the true counts of every period
(computed once) and the judges of the output: of patterns (`patterns_judge.py`), of totals
(`totals_judge.py`), or of both. `TrialPlan.run` draws simulated noise, steps the mechanism through
the horizon and lets each judge sum up the errors, in people, by answer, query and period; they are
NaN if a query has no answer.

Confidential: a plan contains true counts, and errors are computed from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_dp.continual import Mechanism, Step
from stream_dp.privacy.noise import SeededNoise

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


class PanelJudge(Protocol):
    """Compares a class of answers with the truth."""

    @property
    def kind(self) -> str:
        """The class of queries: "window" or "cumulative"."""

    @property
    def suffix(self) -> str:
        """The suffix of the release's name, for a release with several judges."""

    @property
    def width(self) -> int | None:
        """The width of a window release."""

    @property
    def padding(self) -> int | None:
        """The padding of each pattern of a window release."""

    @property
    def bound(self) -> float:
        """The published error bound, simultaneous for all cells."""

    @property
    def answers(self) -> tuple[str, ...]:
        """The names of the compared answers."""

    @property
    def labels(self) -> tuple[QueryLabel, ...]: ...

    @property
    def first(self) -> int:
        """The first period of `truth`."""

    @property
    def truth(self) -> Floats:
        """True answers, (queries, periods); NaN in periods without the query."""

    @property
    def theory(self) -> Floats:
        """Standard deviations of the unbiased estimates, (queries, periods); NaN if unknown."""

    @property
    def cell_theory(self) -> float:
        """The root mean square of the standard deviations of all cells."""

    @property
    def independent(self) -> bool:
        """Whether the estimates of cells are independent and have equal variances."""

    def judge(self, steps: Steps) -> Trial:
        """Computes the errors of a repetition."""


@dataclass(frozen=True, eq=False)
class TrialPlan:
    """The common parts of all repetitions of a release."""

    mechanism: Mechanism[Any]
    # The input of the mechanism at every period, from the first.
    counts: tuple[Ints, ...]
    judges: tuple[PanelJudge, ...]

    def simulated_steps(self, seed: int) -> list[tuple[int, Step]]:
        """Steps the mechanism with simulated noise. Returns the steps with their periods."""
        source, state = SeededNoise(seed), self.mechanism.init()
        steps = []
        for t, counts in enumerate(self.counts, 1):
            state, step = self.mechanism.step(state, counts, source.draw(self.mechanism.demand(t)))
            if step is not None:
                steps.append((t, step))
        return steps

    def run(self, seed: int) -> tuple[Trial, ...]:
        """Runs a repetition. Returns the trial of each judge."""
        steps = self.simulated_steps(seed)
        return tuple(judge.judge(steps) for judge in self.judges)
