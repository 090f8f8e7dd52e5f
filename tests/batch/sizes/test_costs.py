"""What one person costs: every pair of small neighbouring inputs, in the integers measured."""

from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from stream_dp.batch.sizes.histogram import Sizes, earth_movers_distance
from stream_dp.batch.sizes.methods import METHODS
from stream_dp.batch.sizes.plan import DISTANCE_CHANGE, LevelPlan
from stream_dp.privacy.noise import geometric_variance
from stream_dp.privacy.zcdp import rho_within

REGION = (0, 0, 0, 1, 1)  # of each group


def inputs(largest):
    return product(range(largest + 1), repeat=len(REGION))


def neighbours(sizes, relation):
    """Inputs with one person less; under `replace_one` also those where a person is elsewhere."""
    for left, size in enumerate(sizes):
        if not size:
            continue
        fewer = [*sizes[:left], size - 1, *sizes[left + 1 :]]
        yield fewer
        if relation == "replace_one":
            for joined in range(len(sizes)):
                yield [s + (i == joined) for i, s in enumerate(fewer)]


def regions(sizes, cap):
    return [
        Sizes.of(np.array([s for s, r in zip(sizes, REGION, strict=True) if r == region])).capped(
            cap
        )
        for region in (0, 1)
    ]


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("cap", [2, 5])
def test_sensitivities_are_the_largest_changes_of_a_level(relation, cap):
    squared, absolute = dict.fromkeys(METHODS, 0), dict.fromkeys(METHODS, 0)
    distance = 0
    vectors = {
        sizes: {
            name: np.concatenate([m.exact(r, cap) for r in regions(sizes, cap)])
            for name, m in METHODS.items()
        }
        for sizes in inputs(4)
    }
    for sizes in inputs(3):
        here = vectors[sizes]
        for other in neighbours(sizes, relation):
            for name in METHODS:
                change = vectors[tuple(other)][name] - here[name]
                squared[name] = max(squared[name], int(change @ change))
                absolute[name] = max(absolute[name], int(np.abs(change).sum()))
    for sizes in product(range(3), repeat=len(REGION)):
        truth = regions((1, 2, 0, 0, 2), cap)
        for other in neighbours(sizes, relation):
            changed = [
                sum(
                    earth_movers_distance(a, b) for a, b in zip(regions(s, cap), truth, strict=True)
                )
                for s in (sizes, other)
            ]
            distance = max(distance, abs(changed[0] - changed[1]))
    assert squared == {name: m.squared[relation] for name, m in METHODS.items()}
    assert absolute == {name: m.absolute[relation] for name, m in METHODS.items()}
    assert distance == DISTANCE_CHANGE[relation]


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("method", METHODS)
def test_a_level_costs_what_it_was_given(relation, method):
    budget = Fraction(3, 7)
    alone = LevelPlan(relation, (method,), budget)
    assert alone.rho == budget
    assert METHODS[method].squared[relation] / (2 * alone.parameter(method)) == budget
    chosen = LevelPlan(relation, (method, "sorted", "cumulative"), budget, choice=Fraction(1, 3))
    assert chosen.rho == budget
    tried = sum(
        METHODS[m].squared[relation] / (2 * chosen.parameter(m, tried=True)) for m in chosen.methods
    )
    kept = METHODS[method].squared[relation] / (2 * chosen.parameter(method))
    picked = DISTANCE_CHANGE[relation] ** 2 / (2 * chosen.choice_variance)
    assert tried + kept + picked == budget


def test_pure_noise_costs_half_the_square_of_its_eps():
    level = LevelPlan("replace_one", ("cumulative",), Fraction(1, 5), pure=True)
    assert level.rho == Fraction(1, 50)
    assert level.parameter("cumulative") == Fraction(1, 10)
    ratio = np.exp(-0.1)
    assert level.variance("cumulative") == pytest.approx(2 * ratio / (1 - ratio) ** 2)


def test_at_equal_rho_the_gaussian_has_half_the_variance():
    eps = Fraction(1, 10)
    pure = LevelPlan("add_remove", ("cumulative",), eps, pure=True)
    gaussian = LevelPlan("add_remove", ("cumulative",), pure.rho)
    assert pure.variance("cumulative") / gaussian.variance("cumulative") == pytest.approx(
        2, rel=0.01
    )


def test_at_equal_eps_and_delta_the_gaussian_is_better_from_8_to_18_levels_on():
    for eps, delta, first in ((Fraction(1, 10), 6, 8), (Fraction(2), 9, 18)):
        rho = rho_within(eps, Fraction(1, 10**delta))
        better = (n for n in range(1, 60) if n / (2 * rho) < geometric_variance(eps / n))
        assert next(better) == first
    readme = (Path(__file__).parents[3] / "README.md").read_text("utf-8")
    assert "the latter is better below 8 to 18 levels" in readme


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("mix", [("cumulative", "sorted"), ("histogram", "cumulative-squares")])
def test_a_whole_tree_costs_what_its_levels_were_given(relation, mix):
    """Each person is in the root and in one region: the worst change of both together."""
    levels = [
        LevelPlan(relation, (m,), b)
        for m, b in zip(mix, (Fraction(1, 3), Fraction(2)), strict=True)
    ]
    cap, vectors = 3, {}
    for sizes in product(range(4), repeat=len(REGION)):
        own = regions(sizes, cap)
        root, below = METHODS[mix[0]], METHODS[mix[1]]
        vectors[sizes] = (
            root.exact(Sizes.together(own), cap),
            np.concatenate([below.exact(r, cap) for r in own]),
        )
    parameters = [level.parameter(m) for level, m in zip(levels, mix, strict=True)]
    worst = Fraction(0)
    for sizes in product(range(3), repeat=len(REGION)):
        for other in neighbours(sizes, relation):
            changes = [b - a for a, b in zip(vectors[sizes], vectors[tuple(other)], strict=True)]
            cost = sum(int(c @ c) / (2 * p) for c, p in zip(changes, parameters, strict=True))
            worst = max(worst, cost)
    assert worst == sum(level.rho for level in levels)
