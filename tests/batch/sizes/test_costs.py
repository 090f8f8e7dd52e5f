"""What one person costs: every pair of small neighbouring inputs, in the integers measured."""

import math
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from kit.divergences import log_moment

from stream_dp.batch.sizes.declared_sizes import declared_levels, is_exact
from stream_dp.batch.sizes.histogram import Sizes, earth_movers_distance
from stream_dp.batch.sizes.size_estimates import METHODS
from stream_dp.batch.sizes.sizes_plan import LevelChoice, LevelPlan
from stream_dp.privacy.noise import geometric_variance
from stream_dp.privacy.zcdp import rho_within, selection_rho
from stream_dp.study import SizesRelease
from stream_dp.study.place_releases import WORST_CHANGES, squared_change

REGION = (0, 0, 1, 1)  # of each group


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


def regions(sizes):
    """The sorted sizes of each region: the order of groups tells nothing."""
    by_region = [[s for s, r in zip(sizes, REGION, strict=True) if r == at] for at in (0, 1)]
    return [tuple(sorted(own)) for own in by_region]


@cache
def exact_vector(name, region, cap):
    return METHODS[name].exact(Sizes.of(np.array(region)).capped(cap), cap)


@cache
def level_vector(name, sizes, cap):
    """What a level of all regions measures."""
    return np.concatenate([exact_vector(name, region, cap) for region in regions(sizes)])


def level_change(name, sizes, other, cap):
    return level_vector(name, tuple(other), cap) - level_vector(name, sizes, cap)


def tree_changes(mix, sizes, other, cap):
    """What changes in the root and in all regions, each with its method."""
    here, there = (exact_vector(mix[0], tuple(sorted(s)), cap) for s in (sizes, other))
    return there - here, level_change(mix[1], sizes, other, cap)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("cap", [2, 5])
def test_sensitivities_are_the_largest_changes_of_a_level(relation, cap):
    squared, absolute = dict.fromkeys(METHODS, 0), dict.fromkeys(METHODS, 0)
    for sizes in inputs(3):
        for other in neighbours(sizes, relation):
            for name in METHODS:
                change = level_change(name, sizes, other, cap)
                squared[name] = max(squared[name], int(change @ change))
                absolute[name] = max(absolute[name], int(np.abs(change).sum()))
    assert squared == {name: squared_change(name, relation) for name in METHODS}
    assert absolute == {name: sum(WORST_CHANGES[name][relation]) for name in METHODS}


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("method", METHODS)
def test_a_level_costs_what_it_was_given(relation, method):
    budget = Fraction(3, 7)
    level = LevelPlan(relation, method, budget)
    assert level.rho == squared_change(method, relation) / (2 * level.parameter) == budget


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("methods", [("naive", "sorted"), tuple(METHODS)])
def test_a_choice_costs_what_its_level_was_given(relation, methods):
    """Trials, selection and measurement: each by the largest change of what it uses."""
    budget = Fraction(3, 7)
    level = LevelChoice(relation, methods, budget)
    spent = sum(squared_change(p.method, relation) / (2 * p.parameter) for p in level.trials)
    distance = largest_distance_change(relation)
    spent += selection_rho(distance, level.selection_variance)
    for chosen in level.candidates:
        measured = squared_change(chosen.method, relation) / (2 * chosen.parameter)
        assert spent + measured == level.rho == budget


@cache
def largest_distance_change(relation):
    """Of the sum of distances of all regions to any estimates, by all pairs of neighbours."""
    true = list(inputs(2))[::3]

    def distance(estimate, sizes):
        pairs = zip(regions(estimate), regions(sizes), strict=True)
        return sum(
            earth_movers_distance(Sizes.of(np.array(e)), Sizes.of(np.array(s))) for e, s in pairs
        )

    return max(
        abs(distance(estimate, sizes) - distance(estimate, other))
        for estimate in true[::10]
        for sizes in true
        for other in neighbours(sizes, relation)
    )


def divergence(changes, decays):
    """The largest D_a / a of counts with double-geometric noise, over orders from 1 on."""
    return max(
        sum(
            log_moment(decay, change, excess) for change, decay in zip(changes, decays, strict=True)
        )
        / (excess * (1 + excess))
        for excess in (1e-6, 0.1, 0.5, 1, 2, 4, 16, 256)
    )


