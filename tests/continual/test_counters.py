"""Stream counters: prefix sums, unit errors, and the exact worst cost of a set of them."""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dp.continual.counters import Counter, path_costs, shares, tree

T = 12


def levels(n):
    """L = floor(log2 n) + 1."""
    return n.bit_length()


def ceil_log2(n):
    return (n - 1).bit_length()


def trees(horizon):
    return [tree(horizon - b) for b in range(horizon)]


def complete_tree(n):
    """All complete dyadic nodes of n steps, used or not, one row each."""
    sizes = [1 << j for j in range(levels(n))]
    nodes = [(a, a + size) for size in sizes for a in range(0, n - size + 1, size)]
    return np.array([[a <= i < b for i in range(n)] for a, b in nodes], np.int64)


def worst_cost(encodes, weights, single, end):
    """The dearest one or two increasing paths of entry times 1..end, by plain recursion.

    A path is t_1 < t_2 < ...; end + 1 stands for never, then every later one is never too.
    """
    horizon = len(encodes)

    def seen(b, s):
        matrix = encodes[b - 1]
        return matrix[:, s - b] if s <= end else np.zeros(matrix.shape[0], np.int64)

    def later(b, s):
        return [*range(max(s + 1, b), end + 1), end + 1]

    @lru_cache(None)
    def best(b, s, u):
        if b > min(horizon, end):
            return 0
        return max(
            weights[b - 1] * int(((seen(b, x) - seen(b, y)) ** 2).sum()) + best(b + 1, x, y)
            for x in later(b, s)
            for y in ([end + 1] if single else later(b, u))
        )

    return best(1, 0, 0)


def every_path(horizon):
    """All sets of entry times: the i-th smallest member is when threshold i is reached."""
    return [
        [t for t in range(1, horizon + 1) if member >> (t - 1) & 1]
        for member in range(1 << horizon)
    ]


def brute_force(counters, weights, single, end):
    """The same maximum by listing all paths, and all pairs of them, over the answers up to end."""
    horizon = len(counters)

    def answers(path):
        found = []
        for b, counter in enumerate(counters, 1):
            x = np.zeros(horizon - b + 1, np.int64)
            if len(path) >= b:
                x[path[b - 1] - b] = 1
            found.append((counter.encode @ x)[: max(0, end - b + 1)])
        return found

    people = [answers(path) for path in every_path(horizon)]
    nobody = answers([])
    return max(
        sum(w * int(((x - y) ** 2).sum()) for w, x, y in zip(weights, here, there, strict=True))
        for here in people
        for there in ([nobody] if single else people)
    )


@given(st.integers(1, 200))
def test_decoding_what_was_encoded_gives_all_prefix_sums(n):
    counter = tree(n)
    assert np.array_equal(counter.decode @ counter.encode, np.tril(np.ones((n, n), np.int64)))
    assert np.array_equal(counter.encode, np.tril(counter.encode))
    assert np.array_equal(counter.decode, np.tril(counter.decode))


@given(st.integers(1, 200))
def test_a_released_sum_adds_popcount_nodes_and_an_entry_is_in_at_most_L_nodes(n):
    """Bun24, Algorithm 3: with ceil(log2 n) levels a power of two would have one too few."""
    counter = tree(n)
    assert [int(r) for r in (counter.decode**2).sum(axis=1)] == [
        i.bit_count() for i in range(1, n + 1)
    ]
    assert (counter.encode**2).sum(axis=0).max() == levels(n)


@pytest.mark.parametrize(
    ("n", "rmse", "worst"), [(12, 2.708, 3.464), (60, 4.195, 5.477), (120, 4.879, 6.481)]
)
def test_unit_errors_of_one_tree(n, rmse, worst):
    """In units of 1 / sqrt(2 rho), for a stream in which one entry changes by 1."""
    counter = tree(n)
    variances = (counter.decode**2).sum(axis=1) * (counter.encode**2).sum(axis=0).max()
    assert math.sqrt(variances.mean()) == pytest.approx(rmse, abs=5e-4)
    assert math.sqrt(variances.max()) == pytest.approx(worst, abs=5e-4)


