"""What a set of counters costs: against all pairs of histories, for every prefix and relation."""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_dp.continual.counters.methods import counter as counter_of
from stream_dp.continual.counters.stream_counters import Counter
from stream_dp.continual.counters.tree import tree
from stream_dp.continual.cumulative.budgets import (
    equal_variance_weights,
    path_costs,
    weights_with_entry,
)
from stream_dp.study import CounterKind

T = 12
NAMES = list(CounterKind)


def levels(n):
    return n.bit_length()


def ceil_log2(n):
    return (n - 1).bit_length()


def counters_of(name, horizon):
    return [counter_of(name, horizon - b) for b in range(horizon)]


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


def brute_force(counters, weights, single, end, entry=None):
    """The maximum over all paths, and all pairs of them, of the answers up to `end`.

    entry: counter 0 and its weight; then every path comes with every time of entry that is not
    after its first event, and "nobody" is a person who never enters.
    """
    horizon = len(counters)

    def answers(arrival, path):
        rows = []
        for b, counter in enumerate(counters, 1):
            x = np.zeros(horizon - b + 1, np.int64)
            if len(path) >= b:
                x[path[b - 1] - b] = 1
            rows.append((counter.encode @ x)[: counter.rows(max(0, end - b + 1))])
        if entry:
            x = np.zeros(horizon, np.int64)
            if arrival is not None:
                x[arrival - 1] = 1
            rows.append((entry[0].encode @ x)[: entry[0].rows(end)])
        return rows

    nobody = answers(None, [])
    people = [nobody]
    for path in every_path(horizon):
        last = path[0] if path else horizon
        arrivals = range(1, last + 1) if entry else [None]
        people += [answers(arrival, path) for arrival in arrivals]
    all_weights = [*weights, *([entry[1]] if entry else [])]
    return max(
        sum(w * int(((x - y) ** 2).sum()) for w, x, y in zip(all_weights, here, there, strict=True))
        for here in people
        for there in ([nobody] if single else people)
    )


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(0, 10**9), st.sampled_from([*NAMES, "any"]), st.booleans())
def test_path_costs_are_those_of_all_pairs_of_paths(horizon, seed, name, entered):
    """Every counter, any lower-triangular matrices, any weights, every prefix."""
    rng = np.random.default_rng(seed)
    counters = counters_of("tree" if name == "any" else name, horizon)
    if name == "any":
        matrices = [np.tril(rng.integers(-3, 4, c.encode.shape)) for c in counters]
        counters = [Counter(m, c.decode, c.times) for m, c in zip(matrices, counters, strict=True)]
    weights = [int(w) for w in rng.integers(0, 9, horizon)]
    entry = (counters[0], int(rng.integers(0, 9))) if entered else None
    ends = range(1, horizon + 1)
    for relation in ("add_remove", "replace_one", "replace_in_place"):
        single = relation == "add_remove"
        costs = path_costs(counters, weights, relation, prefixes=True, entry=entry)
        assert costs == [
            brute_force(counters=counters, weights=weights, single=single, end=end, entry=entry)
            for end in ends
        ]
        assert costs[-1:] == path_costs(counters, weights, relation, prefixes=False, entry=entry)
        assert costs == sorted(costs)
    single = path_costs(counters, weights, "add_remove", prefixes=True, entry=entry)
    pairs = path_costs(counters, weights, "replace_one", prefixes=True, entry=entry)
    moved = path_costs(counters, weights, "replace_one", prefixes=True, entry=entry, crossed=2)
    assert moved == [max(2 * one, pair) for one, pair in zip(single, pairs, strict=True)]
    if entry is None:
        encodes = [c.encode for c in counters]
        assert single[-1] == worst_cost(encodes, weights, True, horizon)
        assert pairs[-1] == worst_cost(encodes, weights, False, horizon)


def test_costs_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="64 bits"):
        path_costs([tree(1)], [1 << 60], "add_remove", prefixes=False)
    big = Counter(np.full((1, 1), 1 << 26), np.ones((1, 1)), np.ones(1, np.int64))
    with pytest.raises(ValueError, match="not exact"):
        path_costs([big], [1], "add_remove", prefixes=False)


