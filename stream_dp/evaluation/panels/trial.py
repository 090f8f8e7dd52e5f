"""One repetition of one declared release on a known panel, and sums over repetitions.

A plan has what all repetitions share: the mechanism, the true counts of every period (computed
once) and the judges of what is released: of patterns (`patterns.py`), of totals (`totals.py`), or
of both. `TrialPlan.run` draws simulated noise, steps the mechanism through the horizon and lets
each judge sum up the errors, in people, by answer, query and period; they are NaN where a query
has no answer.

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
# The periods with a release, from 1, and what the mechanism released at each.
Steps = Sequence[tuple[int, Step]]


class QueryLabel(NamedTuple):
    """A query's text, its kind and its width, as `report.QueryErrors` explains them."""

    text: str
    kind: str
    width: int


@dataclass(frozen=True)
class Trial:
    """The errors of one repetition, or of several added up.

    A cell is a bin in a period, or a sum S_b at a period t >= b.
    """

    repetitions: int
    # Sums of errors, sums of squared errors and largest absolute errors: (answers, queries,
    # periods) each.
    total: Floats
    squares: Floats
    worst: Floats
    # How many cells there are, and the squared errors summed over them: (answers,) each.
    cells: Ints
    cell_squares: Floats
    # Sums over repetitions of the square of each one's squared errors, of a query in all periods,
    # (answers, queries), and of all cells, (answers,).
    query_fourths: Floats
    cell_fourths: Floats
    # Each repetition's largest absolute error of any cell: (repetitions, answers).
    cell_worst: Floats
    # How many repetitions had to repair a synthetic count.
    repaired: int

    def __add__(self, other: Trial) -> Trial:
        return Trial(
            repetitions=self.repetitions + other.repetitions,
            total=self.total + other.total,
            squares=self.squares + other.squares,
            worst=np.maximum(self.worst, other.worst),
            cells=self.cells,
            cell_squares=self.cell_squares + other.cell_squares,
            query_fourths=self.query_fourths + other.query_fourths,
            cell_fourths=self.cell_fourths + other.cell_fourths,
            cell_worst=np.concatenate([self.cell_worst, other.cell_worst]),
            repaired=self.repaired + other.repaired,
        )


def single_trial(
    errors: Floats, *, cells: Ints, cell_squares: Floats, cell_worst: Floats, steps: Steps
) -> Trial:
    """The trial of one repetition.

    errors: (answers, queries, periods).
    cells, cell_squares: as in `Trial`.
    cell_worst: (answers,), the largest absolute error of any cell.
    steps: what was released.
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
    """Compares one class of answers with the truth."""

    @property
    def kind(self) -> str:
        """The class of queries: "window" or "cumulative"."""

    @property
    def part(self) -> str:
        """What is added to the release's name, where the release has several judges."""

    @property
    def width(self) -> int | None:
        """The width of a window release."""

    @property
    def padding(self) -> int | None:
        """The padding of each pattern of a window release."""

    @property
    def bound(self) -> float:
        """The published error bound, which holds for all cells at once."""

    @property
    def answers(self) -> tuple[str, ...]:
        """The names of the answers that are compared."""

    @property
    def labels(self) -> tuple[QueryLabel, ...]: ...

    @property
    def first(self) -> int:
        """The first period of `truth`."""

    @property
    def truth(self) -> Floats:
        """(queries, periods); NaN where a query is not asked."""

    @property
    def theory(self) -> Floats:
        """Standard deviations of the unbiased estimates, (queries, periods); NaN for none."""

    @property
    def cell_theory(self) -> float:
        """The root mean square of the standard deviations of all cells."""

    @property
    def independent(self) -> bool:
        """Whether the estimates of cells are independent and have equal variances."""

    def judge(self, steps: Steps) -> Trial:
        """The errors of one repetition."""


@dataclass(frozen=True, eq=False)
class TrialPlan:
    """What all repetitions of a release share."""

    mechanism: Mechanism[Any]
    # What the mechanism is given at every period, from the first.
    counts: tuple[Ints, ...]
    judges: tuple[PanelJudge, ...]

    def simulated_steps(self, seed: int) -> list[tuple[int, Step]]:
        """Every period with a release, and what it released, with simulated noise."""
        source, state = SeededNoise(seed), self.mechanism.init()
        steps = []
        for t, counts in enumerate(self.counts, 1):
            state, step = self.mechanism.step(state, counts, source.draw(self.mechanism.demand(t)))
            if step is not None:
                steps.append((t, step))
        return steps

    def run(self, seed: int) -> tuple[Trial, ...]:
        """One repetition, as each judge sees it."""
        steps = self.simulated_steps(seed)
        return tuple(judge.judge(steps) for judge in self.judges)