@pytest.mark.parametrize(
    ("part", "rmse", "worst"),
    [(lambda n: 1, 8.41, 12.0), (lambda n: max(1, ceil_log2(n)) ** 3, 9.27, 27.6)],
    ids=["equal split", "cubes of levels"],
)
def test_unit_errors_of_algorithm_2(part, rmse, worst):
    """Bun24, Algorithm 2 at T = 12, one tree for each threshold, by the split of rho."""
    whole = sum(part(T - b) for b in range(T))
    cells = np.concatenate(
        [(c.decode**2).sum(axis=1) * levels(c.length) * whole / part(c.length) for c in trees(T)]
    )
    assert len(cells) == T * (T + 1) // 2
    assert math.sqrt(cells.mean()) == pytest.approx(rmse, abs=5e-3)
    assert math.sqrt(cells.max()) == pytest.approx(worst, abs=5e-2)


def test_our_split_has_a_smaller_worst_cell_than_both():
    counters = trees(T)
    weights = shares(counters)
    cost = path_costs(counters, weights, "add_remove", prefixes=False)[-1]
    cells = [
        float(cost * row / w)
        for c, w in zip(counters, weights, strict=True)
        for row in (c.decode**2).sum(axis=1)
    ]
    assert math.sqrt(max(cells)) < 12.0
    assert math.sqrt(sum(cells) / len(cells)) < 8.41


@given(st.integers(1, 4), st.integers(0, 10**9), st.booleans())
def test_path_costs_are_those_of_all_pairs_of_paths(horizon, seed, usual):
    """Any lower-triangular counters, any weights, every prefix."""
    rng = np.random.default_rng(seed)
    counters = trees(horizon)
    if not usual:
        counters = [
            Counter(np.tril(rng.integers(-3, 4, c.encode.shape)), c.decode) for c in counters
        ]
    weights = [int(w) for w in rng.integers(0, 9, horizon)]
    for relation in ("add_remove", "replace_one", "replace_in_place"):
        single = relation == "add_remove"
        found = path_costs(counters, weights, relation, prefixes=True)
        assert found == [
            brute_force(counters, weights, single, end) for end in range(1, horizon + 1)
        ]
        assert found[-1:] == path_costs(counters, weights, relation, prefixes=False)
        encodes = [c.encode for c in counters]
        assert found[-1] == worst_cost(encodes, weights, single, horizon)


@pytest.mark.parametrize(
    ("part", "all_nodes"),
    [
        (lambda n: 1, 1.347),
        (lambda n: levels(n) ** 3, 1.461),
        (lambda n: ceil_log2(n) ** 3, 1.4895),
    ],
    ids=["equal split", "cubes of levels", "cubes as printed"],
)
def test_replacement_costs_less_than_twice_an_addition_at_T_12(part, all_nodes):
    """Relative to the add_remove cost. Nodes that no sum uses are not measured and cost nothing."""
    whole = sum(part(T - b) for b in range(T))
    weights = [Fraction(part(T - b), whole * levels(T - b)) for b in range(T)]
    complete = [complete_tree(T - b) for b in range(T)]
    used = [c.encode for c in trees(T)]
    assert worst_cost(complete, weights, True, T) == worst_cost(used, weights, True, T) == 1
    assert float(worst_cost(complete, weights, False, T)) == pytest.approx(all_nodes, abs=5e-4)
    assert worst_cost(used, weights, False, T) < worst_cost(complete, weights, False, T)
    unit = math.lcm(*(w.denominator for w in weights))
    (exact,) = path_costs(trees(T), [int(w * unit) for w in weights], "replace_one", prefixes=False)
    assert Fraction(exact, unit) == worst_cost(used, weights, False, T)


def test_the_equal_split_of_the_used_nodes_costs_exactly_179_over_144():
    unit = 12
    weights = [unit // levels(T - b) for b in range(T)]
    (exact,) = path_costs(trees(T), weights, "replace_one", prefixes=False)
    assert Fraction(exact, unit * T) == Fraction(179, 144)
