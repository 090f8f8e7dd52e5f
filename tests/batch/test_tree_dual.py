"""The dual of a graphical model: its gap against all cells, and where a fit ends."""

from math import prod

import numpy as np
import pytest

from stream_dp.batch.people import tree_model
from stream_dp.batch.people.junction_tree import JunctionTree
from stream_dp.batch.people.residual_counts import centred
from stream_dp.batch.people.target_shares import Interaction
from stream_dp.batch.people.tree_model import TreeDual

SIZES = (2, 3, 4, 2)
SETS = ((0,), (1,), (2,), (3,), (0, 1), (1, 2), (0, 2), (2, 3))
ENTROPY = 20.0


def dual(noise=0.02, seed=1):
    """Noisy interactions of a few people; the least precise ones have a hundred times the noise."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(prod(SIZES), 0.2)).reshape(SIZES)
    interactions = {}
    for a in SETS:
        other = tuple(c for c in range(4) if c not in a)
        deviation = noise / (1 if len(a) > 1 else 10)
        values = shares.sum(other) + rng.normal(0, deviation, [SIZES[c] for c in a])
        interactions[a] = Interaction(centred(values), deviation**2)
    return TreeDual.of(JunctionTree.of(SIZES, SETS), interactions, ENTROPY), interactions


def primal(shares, interactions):
    entropy = -(shares * np.log(shares)).sum()
    for a, (values, variance) in interactions.items():
        other = tuple(c for c in range(4) if c not in a)
        error = np.square(centred(shares.sum(other)) - values).sum()
        entropy -= error / (2 * ENTROPY * variance)
    return entropy


def joint(own, vector):
    logits = np.zeros(SIZES)
    for a, table in zip(own.sets, own.split(vector), strict=True):
        logits = logits + table.reshape([SIZES[c] if c in a else 1 for c in range(4)])
    shares = np.exp(logits - logits.max())
    return shares / shares.sum(), logits


def test_the_gap_is_that_of_dual_and_primal_and_bounds_the_divergence_from_the_optimum():
    own, interactions = dual()
    end, _ = joint(own, own.solved(np.zeros(len(own.values)), 1e-11).vector)
    for scale in (0.0, 0.1, 1.0):
        start = scale * np.random.default_rng(2).normal(0, 1, len(own.values))
        solution = own.solved(start, 0.3)
        shares, logits = joint(own, solution.vector)
        vector = solution.vector
        value = np.log(np.exp(logits).sum()) - vector @ own.values
        value += (own.entropy * vector) @ vector / 2
        assert value - primal(shares, interactions) == pytest.approx(solution.gap, rel=1e-6)
        divergence = (shares * np.log(shares / end)).sum()
        assert 0 <= divergence <= solution.gap <= 0.3
        assert np.abs(shares - end).sum() / 2 <= (solution.gap / 2) ** 0.5


@pytest.mark.parametrize("most", [1000, 12, 3])
@pytest.mark.parametrize("noise", [0.3, 0.003, 0.0003])
def test_a_fit_ends_at_its_optimum_whatever_is_inverted_together(monkeypatch, most, noise):
    """Blocks of a clique, some of its sets, or single entries; from no start and from its end."""
    monkeypatch.setattr(tree_model, "_MOST_BLOCK", most)
    own, _ = dual(noise)
    steps = []
    marginals = TreeDual.marginals

    def counted(self, vector):
        steps.append(vector)
        return marginals(self, vector)

    monkeypatch.setattr(TreeDual, "marginals", counted)
    solution = own.solved(np.zeros(len(own.values)))
    assert solution.gap <= 1e-3
    if most == 1000:
        assert len(steps) < 60
    for table in own.split(solution.vector):
        for axis in range(table.ndim):
            assert table.sum(axis) == pytest.approx(0, abs=1e-6 * np.abs(table).max())
    steps.clear()
    assert own.solved(solution.vector).gap <= 1e-3
    assert len(steps) < 5


def test_entropy_may_weigh_by_cell():
    """No other centred variables have a smaller dual, and its gap bounds by how much."""
    even, interactions = dual()
    rng = np.random.default_rng(5)
    weights = {a: rng.lognormal(2, 1, i.values.shape) for a, i in interactions.items()}
    own = TreeDual.of(even.tree, interactions, weights)

    def value(vector):
        _, logits = joint(own, vector)
        value = np.log(np.exp(logits).sum()) - vector @ own.values
        return value + (own.entropy * vector) @ vector / 2

    solution = own.solved(np.zeros(len(own.values)), 1e-11)
    least = value(solution.vector)
    for _ in range(50):
        other = rng.normal(0, 0.01, len(own.values))
        centre = np.concatenate([centred(t).reshape(-1) for t in own.split(other)])
        assert value(solution.vector + centre) > least
    loose = own.solved(np.zeros(len(own.values)), 0.1)
    assert 0 <= value(loose.vector) - least <= loose.gap <= 0.1
