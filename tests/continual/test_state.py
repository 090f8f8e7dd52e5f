"""A mechanism's state as bytes, and uniformly random rows."""

from dataclasses import astuple, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.walks import counts_of, drawn_between, released
from scipy.stats import chi2

from stream_dp.continual.cumulative.coupled_budget import _row
from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.mechanism_interface import pack_state, shuffled_groups
from stream_dp.continual.window.measurement_strategy import NoisyWindow
from stream_dp.continual.window.window import FixedWindow
from stream_dp.errors import Inconsistent
from stream_dp.panel import Panel
from stream_dp.privacy.noise import SeededNoise

WINDOW = FixedWindow(values=(0, 1), width=3, horizon=6, rho=Fraction(1), neighbours="replace_one")
WEEKLY = FixedWindow(
    values=(0, 1, "absent"), width=1, horizon=6, rho=Fraction(1), neighbours="add_remove"
)
HISTOGRAM = FixedWindow(
    values=(0, 1),
    width=3,
    horizon=6,
    rho=Fraction(1),
    neighbours="replace_one",
    strategy="histogram",
)
LATE = FixedWindow(
    values=(0, 1), width=3, horizon=6, rho=Fraction(1), neighbours="add_remove", blank=0
)
OPEN = FixedWindow(
    values=(0, 1, "absent"),
    width=2,
    horizon=6,
    rho=Fraction(1),
    neighbours="add_remove",
    failure=Fraction(1, 20),
    strategy="residuals",
    padded=False,
    rows=40,
    absent=2,
)
FULL_WIDTH = FixedWindow(
    values=(0, 1, 2), width=6, horizon=6, rho=Fraction(1), neighbours="add_remove"
)
CUMULATIVE = Cumulative(horizon=6, rho=Fraction(1), neighbours="replace_one", rows=30)
SIZED = Cumulative(
    horizon=6, rho=Fraction(1), neighbours="add_remove", rows=None, size_share=Fraction(1, 10)
)
UNBOUNDED = Cumulative(
    horizon=6, rho=Fraction(1), neighbours="replace_one", rows=30, counter="unbounded"
)
ENTERING = Cumulative(
    horizon=6, rho=Fraction(1), neighbours="add_remove", rows=50, counter="unbounded", present=True
)
MECHANISMS = [
    WINDOW,
    WEEKLY,
    HISTOGRAM,
    OPEN,
    LATE,
    FULL_WIDTH,
    CUMULATIVE,
    SIZED,
    UNBOUNDED,
    ENTERING,
]


def first_dump(mechanism):
    draw = SeededNoise(1).draw(mechanism.demand(1))
    ((_, state, _, _),) = released(mechanism, PEOPLE, [draw])
    return mechanism.dump(state)


PEOPLE = np.random.default_rng(8).integers(0, 2, (30, 6))


def same(here, there):
    assert here.period == there.period
    for name, value in vars(here).items():
        other = getattr(there, name)
        if isinstance(value, NoisyWindow):
            assert all(
                np.array_equal(a, b) for a, b in zip(astuple(value), astuple(other), strict=True)
            )
        else:
            assert np.array_equal(value, other), name


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_state_comes_back_from_bytes_and_panel_and_goes_on_as_if_nothing_happened(mechanism):
    rng = np.random.default_rng(9)
    draws = [drawn_between(mechanism.demand(t), rng, -9, 9) for t in range(1, 7)]
    dumps = []
    for t, state, _, panel in released(mechanism, PEOPLE, draws):
        dumps.append(mechanism.dump(state))
        again = mechanism.load(dumps, panel)
        assert mechanism.dump(again) == dumps[-1]
        same(again, state)
        if t < 6:
            counts, demand = counts_of(mechanism, PEOPLE, t + 1), mechanism.demand(t + 1)
            one, step = mechanism.step(state, counts, SeededNoise(t).draw(demand))
            two, other = mechanism.step(again, counts, SeededNoise(t).draw(demand))
            same(one, two)
            assert (step is None) == (other is None)
            if step is not None:
                assert np.array_equal(step.columns, other.columns)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_state_before_the_first_period_needs_no_panel(mechanism):
    same(mechanism.load([], None), mechanism.init())


@pytest.mark.parametrize("mechanism", [WINDOW, CUMULATIVE])
def test_cut_or_foreign_bytes_are_refused(mechanism):
    data = first_dump(mechanism)
    for damaged in [*(data[:n] for n in range(0, len(data), 5)), data + b"x", b"\x00", b"{}"]:
        with pytest.raises(Inconsistent, match="damaged"):
            mechanism.load([damaged], None)
    with pytest.raises(Inconsistent, match="damaged"):
        mechanism.load([pack_state(1, 0, sums=np.zeros(8, np.int64))[:-1]], None)


