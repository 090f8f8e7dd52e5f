"""Every form of window release on any noise: what its panels always are, and which form is best."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.walks import counts_of, drawn_between, extreme_draws, released, window_counts

from stream_dp.continual.mechanism_interface import pack_state
from stream_dp.continual.window.window import FixedWindow
from stream_dp.errors import Inconsistent
from stream_dp.privacy.noise import SeededNoise

RHO = Fraction(1, 200)
EXACT = Fraction(10**12)  # noise that is always 0
RELATIONS = ["add_remove", "replace_one", "replace_in_place"]
STRATEGIES = ["histogram", "residuals"]


@st.composite
def runs(draw):
    """A form, people's symbols, and noise of any size and sign."""
    q, width = draw(st.integers(2, 3)), draw(st.integers(1, 3))
    horizon, people = draw(st.integers(width, 6)), draw(st.sampled_from([0, 1, 30]))
    absent = draw(st.sampled_from([None, 0, q - 1]))
    rows = people + draw(st.sampled_from([0, 5])) if absent is not None else None
    if absent is None and draw(st.booleans()):
        rows = people
    mechanism = FixedWindow(
        values=tuple(range(q)),
        width=width,
        horizon=horizon,
        rho=Fraction(1),
        neighbours=draw(st.sampled_from(RELATIONS)),
        strategy=draw(st.sampled_from(STRATEGIES)),
        padded=draw(st.booleans()),
        rows=rows,
        absent=absent,
    )
    rng = np.random.default_rng(draw(st.integers(0, 10**9)))
    draws = extreme_draws(draw, mechanism, rng)
    return mechanism, rng.integers(0, q, (people, horizon)), draws


@given(runs())
def test_histories_only_grow_and_the_number_of_rows_never_changes(run):
    mechanism, symbols, draws = run
    before = None
    for t, state, step, panel in released(mechanism, symbols, draws):
        assert state.period == t
        if t < mechanism.width:
            assert step is None
            continue
        assert step.columns.dtype == np.uint8
        assert panel.symbols.max(initial=0) < mechanism.q
        assert np.array_equal(state.tails, panel.codes(mechanism.width - 1))
        assert len(step.estimates.queries) == len(step.estimates.values) == mechanism.measured.size
        if before is None:
            assert rows_are_right(panel.rows, mechanism, step.estimates.values)
        else:
            assert step.columns.shape == (before.rows, 1)
            assert np.array_equal(panel.symbols[:, :-1], before.symbols)
        before = panel


def rows_are_right(rows, mechanism, noisy):
    """The public number; the cap with its padding; or the noisy total."""
    extra = mechanism.padding * mechanism.bins
    total = max(0, round(noisy.sum()) + extra)
    if mechanism.absent is not None:
        return rows == mechanism.rows + extra
    public = mechanism.neighbours != "add_remove"
    papers = mechanism.strategy == "histogram" and mechanism.padded
    if mechanism.rows is None or (public and papers):
        return rows == total
    cap = mechanism.rows + extra
    return rows == (cap if public else min(total, cap))


@given(runs())
def test_targets_are_reached_and_what_is_wanted_has_the_panel_s_sums(run):
    mechanism, symbols, draws = run
    q, width = mechanism.q, mechanism.width
    before, last, state = None, mechanism.init(), mechanism.init()
    for t, after, step, panel in released(mechanism, symbols, draws):
        last, state = state, after
        if step is None:
            continue
        histogram = window_counts(panel.symbols, t, width, q)
        _, observation = mechanism.observe(
            last, counts_of(mechanism, symbols, t), draws[t - 1].noise
        )
        wanted = mechanism.fit.target(t, observation.histogram, last.carry, last.mean)
        sizes = mechanism.part_sizes(last, observation)
        targets, _ = mechanism.fit.rows_of(t, wanted, sizes, np.random.default_rng(1))
        assert targets.min() >= 0
        assert targets.sum() == panel.rows
        if before is not None:
            totals = np.bincount(before.codes(width - 1), minlength=q ** (width - 1))
            assert np.array_equal(targets.reshape(-1, q).sum(axis=1), totals)
            assert np.array_equal(histogram.reshape(-1, q).sum(axis=1), totals)
        # The same up to what coins decide.
        assert np.abs(targets - histogram).max() <= 3
        before = panel


