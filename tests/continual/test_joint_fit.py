"""One panel near patterns and sums: against dense algebra, scipy, and every small answer."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear, minimize

from stream_dp.continual.joint.joint_fit import (
    Sums,
    nearest_first,
    nearest_later,
    rounded_moves,
    rounded_to_total,
)
from stream_dp.continual.window.panel_fit import (
    Absences,
    PatternMetric,
    held_sums,
    nearest_panel,
)

LASTING, SPREAD, COARSE, RUNS = 1.25, 4.0, 0.25, 16.0


def metric_of(q, width, ahead, variance, exponent=Fraction(1)):
    return PatternMetric(q=q, bins=q**width, ahead=ahead, exponent=exponent, variance=variance)


def dense(metric, target, events, *, coarse):
    """The matrix of the patterns' distance, with the terms of the coarse sums."""
    matrix = np.array([metric.slope(row) for row in np.eye(metric.bins)])
    if not coarse or metric.q < 3:
        return matrix
    held = held_sums(target, metric, RUNS, tuple(events.tolist()))
    terms = np.array([held.slope(row) for row in np.eye(metric.bins)])
    return matrix + COARSE * terms / metric.variance


def weights(sums, metric, *, coarse):
    return LASTING * (2 if coarse and metric.q > 2 else 1) / sums.variances


def splits(room, target, metric, sums, *, coarse):
    """Each cell's share of its overlap's rows, and the weight of events that are not so shared."""
    ends = room.sum(axis=1).astype(float)
    alone = nearest_panel(target, ends, metric, coarse=coarse).reshape(len(room), -1)
    shares = room / np.maximum(ends, 1)[:, None]

    def stiffness(events):
        expected = shares * alone[:, events].sum(axis=1)[:, None]
        return 1 / (SPREAD * np.sqrt(sums.variances) * expected + 1)

    return shares, stiffness


@st.composite
def steps(draw):
    """Rows by cell, targets of patterns and rises of sums, of any size and precision."""
    q, width = draw(st.sampled_from([(2, 1), (2, 2), (3, 2), (2, 3)]))
    levels, overlaps = draw(st.integers(1, 5)), q ** (width - 1)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    room = rng.integers(0, draw(st.sampled_from([3, 40, 4000])), (overlaps, levels))
    room *= rng.random(room.shape) < 0.8
    spread = draw(st.sampled_from([0.5, 5.0, 60.0]))
    wide = draw(st.sampled_from([0.3, 1.0, 4.0])) * spread
    metric = metric_of(q, width, draw(st.integers(0, width - 1)), spread**2)
    shares = rng.dirichlet(np.ones(q), overlaps)
    target = (room.sum(axis=1)[:, None] * shares).ravel() + rng.normal(0, spread, q**width)
    events = np.arange(1, q) if draw(st.booleans()) else np.array([q - 1])
    rises = room.sum(axis=0) * rng.random(levels) + rng.normal(0, wide, levels)
    return room, target, metric, Sums(rises, np.full(levels, wide**2)), events


