"""Representations, regressions, matching: against brute force and other solvers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from stream_dp.batch.sizes.histogram import Estimate, Sizes, earth_movers_distance
from stream_dp.batch.sizes.merging import in_proportion, matched
from stream_dp.batch.sizes.size_estimates import (
    METHODS,
    least_absolute,
    least_squares,
    on_simplex,
)

some_sizes = st.lists(st.integers(0, 9), min_size=1, max_size=12).map(lambda x: np.array(x))
noisy = st.lists(st.integers(-6, 12), min_size=1, max_size=9).map(lambda x: np.array(x))


@given(some_sizes, some_sizes)
def test_the_distance_is_that_of_sorted_sizes_and_of_cumulative_counts(first, second):
    n = min(len(first), len(second))
    a, b = Sizes.of(first[:n]), Sizes.of(second[:n])
    sorted_ = np.abs(np.sort(first[:n]) - np.sort(second[:n])).sum()
    cumulative = np.abs(a.cumulative(9) - b.cumulative(9)).sum()
    assert earth_movers_distance(a, b) == sorted_ == cumulative


def test_different_numbers_of_groups_have_no_distance():
    with pytest.raises(ValueError, match="numbers of groups"):
        earth_movers_distance(Sizes.of(np.array([1])), Sizes.of(np.array([1, 2])))


@given(some_sizes)
@pytest.mark.parametrize("method", METHODS)
def test_values_without_noise_give_the_sizes_back(method, sizes):
    truth = Sizes.of(sizes)
    declared = METHODS[method]
    exact = declared.exact(truth, 9)
    assert len(exact) == declared.entries(truth.total, 9)
    fitted = declared.fit(exact, truth.total, 9).sizes
    assert earth_movers_distance(fitted, truth) == 0


@given(noisy)
def test_the_quadratic_regression_is_the_least_over_all_blocks(values):
    fitted = least_squares(values)
    for i in range(len(values)):  # the min-max formula (Robertson, Wright, Dykstra 1988)
        means = [[values[a : b + 1].mean() for b in range(i, len(values))] for a in range(i + 1)]
        assert fitted[i] == pytest.approx(max(map(min, means)), abs=1e-9)


def increasing(length, most):
    """Every increasing sequence of integers in [0, most]."""
    if not length:
        yield []
        return
    for head in increasing(length - 1, most):
        for value in range(head[-1] if head else 0, most + 1):
            yield [*head, value]


@given(noisy.filter(lambda x: len(x) <= 5))
@settings(max_examples=40, deadline=None)
def test_the_absolute_regression_has_the_least_sum_of_all_sequences(values):
    fitted = least_absolute(values, 5)
    assert (np.diff(fitted) >= 0).all()
    assert fitted.min() >= 0
    assert fitted.max() <= 5
    best = min(np.abs(values - sequence).sum() for sequence in increasing(len(values), 5))
    assert np.abs(values - fitted).sum() == best


@given(noisy, st.integers(0, 20))
def test_the_naive_estimate_is_the_nearest_histogram(values, total):
    """All positive entries fall by the same number, and no other entry would stay above 0."""
    projected = on_simplex(values, total)
    assert projected.min() >= 0
    assert projected.sum() == pytest.approx(total, abs=1e-9)
    lowered = (values - projected)[projected > 0]
    if len(lowered):
        assert np.ptp(lowered) < 1e-9
        assert (values[projected == 0] <= lowered[0] + 1e-9).all()
    largest = len(values) - 1
    estimate = METHODS["naive"].fit(values, total, largest).sizes
    assert estimate.total == total
    assert (np.abs(estimate.histogram(largest) - projected) < 1).all()


@st.composite
def families(draw):
    children = [Sizes.of(s) for s in draw(st.lists(some_sizes, min_size=1, max_size=4))]
    total = sum(child.total for child in children)
    parent = draw(st.lists(st.integers(0, 9), min_size=total, max_size=total))
    return Sizes.of(np.array(parent)), children


@given(families())
@settings(max_examples=60, deadline=None)
def test_no_matching_moves_fewer_members(family):
    parent, children = family
    pairs = matched(Estimate.of(parent), [Estimate.of(child) for child in children])
    size = np.array([children[c].size[r] for c, r in zip(pairs.child, pairs.run, strict=True)])
    moved = (np.abs(parent.size[pairs.parent] - size) * pairs.groups).sum()
    everyone = np.concatenate([child.sorted() for child in children])
    cost = np.abs(parent.sorted()[:, None] - everyone[None, :])
    assert moved == cost[linear_sum_assignment(cost)].sum()
    for i, child in enumerate(children):  # every group is matched once
        used = np.zeros(len(child.size), np.int64)
        np.add.at(used, pairs.run[pairs.child == i], pairs.groups[pairs.child == i])
        assert used.tolist() == child.groups.tolist()
    used = np.zeros(len(parent.size), np.int64)
    np.add.at(used, pairs.parent, pairs.groups)
    assert used.tolist() == parent.groups.tolist()


def test_families_of_different_numbers_are_refused():
    one, two = (Estimate.of(Sizes.of(np.zeros(n, np.int64))) for n in (1, 2))
    with pytest.raises(ValueError, match="not those of its children"):
        matched(one, [two])


@given(st.lists(st.integers(1, 1 << 40), min_size=1, max_size=6), st.data())
def test_ties_are_shared_in_proportion_with_largest_remainders_up(counts, data):
    counts = np.array(counts)
    share = data.draw(st.integers(0, int(counts.sum())))
    parts = in_proportion(counts, share)
    assert parts.sum() == share
    assert (parts <= counts).all()
    exact = [share * count / int(counts.sum()) for count in counts.tolist()]
    assert all(abs(part - e) < 1 + 1e-3 for part, e in zip(parts.tolist(), exact, strict=True))
    up = [e % 1 for part, e in zip(parts.tolist(), exact, strict=True) if part > e]
    down = [e % 1 for part, e in zip(parts.tolist(), exact, strict=True) if part < e]
    assert not up or not down or min(up) >= max(down) - 1e-3
