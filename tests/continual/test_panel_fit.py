"""The nearest possible panel in the metric of the noise, against dense algebra and scipy."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from stream_dp.continual.window import panel_fit
from stream_dp.continual.window.measurement_strategy import NoisyWindow
from stream_dp.continual.window.panel_fit import PatternMetric, nearest_on_simplex, nearest_panel
from stream_dp.continual.window.residuals import Residuals


def metric(q, width, ahead, exponent):
    dense = np.zeros((q**width, q**width))
    for j in range(ahead + 1):
        share = (j + 1) ** float(Fraction(exponent)) - j ** float(Fraction(exponent))
        dense += share * np.kron(np.full((q**j, q**j), q**-j), np.eye(q ** (width - j)))
    return dense


def ours(q, width, ahead, exponent, variance=50.0):
    return PatternMetric(
        q=q, bins=q**width, ahead=ahead, exponent=Fraction(exponent), variance=variance
    )


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**32))
def test_rows_land_on_the_simplex_at_the_nearest_point(rows, size, seed):
    rng = np.random.default_rng(seed)
    cells, sums = rng.normal(size=(rows, size)) * 9, np.abs(rng.normal(size=rows)) * 9
    nearest = nearest_on_simplex(cells, sums)
    assert nearest.min() >= 0
    assert np.allclose(nearest.sum(axis=1), sums)
    # The conditions of Karush, Kuhn and Tucker: one shift wherever a number is above 0.
    for row, own in zip(nearest, cells, strict=True):
        shift = (own - row)[row > 0]
        assert np.ptp(shift) < 1e-9
        assert (own[row == 0] <= shift.mean() + 1e-9).all()


@given(
    st.sampled_from([(2, 2), (2, 3), (3, 2), (4, 2)]), st.booleans(), st.sampled_from(["1", "3/4"]),
    st.data(), st.integers(0, 2**32),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_the_fit_is_the_best_possible_panel(shape, first, exponent, data, seed):
    q, width = shape
    ahead, rng = data.draw(st.integers(0, width - 1)), np.random.default_rng(seed)
    blocks = 1 if first else q ** (width - 1)
    target = rng.normal(3, 10, q**width)
    sums = np.maximum(target.reshape(blocks, -1).sum(axis=1) + rng.normal(size=blocks), 1.0)
    fitted = nearest_panel(target, sums, ours(q, width, ahead, exponent))
    assert fitted.min() >= 0
    assert np.allclose(fitted.reshape(blocks, -1).sum(axis=1), sums)
    dense = metric(q, width, ahead, exponent)
    best = minimize(
        lambda p: (p - target) @ dense @ (p - target),
        nearest_on_simplex(target.reshape(blocks, -1), sums).ravel(),
        jac=lambda p: 2 * dense @ (p - target),
        bounds=[(0, None)] * q**width,
        constraints={
            "type": "eq",
            "fun": lambda p: p.reshape(blocks, -1).sum(axis=1) - sums,
            "jac": lambda _: np.kron(np.eye(blocks), np.ones(q**width // blocks)),
        },
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    own = (fitted - target) @ dense @ (fitted - target)
    assert own <= best.fun * (1 + 1e-4) + 1e-6


@pytest.mark.parametrize(("q", "width", "ahead"), [(2, 3, 2), (3, 2, 1), (2, 4, 1), (5, 1, 0)])
def test_what_needs_no_repair_stays_but_for_its_sums(q, width, ahead):
    target = np.random.default_rng(1).uniform(50, 90, q**width)
    sums = target.reshape(q ** (width - 1), q).sum(axis=1) + 1
    fitted = nearest_panel(target, sums, ours(q, width, ahead, 1))
    assert np.allclose(fitted, target + 1 / q)


@pytest.mark.parametrize("exponent", ["1", "3/4"])
@pytest.mark.parametrize(("q", "width", "horizon"), [(2, 3, 12), (3, 2, 9), (2, 4, 6)])
def test_the_metric_is_the_inverse_covariance_of_what_is_new(q, width, horizon, exponent):
    """Of the estimates inside each overlap, given the overlaps' own, but for 12 binary digits."""
    design = Residuals(
        q=q,
        width=width,
        horizon=horizon,
        exponent=Fraction(exponent),
        total=False,
        scale=Fraction(100),
    )
    eye = np.eye(design.bins)
    inside = eye - np.kron(np.eye(q ** (width - 1)), np.full((q, q), 1 / q))
    for t in range(width + 1, horizon + 1):
        ahead = min(width - 1, horizon - t)
        back = np.array([design.histogram(t, NoisyWindow(e)) for e in eye.astype(np.int64)]).T
        covariance = inside @ (back * design.entry_variances(t)) @ back.T @ inside
        dense = metric(q, width, ahead, exponent) / 100
        assert np.allclose(dense @ covariance, inside, atol=1e-3)


def test_twenty_iterations_are_as_good_as_many(monkeypatch):
    q, width, exponent = 5, 4, Fraction(3, 4)
    dense, rng = metric(q, width, 3, exponent), np.random.default_rng(3)
    target = rng.normal(0, 1, q**width) * 30 + 5
    sums = np.maximum(target.reshape(-1, q).sum(axis=1), 0.0)

    def objective():
        fitted = nearest_panel(target, sums, ours(q, width, 3, exponent))
        return (fitted - target) @ dense @ (fitted - target)

    own = objective()
    monkeypatch.setattr(panel_fit, "ITERATIONS", 2000)
    best = objective()
    monkeypatch.setattr(panel_fit, "ITERATIONS", 0)
    assert best <= own <= 1.0001 * best < objective()
