"""Hidden classes: the slope of chi squared, a fit of known classes, strata, and when they serve."""

import numpy as np
import pytest
from people_tables import domain

from stream_dp.batch.people import hidden_classes, weighted_tree
from stream_dp.batch.people.hidden_classes import HiddenClasses, _goals, _softmax, misfit
from stream_dp.batch.people.residual_counts import centred
from stream_dp.batch.people.target_shares import Interaction, Targets
from stream_dp.batch.people.weighted_tree import Fitted, WeightedTree

SIZES, SETS = (3, 4, 2, 3), [(0, 1), (1, 2), (0, 1, 2), (0, 1, 3), (0, 2), (0, 3), (1, 3), (2, 3)]
RNG = np.random.default_rng(3)
TRUE = HiddenClasses(
    np.array([0.5, 0.3, 0.2]), tuple(RNG.dirichlet(np.full(n, 0.7), 3) for n in SIZES)
)


def targets(noise, of=TRUE, sets=SETS):
    interactions = {}
    for a in [*((c,) for c in range(len(SIZES))), *sets]:
        marginal = of.shares(a)
        noisy = marginal + RNG.normal(0, noise, marginal.shape)
        interactions[a] = Interaction(centred(noisy), noise**2)
    return Targets(None, 1000, interactions)


def with_sizes(noisy, monkeypatch):
    monkeypatch.setattr(Targets, "sizes", SIZES)
    return noisy


def test_shares_are_of_independent_columns_within_classes():
    joint = np.einsum("k,ka,kb,kc->abc", TRUE.weights, *(TRUE.values[c] for c in (0, 2, 3)))
    assert TRUE.shares((0, 2, 3)) == pytest.approx(joint)
    assert TRUE.shares((0, 3)) == pytest.approx(joint.sum(1))
    assert TRUE.shares((2,)) == pytest.approx(joint.sum((0, 2)))


def test_the_slope_is_that_of_the_stated_loss(monkeypatch):
    noisy = with_sizes(targets(0.01), monkeypatch)
    goals, sizes = [*_goals(noisy, SETS)], [3, *(3 * n for n in SIZES)]
    point = RNG.normal(0, 1, sum(sizes))

    def classes(at):
        logits, *values = np.split(at, np.cumsum(sizes)[:-1])
        tables = [v.reshape(3, n) for v, n in zip(values, SIZES, strict=True)]
        return HiddenClasses(_softmax(logits), tuple(_softmax(v) for v in tables))

    def loss(at):
        found, total = classes(at), 0.0
        for c, p in enumerate(noisy.one_ways):
            apart = found.shares((c,)) - p
            total += float(apart @ apart) / noisy.interactions[(c,)].variance / 2
        for a in SETS:
            apart = found.shares(a) - noisy.marginal(a)
            total += float(np.square(apart).sum()) / noisy.interactions[a].variance / 2
        return total

    slope = classes(point)._slope(noisy, goals)
    for i in range(0, len(point), 4):
        step = np.zeros(len(point))
        step[i] = 1e-5
        change = (loss(point + step) - loss(point - step)) / 2e-5
        assert slope[i] == pytest.approx(change, rel=1e-4, abs=1e-3)


def test_known_classes_are_fitted_to_their_noise(monkeypatch):
    """The fit averages noise: it is nearer to the truth than what was measured."""
    noisy = with_sizes(targets(0.01), monkeypatch)
    monkeypatch.setattr(hidden_classes, "CLASSES", 3)
    found = HiddenClasses.fitted(noisy, SETS)
    chi = sum(misfit(noisy, a, found.shares(a)) for a in SETS)
    cells = sum(np.prod([SIZES[c] - 1 for c in a]) for a in SETS)
    assert chi < 1.3 * cells
    assert np.abs(found.shares((0, 1, 3)) - TRUE.shares((0, 1, 3))).mean() < 0.006


def test_rows_are_drawn_in_strata():
    codes = TRUE.drawn(np.random.default_rng(1), 5000)
    for a in [(0,), (1,), (0, 1)]:
        cells = np.ravel_multi_index(tuple(codes[:, c] for c in a), [SIZES[c] for c in a])
        counts = np.bincount(cells, minlength=TRUE.shares(a).size)
        most = 4 if len(a) == 1 else 60
        assert np.abs(counts - 5000 * TRUE.shares(a).reshape(-1)).max() < most
    assert len(TRUE.drawn(np.random.default_rng(1), 1)) == 1


def noisy_model(noisy, pairs, monkeypatch, sets=SETS):
    """A model whose tree has these pairs."""
    residuals = type("R", (), {"numbers": dict.fromkeys(sets, 1), "domain": domain(*SIZES)})()
    with_sizes(noisy, monkeypatch)
    fitted = Fitted(noisy, None, (), frozenset((c,) for c in range(4)), pairs, 0.0)
    return WeightedTree(residuals, fitted=fitted)


def test_classes_serve_where_the_tree_is_far_from_noisy_pairs(monkeypatch):
    monkeypatch.setattr(hidden_classes, "CLASSES", 3)
    pairs = [a for a in SETS if len(a) == 2]
    noisy = targets(0.003)
    independent = {a: np.multiply.outer(*(TRUE.shares((c,)) for c in a)) for a in pairs}
    model = noisy_model(noisy, independent, monkeypatch)
    assert isinstance(model._better_classes(), HiddenClasses)
    near = noisy_model(noisy, {a: TRUE.shares(a) for a in pairs}, monkeypatch)
    assert near._better_classes() is None
    without = noisy_model(targets(0.003, sets=pairs), independent, monkeypatch, pairs)
    assert without._better_classes() is None


@pytest.mark.parametrize(("noise", "factor"), [(0.01, 1 / 32), (1e-4, 1)])
def test_single_columns_stay_near_their_noisy_shares(noise, factor):
    """Their weight of entropy is lowered unless noise is small: then the dual is hard to solve."""
    table = targets(noise)
    object.__setattr__(table, "residuals", type("R", (), {"domain": domain(*SIZES)})())
    single = weighted_tree._entropy(table, (1,))
    energy = float(np.square(table.interactions[(1,)].values).sum()) - 3 * noise**2
    assert single == pytest.approx(np.full(4, factor / energy), rel=1e-6)