@pytest.mark.parametrize("mechanism", [WINDOW, CUMULATIVE])
@pytest.mark.parametrize("version", [0, 7, 99])
def test_an_unknown_version_is_refused_by_its_number(mechanism, version):
    with pytest.raises(Inconsistent, match=f"version {version}, this code reads 1;"):
        mechanism.load([pack_state(version, 0)], None)


@pytest.mark.parametrize(("mechanism", "other"), [(WINDOW, CUMULATIVE), (CUMULATIVE, WINDOW)])
def test_the_state_of_another_mechanism_is_refused(mechanism, other):
    with pytest.raises(Inconsistent):
        mechanism.load([first_dump(other)], None)


def test_dumps_that_are_not_of_one_period_after_the_other_are_refused():
    draws = [SeededNoise(1).draw(CUMULATIVE.demand(t)) for t in range(1, 4)]
    dumps, panels = [], []
    for _, state, _, panel in released(CUMULATIVE, PEOPLE, draws):
        dumps.append(CUMULATIVE.dump(state))
        panels.append(panel)
    for wrong in (dumps[:1] * 2, dumps[1:], dumps[::-1], [dumps[0], dumps[2]]):
        with pytest.raises(Inconsistent):
            CUMULATIVE.load(wrong, panels[len(wrong) - 1])


def test_a_period_of_a_long_cumulative_release_adds_little():
    """At most 8 bytes for each counter's true entry and 8 for its noisy row."""
    horizon = 500
    mechanism = Cumulative(horizon=horizon, rho=Fraction(1), neighbours="add_remove", rows=30)
    state = replace(mechanism.init(), period=horizon, totals=np.zeros(30, np.int64))
    assert len(mechanism.dump(state)) < 16 * horizon + 200


def test_the_state_of_a_long_cumulative_release_has_two_numbers_for_each_row():
    mechanism = Cumulative(horizon=500, rho=Fraction(1), neighbours="replace_one", rows=30)
    state = mechanism.init()
    assert state.streams.nbytes + state.known.nbytes < 2_010_000


def test_a_cumulative_state_comes_back_without_computing_a_row():
    draws = [SeededNoise(1).draw(CUMULATIVE.demand(t)) for t in range(1, 7)]
    dumps = []
    for _, state, _, grown in released(CUMULATIVE, PEOPLE, draws):
        panel = grown
        dumps.append(CUMULATIVE.dump(state))
    before = _row.cache_info()
    CUMULATIVE.load(dumps, panel)
    assert _row.cache_info() == before


@pytest.mark.parametrize("mechanism", [WINDOW, CUMULATIVE])
@pytest.mark.parametrize("wrong", ["no panel", "a period short", "a row short"])
def test_a_state_after_a_release_is_refused_with_another_panel(mechanism, wrong):
    draws = [SeededNoise(1).draw(mechanism.demand(t)) for t in range(1, 5)]
    dumps = []
    for _, state, _, grown in released(mechanism, PEOPLE, draws):
        panel = grown
        dumps.append(mechanism.dump(state))
    given_panel = {
        "no panel": None,
        "a period short": panel.until("3"),
        "a row short": Panel(panel.symbols[1:], panel.periods, panel.values),
    }[wrong]
    with pytest.raises(Inconsistent):
        mechanism.load(dumps, given_panel)


@given(st.lists(st.integers(0, 6), max_size=40), st.integers(0, 10**6))
def test_shuffled_orders_rows_by_group(groups, seed):
    groups = np.array(groups, np.int64)
    order, starts = shuffled_groups(groups, 7, np.random.default_rng(seed))
    assert sorted(order.tolist()) == [*range(len(groups))]
    assert np.array_equal(groups[order], np.sort(groups))
    assert np.array_equal(np.diff(starts), np.bincount(groups, minlength=7))


@pytest.mark.parametrize("scale", [1, 1 << 16])
def test_shuffled_is_uniform_inside_each_group(scale):
    """All 3! 2! orders equally often, also where groups do not fit 16 bits."""
    groups = np.array([0, 1, 0, 1, 0]) * scale
    coins, draws = np.random.default_rng(6), 3000
    orders = [tuple(shuffled_groups(groups, scale + 1, coins)[0]) for _ in range(draws)]
    _, seen = np.unique(np.array(orders), axis=0, return_counts=True)
    assert len(seen) == 12
    expected = draws / 12
    assert chi2.sf(((seen - expected) ** 2 / expected).sum(), 11) > 1e-4