@settings(max_examples=40)
@given(st.integers(2, 3), st.integers(1, 3), st.integers(0, 10**9), st.booleans(), st.booleans())
def test_without_noise_the_panel_is_the_truth_and_the_padding(q, width, seed, padded, open_):
    rng = np.random.default_rng(seed)
    absent, symbols = (q - 1 if open_ else None), rng.integers(0, q, (40, 6))
    for relation in RELATIONS:
        for strategy in STRATEGIES:
            # Otherwise targets lean by a share of what the noise would be.
            follows = padded or strategy == "histogram"
            mechanism = FixedWindow(
                values=tuple(range(q)), width=width, horizon=6, rho=RHO if follows else EXACT,
                neighbours=relation, strategy=strategy, padded=padded, rows=40, absent=absent,
            )  # fmt: skip
            draws = [drawn_between(mechanism.demand(t), rng, 0, 0) for t in range(1, 7)]
            for t, _, step, panel in released(mechanism, symbols, draws):
                if step is not None:
                    histogram = window_counts(panel.symbols, t, width, q)
                    truth = window_counts(symbols, t, width, q)
                    assert np.array_equal(histogram, truth + mechanism.padding)
                    assert step.notes == {"cells_below_zero": 0, "rows_moved_by_repair": 0}


def test_targets_of_few_people_lean_to_the_mean_and_make_up_for_what_is_missing():
    declared = {"values": (0, 1), "width": 2, "horizon": 9, "rho": RHO, "neighbours": "replace_one"}
    form = FixedWindow(**declared, rows=1000, padded=False)
    d = form.bin_variances(5)[0] ** 0.5
    carry = np.array([0.0, 0.0, -2.0, 0.0]) * d
    # Many people; then the estimate is near the mean, two deviations off, and a change.
    before = np.array([40.0, 0.0, 0.2, -0.5]) * d
    estimates = np.array([42.0, 0.3, 3.0, 4.5]) * d
    mean = before + (estimates - before) / 3
    assert np.allclose(form.fit.averaged(5, estimates, before), mean)
    wanted = estimates + 0.2 * carry
    far = (wanted - mean)[2] / d
    assert 1 < far < 3 < (wanted - mean)[3] / d
    expected = [wanted[0], mean[1], wanted[2] - d * (3 - far) / 2, wanted[3]]
    assert np.allclose(form.fit.target(5, estimates, carry, before), expected)
    # A first estimate is its own mean. Before the fifth, all estimates weigh the same.
    assert np.allclose(form.fit.target(2, estimates, 0 * carry, before), estimates)
    assert np.allclose(form.fit.averaged(3, estimates, before), (estimates + before) / 2)
    # Nothing leans where people come and go; with padding the estimates are followed alone.
    padded = FixedWindow(**declared, rows=1000, padded=True)
    target = padded.fit.target(5, estimates, carry, before)
    assert np.array_equal(target, estimates + padded.padding)
    open_ = FixedWindow(
        **declared | {"neighbours": "add_remove"}, rows=1000, padded=False, absent=1
    )
    assert np.array_equal(open_.fit.target(5, estimates, carry, before), wanted)


def test_an_estimate_replaces_the_mean_where_chance_cannot_explain_it():
    form = FixedWindow(
        values=(0, 1, 2), width=1, horizon=9, rho=RHO, neighbours="replace_one", rows=1000,
        padded=False,
    )  # fmt: skip
    d, mean = form.bin_variances(6)[0] ** 0.5, np.zeros(3)
    difference = d * (1 + 1 / 5) ** 0.5  # of an estimate and a mean with the least weight 1/3
    for units, replaced in (
        ([2.7, 3.2, 3.7], [1 / 3, 1 / 3 + 2 / 3 * 0.5, 1]),
        ([-2.7, -3.2, -3.7], [1 / 3, 1 / 3 + 2 / 3 * 0.5, 1]),
    ):
        estimates = np.array(units) * difference
        assert np.allclose(form.fit.averaged(6, estimates, mean) / estimates, replaced)
    # A mean of one estimate is noisy, and a first estimate is its own mean.
    second = form.fit.averaged(2, estimates, mean) / estimates
    assert second[0] == pytest.approx(1 / 2)
    assert 1 / 2 < second[2] < 1
    assert np.allclose(form.fit.averaged(1, estimates, mean), estimates)


