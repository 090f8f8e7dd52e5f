"""A graphical model of noisy interactions of columns, exact on a junction tree.

Of all distributions it has the largest entropy, less the squared distance to the noisy interactions
over their variances; `TreeDual` solves its dual. What is not measured is as independent as it
may be. The tree grows with the pairs that rounds pick, and the solution of one round starts the
next. The model sees noisy answers only.

Structural rules are a part of H: it is the entropy of the possible cells, and minus infinity
elsewhere. So Z sums over possible cells alone, and nothing else changes.

The dual is solved to a stated duality gap. With interactions v_A of variance s_A and I_A(p) those
of a distribution p, the primal is the maximum over p of
    P(p) = H(p) - sum over A of |I_A(p) - v_A|^2 / (2 w s_A),
where w is the weight of entropy. Its dual is the minimum over t, centred, of
    D(t) = log Z(t) - sum <t_A, v_A> + w sum s_A |t_A|^2 / 2,  p in proportion to exp(sum t_A),
smooth and convex (McKenna, Sheldon, Miklau 2019, "Graphical-model based estimation and inference
for differential privacy", arXiv 1901.09136, of which this is the dual).

Duality gap. H(p) = log Z - sum <t_A, I_A(p)> at p of t. So, with the gradient
g_A = I_A(p) - v_A + w s_A t_A,
    D(t) - P(p) = sum |g_A|^2 / (2 w s_A):
every evaluation knows it. P is H less a convex function, so the Kullback-Leibler divergence of p
from the optimum is at most the gap, and every share of people is within sqrt(gap / 2) of the
optimum's (Pinsker).

L-BFGS is preconditioned by the dual's curvature where it starts: the covariance of the entries
whose interactions lie in one clique, plus w s_A. Without this it needs ten times the steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from ..data.domain import Int64Array
from ..rounds.phases import NoisyAnswers
from ..synthesizer import Known
from .junction_tree import MOST_CELLS, JunctionTree, Table, grown_tree
from .people_draw import draw_clique, drawn_people
from .people_table import People
from .residual_counts import Columns, Residuals, centred
from .structural_zeros import NO_ZEROS, StructuralZeros
from .target_shares import CLEAR, Interaction, Past, Targets, fused, reduced_chi_squared

_STAGE = 100  # steps of L-BFGS from one preconditioner
_STAGES = 15
_MOST_BLOCK = 1_000  # entries whose covariance is inverted together
GAP = 1e-3  # nats, at which a fit ends: shares are within 2.3 % of the optimum's
_PEOPLE = 4_000  # up to this number entropy that grows has its least weight
_SMALLEST = 1e-8  # share of people: covariances leave out smaller cells


class Solver(NamedTuple):
    """How the dual is solved.

    entropy: the weight of entropy, in people.
    growing: whether more than _PEOPLE people raise it in proportion, up to ten times.
    """

    entropy: float
    growing: bool = False

    def weight(self, people: int) -> float:
        """The weight of entropy for so many people."""
        return self.entropy * (min(max(people / _PEOPLE, 1), 10) if self.growing else 1)


class Solution(NamedTuple):
    """The dual's variables, and the duality gap there."""

    vector: Table
    gap: float


class _Place(NamedTuple):
    """The place of a set of columns.

    entries: of a vector.
    holder: the clique.
    shape: of the set's table, as it broadcasts to the clique's.
    summed: the clique's axes that the set lacks.
    """

    entries: slice
    holder: int
    shape: tuple[int, ...]
    summed: tuple[int, ...]


class _Block(NamedTuple):
    """Preconditions some entries.

    root: the inverse of the curvature's lower root; of one axis: a diagonal.
    """

    entries: NDArray[np.int64]
    root: Table

    def outward(self, values: Table) -> Table:
        return self.root * values if self.root.ndim == 1 else self.root.T @ values

    def inward(self, values: Table) -> Table:
        return self.root * values if self.root.ndim == 1 else self.root @ values


class _Solved(Exception):
    """Ends L-BFGS."""