def magnitudes(change):
    """By how much one person changes each count, sorted: what the divergence depends on."""
    return tuple(sorted((abs(int(k)) for k in change if k), reverse=True))


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("method", METHODS)
def test_pure_noise_costs_the_largest_divergence_of_all_changes(relation, method):
    level = LevelPlan(relation, method, Fraction(3, 2), pure=True)
    changes = {
        magnitudes(level_change(method, sizes, other, 5))
        for sizes in inputs(3)
        for other in neighbours(sizes, relation)
    }
    decay = float(level.parameter)
    worst = max(divergence(c, [decay] * len(c)) for c in changes)
    assert worst == pytest.approx(float(level.rho), rel=1e-4)
    assert max(sum(c) for c in changes) * level.parameter == Fraction(3, 2)
    for scale in (0.95, 1.05):  # of the noise
        other = max(divergence(c, [decay / scale] * len(c)) for c in changes)
        assert other != pytest.approx(float(level.rho), rel=0.01)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("eps", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_pure_noise_is_charged_no_more_than_its_eps_demands(relation, eps):
    moved = {"add_remove": 1, "replace_one": 2}[relation]
    assert LevelPlan(relation, "naive", eps, pure=True).rho < eps**2 / 2
    level = LevelPlan(relation, "cumulative-squares", eps, pure=True)
    decay = float(eps) / moved
    assert float(level.rho) == pytest.approx(moved * decay * math.tanh(decay / 2))
    assert level.rho < eps**2 / (2 * moved)
    ratio = np.exp(-decay)
    assert level.variance == pytest.approx(2 * ratio / (1 - ratio) ** 2)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("method", METHODS)
def test_at_equal_rho_the_gaussian_has_half_the_variance_at_small_eps(relation, method):
    pure = LevelPlan(relation, method, Fraction(1, 10), pure=True)
    gaussian = LevelPlan(relation, method, pure.rho)
    assert pure.variance / gaussian.variance == pytest.approx(2, rel=0.02)


def test_at_equal_eps_and_delta_few_levels_are_better_with_pure_noise():
    for moved, expected in ((1, (8, 18)), (2, (4, 9))):
        for eps, delta, first in zip((Fraction(1, 10), Fraction(2)), (6, 9), expected, strict=True):
            rho = rho_within(eps, Fraction(1, 10**delta))
            gaussian = (n * moved / (2 * rho) for n in range(1, 60))
            pure = (geometric_variance(eps / n / moved) for n in range(1, 60))
            better = [g < p for g, p in zip(gaussian, pure, strict=True)]
            assert better.index(True) + 1 == first
    page = Path(__file__).parents[3] / "docs" / "how-to" / "group-sizes.md"
    words = " ".join(page.read_text("utf-8").split())
    limits = "between 8 and 18 levels under `add_remove`, and between 4 and 9 levels under"
    assert f"{limits} `replace_one`" in words


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_whole_tree_with_pure_noise_costs_what_its_levels_do(relation):
    mix, cap = ("sorted", "cumulative-squares"), 3
    budgets = (Fraction(1, 2), Fraction(2))
    levels = [LevelPlan(relation, m, b, pure=True) for m, b in zip(mix, budgets, strict=True)]
    decays = [float(level.parameter) for level in levels]
    pairs = set()
    for sizes in inputs(3):
        for other in neighbours(sizes, relation):
            root, below = tree_changes(mix, sizes, other, cap)
            pairs.add((magnitudes(root), magnitudes(below)))
    worst = max(
        divergence((*root, *below), [decays[0]] * len(root) + [decays[1]] * len(below))
        for root, below in pairs
    )
    assert worst == pytest.approx(float(sum(level.rho for level in levels)), rel=1e-4)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    "mix",
    [("cumulative-squares", "sorted"), ("sorted", "cumulative-squares"), ("naive", "cumulative")],
)
def test_a_whole_tree_costs_what_its_levels_were_given(relation, mix):
    """Each person is in the root and in one region: the worst change of both together."""
    levels = [
        LevelPlan(relation, m, b) for m, b in zip(mix, (Fraction(1, 3), Fraction(2)), strict=True)
    ]
    parameters = [level.parameter for level in levels]
    worst = Fraction(0)
    for sizes in inputs(2):
        for other in neighbours(sizes, relation):
            changes = tree_changes(mix, sizes, other, 3)
            cost = sum(int(c @ c) / (2 * p) for c, p in zip(changes, parameters, strict=True))
            worst = max(worst, cost)
    assert worst == sum(level.rho for level in levels)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("cap", [1, 2])
@pytest.mark.parametrize("shares", [(1, 1), (1, 3)])
@pytest.mark.parametrize("method", METHODS)
def test_the_charge_is_exact_where_the_plan_says_so(relation, cap, shares, method):
    """Of a tree with two levels. A cap of 1 hides one of the two changes of a move."""
    methods = ((method,), (method,))
    release = SizesRelease(
        name="s", kind="sizes", rho=1, largest=cap, every=1, methods=methods, parts=shares
    )
    levels = declared_levels(release, relation, methods)
    worst = Fraction(0)
    for sizes in inputs(2):
        for other in neighbours(sizes, relation):
            changes = tree_changes((method, method), sizes, other, cap)
            costs = (c @ c / (2 * x.parameter) for c, x in zip(changes, levels, strict=True))
            worst = max(worst, sum(map(Fraction, costs)))
    assert is_exact(release)
    assert worst == 1
