"""Totals of people who come: rows enter, and only rows that have entered have the event."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.walks import drawn_between, released
from scipy.stats import chi2

from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import CounterKind


def comers(rng, people, horizon):
    """Symbols 0, 1, and 2 before the first presence."""
    symbols = rng.integers(0, 2, (people, horizon))
    arrival = rng.integers(0, horizon + 1, people)
    symbols[np.arange(horizon) < arrival[:, None]] = 2
    return symbols


def sums_of(symbols, t, horizon):
    totals = (symbols[:, :t] == 1).sum(axis=1)
    here = (symbols[:, :t] != 2).any(axis=1)
    return np.array([here.sum(), *((totals >= b).sum() for b in range(1, horizon + 1))])


@st.composite
def runs(draw):
    horizon, rows = draw(st.integers(1, 6)), draw(st.sampled_from([0, 1, 30]))
    rng = np.random.default_rng(draw(st.integers(0, 10**9)))
    share = draw(st.sampled_from([Fraction(0), Fraction(1, 5)]))
    relation = draw(st.sampled_from(["add_remove", "replace_one"]))
    mechanism = Cumulative(
        horizon=horizon,
        rho=Fraction(1),
        neighbours=relation,
        rows=rows,
        size_share=share,
        counter=draw(st.sampled_from([None, *CounterKind])),
        present=True,
    )
    high = draw(st.sampled_from([0, 9, 10**9]))
    low = draw(st.sampled_from([0, -5, -(10**9)]))
    draws = [drawn_between(mechanism.demand(t), rng, low, high) for t in range(1, horizon + 1)]
    return mechanism, comers(rng, 20, horizon), draws


@given(runs())
def test_rows_enter_once_for_good_and_have_the_released_sums(run):
    mechanism, symbols, draws = run
    before, dumps = np.zeros(mechanism.horizon + 1, np.int64), []
    for t, state, step, panel in released(mechanism, symbols, draws):
        assert step.columns.shape == (mechanism.rows, 1)
        assert (state.sums >= before).all()
        assert (np.diff(state.sums) <= 0).all()
        assert state.sums[0] <= mechanism.rows
        assert np.array_equal(sums_of(panel.symbols, t, mechanism.horizon), state.sums)
        gone = panel.symbols == 2
        assert not (gone[:, 1:] & ~gone[:, :-1]).any()
        assert np.array_equal(state.totals < 0, gone[:, -1])
        assert step.estimates.queries[-1] == "people"
        assert step.estimates.errors[-1] == pytest.approx(mechanism.variance(0, t) ** 0.5)
        dumps.append(mechanism.dump(state))
        again = mechanism.load(dumps, panel)
        assert np.array_equal(again.sums, state.sums)
        assert np.array_equal(again.totals, state.totals)
        before = state.sums


@given(
    st.integers(1, 7), st.integers(0, 10**9), st.sampled_from([None, *CounterKind]), st.booleans()
)
def test_without_noise_the_panel_has_the_true_sums(horizon, seed, counter, room):
    rng = np.random.default_rng(seed)
    symbols = comers(rng, 30, horizon)
    cap = 50 if room else 30
    mechanism = Cumulative(
        horizon=horizon,
        rho=Fraction(1),
        neighbours="add_remove",
        rows=cap,
        counter=counter,
        present=True,
    )
    draws = [drawn_between(mechanism.demand(t), rng, 0, 0) for t in range(1, horizon + 1)]
    for t, state, step, _ in released(mechanism, symbols, draws):
        assert np.array_equal(state.sums, sums_of(symbols, t, horizon))
        assert step.notes == {"moved_by_monotonization": 0, "entries_moved": 0}
        assert step.estimates.values[-1] == pytest.approx(state.sums[0])


def test_every_row_enters_and_has_the_event_equally_often():
    mechanism = Cumulative(
        horizon=1, rho=Fraction(1), neighbours="add_remove", rows=4, present=True
    )
    noise = [np.zeros(size, np.int64) for _, size in mechanism.demand(1)]
    coins, draws = np.random.default_rng(4), 3000
    state, counts = mechanism.init(), np.array([1, 2])
    seen = {}
    for _ in range(draws):
        draw = SeededNoise(0).draw(())
        _, step = mechanism.step(state, counts, type(draw)(tuple(noise), coins))
        column = tuple(step.columns[:, 0].tolist())
        seen[column] = seen.get(column, 0) + 1
    assert all(sorted(column) == [0, 1, 2, 2] for column in seen)
    assert len(seen) == 12
    frequencies = np.array(list(seen.values()))
    assert chi2.sf(((frequencies - draws / 12) ** 2 / (draws / 12)).sum(), 11) > 1e-4


def test_the_panel_names_its_symbols():
    assert Cumulative(
        horizon=3, rho=Fraction(1), neighbours="add_remove", rows=9, present=True
    ).values == (0, 1, "absent")
    assert Cumulative(horizon=3, rho=Fraction(1), neighbours="add_remove", rows=9).values == (0, 1)
