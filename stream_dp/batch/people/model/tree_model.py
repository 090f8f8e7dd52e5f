"""A graphical model of noisy interactions of columns, exact on a junction tree.

With interactions v_A of variance s_A and I_A(p) those of a distribution p, the model maximises
    w H(p) - sum over A of |I_A(p) - v_A|^2 / (2 s_A),
where w is the weight of entropy. Its dual is the minimum over t of
    log Z(t) - sum <t_A, v_A> + w sum s_A |t_A|^2 / 2,  p in proportion to exp(sum t_A),
smooth and convex, solved by L-BFGS (McKenna, Sheldon, Miklau 2019, "Graphical-model based
estimation and inference for differential privacy", arXiv 1901.09136, of which this is the dual).
What is not measured is as independent as it may be. The tree grows with the pairs that rounds pick,
and the solution of one round starts the next. The model sees noisy answers only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ...data.domain import Int64Array
from ...rounds.phases import NoisyAnswers
from ..known import Known
from ..measure.month_fusion import Past, fused
from ..measure.residual_counts import Columns, Residuals, centred
from ..measure.targets import Interaction, Targets, reduced_chi_squared
from ..people_table import People
from .junction_tree import JunctionTree, Table, grown_tree
from .people_draw import draw_clique, drawn_people


class Solver(NamedTuple):
    """How the dual is solved.

    entropy: the weight of entropy.
    steps: of L-BFGS, at most.
    scaled: whether its variables are scaled by the cells' shares, which helps where noise is large.
    """

    entropy: float
    steps: int
    scaled: bool


OF_ROUNDS = Solver(50.0, 200, scaled=True)  # declared rounds
OF_FEW_PAIRS = Solver(10.0, 200, scaled=True)  # little budget: entropy must not outweigh columns
OF_MARGINALS = Solver(100.0, 500, scaled=False)  # listed marginals


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
    tree, marginals: of the fitted model, by clique; None before anything is learnt.
    """

    residuals: Residuals
    base: tuple[Columns, ...] = ()
    known: tuple[Known, ...] = ()
    past: Past | None = None
    people: int = 1
    solver: Solver = OF_ROUNDS
    logits: Mapping[Columns, Table] = field(default_factory=dict)
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
        tree = grown_tree(targets.sizes, self.base, pairs)
        interactions = {
            a: interaction
            for a, interaction in targets.interactions.items()
            if any({*a} <= {*clique} for clique in tree.cliques)
        }
        dual = _Dual.of(tree, interactions, targets.one_ways, self.solver)
        start = [
            self.logits[a]
            if a in self.logits
            else _logits(targets.one_ways[a[0]])
            if len(a) == 1
            else np.zeros(interaction.values.shape)
            for a, interaction in interactions.items()
        ]
        vector = dual.solved(np.concatenate([table.reshape(-1) for table in start]))
        tables = dual.marginals(vector)[0]
        logits = dict(zip(interactions, dual.split(vector), strict=True))
        model = replace(
            self, people=targets.people, logits=logits, tree=tree, marginals=tuple(tables)
        )
        return model, dual.misfit(tables)

    def sample(self, seed: int) -> People:
        assert self.tree is not None
        rng, tree = np.random.default_rng(seed), self.tree
        codes = np.empty((self.people, len(tree.sizes)), np.int64)
        for clique, table in enumerate(self.marginals):
            draw_clique(rng, tree.cliques[clique], tree.separators[clique], table, codes)
        return drawn_people(rng, self.residuals.domain, codes[rng.permutation(self.people)])


