"""Rounds with falling noise: a round that taught nothing halves the noise of the next.

Source: McKenna, Mullins, Sheldon, Miklau 2022, "AIM: an adaptive and iterative mechanism for
differentially private synthetic data" (arXiv 2201.12677), "budget annealing". A round picks
candidates that the model answers badly and measures each. Where the model's answers to them then
changed by less than noise alone would explain, the next round has half the deviation of noise in
measurements and picks, so four times the cost. Where less than two rounds' cost is left, one last
round spends all of it. A candidate may be picked again in a later round.

A round that is not the last has the noise with which every pick costs the pair of neighbours that
is worst for it the same. What is left is counted by the filter, for the pair of neighbours that is
worst for all measurements together. So the last round, when its picks are made, has the least noise
that the filter allows.

How far noise has fallen is recorded with a round, so that a fit that goes on has the same noise.
Whatever the record says, a round costs no more than is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from stream_dp.privacy.noise import NoiseSource

from ..data.domain import Int64Array
from .phases import (
    SELECTION,
    Candidates,
    Everything,
    NoisyAnswers,
    Picking,
    PrivacyFilter,
    Ranked,
    Rounds,
)

MOST_LEVEL = 40


@dataclass(frozen=True)
class Annealed(Picking):
    """The rounds that remain of a phase, and their rho.

    first: the rho of one pick and its measurement before noise falls.
    picks: candidates that a round picks, at most.
    allowed: from the candidates measured so far, in order, those that may be picked next; one at
        least.
    before: the filter that earlier measurements leave, with `rho` left.
    level: how often noise has fallen.
    Raises ValueError where the rounds have nothing to do.
    """

    rho: Fraction
    candidates: tuple[int, ...]
    first: Fraction
    picks: int
    allowed: Callable[[Sequence[int]], Iterable[int]]
    before: PrivacyFilter
    selection: Fraction = SELECTION
    level: int = 0

    def __post_init__(self) -> None:
        if min(self.rho, self.first) <= 0 or not 0 < self.selection < 1:
            raise ValueError("rho must be positive, and parts of it between 0 and 1")
        if self.picks < 1 or not self.candidates or not 0 <= self.level <= MOST_LEVEL:
            raise ValueError("there must be a pick, a candidate, and noise")

    @property
    def stated(self) -> int:
        """What a round states beside its answers."""
        return self.level

    @property
    def rounds(self) -> int:
        """The number of rounds if noise does not fall."""
        return max(1, int(self.rho / (self.first * self.picks)))

    @property
    def last(self) -> bool:
        """Whether the next round spends the rest of rho."""
        return self.rho < 2 * self.picks * self._full

    @property
    def _full(self) -> Fraction:
        return self.first * Fraction(4**self.level)

    @property
    def each(self) -> Fraction:
        return self.rho / self.picks if self.last else self._full

    def picked(
        self,
        workload: Ranked,
        scores: Int64Array,
        measured: Sequence[int],
        source: NoiseSource,
    ) -> list[int]:
        """The next round's candidates, in the order of picking.

        scores: (candidates,) of all candidates.
        measured: the candidates measured so far.
        """
        position = {i: p for p, i in enumerate(self.candidates)}
        chosen, scale = list[int](), self.scale(workload)
        for _ in range(self.picks):
            allowed = sorted({*self.allowed((*measured, *chosen))} - {*chosen})
            if not allowed:
                break
            (top,) = source.top(scores[[position[i] for i in allowed]], 1, scale)
            chosen.append(allowed[int(top)])
        return chosen

    def measured(self, workload: Candidates, picked: Sequence[int]) -> dict[int, Fraction]:
        """By pick, the variance of its noise; the last round takes all that the filter has left."""
        if self.last and picked:
            return self.filled(self.before, workload, picked)
        return self.variances(workload)

    @property
    def _allowed(self) -> PrivacyFilter:
        return self.before

    def allows(self, picked: Sequence[int], measured: Sequence[int]) -> bool:
        """Whether the next round may pick these candidates."""
        new = {*picked} & {*self.candidates}
        return 0 < len(new) == len(picked) <= self.picks

    def after(self, workload: Candidates, picked: Sequence[int]) -> Annealed | None:
        """The remaining rounds, or None."""
        if self.last:
            return None
        charged = self.charged(workload, picked)
        return replace(self, rho=charged.left, before=charged)

    def judged(self, learnt: float, noise: float) -> Annealed:
        """The next rounds: their noise is half if a round taught no more than noise.

        learnt: how far the model's answers to what the round measured changed, in sum.
        noise: how far the round's noise alone would have moved these answers.
        """
        return self.at(self.level + 1) if learnt <= noise and self.level < MOST_LEVEL else self

    def at(self, level: int) -> Annealed:
        """The rounds after noise has fallen `level` times. Raises ValueError above MOST_LEVEL."""
        return replace(self, level=level)


Phase: TypeAlias = Everything | Rounds | Annealed

# The phase with a number, from 0, given all answers of earlier phases; None after the last phase.
NextPhase: TypeAlias = Callable[[int, NoisyAnswers], Phase | None]
