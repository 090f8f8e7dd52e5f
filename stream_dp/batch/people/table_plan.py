"""The plan of the kind `table`: single columns, merged; all pairs; then pairs again and triples.

1. Single columns, as the kind `match` measures them. Rare values are merged.
2. All pairs of merged columns share a third of the rest. If even the strongest dependence of the
   median merged pair would not show above their noise (`all_pairs.Choice`), pairs are picked in
   rounds instead, where pairs with a label have a larger score (`picked_pairs.py`). If noise hides
   every pair, single columns are measured once more.
3. Two thirds measure pairs once more, and triples, where that helps (`water_filling.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

from stream_dp.study.table_releases import PICKED_TITLE

from ..rounds.phases import Everything
from ..synthesizer import Known
from .all_pairs import Choice, smallest_triples
from .match_plan import MatchPlan
from .pair_filter import residual_phase
from .people_plan import PeoplePlan, Steps, single_columns
from .people_table import PeopleDomain
from .picked_pairs import MOST_CANDIDATE_CELLS, known_sets
from .residual_counts import Columns, Residuals
from .tree_model import OF_FEW_PAIRS, TreeModel
from .water_filling import LABELLED, WaterFilling
from .weighted_tree import WeightedTree

AT_ONCE = Fraction(1, 3)  # of what single columns leave: all pairs
MOST_TRIPLES = 300  # that may be measured, the smallest


@dataclass(frozen=True, eq=False)
class TablePlan(MatchPlan):
    """See `match_plan.MatchPlan`."""

    repeats: ClassVar[bool] = True

    def choice(self, domain: PeopleDomain) -> Choice:
        return Choice(domain, self.release.rho, precise=False)

    def second(
        self, domain: PeopleDomain, people: int, known: tuple[Known, ...] = ()
    ) -> PeoplePlan:
        picked = self.picked(domain, people, known)
        return self.at_once(domain, people, known) if picked is None else picked

    def picked(
        self, domain: PeopleDomain, people: int, known: tuple[Known, ...] = ()
    ) -> PeoplePlan | None:
        people = max(1, people)
        if people < self.fewest_at_once(domain) and not self.picks(domain, people):
            return self.singles_again(domain, people, known)
        return super().picked(domain, people, known)

    def singles_again(
        self, domain: PeopleDomain, people: int, known: tuple[Known, ...] = ()
    ) -> PeoplePlan:
        """The second phase if noise hides every pair: single columns once more."""
        residuals = Residuals(domain, tuple(single_columns(domain)))
        rho = (1 - self.one_ways(people)) * self.release.rho
        before = self._after_first(residuals, people)
        singles = residual_phase(residuals, residuals.sets, rho, before=before)
        tree = TreeModel(residuals, known_sets(domain, known), known, solver=OF_FEW_PAIRS)
        steps = Steps(PICKED_TITLE, (singles,), tree=tree)
        return PeoplePlan(residuals, known, lambda people: steps, people)

    def at_once(
        self, domain: PeopleDomain, people: int, known: tuple[Known, ...] = ()
    ) -> PeoplePlan:
        """The second phase if all pairs are measured at once."""
        of_two = smallest_pairs(domain)
        residuals = Residuals(domain, (*of_two, *few_triples(domain, of_two)))
        rho = (1 - self.one_ways(people)) * self.release.rho
        labels = self.labels
        # e_A is in proportion to p^(-1/2) where noise is small: c_A raises p by c_A^(2/3).
        labelled = Fraction(LABELLED ** (2 / 3)).limit_denominator(100)
        pairs = residual_phase(
            residuals,
            of_two,
            AT_ONCE * rho,
            importance=lambda a: labelled if labels & {*a} else 1,
            before=self._after_first(residuals, people),
        )
        last = WaterFilling(residuals, (1 - AT_ONCE) * rho, labels, known, pairs.charged)
        tree = WeightedTree(residuals, known_sets(domain, known), known)
        steps = Steps(self.release.data_set.mechanism, (pairs,), last=last, tree=tree)
        return PeoplePlan(residuals, known, lambda people: steps, people)

    def at_once_phases(
        self, domain: PeopleDomain, people: int
    ) -> Iterator[tuple[str, Residuals, Everything]]:
        plan = self.at_once(domain, people)
        steps = plan.steps(people)
        (pairs,) = steps.phases
        assert isinstance(pairs, Everything)
        assert isinstance(steps.last, WaterFilling)
        yield "pairs of columns", plan.workload, pairs
        again = "pairs once more and triples, where that lowers the predicted error most"
        yield again, plan.workload, steps.last.alike


def smallest_pairs(domain: PeopleDomain) -> list[Columns]:
    """All pairs, or the smallest of them with MOST_CANDIDATE_CELLS cells together."""
    total, result = 0, list[Columns]()
    pairs = combinations(range(len(domain.columns)), 2)
    for columns in sorted(pairs, key=lambda a: (domain.cells(a), a)):
        total += domain.cells(columns)
        if total <= MOST_CANDIDATE_CELLS or not result:
            result.append(columns)
    return sorted(result)


def few_triples(domain: PeopleDomain, pairs: Sequence[Columns]) -> list[Columns]:
    """The smallest triples of which all pairs are measured."""
    of_two = {*pairs}
    triples = combinations(range(len(domain.columns)), 3)
    complete = [a for a in triples if of_two.issuperset(combinations(a, 2))]
    complete.sort(key=lambda a: (domain.cells(a), a))
    return smallest_triples(domain, complete[:MOST_TRIPLES])
