"""Two kinds of targets in one panel: integers within the room, as near as possible."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from stream_dp.continual.reconcile import Margins, nearest, reconcile, round_to_total


@st.composite
def problems(draw):
    z, b = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    room = np.array(draw(st.lists(st.integers(0, 40), min_size=z * b, max_size=z * b)))

    def margins(low, high):
        numbers = (st.lists(st.floats(low, high), min_size=n, max_size=n) for n in (z, b))
        return Margins(*(np.array(draw(each), float) for each in numbers))

    aims, spreads = margins(-30, 120), margins(0.5, 50)
    return room.reshape(z, b), aims, spreads, draw(st.integers(0, 2**32))


def cost(moves, aims, spreads):
    rows = (moves.sum(axis=1) - aims.rows) / spreads.rows
    columns = (moves.sum(axis=0) - aims.columns) / spreads.columns
    return float(rows @ rows) + float(columns @ columns)


@given(problems())
@settings(max_examples=150, deadline=None)
def test_moves_are_integers_within_the_room_and_the_report_is_true(problem):
    room, aims, spreads, seed = problem
    reconciled = reconcile(room, aims, spreads, np.random.default_rng(seed))
    assert reconciled.moves.dtype == np.int64
    assert (reconciled.moves >= 0).all()
    assert (reconciled.moves <= room).all()
    assert reconciled.row_moved == round(
        float(np.abs(reconciled.moves.sum(axis=1) - aims.rows).sum())
    )
    assert reconciled.column_moved == round(
        float(np.abs(reconciled.moves.sum(axis=0) - aims.columns).sum())
    )


@given(problems())
@settings(max_examples=60, deadline=None)
def test_real_moves_are_the_weighted_least_squares(problem):
    room, aims, spreads, _ = problem
    z, b = room.shape
    rows = np.kron(np.eye(z), np.ones(b)) / spreads[0][:, None]
    columns = np.kron(np.ones(z), np.eye(b)) / spreads[1][:, None]
    keep = room.ravel() > 0
    if not keep.any():
        assert not nearest(room, aims, spreads).any()
        return
    goal = np.concatenate([aims[0] / spreads[0], aims[1] / spreads[1]])
    best = lsq_linear(
        np.vstack([rows, columns])[:, keep], goal, (0, room.ravel()[keep]), method="bvls"
    )
    mine = nearest(room, aims, spreads)
    assert cost(mine, aims, spreads) <= 2 * best.cost * (1 + 1e-2) + 1e-2


@given(problems())
@settings(max_examples=60, deadline=None)
def test_targets_that_can_be_met_are_met(problem):
    room, _, (first, second), seed = problem
    spreads = Margins(np.full_like(first, 20.0), np.full_like(second, 20.0))
    coins = np.random.default_rng(seed)
    true = coins.integers(0, room + 1)
    aims = Margins(true.sum(axis=1).astype(float), true.sum(axis=0).astype(float))
    reconciled = reconcile(room, aims, spreads, coins)
    # Real moves stop within a hundredth of a row in a cell, and are rounded at random.
    assert max(reconciled.row_moved, reconciled.column_moved) <= 2


def test_small_problems_against_every_answer():
    coins = np.random.default_rng(5)
    for _ in range(20):
        room = coins.integers(0, 4, (2, 2))
        aims = Margins(coins.uniform(-2, 8, 2), coins.uniform(-2, 8, 2))
        spreads = Margins(np.ones(2), np.ones(2))
        cells = itertools.product(*(range(n + 1) for n in room.ravel()))
        least = min(cost(np.array(moves).reshape(2, 2), aims, spreads) for moves in cells)
        draws = [reconcile(room, aims, spreads, coins).moves for _ in range(20)]
        # Rounding at random is unbiased, not nearest: a row off in each margin at most.
        assert min(cost(moves, aims, spreads) for moves in draws) <= least + 1


@pytest.mark.parametrize("total", [0, 3, 7, 10])
def test_rounding_keeps_the_sum_and_the_limits(total):
    coins = np.random.default_rng(1)
    limit = np.array([5, 0, 3, 2])
    target = limit * total / 10
    drawn = np.array([round_to_total(target, limit, total, coins) for _ in range(4000)])
    assert (drawn.sum(axis=1) == total).all()
    assert (drawn <= limit).all()
    spread = np.sqrt(0.25 / 4000)
    assert np.abs(drawn.mean(axis=0) - target).max() < 5 * spread


def test_inside_the_moves_add_no_dependence():
    """Half of each z and half of each b: half of each cell."""
    room = np.full((3, 4), 1000)
    aims = Margins(np.full(3, 2000.0), np.full(4, 1500.0))
    spreads = Margins(np.ones(3), np.ones(4))
    reconciled = reconcile(room, aims, spreads, np.random.default_rng(2))
    assert np.abs(reconciled.moves - 500).max() <= 2
