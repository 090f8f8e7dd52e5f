"""A graphical model of the second phase's domain, fitted exactly to noisy interactions.

Where marginals are listed their junction tree may be small. Then the model is the distribution of
the largest entropy among those that fit the interactions: with interactions v_A of variance s_A and
I_A(p) those of a distribution p, it maximises
    LEAN H(p) - sum over A of |I_A(p) - v_A|^2 / (2 s_A),
which is the minimum over t of
    log Z(t) - sum <t_A, v_A> + LEAN sum s_A |t_A|^2 / 2,  p in proportion to exp(sum t_A),
smooth and convex, solved by L-BFGS (McKenna, Sheldon, Miklau 2019, "Graphical-model based
estimation and inference for differential privacy", arXiv 1901.09136, of which this is the dual).
What is not measured is as independent as it may be. It sees noisy answers only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ...data.domain import Int64Array
from ...phases import NoisyAnswers
from ..chi_squared import reduced_chi_squared
from ..draw import drawn_cells
from ..known import Known
from ..residuals import Columns, Residuals
from ..table import People
from ..targets import Targets
from ..tree import JunctionTree, Table

MOST_CELLS = 250_000  # of all cliques of a tree
LEAN = 100.0
_STEPS = 500


@dataclass(frozen=True, eq=False)
class GraphModel:
    """See `loop.Model`.

    residuals: what it learns from.
    tree: whose cliques hold every set of columns that is measured.
    known: single columns, and what it learns from besides.
    people: how many there are, public or noisy.
    marginals: of the tree's cliques; none before anything is learnt.
    """

    residuals: Residuals
    tree: JunctionTree
    known: tuple[Known, ...]
    people: int = 1
    marginals: tuple[Table, ...] = ()

    def answers(self, rows: Int64Array) -> NDArray[np.float64]:
        raise NotImplementedError("no phase of residuals picks")

    def learn(self, measured: NoisyAnswers) -> tuple[GraphModel, float]:
        targets, tree = Targets.of(self.residuals, measured, self.known), self.tree
        wanted = {
            columns: one
            for columns, one in targets.interactions.items()
            if any({*columns} <= {*clique} for clique in tree.cliques)
        }
        sets = list(wanted)
        holders = {columns: tree.holder(columns) for columns in sets}
        shapes = [wanted[columns].values.shape for columns in sets]
        ends = np.cumsum([prod(shape) for shape in shapes])
        values = np.concatenate([wanted[columns].values.reshape(-1) for columns in sets])
        each = [wanted[columns].variance for columns in sets]
        variances = np.repeat(each, np.diff(ends, prepend=0))
        start = np.concatenate(
            [
                _logits(targets.one_ways[a[0]]) if len(a) == 1 else np.zeros(prod(shape))
                for a, shape in zip(sets, shapes, strict=True)
            ]
        )

        def marginals(vector: Table) -> tuple[list[Table], float]:
            potentials = [np.zeros([tree.sizes[c] for c in clique]) for clique in tree.cliques]
            for a, part in zip(sets, np.split(vector, ends[:-1]), strict=True):
                potentials[holders[a]] += tree.spread(part, a, holders[a])
            return tree.calibrated(potentials)

        def interactions(tables: list[Table]) -> Table:
            own = [tree.reduced(tables[holders[a]], holders[a], a) for a in sets]
            return np.concatenate([_centred(table).reshape(-1) for table in own])

        def loss(vector: Table) -> tuple[float, Table]:
            tables, total = marginals(vector)
            lean = LEAN * variances * vector
            value = total - float(vector @ values) + float(vector @ lean) / 2
            return value, interactions(tables) - values + lean

        end = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
        tables, _ = marginals(end.x)
        apart = np.square(interactions(tables) - values) / variances
        free = sum(prod(n - 1 for n in shape) for shape in shapes)
        model = replace(self, people=targets.people, marginals=tuple(tables))
        return model, reduced_chi_squared(apart.sum(), free)

    def sample(self, seed: int) -> People:
        rng, tree = np.random.default_rng(seed), self.tree
        codes = np.empty((self.people, len(tree.sizes)), np.int64)
        for clique, table in enumerate(self.marginals):
            own = tree.separators[clique]
            draw_clique(rng, tree.cliques[clique], own, table, codes)
        return People(self.residuals.domain, codes[rng.permutation(self.people)])


def draw_clique(
    rng: np.random.Generator,
    clique: Columns,
    known: Columns,
    table: Table,
    codes: NDArray[np.int64],
) -> None:
    """Draws a clique's columns of people whose columns `known` are drawn already."""
    new = tuple(c for c in clique if c not in known)
    shape = {c: table.shape[i] for i, c in enumerate(clique)}
    order = [clique.index(c) for c in (*known, *new)]
    rows = np.transpose(table, order).reshape(prod(shape[c] for c in known), -1)
    group = np.zeros(len(codes), np.int64)
    for c in known:
        group = group * shape[c] + codes[:, c]
    places = np.argsort(group, kind="stable")
    counts = np.bincount(group, minlength=len(rows))
    here = np.flatnonzero(counts)
    # A group that the model gives next to nobody is drawn evenly.
    cells = np.concatenate(drawn_cells(rng, rows[here] + np.finfo(float).tiny, counts[here]))
    drawn = np.unravel_index(cells, [shape[c] for c in new])
    for c, values in zip(new, drawn, strict=True):
        codes[places, c] = values


def _centred(values: Table) -> Table:
    for axis in range(values.ndim):
        values = values - values.mean(axis, keepdims=True)
    return values


def _logits(shares: Table) -> Table:
    logits = np.log(np.maximum(shares, 1e-6))
    centred: Table = logits - logits.mean()
    return centred