@dataclass(frozen=True, eq=False)
class TreeDual:
    """The dual of one fit.

    sets: of columns, with interactions; each lies in a clique of the tree.
    holders: by set, its clique.
    values, variances: (n,) interactions as shares, and the variances of their noise.
    entropy: (n,) its weight times the variances.
    ends: by set, where its values end.
    zeros: by clique, the logarithms of what structural rules leave possible; none without rules.
    """

    tree: JunctionTree
    sets: tuple[Columns, ...]
    holders: tuple[int, ...]
    values: Table
    variances: Table
    entropy: Table
    ends: tuple[int, ...]
    zeros: tuple[Table, ...] = ()

    @staticmethod
    def of(
        tree: JunctionTree,
        interactions: Mapping[Columns, Interaction],
        entropy: float | Mapping[Columns, Table],
        zeros: StructuralZeros = NO_ZEROS,
    ) -> TreeDual:
        """entropy: its weight, or by set the weights of its cells."""
        tables = [interaction.values for interaction in interactions.values()]
        sizes = [table.size for table in tables]
        variances = np.repeat([i.variance for i in interactions.values()], sizes)
        weights: Table | float
        if isinstance(entropy, Mapping):
            weights = np.concatenate([entropy[columns].reshape(-1) for columns in interactions])
        else:
            weights = entropy
        return TreeDual(
            tree=tree,
            sets=tuple(interactions),
            holders=tuple(tree.holder(columns) for columns in interactions),
            values=np.concatenate([table.reshape(-1) for table in tables]),
            variances=variances,
            entropy=weights * variances,
            ends=tuple(np.cumsum(sizes).tolist()),
            zeros=tuple(zeros.potentials(tree)) if zeros.possible else (),
        )

    def split(self, vector: Table) -> list[Table]:
        """The entries of a vector by set, one axis a column."""
        pieces = zip(self.sets, np.split(vector, self.ends[:-1]), strict=True)
        return [piece.reshape(self._shape(a)) for a, piece in pieces]

    @cached_property
    def _places(self) -> tuple[_Place, ...]:
        """By set, where it lies in a vector and in the tree."""
        tree, starts = self.tree, (0, *self.ends[:-1])
        return tuple(
            _Place(
                slice(start, end), holder, tree.shape_in(holder, a), tree.axes_without(holder, a)
            )
            for a, holder, start, end in zip(
                self.sets, self.holders, starts, self.ends, strict=True
            )
        )

    @cached_property
    def _alike(self) -> list[tuple[tuple[int, ...], NDArray[np.int64]]]:
        """The shapes of sets, and of each shape the entries of all its sets: (sets, entries)."""
        alike = dict[tuple[int, ...], list[int]]()
        for a, start in zip(self.sets, (0, *self.ends[:-1]), strict=True):
            alike.setdefault(self._shape(a), []).append(start)
        return [
            (shape, np.array(starts)[:, None] + np.arange(prod(shape)))
            for shape, starts in alike.items()
        ]

    def _shape(self, columns: Columns) -> tuple[int, ...]:
        return tuple(self.tree.sizes[c] for c in columns)

    def marginals(self, vector: Table) -> tuple[list[Table], float]:
        """The marginals of the cliques of p, in proportion to exp(sum of t_A), and log Z.

        vector: (n,) the parameters t_A, set after set.
        """
        potentials = [table.copy() for table in self.zeros]
        potentials = potentials or [np.zeros(shape) for shape in self.tree.shapes]
        for place in self._places:
            potentials[place.holder] += vector[place.entries].reshape(place.shape)
        return self.tree.marginals(potentials)

    def interactions(self, tables: list[Table]) -> Table:
        """I_A(p) of all sets, (n,). tables: the marginals of the cliques of p."""
        marginals = [tables[place.holder].sum(axis=place.summed) for place in self._places]
        return self._centred(np.concatenate([marginal.reshape(-1) for marginal in marginals]))

    def solved(self, start: Table, gap: float = GAP) -> Solution:
        """The minimum of the dual, up to a gap or the most steps."""
        best = Solution(self._centred(start), np.inf)
        for _ in range(_STAGES):
            reached = best.gap
            best = self._stage(best, gap)
            if best.gap <= gap or best.gap > 0.9 * reached:
                break
        return best

    def _stage(self, start: Solution, least: float) -> Solution:
        """The solution after at most _STAGE steps of L-BFGS with one preconditioner.

        L-BFGS moves y, where t = L^-T y block by block; its gradient by y is L^-1 times that by t.
        """
        tables = self.marginals(start.vector)[0]
        blocks = [*self._blocks(tables)]
        best = [start]

        def loss(scaled: Table) -> tuple[float, Table]:
            """The dual's value ln Z(t) - t'v + t'diag(w s)t / 2 and its gradient, both at y."""
            vector = np.empty_like(scaled)
            for block in blocks:
                vector[block.entries] = block.outward(scaled[block.entries])
            vector = self._centred(vector)
            tables, log_z = self.marginals(vector)
            entropy_pull = self.entropy * vector  # w s_A t_A
            value = log_z - float(vector @ self.values) + float(vector @ entropy_pull) / 2
            gradient = self._centred(self.interactions(tables) - self.values + entropy_pull)
            gap = float((np.square(gradient) / self.entropy).sum()) / 2
            if gap < best[0].gap:
                best[0] = Solution(vector, gap)
                if gap <= least:
                    raise _Solved
            for block in blocks:
                gradient[block.entries] = block.inward(gradient[block.entries])
            return value, gradient

        scaled = np.empty_like(start.vector)
        for block in blocks:
            at_start = start.vector[block.entries]
            if block.root.ndim == 1:
                scaled[block.entries] = at_start / block.root
            else:
                scaled[block.entries] = np.linalg.solve(block.root.T, at_start)
        options = {"maxiter": _STAGE, "ftol": 1e-15, "gtol": 0, "maxcor": 20}
        with suppress(_Solved):
            scipy.optimize.minimize(loss, scaled, jac=True, method="L-BFGS-B", options=options)
        return best[0]

    def _centred(self, vector: Table) -> Table:
        """The variables, which sum to 0 along every axis."""
        result = np.empty_like(vector)
        for shape, entries in self._alike:  # sets of one shape together: there are many small ones
            tables = vector[entries].reshape(-1, *shape)
            for axis in range(1, tables.ndim):
                tables = tables - tables.mean(axis, keepdims=True)
            result[entries] = tables.reshape(entries.shape)
        return result

    def _blocks(self, tables: Sequence[Table]) -> Iterator[_Block]:
        """Blocks of all entries: of one clique together, as far as _MOST_BLOCK allows."""
        starts = (0, *self.ends[:-1])
        for clique in sorted({*self.holders}):
            held = [i for i, holder in enumerate(self.holders) if holder == clique]
            together, size = list[int](), 0
            for i in sorted(held, key=lambda i: self.ends[i] - starts[i]):
                entries = np.arange(starts[i], self.ends[i])
                if len(entries) > _MOST_BLOCK:
                    shares = self.tree.reduced(tables[clique], clique, self.sets[i]).reshape(-1)
                    yield _Block(entries, 1 / np.sqrt(shares + self.entropy[entries]))
                    continue
                if size + len(entries) > _MOST_BLOCK:
                    yield self._block(clique, tables[clique], together)
                    together, size = [], 0
                together.append(i)
                size += len(entries)
            if together:
                yield self._block(clique, tables[clique], together)

    def _block(self, clique: int, marginal: Table, held: Sequence[int]) -> _Block:
        """The block of some sets of one clique, from the dual's curvature H at a distribution.

        Let p (cells,) be the clique's marginal, F (cells, entries) whether a cell lies in an entry
        of a set, and C (entries, entries) what centres the entries of each set. The sets' marginals
        are F'p, and their interactions C F'p. With the weight w of entropy and the variances s
            H = C (F' diag(p) F - F'p p'F) C' + diag(w s) = L L',  and the block's root is L^-1.

        marginal: of the clique, one axis a column.
        held: the numbers of the sets.
        """
        starts = (0, *self.ends[:-1])
        entries = np.concatenate([np.arange(starts[i], self.ends[i]) for i in held])
        cells = np.flatnonzero(marginal.reshape(-1) > _SMALLEST)
        p = marginal.reshape(-1)[cells]
        cell_entries = self._cell_entries(clique, np.unravel_index(cells, marginal.shape), held)
        # One entry of each set a row, so that row i has its entries at i * len(held).
        sparse = cell_entries.reshape(-1), np.arange(0, cell_entries.size + 1, len(held))
        shape = len(cells), len(entries)
        f = scipy.sparse.csr_array((np.ones(cell_entries.size), *sparse), shape=shape)
        p_times_f = scipy.sparse.csr_array((np.repeat(p, len(held)), *sparse), shape=shape)
        means = np.asarray(f.T @ p)
        curvature = (f.T @ p_times_f).toarray() - np.outer(means, means)
        for _ in range(2):  # C V, then C (C V)' = C V C', as V is symmetric
            curvature = self._centred_rows(curvature, held).T
        curvature[np.diag_indices(len(entries))] += self.entropy[entries]
        return _Block(entries, np.linalg.inv(np.linalg.cholesky(curvature)))

    def _cell_entries(
        self, clique: int, codes: Sequence[NDArray[np.int64]], held: Sequence[int]
    ) -> NDArray[np.int64]:
        """The entry of every set in which each cell lies, counted over all sets: (cells, sets).

        codes: of the clique's columns, (cells,) each.
        """
        by_column = dict(zip(self.tree.cliques[clique], codes, strict=True))
        cell_entries, first = list[NDArray[np.int64]](), 0
        for columns in (self.sets[i] for i in held):
            shape = self._shape(columns)
            entry = np.ravel_multi_index([by_column[c] for c in columns], shape)
            cell_entries.append(first + entry)
            first += prod(shape)
        return np.stack(cell_entries, axis=1)

    def _centred_rows(self, matrix: Table, held: Sequence[int]) -> Table:
        """C @ matrix: the rows of every set are centred along each of its columns. (entries, n)"""
        pieces, begin, n = list[Table](), 0, matrix.shape[1]
        for shape in (self._shape(self.sets[i]) for i in held):
            piece = matrix[begin : begin + prod(shape)].reshape(*shape, n)
            for axis in range(len(shape)):
                piece = piece - piece.mean(axis, keepdims=True)
            pieces.append(piece.reshape(-1, n))
            begin += prod(shape)
        return np.concatenate(pieces)

    def misfit(self, tables: list[Table]) -> float:
        """Chi squared of all measurements over their degrees of freedom."""
        squares = np.square(self.interactions(tables) - self.values) / self.variances
        freedom = sum(prod(n - 1 for n in self._shape(a)) for a in self.sets)
        return reduced_chi_squared(squares.sum(), freedom)


