"""One repetition of one declared release on a known panel, and sums over repetitions.

A plan holds what all repetitions share: the mechanism, the true counts of every period (computed
once) and who judges what is released: of patterns (`patterns.py`), of totals (`totals.py`), or of
both. `run` draws simulated noise, takes the mechanism through the horizon and has the errors
summed, in people: answer by query by period, NaN where a query has no answer.

Confidential: a plan holds true counts, and errors are computed from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_dp.continual import Mechanism, Step
from stream_dp.privacy.noise import SeededNoise

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Steps = Sequence[tuple[int, Step]]
QueryLabel = tuple[str, str, int]


@dataclass(frozen=True)
class Trial:
    """What one repetition, or the sum of several, did.

    total, squares: sums of errors and of their squares, and worst: the largest in size, each
    (answers, queries, periods); cells: (answers,) how many there are (a bin in a period, or
    b <= t) and cell_squares: (answers,) squared errors summed over them; cell_worst: (repetitions,
    answers), each repetition's worst cell; repaired: repetitions in which a synthetic count had to
    be repaired.
    """

    repetitions: int
    total: Floats
    squares: Floats
    worst: Floats
    cells: Ints
    cell_squares: Floats
    cell_worst: Floats
    repaired: int

    def __add__(self, other: Trial) -> Trial:
        return Trial(
            self.repetitions + other.repetitions,
            self.total + other.total,
            self.squares + other.squares,
            np.maximum(self.worst, other.worst),
            self.cells,
            self.cell_squares + other.cell_squares,
            np.concatenate([self.cell_worst, other.cell_worst]),
            self.repaired + other.repaired,
        )


def one_trial(errors: Floats, cells: Ints, squares: Floats, worst: Floats, steps: Steps) -> Trial:
    """Of one repetition: its errors, and those of its cells summed, squared and at the worst."""
    repaired = any(any(step.notes.values()) for _, step in steps)
    return Trial(1, errors, errors**2, np.abs(errors), cells, squares, worst[None], int(repaired))


class PanelJudge(Protocol):
    """Who holds one class of answers against the truth.

    kind: "window" or "cumulative"; part: what is added to the release's name; answers: their
    names; labels: text, kind and width of each query; first: the first period; truth, theory:
    (queries, periods), theory the standard deviation of the unbiased estimate, NaN where there is
    none; cell_theory: its root mean square over all cells, independent: whether the estimates of
    cells are, and of equal error; bound: kept by every cell; width, padding: of a window.
    """

    @property
    def kind(self) -> str: ...
    @property
    def part(self) -> str: ...
    @property
    def width(self) -> int | None: ...
    @property
    def padding(self) -> int | None: ...
    @property
    def bound(self) -> float: ...
    @property
    def answers(self) -> tuple[str, ...]: ...
    @property
    def labels(self) -> tuple[QueryLabel, ...]: ...
    @property
    def first(self) -> int: ...
    @property
    def truth(self) -> Floats: ...
    @property
    def theory(self) -> Floats: ...
    @property
    def cell_theory(self) -> float: ...
    @property
    def independent(self) -> bool: ...
    def judge(self, steps: Steps) -> Trial: ...


@dataclass(frozen=True, eq=False)
class TrialPlan:
    """counts: what the mechanism takes at every period, from the first."""

    mechanism: Mechanism[Any]
    counts: tuple[Ints, ...]
    judges: tuple[PanelJudge, ...]

    def released(self, seed: int) -> list[tuple[int, Step]]:
        """Every period with a release, and what it released, with simulated noise."""
        source, state = SeededNoise(seed), self.mechanism.init()
        found = []
        for t, counts in enumerate(self.counts, 1):
            state, step = self.mechanism.step(state, counts, source.draw(self.mechanism.demand(t)))
            if step is not None:
                found.append((t, step))
        return found

    def run(self, seed: int) -> tuple[Trial, ...]:
        """One repetition, as each judge sees it."""
        steps = self.released(seed)
        return tuple(judge.judge(steps) for judge in self.judges)