@dataclass(frozen=True, eq=False)
class _Dual:
    """The dual of one fit.

    sets: of columns, with interactions; each lies in a clique of the tree.
    holders: by set, its clique.
    values, variances: (n,) interactions as shares, and the variances of their noise.
    scale: (n,) of the dual's variables, so that their curvatures are alike: about the square root
        of a cell's share, whose variance under the model is the dual's curvature.
    entropy: (n,) its weight times the variances.
    steps: of L-BFGS, at most.
    ends: by set, where its values end.
    """

    tree: JunctionTree
    sets: tuple[Columns, ...]
    holders: tuple[int, ...]
    values: Table
    variances: Table
    scale: Table
    entropy: Table
    steps: int
    ends: tuple[int, ...]

    @staticmethod
    def of(
        tree: JunctionTree,
        interactions: Mapping[Columns, Interaction],
        singles: Sequence[Table],
        solver: Solver,
    ) -> _Dual:
        """singles: the shares of single columns."""
        tables = [interaction.values for interaction in interactions.values()]
        sizes = [table.size for table in tables]
        variances = np.repeat([i.variance for i in interactions.values()], sizes)
        entropy, scale = solver.entropy * variances, np.ones(len(variances))
        if solver.scaled:
            shares = [_rough_shares(a, i, singles) for a, i in interactions.items()]
            scale = np.sqrt(np.concatenate(shares) + entropy)
        return _Dual(
            tree=tree,
            sets=tuple(interactions),
            holders=tuple(tree.holder(columns) for columns in interactions),
            values=np.concatenate([table.reshape(-1) for table in tables]),
            variances=variances,
            scale=scale,
            entropy=entropy,
            steps=solver.steps,
            ends=tuple(np.cumsum(sizes).tolist()),
        )

    def split(self, vector: Table) -> list[Table]:
        """The entries of a vector by set, one axis a column."""
        pieces = zip(self.sets, np.split(vector, self.ends[:-1]), strict=True)
        return [piece.reshape([self.tree.sizes[c] for c in a]) for a, piece in pieces]

    def marginals(self, vector: Table) -> tuple[list[Table], float]:
        potentials = [np.zeros(shape) for shape in self.tree.shapes]
        for a, holder, table in zip(self.sets, self.holders, self.split(vector), strict=True):
            potentials[holder] += self.tree.spread(table, a, holder)
        return self.tree.marginals(potentials)

    def interactions(self, tables: list[Table]) -> Table:
        pairs = zip(self.sets, self.holders, strict=True)
        marginals = (self.tree.reduced(tables[holder], holder, a) for a, holder in pairs)
        return np.concatenate([centred(marginal).reshape(-1) for marginal in marginals])

    def solved(self, start: Table) -> Table:
        """The minimum of the dual."""

        def loss(scaled: Table) -> tuple[float, Table]:
            vector = self.unscaled(scaled)
            tables, total = self.marginals(vector)
            pull = self.entropy * vector
            value = total - float(vector @ self.values) + float(vector @ pull) / 2
            return value, (self.interactions(tables) - self.values + pull) / self.scale

        options = {"maxiter": self.steps, "ftol": 1e-10, "gtol": 1e-7}
        end = minimize(loss, start * self.scale, jac=True, method="L-BFGS-B", options=options)
        return self.unscaled(end.x)

    def unscaled(self, scaled: Table) -> Table:
        """The dual's variables, which sum to 0 along every axis."""
        tables = self.split(scaled / self.scale)
        return np.concatenate([centred(table).reshape(-1) for table in tables])

    def misfit(self, tables: list[Table]) -> float:
        """Chi squared of all measurements over their degrees of freedom."""
        squares = np.square(self.interactions(tables) - self.values) / self.variances
        freedom = sum(prod(self.tree.sizes[c] - 1 for c in a) for a in self.sets)
        return reduced_chi_squared(squares.sum(), freedom)


def _rough_shares(columns: Columns, interaction: Interaction, singles: Sequence[Table]) -> Table:
    """Rough shares of a marginal's cells."""
    shares = singles[columns[0]]
    for c in columns[1:]:
        shares = np.multiply.outer(shares, singles[c])
    if len(columns) > 1:
        shares = shares + interaction.values
    return np.maximum(shares, 0).reshape(-1)


def _logits(shares: Table) -> Table:
    return centred(np.log(np.maximum(shares, 1e-6)))