def test_what_replacement_costs_relative_to_an_addition_at_T_12():
    """Every tree with the same worst variance, rho_b in proportion to it."""
    counters = counters_of("tree", T)
    weights = equal_variance_weights(counters)
    (one,) = path_costs(counters, weights, "add_remove", prefixes=False)
    (pair,) = path_costs(counters, weights, "replace_one", prefixes=False)
    assert pair / one == pytest.approx(1.2872, abs=2e-4)


def cells(counters, weights, relation):
    """Deviations of all cells in units of 1/sqrt(2 rho)."""
    (cost,) = path_costs(counters, weights, relation, prefixes=False)
    variances = [cost * c.gains / w for c, w in zip(counters, weights, strict=True)]
    return np.sqrt(np.concatenate(variances))


def test_unit_errors_of_algorithm_2_at_T_12():
    counters = counters_of("tree", T)
    deviations = cells(counters, equal_variance_weights(counters), "add_remove")
    assert len(deviations) == T * (T + 1) // 2
    assert (deviations**2).mean() ** 0.5 == pytest.approx(7.645, abs=1e-3)
    assert deviations.max() == pytest.approx(9.695, abs=1e-3)


def test_no_other_split_has_a_smaller_worst_cell():
    rng = np.random.default_rng(7)
    for name in ("tree", "unbounded"):
        counters = counters_of(name, 6)
        weights = equal_variance_weights(counters)
        for relation in ("add_remove", "replace_one"):
            best = cells(counters, weights, relation).max()
            for _ in range(30):
                others = [max(1, int(w * rng.uniform(50, 200))) for w in weights]
                assert cells(counters, others, relation).max() > best * (1 - 1e-3)


@pytest.mark.parametrize(
    ("part", "rmse", "worst"),
    [(lambda n: 1, 8.41, 12.0), (lambda n: max(1, ceil_log2(n)) ** 3, 9.27, 27.6)],
    ids=["equal split", "cubes of levels"],
)
def test_unit_errors_of_the_papers_splits(part, rmse, worst):
    """Bun24, Algorithm 2 at T = 12, one tree for each threshold, by the split of rho."""
    total = sum(part(T - b) for b in range(T))
    variances = np.concatenate(
        [c.gains * levels(c.length) * total / part(c.length) for c in counters_of("tree", T)]
    )
    assert math.sqrt(variances.mean()) == pytest.approx(rmse, abs=5e-3)
    assert math.sqrt(variances.max()) == pytest.approx(worst, abs=5e-2)


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
    total = sum(part(T - b) for b in range(T))
    weights = [Fraction(part(T - b), total * levels(T - b)) for b in range(T)]
    complete = [complete_tree(T - b) for b in range(T)]
    trees = counters_of("tree", T)
    used = [c.encode for c in trees]
    assert worst_cost(complete, weights, True, T) == worst_cost(used, weights, True, T) == 1
    assert float(worst_cost(complete, weights, False, T)) == pytest.approx(all_nodes, abs=5e-4)
    assert worst_cost(used, weights, False, T) < worst_cost(complete, weights, False, T)
    unit = math.lcm(*(w.denominator for w in weights))
    (exact,) = path_costs(trees, [int(w * unit) for w in weights], "replace_one", prefixes=False)
    assert Fraction(exact, unit) == worst_cost(used, weights, False, T)


def test_the_equal_split_of_the_used_nodes_costs_exactly_179_over_144():
    unit = 12
    weights = [unit // levels(T - b) for b in range(T)]
    (exact,) = path_costs(counters_of("tree", T), weights, "replace_one", prefixes=False)
    assert Fraction(exact, unit * T) == Fraction(179, 144)


@given(st.integers(1, 9), st.fractions(Fraction(1, 10**6), 1 - Fraction(1, 10**6)))
def test_people_get_about_their_share(horizon, share):
    counters = counters_of("tree", horizon)
    weights = equal_variance_weights(counters)
    (rest,) = path_costs(counters, weights, "add_remove", prefixes=False)
    *mine, own = weights_with_entry(weights, rest, counters[0], share)
    (cost,) = path_costs(counters, mine, "add_remove", prefixes=False)
    part = own * counters[0].column2
    assert min(*mine, own) >= 1
    assert max(*mine, own) <= 1 << 16
    if 0.01 < share < 0.99:
        assert part / (part + cost) == pytest.approx(float(share), rel=0.02)