def test_targets_of_few_people_have_less_noise_and_no_bias():
    form = FixedWindow(
        values=(0, 1), width=2, horizon=9, rho=RHO, neighbours="replace_one", rows=1000,
        padded=False,
    )  # fmt: skip
    d, rng, nothing = form.bin_variances(5)[0] ** 0.5, np.random.default_rng(1), np.zeros(4)
    targets = []
    for _ in range(2000):
        mean = nothing
        for t in range(2, 7):
            estimates = rng.normal(0, d, 4)
            target, mean = (
                form.fit.target(t, estimates, nothing, mean),
                form.fit.averaged(t, estimates, mean),
            )
        targets.append(target)
    assert abs(np.mean(targets)) < 4 * np.std(targets) / 8000**0.5
    assert np.std(targets) < 0.65 * d


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("q", "width", "absent"), [(2, 1, 1), (2, 3, 0), (3, 2, 2), (3, 1, 1)])
def test_people_who_are_not_there_never_show(q, width, absent, strategy, padded):
    """Whatever stands in the counts for k absences, every byte of the output is the same."""
    mechanism = FixedWindow(
        values=tuple(range(q)), width=width, horizon=5, rho=RHO, neighbours="add_remove",
        strategy=strategy, padded=padded, rows=60, absent=absent,
    )  # fmt: skip
    absent_pattern = mechanism.absent_pattern
    assert absent_pattern == sum(absent * q**i for i in range(width))
    symbols = np.random.default_rng(2).integers(0, q, (50, 5))
    outputs = []
    for crowd in (0, 7, 10**9, -3):
        state, output = mechanism.init(), []
        for t in range(1, 6):
            counts = counts_of(mechanism, symbols, t)
            counts[absent_pattern] = crowd
            if mechanism.measurement.counts_size > mechanism.bins and t >= width:
                counts[mechanism.bins] = crowd  # absent in all of the last 2k - 1 periods
            state, step = mechanism.step(state, counts, SeededNoise(t).draw(mechanism.demand(t)))
            output.append(mechanism.dump(state))
            if step is not None:
                published = step.measurements, step.estimates
                output += [
                    step.columns.tobytes(),
                    repr(step.notes),
                    *(m.queries for m in published),
                ]
                output += [m.values.tobytes() for m in published]
        outputs.append(output)
    assert outputs[0] == outputs[1] == outputs[2] == outputs[3]


def test_those_who_are_not_there_fill_the_cap():
    mechanism = FixedWindow(
        values=(0, 1, "absent"),
        width=2,
        horizon=4,
        rho=EXACT,
        neighbours="add_remove",
        strategy="residuals",
        padded=False,
        rows=100,
        absent=2,
    )
    symbols = np.array([[0, 0, 1, 2]] * 30 + [[2, 1, 2, 2]] * 20)
    rng = np.random.default_rng(1)
    draws = [drawn_between(mechanism.demand(t), rng, 0, 0) for t in range(1, 5)]
    for t, _, step, panel in released(mechanism, symbols, draws):
        if step is not None:
            truth = window_counts(symbols, t, 2, 3)
            truth[-1] += 50
            assert np.array_equal(window_counts(panel.symbols, t, 2, 3), truth)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_noise_above_the_cap_is_projected_onto_it(strategy):
    mechanism = FixedWindow(
        values=(0, 1),
        width=2,
        horizon=5,
        rho=RHO,
        neighbours="add_remove",
        strategy=strategy,
        padded=False,
        rows=50,
        absent=1,
    )
    rng = np.random.default_rng(1)
    draws = [drawn_between(mechanism.demand(t), rng, 500, 900) for t in range(1, 6)]
    for t, _, step, panel in released(mechanism, np.zeros((30, 5), int), draws):
        if step is not None:
            assert panel.rows == 50
            unseen = window_counts(panel.symbols, t, 2, 2)[-1]
            assert t > 2 or strategy == "residuals" or unseen == 0


