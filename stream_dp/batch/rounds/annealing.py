"""Rounds whose noise falls where one taught nothing, until the budget is spent.

Source: McKenna, Mullins, Sheldon, Miklau 2022, "AIM: an adaptive and iterative mechanism for
differentially private synthetic data" (arXiv 2201.12677), "budget annealing". A round picks
candidates that the model answers badly and measures each. Where the model's answers to them then
changed by less than noise alone would explain, the next round has half the deviation of noise in
measurements and picks, so four times the cost. Where less than two rounds' cost is left, one last
round spends all of it. A candidate may be picked again in a later round.

How far noise has fallen is recorded with a round, so that a fit that goes on has the same noise.
Whatever the record says, a round costs no more than is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from stream_dp.privacy.noise import NoiseSource
from stream_dp.privacy.zcdp import selection_rho

from ..data.domain import Int64Array
from .phases import SELECTION, Candidates, Ranked

MOST_LEVEL = 40


@dataclass(frozen=True)
class Annealed:
    """The rounds that are left of a phase.

    rho: what is left of its part of the budget.
    candidates: the numbers of those to pick from.
    first: the rho of one pick and its measurement before noise falls.
    picks: candidates that a round picks, at most.
    allowed: from what was measured before, in order, the candidates that may be picked next; one
        at least.
    selection: the part of rho that pays for picking.
    level: how often noise has fallen.
    Raises ValueError where they leave nothing to do.
    """

    rho: Fraction
    candidates: tuple[int, ...]
    first: Fraction
    picks: int
    allowed: Callable[[Sequence[int]], Iterable[int]]
    selection: Fraction = SELECTION
    level: int = 0

    def __post_init__(self) -> None:
        if min(self.rho, self.first) <= 0 or not 0 < self.selection < 1:
            raise ValueError("rho must be positive, and parts of it between 0 and 1")
        if self.picks < 1 or not self.candidates or not 0 <= self.level <= MOST_LEVEL:
            raise ValueError("there must be a pick, a candidate, and noise")

    @property
    def rounds(self) -> int:
        """How many there are if noise does not fall."""
        return max(1, int(self.rho / (self.first * self.picks)))

    @property
    def last(self) -> bool:
        """Whether the next round spends what is left."""
        return self.rho < 2 * self.picks * self._full

    @property
    def _full(self) -> Fraction:
        return self.first * Fraction(4**self.level)

    @property
    def each(self) -> Fraction:
        """The rho of one candidate of the next round: of its pick and its measurement."""
        return self.rho / self.picks if self.last else self._full

    def variances(self, workload: Candidates) -> dict[int, Fraction]:
        """By candidate, the variance of its noise in the next round: each costs the same."""
        measuring = (1 - self.selection) * self.each
        squared = workload.squared
        return {i: Fraction(squared[i]) / (2 * measuring) for i in self.candidates}

    def scale(self, workload: Ranked) -> Fraction:
        """The squared scale of a pick's Gumbel noise."""
        return workload.sensitivity**2 / (2 * self.selection * self.each)

    def picked(
        self,
        workload: Ranked,
        scores: Int64Array,
        measured: Sequence[int],
        source: NoiseSource,
    ) -> list[int]:
        """The next round's candidates, one after the other.

        scores: (candidates,) of all candidates.
        measured: what was measured before.
        """
        places = {i: place for place, i in enumerate(self.candidates)}
        chosen, scale = list[int](), self.scale(workload)
        for _ in range(self.picks):
            open_ = sorted({*self.allowed((*measured, *chosen))} - {*chosen})
            if not open_:
                break
            (top,) = source.top(scores[[places[i] for i in open_]], 1, scale)
            chosen.append(open_[int(top)])
        return chosen

    def allows(self, picked: Sequence[int], measured: Sequence[int]) -> bool:
        """Whether the next round may have picked these."""
        new = {*picked} & {*self.candidates}
        return 0 < len(new) == len(picked) <= self.picks

    def cost(self, workload: Ranked, picked: Sequence[int]) -> Fraction:
        """The rho of the next round if it picks and measures these."""
        variances = self.variances(workload)
        measured = sum((workload.cost([i], [variances[i]]) for i in picked), Fraction(0))
        return measured + selection_rho(workload.sensitivity, self.scale(workload), len(picked))

    def after(self, workload: Candidates, picked: Sequence[int]) -> Annealed | None:
        """The rounds that are left after one."""
        if self.last:
            return None
        return replace(self, rho=self.rho - self.each * len(picked))

    def judged(self, learnt: float, noise: float) -> Annealed:
        """With noise that falls where a round taught nothing.

        learnt: how far the model's answers to what the round measured changed, in sum.
        noise: how far its noise alone would have moved them.
        """
        return self.at(self.level + 1) if learnt <= noise and self.level < MOST_LEVEL else self

    def at(self, level: int) -> Annealed:
        """With another level. Raises ValueError unless there is such a level."""
        return replace(self, level=level)
