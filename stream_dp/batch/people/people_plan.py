"""The plan of a table of people, for `check`, the fit and the certificate.

A table of people is fitted in four steps.

1. Compress (`compression.py`, `projections.py`): the table's columns become those that are
   measured. Sums of numbers are added, or columns are joined and rare values merged.
2. Measure (`residual_counts.py`, `pair_filter.py`): the number of people where it is private, then
   single columns.
3. Select (`all_pairs.py`, `picked_pairs.py`): all pairs, listed marginals, pairs that rounds pick,
   or none at all.
4. Model (`mixture_model.py`, `tree_model.py`): a mixture of products of blocks, or a graphical
   model of what was picked or listed.

A plan says steps 2 to 4. The kinds `mixture`, `rap` and `match` are presets: they differ in what
they compress, and in the plans that their releases may declare.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import prod
from typing import Protocol

from stream_dp.errors import UserError
from stream_dp.study import PeopleRelease
from stream_dp.study.table_releases import PICKED_TITLE

from ..rounds.adaptive_fit import Phase
from ..rounds.phases import Everything, NoisyAnswers, PrivacyFilter
from ..synthesizer import Known
from .all_pairs import (
    MANY,
    MOST_TRIPLE,
    MOST_WITH_TRIPLES,
    NUMBER,
    AllPairs,
    Choice,
    divided_picks,
    label_columns,
    smallest_triples,
)
from .pair_filter import PairFilter, residual_phase
from .people_table import PeopleDomain
from .picked_pairs import (
    MOST_PAIR,
    RankedPairs,
    known_sets,
    pickable_pairs,
    picking_phase,
    ranked_pairs,
)
from .projections import linear_residuals
from .residual_counts import Columns, Residuals, all_residuals
from .tree_model import OF_FEW_PAIRS, OF_ROUNDS, TreeModel
from .weighted_tree import WeightedTree

ONE_WAYS = Fraction(15, 100)  # of rho: single columns before declared rounds
MANY_PEOPLE = 1 << 62  # more than there are: what is measured of them is the most


class LastPhase(Protocol):
    """Says what a last phase measures."""

    def last_phase(self, people: int, answers: NoisyAnswers) -> Phase:
        """The phase that follows all noisy answers. people: how many there are."""


@dataclass(frozen=True, eq=False)
class Steps:
    """The measurements after the number of people, and the model.

    title: the mechanism in words; a certificate says it, and `check`.
    phases: of single columns, then of pairs or listed marginals.
    last: says what a last phase measures, from all noisy answers; None without this phase.
    tree: the graphical model before it has learnt; None for a mixture of blocks.
    """

    title: str
    phases: tuple[Phase, ...]
    last: LastPhase | None = None
    tree: TreeModel | WeightedTree | None = None


@dataclass(frozen=True, eq=False)
class PeoplePlan:
    """The phases of a fit, and the model.

    workload: all that may be measured.
    known: what others have published of the same columns.
    steps: by the number of people, at least 1.
    people: their number, public or noisy; None if `counting` measures it.
    counting: the phase that counts people.
    fewest: the fewest people for whom the steps are those of MANY_PEOPLE; 1 if they always are.
    """

    workload: Residuals
    known: tuple[Known, ...]
    steps: Callable[[int], Steps]
    people: int | None = None
    counting: Everything | None = None
    fewest: int = 1

    @property
    def supposed(self) -> tuple[int, ...]:
        """Numbers of people that lead to every possible list of steps, at its longest."""
        if self.people is not None:
            return (self.people,)
        return (MANY_PEOPLE, self.fewest - 1) if self.fewest > 1 else (MANY_PEOPLE,)

    @property
    def titles(self) -> tuple[str, ...]:
        """The mechanisms that a certificate may name."""
        return tuple(dict.fromkeys(self.steps(people).title for people in self.supposed))

    @property
    def most_rounds(self) -> int:
        """The rounds of all phases, if noise does not fall."""
        steps = [self.steps(people) for people in self.supposed]
        rounds = (sum(p.rounds for p in s.phases) + (s.last is not None) for s in steps)
        return max(rounds) + (self.counting is not None)

    def number(self, answers: NoisyAnswers) -> int:
        """The number of people, public or noisy; at least 1."""
        return max(1, int(answers.values[0]) if self.people is None else self.people)

    def phases(self, people: int) -> list[Phase]:
        """All phases for a number of people except the last phase, which noisy answers choose."""
        counting = [] if self.counting is None else [self.counting]
        return [*counting, *self.steps(people).phases]

    def phase(self, number: int, answers: NoisyAnswers) -> Phase | None:
        """The phase `number`, from 0, given all answers; None after the last phase."""
        if number == 0 and self.counting is not None:
            return self.counting
        people = self.number(answers)
        phases, last = self.phases(people), self.steps(people).last
        if number == len(phases) and last is not None:
            return last.last_phase(people, answers)
        return phases[number] if number < len(phases) else None


def people_plan(
    domain: PeopleDomain, release: PeopleRelease, known: tuple[Known, ...] = ()
) -> PeoplePlan:
    """The plan of the kinds `mixture` and `rap`. Raises UserError where every pair is too large."""
    if release.chosen:
        return _chosen_plan(domain, release, known)
    if release.declared_rounds:
        return _rounds_plan(domain, release, *release.declared_rounds, known)
    if release.linear:
        return all_pairs_plan(linear_residuals(domain, release), release, known)
    return all_pairs_plan(all_residuals(domain, 3, MOST_TRIPLE), release, known)


def all_pairs_plan(
    residuals: Residuals, release: PeopleRelease, known: tuple[Known, ...] = ()
) -> PeoplePlan:
    """All pairs at once, whatever the number of people."""
    counting, before = _counting(residuals, release)
    everything = AllPairs(residuals, release.rho, label_columns(release), known, before)
    steps = Steps(release.titles[0], everything.phases, last=everything)
    return PeoplePlan(residuals, known, lambda people: steps, residuals.domain.size, counting)


def _counting(
    workload: Residuals, release: PeopleRelease
) -> tuple[Everything | None, PrivacyFilter]:
    """The phase that counts people where their number is private, and the filter after it."""
    if not workload.domain.moves:
        return None, PairFilter(workload)
    counting = residual_phase(workload, [()], NUMBER * release.rho)
    return counting, counting.charged


def _rounds_plan(
    domain: PeopleDomain,
    release: PeopleRelease,
    rounds: int,
    picks: int,
    known: tuple[Known, ...],
) -> PeoplePlan:
    """Single columns, then declared rounds; pairs with a label count more."""
    pairs = ranked_pairs(domain, label_columns(release))
    if max(map(len, pairs.sets)) < 2:
        smallest = prod(sorted(domain.sizes)[:2])
        raise UserError(
            f"people: the two smallest columns have {smallest:,} cells together; pairs that are"
            f" picked have at most {MOST_PAIR:,}: declare `rounds = 0`"
        )
    base = known_sets(domain, known)
    counting, before = _counting(pairs, release)
    singles = residual_phase(pairs, single_columns(domain), ONE_WAYS * release.rho, before=before)
    rho = (1 - NUMBER * domain.moves - ONE_WAYS) * release.rho
    picking = picking_phase(pairs, rho, rounds, picks, base, before=singles.charged)
    tree = TreeModel(pairs, base, known, solver=OF_ROUNDS)
    steps = Steps(PICKED_TITLE, (singles, picking), tree=tree)
    return PeoplePlan(pairs, known, lambda people: steps, domain.size, counting)


def _chosen_plan(
    domain: PeopleDomain, release: PeopleRelease, known: tuple[Known, ...]
) -> PeoplePlan:
    """The plan by the number of people; from MANY columns on, without large pairs."""
    labels, many = label_columns(release), len(domain.columns) >= MANY
    sets = _sets_of_many(domain) if many else all_residuals(domain, 3, MOST_TRIPLE).sets
    workload, base = RankedPairs(domain, sets, guessing=many), known_sets(domain, known)
    counting, before = _counting(workload, release)
    everything = AllPairs(workload, release.rho, labels, known, before)
    pairs = [*pickable_pairs(workload, labels).values()]
    rho = (1 - NUMBER * domain.moves) * release.rho
    choice, fewest, every = Choice(domain, rho), math.inf, everything.sets(2)
    if not many or len(every) == math.comb(len(domain.columns), 2):
        fewest = max(1, choice.fewest_at_once(every)) if pairs else 1

    @cache
    def steps(people: int) -> Steps:
        if people >= fewest:
            return Steps(release.data_set.mechanism, everything.phases, last=everything)
        share = choice.singles_share(people)
        picks = choice.picks(pairs, (1 - share) * rho, people)
        of_singles = (share if picks else 1) * rho
        singles = residual_phase(workload, single_columns(domain), of_singles, before=before)
        phases: tuple[Phase, ...] = (singles,)
        if picks:
            rounds = divided_picks(picks, len(domain.columns))
            after = singles.charged
            phases += (picking_phase(workload, (1 - share) * rho, *rounds, base, labels, after),)
        tree = TreeModel(workload, base, known, solver=OF_FEW_PAIRS)
        return Steps(PICKED_TITLE, phases, tree=tree)

    threshold = 1 if fewest == math.inf else math.ceil(min(fewest, MANY_PEOPLE))
    return PeoplePlan(workload, known, steps, domain.size, counting, threshold)


def _sets_of_many(domain: PeopleDomain) -> tuple[Columns, ...]:
    """Pairs to pick from, and the smallest triples of not too many columns."""
    columns, sets = range(len(domain.columns)), ranked_pairs(domain).sets
    if len(columns) > MOST_WITH_TRIPLES:
        return sets
    return (*sets, *smallest_triples(domain, [*combinations(columns, 3)]))


def single_columns(domain: PeopleDomain) -> list[Columns]:
    return [(c,) for c in range(len(domain.columns))]
