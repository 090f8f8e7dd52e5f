"""Windows as residuals in an open population: costs by brute force, estimates by dense algebra."""

from fractions import Fraction
from itertools import accumulate, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.walks import window_counts

from stream_dp.continual.window.open_residuals import OpenResiduals
from stream_dp.continual.window.presence import BITS, Presence, PresenceCosts
from stream_dp.continual.window.residuals import Residuals
from stream_dp.privacy.noise import exact_variance

RHO = Fraction(1, 2)


def open_residuals(q, width, horizon, relation="add_remove", *, absent=None, direct=False):
    presence = Presence(q, width, horizon)
    prefix = PresenceCosts(presence, direct).prefix(relation)
    inside = Residuals(
        q=q,
        width=width,
        horizon=horizon,
        exponent=Fraction(1),
        total=False,
        scale=prefix[-1] / (2 * RHO),
        absent=q - 1 if absent is None else absent,
    )
    return OpenResiduals(inside, presence, direct), prefix


def presence_counts(symbols, t, width, absent):
    """(2^(2k - 1),) people by when they were present: bit g of the number for t - g."""
    bits = np.zeros(len(symbols), np.int64)
    for g in range(min(2 * width - 1, t)):
        bits |= (symbols[:, t - 1 - g] != absent).astype(np.int64) << g
    return np.bincount(bits, minlength=2 ** (2 * width - 1))


def measure(design, t, symbols):
    inside = design.inside
    counts = window_counts(symbols, t, inside.width, inside.q)
    if len(symbols) == 0:
        counts = np.zeros(inside.bins, np.int64)
    patterns = presence_counts(symbols, t, inside.width, inside.absent)
    return design.measure(t, np.append(counts, patterns))


def releases(design):
    return range(design.inside.width, design.inside.horizon + 1)


def measured(design, history):
    return np.concatenate([measure(design, t, np.array([history])) for t in releases(design)])


def weights_of(design):
    """1 / (2 variance) of every measurement, and the release it belongs to."""
    weights, release_of = [], []
    for number, t in enumerate(releases(design)):
        for variance, size in design.demand(t):
            weights += [1 / (2 * variance)] * size
            release_of += [number] * size
    return weights, release_of


def prefix_costs(design, change):
    weights, release = weights_of(design)
    costs = [Fraction(0)] * len(releases(design))
    for i in np.flatnonzero(change):
        costs[release[i]] += int(change[i]) ** 2 * weights[i]
    return list(accumulate(costs))


SHAPES = [(2, 1, 3), (2, 2, 4), (2, 3, 5), (2, 3, 7), (3, 1, 3), (3, 2, 4), (3, 3, 4), (4, 2, 3)]


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize(("q", "width", "horizon"), SHAPES)
def test_costs_are_the_worst_over_all_histories(q, width, horizon, direct):
    design, prefix = open_residuals(q, width, horizon, direct=direct)
    costs = [
        prefix_costs(design, measured(design, history))
        for history in product(range(q), repeat=horizon)
    ]
    worst = [max(each) for each in zip(*costs, strict=True)]
    assert worst == [c / (2 * design.inside.scale) for c in prefix]
    assert worst[-1] == RHO
    assert abs(prefix[-1] / len(releases(design)) - 1) < 1e-5


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize(("q", "width", "horizon"), [(2, 2, 4), (2, 3, 5), (3, 2, 3), (3, 1, 3)])
def test_no_replacement_costs_more_than_is_charged(q, width, horizon, direct):
    design, prefix = open_residuals(q, width, horizon, "replace_one", direct=direct)
    answers = [measured(design, h) for h in product(range(q), repeat=horizon)]
    pairs = [prefix_costs(design, a - b) for a, b in product(answers, answers)]
    worst = [max(each) for each in zip(*pairs, strict=True)]
    charged = [c / (2 * design.inside.scale) for c in prefix]
    assert all(cost <= bound for cost, bound in zip(worst, charged, strict=True))
    assert worst[-1] >= RHO * (1 - Fraction(1, 1000))


@pytest.mark.parametrize(("q", "width", "horizon"), [(3, 1, 4), (2, 2, 5), (3, 3, 6), (4, 2, 5)])
def test_the_factor_is_that_of_all_histograms(q, width, horizon):
    """X from the patterns of presence of every window, by their definition."""
    presence = Presence(q, width, horizon)
    greatest, bits = presence._sets
    sets = [
        {int(i) - g for g in range(width) if b >> g & 1}
        for i, b in zip(greatest, bits, strict=True)
    ]
    precision = np.zeros((len(sets), len(sets)))
    for t in range(width, horizon + 1):
        window = set(range(t - width + 1, t + 1))
        for inside in product((False, True), repeat=width):
            c = {t - g for g in range(width) if inside[g]}
            if c:
                row = np.array([(-1.0) ** len(s - c) * (c <= s <= window) for s in sets])
                precision += np.outer(row, row) / (q - 1) ** len(c)
    factor = np.zeros_like(precision)
    for d in range(presence.band + 1):
        for row in range(d, len(sets)):
            factor[row, row - d] = presence.factor[d, row] / 2.0**BITS
    assert np.abs(factor.T @ factor - precision).max() < 1e-4
    rounding = np.abs(factor.T @ factor - precision).sum()
    assert np.isclose(float(PresenceCosts(presence, False)._rounding), rounding, rtol=1e-3)


