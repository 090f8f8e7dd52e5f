"""The phases of a table of people by default: what the number of people chooses (`choice.py`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from stream_dp.study.data_sets import MANY
from stream_dp.study.method_titles import PICKED_TITLE, kind_title

from ..phases import Everything, NoisyAnswers, Phase
from .choice import Choice, picking
from .known import Known
from .plan import MOST_TRIPLE, NUMBER, ResidualPlan, precision
from .residuals import Columns, all_residuals
from .rounds.pairs import RankedPairs, ranked_pairs
from .rounds.plan import MOST_CELLS, PickPlan, known_sets
from .table import PeopleDomain


@dataclass(frozen=True, eq=False)
class ChosenPlan:
    """The phases of a fit; see `phases.NextPhase`.

    domain: the columns.
    rho: the budget.
    labels: columns that are to be predicted: each pair that is picked holds one.
    known: what others have published.
    """

    domain: PeopleDomain
    rho: Fraction
    labels: frozenset[int] = frozenset()
    known: tuple[Known, ...] = ()

    @cached_property
    def workload(self) -> RankedPairs:
        """All that may be measured: with many columns no triples, and no pairs that are large."""
        if len(self.domain.columns) >= MANY:
            return ranked_pairs(self.domain, MOST_CELLS // 2)
        return RankedPairs(self.domain, all_residuals(self.domain, 3, MOST_TRIPLE).sets)

    @cached_property
    def at_once(self) -> ResidualPlan:
        """The phases where all pairs are measured."""
        return ResidualPlan(self.workload, self.rho, self.labels, self.known)

    @cached_property
    def base(self) -> tuple[Columns, ...]:
        """What a tree holds from the beginning."""
        return known_sets(self.domain, self.known)

    @cached_property
    def choice(self) -> Choice:
        return Choice(self.domain, (1 - NUMBER * self.domain.moves) * self.rho)

    @cached_property
    def pairs(self) -> list[Columns]:
        """Those that may be picked."""
        plan = PickPlan(self.workload, self.rho, 1, 1, labels=self.labels)
        return [*plan.candidates.values()]

    @cached_property
    def fewest(self) -> float:
        """The fewest people of whom all pairs are measured at once; inf with many columns."""
        if len(self.domain.columns) >= MANY:
            return math.inf
        return self.choice.clearest(self.at_once.sets(2)) if self.pairs else 0

    def people(self, answers: NoisyAnswers) -> int:
        """How many there are, public or noisy; at least 1."""
        size = self.domain.size
        return max(1, int(answers.values[0]) if size is None else size)

    def measures_all(self, people: int) -> bool:
        """Whether all pairs are measured at once."""
        return people >= self.fewest

    def title(self, kind: str, people: int) -> str:
        """The mechanism of a kind for so many people; a certificate says it, and `check`."""
        return kind_title(kind) if self.measures_all(people) else PICKED_TITLE

    def titles(self, kind: str) -> tuple[str, ...]:
        """The mechanisms that the number of people may choose: one where it is public."""
        size = self.domain.size
        supposed = (1 << 62, 1) if size is None else (size,)
        return tuple(dict.fromkeys(self.title(kind, people) for people in supposed))

    def phase(self, number: int, answers: NoisyAnswers) -> Phase | None:
        """The phase of a number, from 0, given the answers of those before it."""
        moves = self.domain.moves
        if moves and number == 0:
            return self.at_once.of(0, [()])
        people = self.people(answers)
        if self.measures_all(people):
            return self.at_once.phase(number, answers)
        later = self.later(people)
        place = number - moves
        return later[place] if place < len(later) else None

    def later(self, people: int) -> Sequence[Phase]:
        """The phases after the number of people where pairs are picked, or are too dear for it."""
        rho, share = self.choice.rho, self.choice.singles(people)
        picks = self.choice.picks(self.pairs, (1 - share) * rho, people)
        if not picks:
            share = Fraction(1)
        numbers = tuple(i for i, a in enumerate(self.workload.sets) if len(a) == 1)
        weights = tuple(1 / precision(self.domain.cells(self.workload.sets[i])) for i in numbers)
        singles = Everything(share * rho, numbers, weights)
        if not picks:
            return [singles]
        rounds, each = picking(picks, len(self.domain.columns))
        plan = PickPlan(self.workload, self.rho, rounds, each, self.base, self.labels)
        return [singles, plan.picking((1 - share) * rho)]

    @property
    def rounds(self) -> int:
        """Of all phases; at most, where the number of people is not public."""
        size = self.domain.size
        if size is not None and self.measures_all(size):
            return self.at_once.rounds
        picked = self.domain.moves + sum(phase.rounds for phase in self.later(size or 1 << 40))
        return picked if size is not None else max(self.at_once.rounds, picked)
