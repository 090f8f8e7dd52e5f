"""Graphical models: marginals of a junction tree against sums over all cells, and what is drawn."""

from itertools import combinations, product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from people_tables import domain

from stream_dp.batch.people.junction_tree import JunctionTree
from stream_dp.batch.people.pair_filter import PairFilter
from stream_dp.batch.people.people_table import People
from stream_dp.batch.people.residual_counts import Residuals, centred, marginal_counts
from stream_dp.batch.people.tree_model import OF_MARGINALS, TreeModel
from stream_dp.batch.rounds.phases import Everything, NoisyAnswers
from stream_dp.batch.synthesizer import Known


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_marginals_are_those_of_all_cells(data):
    """Any sets of up to three of five columns, loops and columns that stand alone included."""
    sizes = tuple(data.draw(st.lists(st.integers(2, 3), min_size=5, max_size=5)))
    every = [a for ways in (1, 2, 3) for a in combinations(range(5), ways)]
    sets = data.draw(st.lists(st.sampled_from(every), max_size=6, unique=True))
    tree, rng = JunctionTree.of(sizes, sets), np.random.default_rng(1)
    assert {c for clique in tree.cliques for c in clique} == set(range(5))
    assert all({*a} <= {*tree.cliques[tree.holder(a)]} for a in sets)
    assert tree.cells == sum(prod(sizes[c] for c in clique) for clique in tree.cliques)
    for child, (parent, shared) in enumerate(zip(tree.parents, tree.separators, strict=True)):
        # What a clique shares with any earlier one it shares with its parent.
        before = {c for clique in tree.cliques[:child] for c in clique}
        assert child == 0 or parent < child
        assert {*shared} == {*tree.cliques[child]} & before
    potentials = [rng.normal(0, 2, [sizes[c] for c in clique]) for clique in tree.cliques]
    joint = np.zeros(sizes)
    for cell in product(*map(range, sizes)):
        parts = zip(tree.cliques, potentials, strict=True)
        joint[cell] = sum(p[tuple(cell[c] for c in clique)] for clique, p in parts)
    total = np.log(np.exp(joint).sum())
    joint = np.exp(joint - total)
    tables, logarithm = tree.marginals([p.copy() for p in potentials])
    assert logarithm == pytest.approx(total)
    for clique, table in zip(tree.cliques, tables, strict=True):
        others = tuple(c for c in range(5) if c not in clique)
        assert table == pytest.approx(joint.sum(axis=others), abs=1e-12)


def test_a_chain_is_fitted_and_drawn():
    """Without noise to speak of: pairs as they are, and ends as independent as pairs allow."""
    rng, n, size = np.random.default_rng(2), 6000, 4
    columns = [rng.integers(0, size, n)]
    for _ in range(3):
        follows = rng.random(n) < 0.8
        columns.append(np.where(follows, (columns[-1] + 1) % size, rng.integers(0, size, n)))
    people = People(domain(*[size] * 4), np.stack(columns, axis=1))
    residuals = Residuals(people.domain, ((0, 1), (1, 2), (2, 3)))
    phase = Everything(10**6, (0, 1, 2), (1, 1, 1), PairFilter(residuals))
    variances = phase.variances(residuals)
    answers = NoisyAnswers.none().joined(
        residuals, (0, 1, 2), residuals.counter(people)((0, 1, 2)), variances
    )
    ones = [marginal_counts(people, (c,)).astype(float) for c in range(4)]
    known = (
        Known((), np.array(float(n)), 1.0),
        *(Known((c,), centred(counts), 1.0) for c, counts in enumerate(ones)),
    )
    tree = JunctionTree.of(people.domain.sizes, residuals.sets)
    assert sorted(tree.cliques) == [(0, 1), (1, 2), (2, 3)]
    model, _ = TreeModel(residuals, residuals.sets, known, solver=OF_MARGINALS).learn(answers)
    drawn = model.sample(1)
    assert n == drawn.N
    assert (drawn.codes == model.sample(1).codes).all()

    def apart(columns):
        shares = [marginal_counts(p, columns) / n for p in (people, drawn)]
        return np.abs(shares[0] - shares[1]).sum() / 2

    assert max(apart(a) for a in residuals.sets) < 0.01
    assert apart((0, 3)) < 0.03
