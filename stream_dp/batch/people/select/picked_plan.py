"""How rho is spent in declared rounds: people, single columns, then rounds that pick pairs.

Source: McKenna, Mullins, Sheldon, Miklau 2022, "AIM" (arXiv 2201.12677): its scores, its annealed
noise and its exact inference. This version measures the number of people and single columns once,
then residuals of pairs, with exact noise, several in a round; the tree that its pairs need is
bounded when they are picked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

from stream_dp.errors import UserError

from ...rounds.annealing import Annealed
from ...rounds.phases import Everything, NoisyAnswers, Phase
from ..known import Known
from ..measure.residual_counts import Columns
from ..measure.residual_noise import precision
from ..model.junction_tree import JunctionTree
from ..model.tree_growth import open_pairs
from ..model.tree_model import OF_ROUNDS, TreeModel
from ..people_table import PeopleDomain
from .at_once_plan import NUMBER
from .pairs import RankedPairs, ranked_pairs

ONE_WAYS = Fraction(15, 100)
MOST_CELLS = 60_000  # of the tree's cliques


@dataclass(frozen=True, eq=False)
class PickPlan:
    """The phases of declared rounds; see `people_plan.PeoplePlan`.

    pairs: all candidates.
    rho: the budget.
    rounds: how many there are if noise does not fall.
    picks: pairs that each picks, at most.
    base: sets of columns that the tree holds from the beginning, as others have published them.
    labels: columns of which each picked pair holds one; none: any pair.
    known: what others have published.
    """

    pairs: RankedPairs
    rho: Fraction
    rounds: int
    picks: int
    base: tuple[Columns, ...] = ()
    labels: frozenset[int] = frozenset()
    known: tuple[Known, ...] = ()

    @staticmethod
    def of(
        domain: PeopleDomain,
        rho: Fraction,
        rounds: int,
        picks: int,
        known: tuple[Known, ...] = (),
        predicted: frozenset[int] = frozenset(),
    ) -> PickPlan:
        """The phases of declared rounds; pairs with a column that is predicted count more.

        Raises UserError where every pair of columns is too large.
        """
        base = known_sets(domain, known)
        pairs = ranked_pairs(domain, MOST_CELLS // 2, predicted)
        if max(map(len, pairs.sets)) < 2:
            least = prod(sorted(domain.sizes)[:2])
            raise UserError(
                f"people: the two smallest columns have {least:,} cells together; pairs that are"
                f" picked have at most {MOST_CELLS // 2:,}: declare `rounds = 0`"
            )
        return PickPlan(pairs, rho, rounds, picks, base, known=known)

    @property
    def workload(self) -> RankedPairs:
        """All that may be measured."""
        return self.pairs

    @property
    def may_pick(self) -> tuple[bool, ...]:
        """Always: see `people_plan.PeoplePlan`."""
        return (True,)

    def picks_pairs(self, answers: NoisyAnswers) -> bool:
        """Always: see `people_plan.PeoplePlan`."""
        return True

    def tree(self, answers: NoisyAnswers) -> TreeModel:
        """The graphical model of the picked pairs."""
        return TreeModel(self.pairs, self.base, self.known, solver=OF_ROUNDS)

    @property
    def most_rounds(self) -> int:
        """Of all phases, if noise does not fall."""
        return sum(phase.rounds for phase in self.phases)

    def phase(self, number: int, answers: NoisyAnswers) -> Phase | None:
        """The phase of a number, from 0; what the last one picks depends on answers."""
        return self.phases[number] if number < len(self.phases) else None

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """People, single columns and the rounds."""
        sets, moves = self.pairs.sets, self.pairs.domain.moves
        phases, left = list[Phase](), self.rho
        if moves:
            phases.append(Everything(NUMBER * self.rho, (0,), (Fraction(1),)))
            left -= NUMBER * self.rho
        singles = tuple(i for i, a in enumerate(sets) if len(a) == 1)
        weights = tuple(1 / precision(self.pairs.domain.cells(sets[i])) for i in singles)
        phases.append(Everything(ONE_WAYS * self.rho, singles, weights))
        left -= ONE_WAYS * self.rho
        return (*phases, self.picking(left))

    def picking(self, rho: Fraction) -> Annealed:
        """The rounds."""
        return Annealed(
            rho,
            candidates=tuple(self.candidates),
            first=rho / (self.rounds * self.picks),
            picks=self.picks,
            allowed=self.allowed,
        )

    @cached_property
    def candidates(self) -> dict[int, Columns]:
        """The pairs to pick from, by number."""
        return {
            i: a
            for i, a in enumerate(self.pairs.sets)
            if len(a) == 2
            and self.pairs.domain.cells(a) <= MOST_CELLS // 2
            and not (self.labels and self.labels.isdisjoint(a))
        }

    def allowed(self, measured: Sequence[int]) -> list[int]:
        """The pairs that may be picked after what was measured."""
        sets = (self.pairs.sets[i] for i in measured)
        picked = tuple(dict.fromkeys(a for a in sets if len(a) == 2))
        room = open_pairs(self.pairs.domain.sizes, self.base, picked, MOST_CELLS)
        return [i for a in room if (i := self.pairs.numbers.get(a)) in self.candidates]


def known_sets(domain: PeopleDomain, known: Sequence[Known]) -> tuple[Columns, ...]:
    """What others have published of two columns and more, if a tree can hold it."""
    base = tuple(dict.fromkeys(other.columns for other in known if len(other.columns) > 1))
    return () if JunctionTree.of(domain.sizes, base).cells > MOST_CELLS // 2 else base