OF_ROUNDS = Solver(50.0)  # declared rounds
OF_FEW_PAIRS = Solver(10.0, growing=True)  # little budget: entropy must not outweigh columns
OF_MARGINALS = Solver(100.0)  # listed marginals


@dataclass(frozen=True, eq=False)
class TreeModel:
    """A graphical model; see `adaptive_fit.Model`.

    residuals: the measured interactions.
    base: sets of columns that the tree holds from the beginning.
    known: interactions that others have published.
    past: what earlier tables say.
    people: their number, public or noisy.
    solver: of the dual.
    logits: by set of columns, the dual's solution.
    gap: the duality gap there, in nats; see `TreeDual`.
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
        """Grows the tree by the measured pairs, and solves the dual of the sets that it holds."""
        targets = fused(Targets.of(self.residuals, measured, self.known), self.past)
        picked = [self.residuals.sets[i] for i in measured.candidates]
        pairs = tuple(dict.fromkeys(a for a in picked if len(a) == 2))
        tree = grown_tree(targets.sizes, self.base, self._with_past(pairs, targets))
        interactions = {
            a: interaction
            for a, interaction in targets.interactions.items()
            if any({*a} <= {*clique} for clique in tree.cliques)
        }
        zeros = self.residuals.domain.zeros
        dual = TreeDual.of(tree, interactions, self.solver.weight(targets.people), zeros)
        solution = dual.solved(starting_logits(targets, interactions, self.logits))
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
        """The picked pairs, then clear ones of earlier tables, the strongest first, if they fit."""
        if self.past is None:
            return pairs
        energies, signals = targets.energies, targets.signals
        clear = {a: energies[a] for a, s in signals.items() if s > CLEAR and a not in pairs}
        for first, second in sorted(clear, key=lambda a: (-clear[a], a)):
            tree = grown_tree(targets.sizes, self.base, pairs)
            if tree.cells + tree.growth(first)[second] <= MOST_CELLS:
                pairs = (*pairs, (first, second))
        return pairs

    def sample(self, seed: int) -> People:
        assert self.tree is not None
        rng, domain = np.random.default_rng(seed), self.residuals.domain
        codes = draw_tree(rng, self.tree, self.marginals, self.people, domain.zeros)
        return drawn_people(rng, domain, codes[rng.permutation(self.people)])


def draw_tree(
    rng: np.random.Generator,
    tree: JunctionTree,
    marginals: Sequence[Table],
    people: int,
    zeros: StructuralZeros,
) -> NDArray[np.unsignedinteger]:
    """(people, columns) codes. marginals: by clique of the tree."""
    codes = np.empty((people, len(tree.sizes)), np.min_scalar_type(max(tree.sizes)))
    cliques = zip(tree.cliques, tree.separators, marginals, zeros.support(tree), strict=True)
    for clique, separator, table, possible in cliques:
        draw_clique(rng, clique, separator, table, codes, possible)
    return codes


def starting_logits(
    targets: Targets, sets: Iterable[Columns], logits: Mapping[Columns, Table]
) -> Table:
    """The dual's variables of some sets: those of an earlier solution, else of independence."""

    def start(columns: Columns) -> Table:
        if columns in logits:
            return logits[columns]
        if len(columns) == 1:
            return centred(np.log(np.maximum(targets.one_ways[columns[0]], 1e-6)))
        return np.zeros([targets.sizes[c] for c in columns])

    return np.concatenate([start(columns).reshape(-1) for columns in sets])
