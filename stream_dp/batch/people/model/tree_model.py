"""A graphical model of noisy interactions of columns, exact on a junction tree.

Of all distributions it has the largest entropy, less the squared distance to the noisy interactions
over their variances; `tree_dual.py` solves its dual. What is not measured is as independent as it
may be. The tree grows with the pairs that rounds pick, and the solution of one round starts the
next. The model sees noisy answers only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ...data.domain import Int64Array
from ...rounds.phases import NoisyAnswers
from ..known import Known
from ..measure.month_fusion import Past, fused
from ..measure.residual_counts import Columns, Residuals, centred
from ..measure.targets import CLEAR, Targets
from ..people_table import People
from .junction_tree import MOST_CELLS, JunctionTree, Table, grown_tree
from .people_draw import draw_clique, drawn_people
from .tree_dual import Solver, TreeDual

OF_ROUNDS = Solver(50.0)  # declared rounds
OF_FEW_PAIRS = Solver(10.0, growing=True)  # little budget: entropy must not outweigh columns
OF_MARGINALS = Solver(100.0)  # listed marginals


@dataclass(frozen=True, eq=False)
class TreeModel:
    """A graphical model; see `loop.Model`.

    residuals: the measured interactions.
    base: sets of columns that the tree holds from the beginning.
    known: interactions that others have published.
    past: what earlier tables say.
    people: their number, public or noisy.
    solver: of the dual.
    logits: by set of columns, the dual's solution.
    gap: the duality gap there, in nats; see `tree_dual.py`.
    tree, marginals: of the fitted model, by clique; None before anything is learnt.
    """

    residuals: Residuals
    base: tuple[Columns, ...] = ()
    known: tuple[Known, ...] = ()
    past: Past | None = None
    people: int = 1
    solver: Solver = OF_ROUNDS
    logits: Mapping[Columns, Table] = field(default_factory=dict)
    gap: float = math.inf
    tree: JunctionTree | None = None
    marginals: tuple[Table, ...] = ()

    def answers(self, rows: Int64Array) -> NDArray[np.float64]:
        """(n,) expected counts of the cells of pairs, numbered like the residuals' entries."""
        assert self.tree is not None
        residuals = self.residuals
        result = np.zeros(int(rows.max()) + 1)
        for first, joint in self.tree.pairs(self.marginals):
            for second, shares in joint.items():
                number = residuals.numbers.get((first, second))
                if number is not None and residuals.starts[number + 1] <= len(result):
                    cells = slice(residuals.starts[number], residuals.starts[number + 1])
                    result[cells] = shares.reshape(-1)
        return result[rows] * self.people

    def learn(self, measured: NoisyAnswers) -> tuple[TreeModel, float]:
        targets = fused(Targets.of(self.residuals, measured, self.known), self.past)
        picked = [self.residuals.sets[i] for i in measured.candidates]
        pairs = tuple(dict.fromkeys(a for a in picked if len(a) == 2))
        tree = grown_tree(targets.sizes, self.base, self._with_past(pairs, targets))
        interactions = {
            a: interaction
            for a, interaction in targets.interactions.items()
            if any({*a} <= {*clique} for clique in tree.cliques)
        }
        dual = TreeDual.of(tree, interactions, self.solver.weight(targets.people))
        start = [
            self.logits[a]
            if a in self.logits
            else _logits(targets.one_ways[a[0]])
            if len(a) == 1
            else np.zeros(interaction.values.shape)
            for a, interaction in interactions.items()
        ]
        solution = dual.solved(np.concatenate([table.reshape(-1) for table in start]))
        tables = dual.marginals(solution.vector)[0]
        model = replace(
            self,
            people=targets.people,
            logits=dict(zip(interactions, dual.split(solution.vector), strict=True)),
            gap=solution.gap,
            tree=tree,
            marginals=tuple(tables),
        )
        return model, dual.misfit(tables)

    def _with_past(self, pairs: tuple[Columns, ...], targets: Targets) -> tuple[Columns, ...]:
        """The picked pairs, then those of earlier tables, the clearest first, if there is room."""
        if self.past is None:
            return pairs
        clear = {a: s for a, s in targets.signals.items() if s > CLEAR and a not in pairs}
        for first, second in sorted(clear, key=lambda a: (-clear[a], a)):
            tree = grown_tree(targets.sizes, self.base, pairs)
            if tree.cells + tree.growth(first)[second] <= MOST_CELLS:
                pairs = (*pairs, (first, second))
        return pairs

    def sample(self, seed: int) -> People:
        assert self.tree is not None
        rng, tree = np.random.default_rng(seed), self.tree
        codes = np.empty((self.people, len(tree.sizes)), np.min_scalar_type(max(tree.sizes)))
        for clique, table in enumerate(self.marginals):
            draw_clique(rng, tree.cliques[clique], tree.separators[clique], table, codes)
        return drawn_people(rng, self.residuals.domain, codes[rng.permutation(self.people)])


def _logits(shares: Table) -> Table:
    return centred(np.log(np.maximum(shares, 1e-6)))
