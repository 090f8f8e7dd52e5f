"""The plan of the kind `table`: single columns, merged; all pairs; then pairs again and triples.

1. Single columns, as the kind `match` measures them. Rare values are merged.
2. All pairs of merged columns share a third of the rest. If even the strongest dependence of the
   median merged pair would not show above their noise (`all_pairs.Choice`), pairs are picked in
   rounds instead, where pairs with a label have a larger score (`picked_pairs.py`). If noise hides
   every pair, single columns are measured once more.
3. Two thirds measure pairs once more, and triples, where that helps.

The second measurement goes where the predicted error falls most. All pairs of columns are measured
first, with a third of what is left. A tree is grown on the noisy pairs (`weighted_tree.py`). The
rest goes where dependence shows that the tree does not explain (water-filling). One formula gives
"measure all pairs again", "a few selected pairs" and "only what shows", without the cost of a
selection.

A set A of columns with n_i values has K = prod n_i cells and d = prod (n_i - 1) degrees of freedom.
Its noise has the variance v in a share. The unbiased energy of what is to be learnt is
    S = max(|I_A - J_A|^2 - d v, v / 1000).
J_A is independence for a pair that the tree holds, and the tree's interaction for another pair. A
triple has not been measured. Its energy is predicted as that of columns that follow a hidden
factor: with phi_ij = S_ij / (|p_i|^2 |p_j|^2),
    S_ijk = SKEW sqrt(phi_ij phi_ik phi_jk) |p_i|^2 |p_j|^2 |p_k|^2.
So triples of columns whose pairs the tree explains are not measured.

A ridge estimate with precision p of a share has the total variation, up to a factor,
    e(p) = sqrt(K d S / (S p + d)).
Minimise sum c_A e_A(p_A) over p_A >= q_A at the cost sum u_A (p_A - q_A), where q_A is 1 / v of a
pair and 0 of a triple, u_A = prod n (n - 1) / (2 (K N)^2) is the rho of a unit of precision, and
c_A a weight: HELD for pairs that the tree holds, because others follow from them, and OF_TRIPLES
times the number of pairs over that of triples. With the multiplier mu of the cost,
    p_A = max(q_A, ((c_A sqrt(K d S) S / (2 mu u_A))^(2/3) - d) / S),
and bisection finds mu. The precisions are floats of noisy answers: post-processing. The round
states them as whole numbers (`phases.Weighed`), and the filter charges what is left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_dp.study.table_releases import PICKED_TITLE

from ..rounds.phases import Everything, NoisyAnswers, PrivacyFilter, Weighed
from ..synthesizer import Known
from .all_pairs import Choice, smallest_triples
from .match_plan import MatchPlan
from .pair_filter import precision, residual_phase
from .people_plan import PeoplePlan, Steps, single_columns
from .people_table import PeopleDomain
from .picked_pairs import MOST_CANDIDATE_CELLS, known_sets
from .residual_counts import Columns, Residuals, centred
from .tree_model import OF_FEW_PAIRS, TreeModel
from .weighted_tree import Fitted, WeightedTree

Floats = NDArray[np.float64]
LABELLED = 4.0  # how many times the error of a set counts that holds a label
HELD = 2.0  # how many times the error of a pair counts that the tree holds
OF_TRIPLES = 2.0  # how many times the mean error of triples counts, over that of pairs
SKEW = 0.1  # of the dependence of three columns that follow a hidden factor
_LEAST = 1e-3  # times the noise of a share: the least energy of a dependence
_STEPS = 100  # of bisection
_STATED = 1 << 60  # precisions are stated as whole parts of this


@dataclass(frozen=True, eq=False)
class WaterFilling:
    """The phase of pairs once more and of triples; see `people_plan.LastPhase`.

    residuals: all candidates: pairs, then triples whose pairs are among them.
    rho: the phase's budget.
    labels: columns that are to be predicted.
    known: what is known besides.
    before: the filter that earlier phases leave.
    """

    residuals: Residuals
    rho: Fraction
    labels: frozenset[int]
    known: tuple[Known, ...]
    before: PrivacyFilter

    def last_phase(self, people: int, answers: NoisyAnswers) -> Weighed:
        """The phase that follows noisy answers."""
        base = known_sets(self.residuals.domain, self.known)
        model = WeightedTree(self.residuals, base, self.known).grown(answers)
        assert model.fitted is not None
        added = self.added(model.fitted)
        largest, entries = max(added.values()), dict[int, int]()
        for columns, share in added.items():
            stated = int(share / largest * _STATED) // self.residuals.domain.cells(columns) ** 2
            if stated:
                entries[self.residuals.numbers[columns]] = stated
        return self.stated(entries)

    @property
    def alike(self) -> Weighed:
        """The phase if all pairs show alike, and no triple."""
        cells, sets = self.residuals.domain.cells, self.residuals.sets
        return self.stated({i: int(precision(cells(a))) for i, a in enumerate(sets) if len(a) == 2})

    def stated(self, precisions: Mapping[int, int]) -> Weighed:
        """The phase with these precisions of entries, up to a factor, by candidate."""
        weights = tuple(Fraction(1, entry) for entry in precisions.values())
        return Weighed(self.rho, tuple(precisions), weights, self.before)

    def added(self, fitted: Fitted) -> dict[Columns, float]:
        """By set, the precision of a share that is added; a set that gets none is left out.

        fitted: to all pairs.
        """
        sets, targets, domain = self.residuals.sets, fitted.targets, self.residuals.domain
        cells = np.array([domain.cells(a) for a in sets], float)
        norms = np.array([self.residuals.squared_norm(a) for a in sets], float)
        unit = norms / 2 / (cells * targets.people) ** 2
        freedom = np.array([targets.freedom(a) for a in sets], float)
        energies = self.energies(fitted)
        energy = np.array([energies[a] for a in sets])
        before = np.array(
            [1 / targets.interactions[a].variance if len(a) == 2 else 0.0 for a in sets]
        )
        weights = self.weights(fitted.held)
        gain = weights * np.sqrt(cells * freedom * energy) * energy / (2 * unit)

        def precisions(multiplier: float) -> Floats:
            wanted: Floats = (np.power(gain / multiplier, 2 / 3) - freedom) / energy
            added: Floats = np.maximum(wanted - before, 0)
            return added

        low, high = -100.0, 300.0  # logarithms of the multiplier
        for _ in range(_STEPS):
            middle = (low + high) / 2
            is_dear = precisions(math.exp(middle)) @ unit > float(self.rho)
            low, high = (middle, high) if is_dear else (low, middle)
        found = precisions(math.exp(low))
        return {a: float(x) for a, x in zip(sets, found, strict=True) if x > 0}

    def weights(self, held: frozenset[Columns]) -> Floats:
        """How many times the error of every set counts. held: the sets that the tree holds."""
        sets = self.residuals.sets
        pairs = sum(len(a) == 2 for a in sets)
        of_triple = OF_TRIPLES * pairs / max(len(sets) - pairs, 1)
        of_ways = [of_triple if len(a) == 3 else HELD if a in held else 1.0 for a in sets]
        labelled = [LABELLED if self.labels & {*a} else 1.0 for a in sets]
        weights: Floats = np.array(of_ways) * np.array(labelled)
        return weights

    def energies(self, fitted: Fitted) -> dict[Columns, float]:
        """By set, the sum of squares of what is to be learnt."""
        targets, result = fitted.targets, dict[Columns, float]()
        squares = [float(shares @ shares) for shares in targets.one_ways]
        dependence = dict[Columns, float]()
        for columns in self.residuals.sets:
            scale = math.prod(squares[c] for c in columns)
            if len(columns) == 2:
                values, variance = targets.interactions[columns]
                shown = targets.energies[columns]
                if columns not in fitted.held:
                    apart = values - centred(fitted.pairs[columns])
                    shown = float(np.square(apart).sum()) - targets.freedom(columns) * variance
                result[columns] = max(shown, _LEAST * variance)
                dependence[columns] = result[columns] / scale
            else:  # after all pairs
                of_pairs = math.prod(dependence[a] for a in combinations(columns, 2))
                result[columns] = SKEW * math.sqrt(of_pairs) * scale
        return result


AT_ONCE = Fraction(1, 3)  # of what single columns leave: all pairs
MOST_CANDIDATE_TRIPLES = 300


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
        residuals = Residuals(domain, (*of_two, *candidate_triples(domain, of_two)))
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


def candidate_triples(domain: PeopleDomain, pairs: Sequence[Columns]) -> list[Columns]:
    """The triples that may be measured: all three of their pairs are in `pairs`.

    Two limits hold: the MOST_CANDIDATE_TRIPLES triples with the fewest cells are kept, and of these
    the triples within the limits of `smallest_triples` on cells.
    """
    of_two = {*pairs}
    triples = combinations(range(len(domain.columns)), 3)
    complete = [a for a in triples if of_two.issuperset(combinations(a, 2))]
    complete.sort(key=lambda a: (domain.cells(a), a))
    return smallest_triples(domain, complete[:MOST_CANDIDATE_TRIPLES])
