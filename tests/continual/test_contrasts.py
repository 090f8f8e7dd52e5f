"""Contrasts, the estimates made of them, and their variances, against dense linear algebra."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.walks import hand_made, released, window_counts

from stream_dp.continual import FixedWindow
from stream_dp.continual.contrasts import backward, forward
from stream_dp.estimate.query import parse_query
from stream_dp.privacy.noise import exact_variance

FORMS = [(q, k, absent) for q in (2, 3) for k in (1, 2, 3) for absent in (None, 0, q - 1)]
FORMS += [(4, 2, None), (4, 2, 1), (2, 5, 1)]


def form(q, width, absent, releases=7, strategy="contrasts", rho=Fraction(1, 10)):
    rows = None if absent is None else 50
    return FixedWindow(
        tuple(range(q)), width, width + releases - 1, rho, "add_remove",
        strategy=strategy, rows=rows, absent=absent,
    )  # fmt: skip


def noise_variances(mechanism, t):
    demand = mechanism.demand(t)
    return np.repeat([exact_variance(v) for v, _ in demand], [size for _, size in demand])


def history(mechanism):
    """At every release, how the estimates depend on all measurements: (bins, measurements)."""
    inner, eye = mechanism.contrasts, np.eye(mechanism.bins)
    size = inner.measure(np.zeros(mechanism.bins, np.int64)).size
    found = [eye[:, mechanism.measured]]
    for _ in range(1, mechanism.design.releases):
        carried = np.array([inner.carry(e, np.zeros(size)) for e in found[-1].T]).T
        new = np.array([inner.carry(np.zeros(mechanism.bins), e) for e in np.eye(size)]).T
        found.append(np.hstack([carried, new]))
    return found


@pytest.mark.parametrize("q", [2, 3, 7, 40])
def test_contrasts_are_helmert_and_turn_back_into_cells_of_sum_0(q):
    h = np.array([[1 if x < j else -j * (x == j) for x in range(q)] for j in range(1, q)])
    cells = np.random.default_rng(1).integers(-99, 99, (5, q))
    assert np.array_equal(forward(cells), cells @ h.T)
    assert np.array_equal((h**2).sum(axis=1), [j * (j + 1) for j in range(1, q)])
    assert np.allclose(backward(forward(cells)), cells - cells.mean(axis=1, keepdims=True))
    assert np.allclose(backward(cells[:, 1:]).sum(axis=1), 0)


@pytest.mark.parametrize(("q", "width", "absent"), FORMS)
@pytest.mark.parametrize("strategy", ["histogram", "contrasts"])
def test_the_design_is_what_is_measured_and_what_the_words_say(q, width, absent, strategy):
    mechanism = form(q, width, absent, strategy=strategy)
    state = mechanism.init()
    counts = np.random.default_rng(2).integers(0, 99, mechanism.bins)
    for t in range(1, width + 2):
        draw = hand_made(mechanism.demand(t), np.random.default_rng(3), 0, 0)
        state, step = mechanism.step(state, counts, draw)
        if step is None:
            continue
        design = mechanism.design.matrix(t)
        assert design.dtype == np.int64
        assert np.array_equal(design @ counts, mechanism.measure(t, counts))
        assert np.array_equal(step.measurements.values, design @ counts)
        assert sum(size for _, size in mechanism.demand(t)) == design.shape[0]
        rows = [row_of(words, mechanism) for words in step.measurements.queries]
        assert np.array_equal(design.toarray(), rows)
        errors = step.measurements.standard_errors()
        assert np.allclose(errors**2, noise_variances(mechanism, t))


def row_of(words, mechanism):
    """'pattern 0 0|1 - 2 * pattern 0 2' as a row on the histogram."""
    row = np.zeros(mechanism.bins)
    for i, term in enumerate(words.split(" - ")):
        times, star, pattern = term.rpartition(" * ")
        mask = parse_query(pattern, "a", mechanism.values).mask
        row += mask * (1 - 2 * i) * (int(times) if star else 1)
    return row


def test_values_are_quoted_where_they_need_it():
    mechanism = FixedWindow(("a b", "c", "it's"), 1, 2, Fraction(1), "add_remove",
                            strategy="contrasts")  # fmt: skip
    assert mechanism.design.contrast_words == (
        "pattern 'a b' - pattern c",
        "pattern 'a b'|c - 2 * pattern 'it'\"'\"'s'",
    )
    assert row_of(mechanism.design.contrast_words[1], mechanism).tolist() == [1, 1, -2]


@pytest.mark.parametrize(("q", "width", "absent"), FORMS)
@pytest.mark.parametrize("rho", [Fraction(1, 10), Fraction(20)])
def test_errors_of_estimates_are_exact_also_where_noise_is_small(q, width, absent, rho):
    mechanism = form(q, width, absent, rho=rho)
    noise = np.zeros(0)
    for t, rows in enumerate(history(mechanism), width):
        noise = np.append(noise, noise_variances(mechanism, t))
        assert np.allclose(mechanism.design.bin_variances(t), rows**2 @ noise, rtol=1e-12)


@pytest.mark.parametrize(("q", "width", "absent"), FORMS)
def test_the_formula_gives_the_mean_and_the_worst_variance(q, width, absent):
    """a q^-m + (1 - 1/q) (1 - q^-m) b with m = min(t - k, k), where nobody comes or goes."""
    mechanism = form(q, width, absent)
    a, b = mechanism.design.variance, mechanism.design.later_variance
    found = np.array(
        [mechanism.design.bin_variances(t)[mechanism.measured] for t in range(width, width + 7)]
    )
    assert mechanism.mean_variance == pytest.approx(found.mean())
    assert float(mechanism.worst_variance) == pytest.approx(found.max())
    if absent is None:
        m = [min(steps, width) for steps in range(7)]
        exact = [a / q**i + (1 - Fraction(1, q)) * (1 - Fraction(1, q**i)) * b for i in m]
        assert mechanism.worst_variance == max(exact)
        assert np.allclose(found, np.array(exact, float)[:, None])


@pytest.mark.parametrize(("q", "width", "absent"), FORMS)
@pytest.mark.parametrize("strategy", ["histogram", "contrasts"])
def test_functionals_are_unbiased_and_know_their_variance(q, width, absent, strategy):
    mechanism = form(q, width, absent, strategy=strategy)
    rng = np.random.default_rng(4)
    people = rng.integers(0, q, (40, mechanism.horizon))
    draws = [hand_made(mechanism.demand(t), rng, -9, 9) for t in range(1, mechanism.horizon + 1)]
    seen, covered = {}, history(mechanism)
    for t, _, step, _ in released(mechanism, people, draws):
        if step is None:
            continue
        seen[t] = step.measurements.values
        weights = rng.normal(size=mechanism.bins)
        if absent is not None:
            weights[mechanism.contrasts.unseen] = 0
        terms, variance = mechanism.functional(t, weights)
        answer = sum(coefficients @ seen[period] for period, coefficients in terms)
        told = np.zeros(mechanism.bins)
        told[mechanism.measured] = step.estimates.values
        assert answer == pytest.approx(weights @ told)
        truth = {p: window_counts(people, p, width, q) for p in seen}
        without = sum(c @ mechanism.measure(p, truth[p]) for p, c in terms)
        assert without == pytest.approx(weights @ truth[t])
        if strategy == "contrasts":
            noise = np.concatenate([noise_variances(mechanism, p) for p in seen])
            assert variance == pytest.approx((weights @ covered[t - width]) ** 2 @ noise)
        else:
            assert variance == pytest.approx(mechanism.design.bin_variances(t) @ weights**2)
        each = mechanism.functional(t, np.eye(mechanism.bins)[mechanism.measured[0]])[1]
        assert each == pytest.approx(step.estimates.errors[0] ** 2)


def test_nothing_can_be_asked_of_the_pattern_that_is_not_measured():
    mechanism = form(3, 2, 2)
    with pytest.raises(ValueError, match="not measured"):
        mechanism.functional(3, np.ones(9))


@given(st.sampled_from(FORMS), st.integers(0, 10**6))
def test_estimates_are_the_truth_where_there_is_no_noise(chosen, seed):
    mechanism, rng = form(*chosen), np.random.default_rng(seed)
    people = rng.integers(0, mechanism.q, (30, mechanism.horizon))
    draws = [hand_made(mechanism.demand(t), rng, 0, 0) for t in range(1, mechanism.horizon + 1)]
    for t, _, step, _ in released(mechanism, people, draws):
        if step is not None:
            truth = window_counts(people, t, mechanism.width, mechanism.q)
            assert np.allclose(step.estimates.values, truth[mechanism.measured])
            words = [mechanism.design.query(code) for code in mechanism.measured]
            assert step.estimates.queries == tuple(words)


@pytest.mark.parametrize("strategy", ["histogram", "contrasts"])
@pytest.mark.parametrize(("q", "width"), [(2, 3), (3, 2), (3, 1)])
def test_a_public_number_of_people_is_best_used_with_the_mean_weight(q, width, strategy):
    mechanism = form(q, width, None, strategy=strategy)
    weights = np.random.default_rng(5).random(mechanism.bins) * 10
    for t in (width, width + 2, width + 6):
        best = mechanism.functional(t, weights - weights.mean())[1]
        for other in (0, weights.mean() - 0.1, weights.mean() + 0.1):
            assert mechanism.functional(t, weights - other)[1] > best
