"""The plan of the kind `match`: single columns, then marginals of two columns and three.

Both phases measure interactions (`residual_counts.py`), each once, however many marginals hold it.
Within a phase noise variances are in proportion to prod n_i^(3/2) over squared weights
(`pair_filter.py`). Of the second phase triples take 3/5 of the cost under `add_remove` before
weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import ClassVar

from stream_dp.study import MatchRelease
from stream_dp.study.table_releases import PICKED_TITLE

from ..rounds.phases import Everything, NoisyAnswers, PrivacyFilter
from ..synthesizer import Known
from .all_pairs import NOISIEST, Choice, divided_picks, label_columns, smallest_triples
from .compression import Compression, Encoding, MergedColumn, NoisyColumn
from .junction_tree import JunctionTree
from .pair_filter import PairFilter, median_variation, precision, residual_phase
from .people_plan import PeoplePlan, Steps, single_columns
from .people_table import PeopleDomain
from .picked_pairs import known_sets, picking_phase, ranked_pairs
from .residual_counts import Columns, Residuals
from .tree_model import OF_FEW_PAIRS, OF_MARGINALS, TreeModel

NUMBER = Fraction(1, 25)  # of the first phase: counts people, where their number is private
PAIRS = 300  # that are measured by default, at most
MOST_TREE_CELLS = 250_000  # of all cliques of the tree of listed marginals
_OF_TRIPLES = Fraction(3, 2)  # the cost of triples over that of pairs


@dataclass(frozen=True, eq=False)
class MatchPlan:
    """The plans of both phases.

    encoding: the measured columns.
    release: its budget and its marginals.
    repeats: whether all of `at_once_phases` are measured, one after the other.
    """

    encoding: Encoding
    release: MatchRelease
    repeats: ClassVar[bool] = False

    @cached_property
    def weights(self) -> dict[Columns, Fraction]:
        """The declared marginals with their weights."""
        column = {name: c for c, name in enumerate(self.encoding.names)}
        return {
            tuple(sorted(column[n] for n in m.of)): m.weight for m in self.release.listed_marginals
        }

    @property
    def labels(self) -> frozenset[int]:
        """The measured columns that have a label, alone or in a composite."""
        labels = label_columns(self.release)
        return frozenset(c for c, parts in enumerate(self.encoding.parts) if labels & {*parts})

    @cached_property
    def listed(self) -> list[Columns]:
        """The declared marginals of two columns and three. Without any, people's number chooses."""
        return [columns for columns in self.weights if len(columns) > 1]

    @cached_property
    def first(self) -> PeoplePlan:
        """The first phase: the number of people where it is private, then all single columns."""
        domain, release = self.encoding.domain, self.release
        singles = Residuals(domain, ((), *single_columns(domain)))
        counting, counted = None, Fraction(0)
        if domain.moves:
            counted = NUMBER * release.one_ways * release.rho
            counting = residual_phase(singles, [()], counted)

        before = None if counting is None else counting.charged

        def steps(people: int) -> Steps:
            phase = residual_phase(
                singles,
                singles.sets[1:],
                self.one_ways(people) * release.rho - counted,
                importance=lambda columns: self.weights.get(columns, Fraction(1)) ** 2,
                before=before,
            )
            return Steps(release.data_set.mechanism, (phase,))

        return PeoplePlan(singles, (), steps, domain.size, counting)

    def choice(self, domain: PeopleDomain) -> Choice:
        """What decides between all pairs at once and rounds that pick pairs."""
        return Choice(domain, self.release.rho)

    def _after_first(self, residuals: Residuals, people: int) -> PrivacyFilter:
        """What the first phase has charged, as a filter on `residuals` of the compressed domain."""
        (phase,) = self.first.steps(people).phases
        assert isinstance(phase, Everything)
        after = phase.charged
        assert isinstance(after, PairFilter)
        return after.compressed(residuals)

    def one_ways(self, people: int) -> Fraction:
        """The share of rho that counts people and measures single columns.

        people: how many there are, public or noisy; below 1 taken as 1.
        """
        release, domain = self.release, self.encoding.domain
        if self.listed or "one_ways" in release.model_fields_set:
            return release.one_ways
        people = max(1, people)  # both phases split rho alike, whatever noise says
        choice = self.choice(domain)
        if people >= choice.fewest_at_once([*combinations(range(len(domain.columns)), 2)]):
            return release.one_ways
        return choice.singles_share(people, release.one_ways)

    def compression(self, answers: NoisyAnswers) -> Compression:
        """The compressed domain that the first phase's answers say.

        Candidate 0 is the number of people, candidate c + 1 the measured column c.
        """
        people, people_variance = self.encoding.domain.size or 0, Fraction(0)
        columns, exempt = list[MergedColumn](), {*(self.release.exempt or ())}
        starts = (0, *answers.ends[:-1])
        for candidate, first, end in zip(answers.candidates, starts, answers.ends, strict=True):
            values, variance = answers.values[first:end], answers.variances[first]
            if candidate == 0:
                people, people_variance = int(values[0]), variance
                continue
            noisy = NoisyColumn(values, variance, people, people_variance)
            public = self.encoding.public_groups(candidate - 1)
            classes = self.encoding.classes(candidate - 1)
            is_exempt = self.encoding.names[candidate - 1] in exempt
            threshold = self.release.threshold
            columns.append(MergedColumn.of(noisy, public, threshold, is_exempt, classes))
        return Compression(self.encoding.domain, tuple(columns))

    def second(
        self, domain: PeopleDomain, people: int, known: tuple[Known, ...] = ()
    ) -> PeoplePlan:
        """The second phase on a compressed domain.

        people: how many there are, public or noisy.
        known: what is known of the domain already, single columns among it.
        """
        tree = None
        if not self.listed:
            picked = self.picked(domain, people, known)
            if picked is not None:
                return picked
            residuals, phase = self.by_default(domain, people)
        else:
            residuals, phase = self.measured(domain, self.interactions(domain), people)
            base = (*residuals.sets, *domain.zeros.sets)
            if JunctionTree.of(domain.sizes, base).cells <= MOST_TREE_CELLS:
                tree = TreeModel(residuals, base, known, solver=OF_MARGINALS)
        steps = Steps(self.release.data_set.mechanism, (phase,), tree=tree)
        return PeoplePlan(residuals, known, lambda people: steps, people)

    def fewest_at_once(self, domain: PeopleDomain) -> int:
        """The number of people from which on all pairs are measured at once, in one round.

        Of fewer people, rounds pick pairs one after the other (`picked`). Returns 1, so that no
        pairs are picked, if marginals are declared or the domain has no pairs to pick from.

        domain: the compressed domain.
        """
        sets = [a for a in ranked_pairs(domain).sets if len(a) == 2]
        if self.listed or not sets:
            return 1
        return max(1, math.ceil(self.choice(domain).fewest_at_once(sets)))

    def picks(self, domain: PeopleDomain, people: int) -> int:
        """The number of pairs that rounds pick; 0 if noise hides every pair."""
        sets = [a for a in ranked_pairs(domain).sets if len(a) == 2]
        rho = (1 - self.one_ways(people)) * self.release.rho
        return self.choice(domain).picks(sets, rho, people)

    def picked(
        self, domain: PeopleDomain, people: int, known: tuple[Known, ...] = ()
    ) -> PeoplePlan | None:
        """The second phase if pairs are picked in rounds, at least a pair; else None."""
        people = max(1, people)
        if people >= self.fewest_at_once(domain):
            return None
        pairs, base = ranked_pairs(domain, self.labels), known_sets(domain, known)
        rho = (1 - self.one_ways(people)) * self.release.rho
        picks = max(1, self.picks(domain, people))
        rounds, before = divided_picks(picks, len(domain.columns)), self._after_first(pairs, people)
        phase = picking_phase(pairs, rho, *rounds, base, before=before)
        tree = TreeModel(pairs, base, known, solver=OF_FEW_PAIRS)
        steps = Steps(PICKED_TITLE, (phase,), tree=tree)
        return PeoplePlan(pairs, known, lambda people: steps, people)

    def by_default(self, domain: PeopleDomain, people: int) -> tuple[Residuals, Everything]:
        """What is measured at once without declared marginals, and its phase.

        These are the default pairs. The default triples join them if the noise of the median triple
        is below NOISIEST, as a total variation.
        """
        triples = self.triples(domain)
        if triples:
            residuals, phase = self.pairs_and(domain, triples, people)
            variances = phase.variances(residuals)
            noise = {i: v for i, v in variances.items() if len(residuals.sets[i]) == 3}
            if median_variation(residuals, noise, max(people, 1)) < NOISIEST:
                return residuals, phase
        return self.pairs_and(domain, [], people)

    def at_once_phases(
        self, domain: PeopleDomain, people: int
    ) -> Iterator[tuple[str, Residuals, Everything]]:
        """By title, what is measured at once if no pair is picked, and its phase.

        Only one of them takes place, by the noise; with `repeats` all do, one after the other.
        """
        yield "pairs of columns", *self.pairs_and(domain, [], people)
        if triples := self.triples(domain):
            title = f"or pairs and triples, where the noise of triples is below {NOISIEST:g}"
            yield title, *self.pairs_and(domain, triples, people)

    def pairs_and(
        self, domain: PeopleDomain, triples: list[Columns], people: int
    ) -> tuple[Residuals, Everything]:
        """The default pairs and these triples, all of weight 1, and their phase."""
        return self.measured(domain, dict.fromkeys([*self.pairs, *triples], Fraction(1)), people)

    @cached_property
    def pairs(self) -> list[Columns]:
        """The pairs to measure by default: the pairs with the fewest values, before merging."""
        source = self.encoding.domain
        pairs = combinations(range(len(source.columns)), 2)
        return sorted(sorted(pairs, key=lambda a: (source.cells(a), a))[:PAIRS])

    def triples(self, domain: PeopleDomain) -> list[Columns]:
        """The triples to measure by default: all of their pairs are measured as well."""
        pairs, triples = {*self.pairs}, combinations(range(len(domain.columns)), 3)
        return smallest_triples(
            domain, [a for a in triples if pairs.issuperset(combinations(a, 2))]
        )

    def interactions(self, domain: PeopleDomain) -> dict[Columns, Fraction]:
        """The interactions that the listed marginals need, with the largest of their weights."""
        weights = dict[Columns, Fraction]()
        large = {*self._large_triples(domain)}
        for columns in self.listed:
            for ways in (2,) if columns in large else (2, 3):
                for subset in combinations(columns, ways):
                    weights[subset] = max(self.weights[columns], weights.get(subset, Fraction(0)))
        return weights

    def dropped(self, domain: PeopleDomain) -> tuple[str, ...]:
        """The declared triples too large to be measured; only their pairs are measured."""
        names = self.encoding.names
        return tuple(", ".join(names[c] for c in a) for a in self._large_triples(domain))

    def _large_triples(self, domain: PeopleDomain) -> list[Columns]:
        triples = [a for a in self.listed if len(a) == 3]
        return sorted({*triples} - {*smallest_triples(domain, triples)})

    def measured(
        self, domain: PeopleDomain, weights: Mapping[Columns, Fraction], people: int
    ) -> tuple[Residuals, Everything]:
        """The second phase if interactions of two columns and three are measured at once.

        weights: by interaction. Triples get a further factor, which makes the cost of all of them
            _OF_TRIPLES times that of all pairs if every weight is 1.
        """
        residuals = Residuals(domain, tuple(sorted(weights, key=lambda a: (len(a), a))))
        costs = {2: Fraction(0), 3: Fraction(0)}
        for columns in residuals.sets:
            cost = residuals.squared_norm(columns) * precision(domain.cells(columns))
            costs[len(columns)] += cost
        of_triples = Fraction(1)
        if costs[2] and costs[3]:
            # Rounded, so that the variances stay short fractions.
            scaled = round(_OF_TRIPLES * costs[2] * (1 << 20) / costs[3]) or 1
            of_triples = Fraction(scaled, 1 << 20)
        rho = (1 - self.one_ways(people)) * self.release.rho
        return residuals, residual_phase(
            residuals,
            residuals.sets,
            rho,
            importance=lambda a: weights[a] ** 2 * (of_triples if len(a) == 3 else 1),
            before=self._after_first(residuals, people),
        )
