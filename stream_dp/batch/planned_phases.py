"""The future measurements of a declared data set: candidates, cells and their noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .rounds.adaptive_fit import Annealed, Phase
from .rounds.phases import CHARGES, Candidates, Everything, Rounds


@dataclass(frozen=True)
class PlannedPhase:
    """A phase of a fit, certain or a choice of noisy answers.

    title: what it measures, in words.
    rho: its part of the budget.
    candidates: how many there are.
    queries: the cells of all of them.
    picked: how many of the candidates it measures, at most.
    least, most: the standard deviations of a cell's noise, in people or groups: of the candidate
        with the least, and with the most.
    charge: `CHARGES`: what the charges up to this phase are proved to be.
    gaussian: whether all that reads the data is discrete Gaussian answers, without a selection.
    """

    title: str
    rho: Fraction
    candidates: int
    queries: int
    picked: int
    least: float
    most: float
    charge: str
    gaussian: bool

    @staticmethod
    def of(
        title: str, phase: Phase, workload: Candidates, deviations: Sequence[float]
    ) -> PlannedPhase:
        """deviations: by candidate of the phase, of one cell."""
        picked = len(phase.candidates)
        if isinstance(phase, Rounds | Annealed):
            picked = phase.rounds * phase.picks
        return PlannedPhase(
            title=title,
            rho=phase.rho,
            candidates=len(phase.candidates),
            queries=int(np.diff(workload.starts)[list(phase.candidates)].sum()),
            picked=picked,
            least=min(deviations),
            most=max(deviations),
            charge=CHARGES[phase.exact],
            gaussian=isinstance(phase, Everything),
        )

    @property
    def text(self) -> str:
        """In words."""
        share = f"{self.picked:,} of " if self.picked < self.candidates else ""
        spread = f"{self.least:.1f}"
        if f"{self.most:.1f}" != spread:
            spread += f" to {self.most:.1f}"
        return (
            f"{self.title}: {share}{_several(self.candidates, 'candidate', 'candidates')},"
            f" {_several(self.queries, 'query', 'queries')};"
            f" standard deviation of a cell {spread}"
            f"{'' if self.charge == CHARGES[True] else f'; charged by an {self.charge}'}"
        )


class Measured(NamedTuple):
    """What a fit measures, in short.

    sentence: what will be measured; empty where the phases say it.
    poor: whether the columns are measured only one by one.
    """

    sentence: str = ""
    poor: bool = False


@dataclass(frozen=True)
class FitPlan:
    """What is announced of a fit before any data.

    titles: the mechanisms that its certificate may name; noisy answers decide between several.
    describe: gives the phases, with all choices of noisy answers.
    summarise: says what is measured, in short.
    """

    titles: tuple[str, ...]
    describe: Callable[[], Sequence[PlannedPhase]]
    summarise: Callable[[], Measured] = Measured

    @cached_property
    def phases(self) -> tuple[PlannedPhase, ...]:
        return tuple(self.describe())

    @cached_property
    def measured(self) -> Measured:
        return self.summarise()


def _several(number: int, singular: str, plural: str) -> str:
    return f"{number:,} {singular if number == 1 else plural}"


def counted_phases(phases: Sequence[Phase], workload: Candidates) -> tuple[PlannedPhase, ...]:
    """The phases of measured counts."""
    planned = []
    for phase in phases:
        variances = phase.variances(workload)
        deviations = [math.sqrt(v) for v in variances.values()]
        title = "measured at once" if isinstance(phase, Everything) else "picked and measured"
        planned.append(PlannedPhase.of(title, phase, workload, deviations))
    return tuple(planned)