@given(steps(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_later_step_is_the_weighted_least_squares(problem, coarse):
    room, target, metric, sums, events = problem
    fitted = nearest_later(room, target, metric, sums=sums, events=events, coarse=coarse)
    assert fitted.min() >= 0
    assert np.allclose(fitted.sum(axis=2), room)
    # As bounded least squares; one symbol of a cell is what the others leave of its rows.
    z, b = np.nonzero(room)
    cells, q = z.size, metric.q
    if not cells:
        return
    root = np.linalg.cholesky(dense(metric, target, events, coarse=coarse)).T
    shares, stiffness = splits(room, target, metric, sums, coarse=coarse)
    apart = (np.eye(cells) - shares[z, b][:, None] * (z[:, None] == z)) * np.sqrt(
        stiffness(events)[z, b][:, None]
    )
    pattern, sum_of = np.zeros((metric.bins, cells, q)), np.zeros((sums.values.size, cells, q))
    split = np.zeros((cells, cells, q))
    for a in range(q):
        pattern[z * q + a, np.arange(cells), a] = 1
        sum_of[b, np.arange(cells), a] = a in events
        split[:, :, a] = apart * (a in events)
    precision = np.sqrt(weights(sums, metric, coarse=coarse))
    rows = np.concatenate([
        np.einsum("ip,pca->ica", root, pattern),
        sum_of * precision[:, None, None],
        split,
    ])  # fmt: skip
    goal = np.concatenate([root @ target, sums.values * precision, np.zeros(cells)])
    full = room[z, b].astype(float)
    flat = rows.reshape(len(goal), -1)
    own = ((flat @ fitted[z, b].ravel() - goal) ** 2).sum()
    if q == 2:
        matrix = rows[:, :, 1] - rows[:, :, 0]
        best = 2 * lsq_linear(matrix, goal - rows[:, :, 0] @ full, (0, full), method="bvls").cost
    else:
        # Sums of cells as rows that no solution misses.
        heavy = 1e4 * np.kron(np.eye(cells), np.ones(q))
        best = (
            2
            * lsq_linear(
                np.vstack([flat, heavy]), np.append(goal, 1e4 * full), (0, np.inf), tol=1e-13
            ).cost
        )
    assert own <= best * (1 + 1e-3) + 5e-3


@given(st.sampled_from([(2, 2), (2, 3), (3, 2), (3, 3)]), st.booleans(), st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_the_first_histogram_is_the_weighted_least_squares(shape, coarse, seed):
    (q, width), rng = shape, np.random.default_rng(seed)
    metric = metric_of(q, width, rng.integers(width), 30.0**2)
    inside = np.array([sum(s > 0 for s in p) for p in itertools.product(range(q), repeat=width)])
    target, rows = rng.normal(20, 40, q**width), 300
    sums = Sums(rng.uniform(0, 300, width), rng.uniform(5, 60, width) ** 2)
    fitted = nearest_first(target, rows, metric, sums=sums, events=inside, coarse=coarse)
    assert fitted.min() >= 0
    assert fitted.sum() == pytest.approx(rows)
    counted = (inside >= np.arange(1, width + 1)[:, None]).astype(float)

    matrix = dense(metric, target, np.arange(1, q), coarse=coarse)
    weight = weights(sums, metric, coarse=coarse)

    def both(p):
        missed = counted @ p - sums.values
        return (p - target) @ matrix @ (p - target) + weight @ missed**2

    best = minimize(
        both,
        np.full(q**width, rows / q**width),
        jac=lambda p: 2 * (
            matrix @ (p - target) + ((counted @ p - sums.values) * weight) @ counted
        ),
        bounds=[(0, None)] * q**width,
        constraints={"type": "eq", "fun": lambda p: p.sum() - rows},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )  # fmt: skip
    assert both(fitted) <= best.fun * (1 + 1e-4) + 1e-4


def test_as_many_are_present_as_is_known_whatever_the_sums_say():
    """Absent is symbol 2; the overlap of absences is the last."""
    room = np.array([[40, 10], [5, 20], [300, 30]])
    target = np.array([30.0, 5, -8, 12, 20, -6, 4, -9, 0])
    sums = Sums(np.array([9.0, 40.0]), np.array([25.0, 25.0]))
    for present in (40.0, 70.0, 76.0):
        absences = Absences(pattern=8, others=3.0, absent=2, q=3, present=present)
        fitted = nearest_later(
            room,
            target,
            metric_of(3, 2, 1, 100.0),
            sums=sums,
            events=np.array([1]),
            absences=absences,
        )
        assert np.allclose(fitted.sum(axis=2), room)
        assert fitted[:, :, :2].sum() == pytest.approx(present, abs=0.1)


@st.composite
def moves(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    room = rng.integers(0, draw(st.sampled_from([2, 40])), shape)
    return room, room * rng.random(shape), rng


@given(moves())
@settings(max_examples=50, deadline=None)
def test_moves_become_integers_with_their_margins(problem):
    room, real, coins = problem
    integers = rounded_moves(real, room, coins)
    assert integers.dtype == np.int64
    assert (integers >= 0).all()
    assert (integers <= room).all()
    for axis in (0, 1):
        assert np.abs(integers.sum(axis=axis) - real.sum(axis=axis)).max() < 2
    assert np.abs(integers - real).mean() < 1


@pytest.mark.parametrize("total", [0, 3, 7, 10])
def test_rounding_keeps_the_sum_and_the_limits(total):
    coins = np.random.default_rng(1)
    limit = np.array([5, 0, 3, 2])
    target = limit * total / 10
    drawn = np.array([rounded_to_total(target, limit, total, coins) for _ in range(4000)])
    assert (drawn.sum(axis=1) == total).all()
    assert (drawn <= limit).all()
    spread = np.sqrt(0.25 / 4000)
    assert np.abs(drawn.mean(axis=0) - target).max() < 5 * spread


def test_inside_the_moves_add_no_dependence():
    """Half of each z and half of each b: half of each cell."""
    room = np.full((4, 5), 1000)
    sums = Sums(np.full(5, 2000.0), np.ones(5))
    metric = metric_of(2, 3, 1, 1.0)
    fitted = nearest_later(room, np.full(8, 2500.0), metric, sums=sums, events=np.array([1]))
    assert np.abs(fitted - 500).max() < 0.1


def test_noise_of_a_sum_moves_few_events_to_cells_that_have_hardly_any():
    """500 of 20,500 rows had an event and get 2 of 100: a low S_1 gives them 12, not 32."""
    room = np.array([[20_000, 500], [0, 100]])
    target = np.array([20_400.0, 100, 50, 50])
    sums = Sums(np.array([98 - 60, 52.0]), np.full(2, 40.0**2))
    metric = metric_of(2, 2, 1, 30.0**2)
    fitted = nearest_later(room, target, metric, sums=sums, events=np.array([1]))
    assert 2 < fitted[0, 1, 1] < 15
    assert fitted[0, :, 1].sum() < 95


def test_cells_with_many_events_follow_sums_that_say_that_hazards_differ():
    """1,000 events are of the rows that had one: shares of rows would give them 500."""
    room = np.array([[5000, 0], [5000, 5000]])
    target = np.array([5000.0, 0, 9000, 1000])
    sums = Sums(np.array([0.0, 1000.0]), np.full(2, 40.0**2))
    metric = metric_of(2, 2, 1, 30.0**2)
    fitted = nearest_later(room, target, metric, sums=sums, events=np.array([1]))
    assert fitted[1, 1, 1] > 950
    assert fitted[1, 0, 1] < 50
