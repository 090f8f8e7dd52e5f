"""One panel for patterns and totals: what it measures, costs, keeps, and carries on."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.walks import when_present

from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.joint.joint import Joint
from stream_dp.continual.window.window import FixedWindow
from stream_dp.errors import Inconsistent
from stream_dp.panel import Panel, window_codes
from stream_dp.privacy.noise import SeededNoise
from stream_dp.services.evaluate import simulated_panels


def counts_of(joint, truth, t, absent=None):
    """The histogram of the last k symbols (all zeros before), then rises and entries."""
    k, q, horizon = joint.window.width, joint.window.q, joint.horizon
    histogram = np.zeros(q**k, np.int64)
    if t >= k:
        histogram = np.bincount(window_codes(truth[:, t - k : t], q), minlength=q**k)
    event = np.isin(truth[:, :t], joint.events)
    reached = event.sum(axis=1)[event[:, -1]]
    rises = np.bincount(reached, minlength=horizon + 1)[1:]
    here = np.ones(truth.shape[0], bool) if absent is None else truth[:, t - 1] != absent
    before = np.zeros(truth.shape[0], bool)
    if t > 1:
        before = np.ones_like(before) if absent is None else (truth[:, : t - 1] != absent).any(1)
    known = [histogram]
    if joint.window.measurement.counts_size > joint.window.bins:
        known.append(when_present(truth, t, joint.window.width, absent))
    return np.concatenate([*known, rises, [int((here & ~before).sum())]])


@st.composite
def runs(draw):
    q, k = draw(st.sampled_from([(2, 1), (2, 2), (2, 3), (3, 2)]))
    horizon = draw(st.integers(k, k + 4))
    relation = draw(st.sampled_from(["add_remove", "replace_one"]))
    open_ = relation == "add_remove" and q == 3 and draw(st.booleans())
    n = draw(st.integers(1, 60))
    rho = Fraction(draw(st.sampled_from(["1/100", "1", "1000"])))
    values = ("a", "b", "absent")[:q] if open_ else tuple(range(q))
    rows = n if relation == "replace_one" else (n + 20 if open_ else None)
    absent = q - 1 if open_ else None
    window = FixedWindow(
        values=values,
        width=k,
        horizon=horizon,
        rho=rho,
        neighbours=relation,
        rows=rows,
        absent=absent,
    ).best(padded=False)
    totals = Cumulative(horizon=horizon, rho=rho, neighbours=relation, rows=rows, counter="tree")
    events = (1,) if q == 2 or open_ else (1, 2)
    seed = draw(st.integers(0, 2**32))
    truth = np.random.default_rng(seed).integers(0, q, (n, horizon)).astype(np.uint8)
    return Joint(window, totals, events), truth, absent, seed


def walked(joint, truth, absent, seed):
    """Every step with its state, counts and noise."""
    source, state = SeededNoise(seed), joint.init()
    for t in range(1, joint.horizon + 1):
        counts, draw = counts_of(joint, truth, t, absent), source.draw(joint.demand(t))
        state, step = joint.step(state, counts, draw)
        yield t, state, step, counts, draw


@given(runs())
@settings(max_examples=40, deadline=None)
def test_panels_grow_by_columns_and_states_follow_them(run):
    joint, truth, absent, seed = run
    panel, dumps = None, []
    for t, state, step, _, _ in walked(joint, truth, absent, seed):
        dumps.append(joint.dump(state))
        if t < joint.window.width:
            assert step is None
            continue
        labels = [str(i) for i in range(1, t + 1)]
        if panel is None:
            assert step.columns.shape[1] == t
            panel = Panel(step.columns, tuple(labels), joint.values)
        else:
            panel = panel.extended(step.columns, labels[-1:])
        if joint.window.rows is not None:
            assert panel.rows == joint.window.rows
        assert panel.symbols.max(initial=0) < joint.window.q
        happened = np.isin(panel.symbols, joint.events).sum(axis=1)
        assert np.array_equal(state.totals.totals, happened)
        sums = np.bincount(happened, minlength=joint.horizon + 1)[::-1].cumsum()[::-1]
        assert np.array_equal(state.totals.sums, sums)
        back = joint.load(dumps, panel)
        assert np.array_equal(back.windows.tails, state.windows.tails)
        assert np.array_equal(back.totals.totals, state.totals.totals)
        assert np.array_equal(back.totals.known, state.totals.known)
        assert np.array_equal(back.totals.streams, state.totals.streams)
        assert np.array_equal(back.totals.sums, state.totals.sums)
        assert np.array_equal(back.gaps, state.gaps)
        assert joint.dump(back) == dumps[-1]


@given(runs())
@settings(max_examples=30, deadline=None)
def test_what_is_published_is_what_both_mechanisms_measured_alone(run):
    """The same noise through each alone gives the same numbers, and every one comes out once."""
    joint, truth, absent, seed = run
    windows, totals, past = joint.window.init(), joint.totals.init(), []
    for t, _, step, counts, draw in walked(joint, truth, absent, seed):
        own, bins = len(joint.window.demand(t)), joint.window.measurement.counts_size
        windows, window = joint.window.observe(windows, counts[:bins], draw.noise[:own])
        past.append(counts[bins:])
        if step is None:
            assert joint.demand(t) == ()
            continue
        noise, seen = list(draw.noise[own:]), []
        for one in past:
            size = len(joint.totals.demand(totals.period + 1))
            totals, answers = joint.totals.observe(totals, one, noise[:size])
            seen.append(joint.totals.measured(answers, totals.period))
            noise = noise[size:]
        assert noise == []
        past, expected = [], [window.measured, *seen]
        queries = [q for one in expected for q in one.queries]
        assert list(step.measurements.queries) == queries
        values = np.concatenate([one.values for one in expected])
        assert np.array_equal(step.measurements.values, values)
        assert np.allclose(step.estimates.values[-t:], joint.totals.sums(totals))


@given(runs())
@settings(max_examples=30, deadline=None)
def test_with_hardly_any_noise_both_classes_are_followed(run):
    """Targets of true counts can be met by the panel only if its past can: from k on, nearly."""
    joint, truth, absent, seed = run
    quiet = Fraction(10**9)
    window = replace(joint.window, rho=quiet)
    totals = replace(joint.totals, rho=quiet)
    if joint.window.width > 1:
        return  # wider panels do not keep who had what, so totals and patterns may disagree
    quietly = Joint(window, totals, joint.events)
    for t, state, step, counts, _ in walked(quietly, truth, absent, seed):
        if t == 1:
            histogram = np.bincount(step.columns[:, 0], minlength=joint.window.bins)
            measured = joint.window.measured
            assert np.abs(histogram[measured] - counts[: joint.window.bins][measured]).max() <= 1
            first = counts[joint.window.measurement.counts_size]
            assert abs(int(state.totals.sums[1]) - int(first)) <= 1


def test_costs_are_the_two_together():
    window = FixedWindow(
        values=(0, 1), width=3, horizon=12, rho=Fraction(1, 400), neighbours="replace_one", rows=100
    ).best()
    totals = Cumulative(horizon=12, rho=Fraction(1, 400), neighbours="replace_one", rows=100)
    joint = Joint(window, totals, (1,))
    assert sum(joint.charges) == joint.rho == Fraction(1, 200)
    # Nothing is drawn before it is published: the sums of the first periods come with the third.
    assert joint.charges[:2] == (0, 0)
    assert joint.charges[2] == window.charges[2] + sum(totals.charges[:3])


def test_damaged_bytes_are_refused():
    window = FixedWindow(
        values=(0, 1), width=2, horizon=4, rho=Fraction(1), neighbours="replace_one", rows=10
    ).best()
    joint = Joint(
        window,
        Cumulative(horizon=4, rho=Fraction(1), neighbours="replace_one", rows=10),
        (1,),
    )
    counts = np.zeros(joint.window.measurement.counts_size + 5, np.int64)
    state, _ = joint.step(joint.init(), counts, SeededNoise(1).draw(joint.demand(1)))
    data = joint.dump(state)
    for broken in (data[:4], data[:-3], b"", b"\xff" * 20):
        with pytest.raises(Inconsistent):
            joint.load([broken], None)


def test_noise_does_not_push_those_with_an_event_to_one_side():
    """Once poor, a household is hardly ever poor for the first time: S_1 rises by few rows alone.

    Without the distance from equal shares in a cell S_1 of these repetitions is 74 too small.
    """
    truth, rho = simulated_panels.poverty(1), Fraction(1, 200)
    shape = {"horizon": 12, "neighbours": "replace_one", "rows": len(truth)}
    window = FixedWindow(values=(0, 1), width=3, rho=rho * 3 / 5, **shape).best(padded=False)
    joint = Joint(window, Cumulative(rho=rho * 2 / 5, **shape), (1,))
    true = (np.cumsum(truth, axis=1) > 0).sum(axis=0)
    off = [
        state.totals.sums[1] - true[t - 1]
        for seed in range(12)
        for t, state, _, _, _ in walked(joint, truth, None, seed)
        if t > 6
    ]
    assert abs(np.mean(off)) < 40