@given(
    st.integers(2, 4), st.integers(1, 3), st.integers(0, 4), st.booleans(), st.data(),
    st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_without_noise_the_estimates_are_the_true_counts(q, width, more, direct, data, seed):
    absent, horizon = data.draw(st.integers(0, q - 1)), width + more
    design, _ = open_residuals(q, width, horizon, absent=absent, direct=direct)
    symbols = np.random.default_rng(seed).integers(0, q, (60, horizon))
    state = design.init()
    for t in releases(design):
        state = design.updated(t, state, measure(design, t, symbols))
        truth = window_counts(symbols, t, width, q)
        if not direct:
            truth[design.nobody] = 0
        assert np.allclose(design.histogram(t, state), truth)


@pytest.mark.parametrize("direct", [False, True])
def test_who_enters_late_with_earlier_periods_filled_in_is_counted(direct):
    """Before they enter they are nowhere: only the pattern of the filler alone feels it."""
    q, width, horizon, filler = 3, 2, 6, 0
    design, _ = open_residuals(q, width, horizon, absent=filler, direct=direct)
    rng = np.random.default_rng(8)
    symbols, entry = rng.integers(0, q, (80, horizon)), rng.integers(1, horizon + 1, 80)
    symbols[np.arange(horizon) < entry[:, None] - 1] = filler
    state = design.init()
    for t in releases(design):
        here = symbols[entry <= t]
        state = design.updated(t, state, measure(design, t, here))
        truth = window_counts(here, t, width, q)
        if not direct:
            truth[design.nobody] = 0
        assert np.allclose(design.histogram(t, state), truth)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize(("q", "width", "horizon"), SHAPES)
def test_variances_and_coefficients_are_those_of_dense_algebra(q, width, horizon, direct):
    design, _ = open_residuals(q, width, horizon, direct=direct)
    sizes = [sum(n for _, n in design.demand(t)) for t in releases(design)]
    noise = np.array(
        [exact_variance(v) for t in releases(design) for v, n in design.demand(t) for _ in range(n)]
    )
    estimates = {t: [] for t in releases(design)}
    for unit in np.eye(sum(sizes), dtype=np.int64):
        state, at = design.init(), 0
        for t, size in zip(releases(design), sizes, strict=True):
            state = design.updated(t, state, unit[at : at + size])
            estimates[t].append(design.histogram(t, state))
            at += size
    rng = np.random.default_rng(4)
    for t, rows in estimates.items():
        rows = np.array(rows).T
        assert np.allclose(design.bin_variances(t), rows**2 @ noise)
        weights = rng.normal(size=rows.shape[0]) * (rows**2 @ noise > 0)
        assert np.isclose(design.variance(t, weights), (weights @ rows) ** 2 @ noise)
        parts = dict(design.answers_of(t, weights))
        joined = np.concatenate([parts[p] for p in sorted(parts)])
        assert np.allclose(joined, (weights @ rows)[: joined.size])


@pytest.mark.parametrize(
    ("horizon", "width", "q", "ratios"),
    [
        (12, 3, 2, (0.7838, 0.5519, 0.5808)),
        (12, 3, 3, (0.8503, 0.5407, 0.5243)),
        (11, 2, 4, (0.9055, 0.6901, 0.6170)),
    ],
)
def test_errors_over_those_of_histograms(horizon, width, q, ratios):
    """Root mean squared errors over all periods against R histograms at the same rho: a measured
    pattern, at least 1 of k, present now."""
    design, _ = open_residuals(q, width, horizon)
    histogram = len(releases(design)) / float(2 * RHO)
    symbols = np.arange(design.inside.bins)[:, None] // q ** np.arange(width - 1, -1, -1) % q
    queries = [(symbols == 0).any(axis=1), symbols[:, -1] != q - 1]
    seen = np.arange(design.inside.bins) != design.nobody
    squared = [np.mean([design.bin_variances(t)[seen].mean() for t in releases(design)])]
    squared += [
        np.mean([design.variance(t, query.astype(float)) for t in releases(design)]) / query.sum()
        for query in queries
    ]
    assert np.sqrt(np.array(squared) / histogram) == pytest.approx(ratios, abs=1e-4)
