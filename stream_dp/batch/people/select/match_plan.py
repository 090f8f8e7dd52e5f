"""How rho is spent: single columns, then marginals of two and three columns, each with a weight.

Both phases measure interactions (`residual_counts.py`), each once, however many marginals hold it.
Within a phase noise variances are in proportion to prod n_i^(3/2) over squared weights. At equal
weights that minimises the sum of squared errors over the cells of all marginals
(`at_once_plan.py`). Of the second phase triples take 3/5 of the cost under `add_remove` before
weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations

import numpy as np

from stream_dp.study import MatchRelease

from ...rounds.annealing import Annealed
from ...rounds.phases import Everything, NoisyAnswers, Phase
from ..compress.compression import Compression, MergedColumn, NoisyColumn
from ..compress.encoding import Encoding
from ..known import Known
from ..measure.residual_counts import Columns, Residuals
from ..measure.residual_noise import noise_variation, precision
from ..model.junction_tree import JunctionTree
from ..model.tree_model import OF_FEW_PAIRS, OF_MARGINALS, TreeModel
from ..people_table import PeopleDomain
from .at_once_plan import MOST_TRIPLE, MOST_TRIPLES, NOISIEST
from .choice import Choice, picking
from .pairs import ranked_pairs
from .picked_plan import MOST_CELLS, PickPlan, known_sets

NUMBER = Fraction(1, 25)  # of the first phase: counts people, where their number is private
PAIRS = 300  # that are measured by default, at most
MOST_TREE_CELLS = 250_000  # of all cliques of the tree of listed marginals
_OF_TRIPLES = Fraction(3, 2)  # the cost of triples over that of pairs


@dataclass(frozen=True, eq=False)
class MatchPlan:
    """The phases of a fit.

    encoding: the measured columns.
    release: its budget and its marginals.
    """

    encoding: Encoding
    release: MatchRelease

    @cached_property
    def singles(self) -> Residuals:
        """What the first phase measures: the number of people, and every single column."""
        domain = self.encoding.domain
        return Residuals(domain, ((), *((c,) for c in range(len(domain.columns)))))

    def phase(self, number: int, answers: NoisyAnswers) -> Phase | None:
        """The first phase's rounds; see `phases.NextPhase`."""
        size = self.encoding.domain.size
        if size is None and number:
            size = int(answers.values[0])
        phases = self.first(size)
        return phases[number] if number < len(phases) else None

    def one_ways(self, people: int | None) -> Fraction:
        """The part of rho that counts people and measures single columns.

        people: how many there are, public or noisy; None if that is not known yet.
        """
        release = self.release
        if people is None or not self.choosing or "one_ways" in release.model_fields_set:
            return release.one_ways
        people = max(1, people)  # both phases split rho alike, whatever noise says
        choice = Choice(self.encoding.domain, release.rho)
        every = list(combinations(range(len(self.encoding.domain.columns)), 2))
        if people >= choice.clearest(every):
            return release.one_ways
        return choice.singles(people, release.one_ways)

    @property
    def choosing(self) -> bool:
        """Whether the number of people chooses what each phase measures: nothing is declared."""
        return not self.listed

    def first(self, people: int | None = None) -> list[Everything]:
        """The first phase: the number of people where it is private, then all single columns."""
        rho, phases = self.one_ways(people) * self.release.rho, list[Everything]()
        if self.encoding.domain.moves:
            counting = NUMBER * self.release.one_ways * self.release.rho
            phases.append(Everything(counting, (0,), (Fraction(1),)))
            rho -= counting
        sets = self.singles.sets[1:]
        asked = self._asked()
        weights = [
            1 / (precision(self.encoding.domain.cells(a)) * asked.get(a, Fraction(1)) ** 2)
            for a in sets
        ]
        return [*phases, Everything(rho, tuple(range(1, len(sets) + 1)), tuple(weights))]

    def compression(self, answers: NoisyAnswers) -> Compression:
        """The compressed domain that the first phase's answers say."""
        people, people_variance = self.encoding.domain.size or 0, Fraction(0)
        columns, exempt = list[MergedColumn](), {*(self.release.exempt or ())}
        starts = (0, *answers.ends[:-1])
        for number, first, end in zip(answers.candidates, starts, answers.ends, strict=True):
            values, variance = answers.values[first:end], answers.variances[first]
            if number == 0:
                people, people_variance = int(values[0]), variance
                continue
            noisy = NoisyColumn(values, variance, people, people_variance)
            public = self.encoding.public_groups(number - 1)
            own = self.encoding.names[number - 1] in exempt
            columns.append(MergedColumn.of(noisy, public, self.release.threshold, own))
        return Compression(self.encoding.domain, tuple(columns))

    def picked(
        self, domain: PeopleDomain, people: int, known: Sequence[Known] = ()
    ) -> PickPlan | None:
        """How the second phase picks pairs of a compressed domain; None if it picks none.

        people: how many there are, public or noisy.
        """
        pairs = ranked_pairs(domain, MOST_CELLS // 2)
        sets = [a for a in pairs.sets if len(a) == 2]
        choice, people = Choice(domain, self.release.rho), max(1, people)
        if not self.choosing or not sets or people >= choice.clearest(sets):
            return None
        rho = (1 - self.one_ways(people)) * self.release.rho
        picks = max(1, choice.picks(sets, rho, people))
        rounds, each = picking(picks, len(domain.columns))
        return PickPlan(pairs, rho, rounds, each, known_sets(domain, known))

    def later(self, domain: PeopleDomain, people: int, known: tuple[Known, ...]) -> SecondPlan:
        """The plan of the second phase on a compressed domain.

        people: how many there are, public or noisy.
        known: what is known of the domain already, single columns among it.
        """
        picked = self.picked(domain, people, known)
        if picked is not None:
            tree = TreeModel(picked.pairs, picked.base, known, solver=OF_FEW_PAIRS)
            return SecondPlan(picked.pairs, picked.picking(picked.rho), known, tree)
        residuals, phase = self.second(domain, people)
        exact = bool(self.listed)
        exact = exact and JunctionTree.of(domain.sizes, residuals.sets).cells <= MOST_TREE_CELLS
        listed = TreeModel(residuals, residuals.sets, known, solver=OF_MARGINALS)
        return SecondPlan(residuals, phase, known, listed if exact else None)

    def second(self, domain: PeopleDomain, people: int | None) -> tuple[Residuals, Everything]:
        """The second phase on a compressed domain.

        people: how many there are, public or noisy; None to measure every triple that may be.
        """
        if self.listed:
            kept = {*smallest(domain, [a for a in self.listed if len(a) == 3])}
            asked = dict[Columns, Fraction]()
            for a, weight in self.listed.items():
                for part in [a] if len(a) == 2 or a in kept else combinations(a, 2):
                    asked[part] = max(weight, asked.get(part, weight))
            return self._measuring(domain, asked, people)
        alone = self.without_triples(domain, people)
        triples = self.triples(domain)
        if not triples:
            return alone
        asked = dict.fromkeys([*self.pairs, *triples], Fraction(1))
        every = self._measuring(domain, asked, people)
        if people is None or _noise(*every, people) < NOISIEST:
            return every
        return alone

    def without_triples(
        self, domain: PeopleDomain, people: int | None
    ) -> tuple[Residuals, Everything]:
        """The second phase on a compressed domain where it is pairs alone."""
        return self._measuring(domain, dict.fromkeys(self.pairs, Fraction(1)), people)

    @cached_property
    def listed(self) -> dict[Columns, Fraction]:
        """The marginals of two columns and three that are declared, with their weights."""
        return {a: weight for a, weight in self._asked().items() if len(a) > 1}

    @cached_property
    def pairs(self) -> list[Columns]:
        """The pairs that are measured by default: those of fewest values, before any is merged."""
        source = self.encoding.domain
        every = combinations(range(len(source.columns)), 2)
        return sorted(sorted(every, key=lambda a: (source.cells(a), a))[:PAIRS])

    def triples(self, domain: PeopleDomain) -> list[Columns]:
        """The triples that may be measured by default, whose pairs are measured as well."""
        if self.listed:
            return []
        known, every = {*self.pairs}, combinations(range(len(domain.columns)), 3)
        return smallest(domain, [a for a in every if known.issuperset(combinations(a, 2))])

    def dropped(self, domain: PeopleDomain) -> tuple[str, ...]:
        """The declared triples of which pairs alone are measured, as they are too large."""
        triples = [a for a in self.listed if len(a) == 3]
        large = sorted({*triples} - {*smallest(domain, triples)})
        return tuple(", ".join(self.encoding.names[c] for c in a) for a in large)

    def _asked(self) -> dict[Columns, Fraction]:
        """The listed marginals with their weights."""
        places = {name: place for place, name in enumerate(self.encoding.names)}
        return {tuple(sorted(places[n] for n in m.of)): m.weight for m in self.release.asked}

    def _measuring(
        self, domain: PeopleDomain, asked: Mapping[Columns, Fraction], people: int | None
    ) -> tuple[Residuals, Everything]:
        """Everything that marginals of these weights need of two columns and three."""
        weights = dict[Columns, Fraction]()
        for a, weight in asked.items():
            for part in (p for ways in (2, 3) for p in combinations(a, ways)):
                weights[part] = max(weight, weights.get(part, weight))
        sets = sorted(weights, key=lambda a: (len(a), a))
        residuals = Residuals(domain, tuple(sets))
        precisions = {a: precision(domain.cells(a)) for a in sets}
        costs = {2: Fraction(0), 3: Fraction(0)}
        for a in sets:
            norm = math.prod(n * (n - 1) for n in (domain.sizes[c] for c in a))
            costs[len(a)] += norm * precisions[a]
        if costs[2] and costs[3]:
            # Rounded, so that the variances stay short fractions.
            times = Fraction(round(_OF_TRIPLES * costs[2] * (1 << 20) / costs[3]) or 1, 1 << 20)
            precisions |= {a: p * times for a, p in precisions.items() if len(a) == 3}
        variances = tuple(1 / (precisions[a] * weights[a] ** 2) for a in sets)
        rho = (1 - self.one_ways(people)) * self.release.rho
        return residuals, Everything(rho, tuple(range(len(sets))), variances)


@dataclass(frozen=True, eq=False)
class SecondPlan:
    """The second phase; see `people_plan.PeoplePlan`.

    workload: all that may be measured.
    alone: the phase.
    known: what is known already.
    graphical: the graphical model that learns; None for a mixture of blocks.
    """

    workload: Residuals
    alone: Phase
    known: tuple[Known, ...]
    graphical: TreeModel | None

    @property
    def most_rounds(self) -> int:
        """Of the phase, if noise does not fall."""
        return self.alone.rounds

    @property
    def may_pick(self) -> tuple[bool, ...]:
        """Whether pairs are picked in rounds."""
        return (isinstance(self.alone, Annealed),)

    def phase(self, number: int, answers: NoisyAnswers) -> Phase | None:
        """The phase, whose number is 0."""
        return None if number else self.alone

    def picks_pairs(self, answers: NoisyAnswers) -> bool:
        """Whether pairs are picked in rounds."""
        return isinstance(self.alone, Annealed)

    def tree(self, answers: NoisyAnswers) -> TreeModel | None:
        """The graphical model that learns; None for a mixture of blocks."""
        return self.graphical


def smallest(domain: PeopleDomain, triples: Sequence[Columns]) -> list[Columns]:
    """The smallest triples: of at most MOST_TRIPLE cells, and MOST_TRIPLES together."""
    total, result = 0, list[Columns]()
    for a in sorted(triples, key=lambda a: (domain.cells(a), a)):
        total += domain.cells(a)
        if domain.cells(a) <= MOST_TRIPLE and total <= MOST_TRIPLES:
            result.append(a)
    return sorted(result)


def _noise(residuals: Residuals, phase: Everything, people: int) -> float:
    """The noise of the median triple as total variation."""
    variances = phase.variances(residuals)
    triples = [i for i, a in enumerate(residuals.sets) if len(a) == 3]
    each = [
        noise_variation(residuals, residuals.sets[i], float(variances[i]), max(people, 1))
        for i in triples
    ]
    return float(np.median(each))