def test_an_open_population_needs_a_cap():
    with pytest.raises(ValueError, match="cap"):
        FixedWindow(
            values=(0, "absent"), width=2, horizon=5, rho=RHO, neighbours="add_remove", absent=1
        )


@pytest.mark.parametrize("absent", [None, 1])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("q", "width"), [(2, 1), (2, 3), (5, 1), (3, 2), (2, 6)])
def test_the_best_form_has_the_smallest_mean_variance_in_theory(q, width, relation, absent):
    declared = {
        "values": tuple(range(q)),
        "width": width,
        "horizon": 12,
        "rho": RHO,
        "neighbours": relation,
    }
    best = FixedWindow(**declared, rows=999, absent=absent).best()
    assert not best.padded
    assert best.strategy == "residuals"
    for strategy in STRATEGIES:
        if width == 6 and absent is not None and relation != "add_remove":
            continue  # the bound of its cost takes half a minute
        other = FixedWindow(**declared, rows=999, absent=absent).best(strategy=strategy)
        assert other.strategy == strategy
        if relation == "add_remove" or absent is None:
            assert best.mean_variance <= other.mean_variance * (1 + 1e-5)
        assert float(other.worst_variance) >= other.mean_variance * (1 - 1e-12)
        means = [other.bin_variances(t)[other.measured].mean() for t in range(width, 13)]
        assert np.mean(means) == pytest.approx(other.mean_variance)
    if absent is None:
        assert FixedWindow(**declared).best().padded
    assert FixedWindow(**declared, rows=9, absent=absent).best(padded=True).padded


def test_histograms_where_who_is_present_would_take_too_many_counts():
    declared = {
        "values": (0, 1, "absent"),
        "width": 7,
        "horizon": 12,
        "rho": RHO,
        "neighbours": "add_remove",
    }
    assert FixedWindow(**declared).best().strategy == "residuals"
    assert FixedWindow(**declared, rows=9, absent=2).best().strategy == "histogram"
    assert FixedWindow(**declared, blank=0).best().strategy == "histogram"
    with pytest.raises(ValueError, match="at most 6 wide"):
        _ = FixedWindow(**declared, blank=0).best(strategy="residuals").charges


def test_titles_name_the_form():
    base = FixedWindow(
        values=(0, 1),
        width=3,
        horizon=12,
        rho=RHO,
        neighbours="add_remove",
        strategy="histogram",
    )
    assert base.title == "fixed window (Bun et al. 2024, Algorithm 1)"
    by = replace(base, strategy="residuals", padded=False, rows=9, absent=1)
    assert by.title == (
        "fixed window, residuals, projected, open population (after Bun et al. 2024, Algorithm 1)"
    )


def test_padding_of_residuals_is_the_bound_of_their_worst_bin():
    mechanism = FixedWindow(values=(0, 1), width=3, horizon=12, rho=RHO, neighbours="add_remove")
    worst = max(mechanism.bin_variances(t).max() for t in range(3, 13))
    assert float(mechanism.worst_variance) == worst
    spread = worst**0.5 + 0.5**0.5
    assert mechanism.padding == math.ceil(spread * (2 * math.log(8 * 10 / 0.05)) ** 0.5)
    assert mechanism.error_bound == pytest.approx(spread * (2 * math.log(16 * 10 / 0.05)) ** 0.5)
    assert replace(mechanism, padded=False).padding == 0
    assert replace(mechanism, padded=False).error_bound == mechanism.error_bound


def test_a_state_of_the_other_strategy_or_of_another_version_is_refused():
    base = FixedWindow(values=(0, 1), width=3, horizon=6, rho=RHO, neighbours="add_remove")
    by = replace(base, strategy="histogram")
    for here, there in ((base, by), (by, base)):
        with pytest.raises(Inconsistent, match="another mechanism's"):
            here.load([there.dump(there.init())], None)
    assert by.load([pack_state(1, 2, rows=np.array(0))], None).period == 2
    with pytest.raises(Inconsistent, match="run the version of stream-dp that wrote it"):
        base.load([pack_state(2, 2, rows=np.array(0))], None)
