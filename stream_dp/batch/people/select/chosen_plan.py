"""The phases of a table of people by default: what the number of people chooses (`choice.py`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from ...rounds.phases import Everything, NoisyAnswers, Phase
from ..known import Known
from ..measure.residual_counts import Columns, all_residuals
from ..measure.residual_noise import precision
from ..model.tree_model import OF_FEW_PAIRS, TreeModel
from ..people_table import PeopleDomain
from .at_once_plan import MOST_TRIPLE, NUMBER, ResidualPlan
from .choice import MANY, Choice, picking
from .pairs import RankedPairs, ranked_pairs
from .picked_plan import MOST_CELLS, PickPlan, known_sets


@dataclass(frozen=True, eq=False)
class ChosenPlan:
    """The phases that the number of people chooses; see `people_plan.PeoplePlan`.

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

    @property
    def may_pick(self) -> tuple[bool, ...]:
        """Whether pairs are picked, as the number of people chooses: one answer if it is public."""
        size = self.domain.size
        supposed = (1 << 62, 1) if size is None else (size,)
        return tuple(dict.fromkeys(not self.measures_all(people) for people in supposed))

    def picks_pairs(self, answers: NoisyAnswers) -> bool:
        """Whether pairs are picked, given the answers of the first phase."""
        return not self.measures_all(self.people(answers))

    def tree(self, answers: NoisyAnswers) -> TreeModel | None:
        """The graphical model of picked pairs; None where all pairs are measured at once."""
        if not self.picks_pairs(answers):
            return None
        return TreeModel(self.workload, self.base, self.known, solver=OF_FEW_PAIRS)

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
    def most_rounds(self) -> int:
        """Of all phases; at most, where the number of people is not public."""
        size = self.domain.size
        if size is not None and self.measures_all(size):
            return self.at_once.most_rounds
        picked = self.domain.moves + sum(phase.rounds for phase in self.later(size or 1 << 40))
        return picked if size is not None else max(self.at_once.most_rounds, picked)
