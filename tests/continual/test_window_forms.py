"""Every form of window release on any noise: what its panels always are, and which form is best."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.walks import hand_made, released, window_counts

from stream_dp.continual import FixedWindow
from stream_dp.continual.base import pack_state
from stream_dp.errors import Inconsistent
from stream_dp.privacy.noise import SeededNoise

RHO = Fraction(1, 200)
RELATIONS = ["add_remove", "replace_one", "replace_in_place"]
STRATEGIES = ["histogram", "contrasts"]


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
        tuple(range(q)),
        width,
        horizon,
        Fraction(1),
        draw(st.sampled_from(RELATIONS)),
        strategy=draw(st.sampled_from(STRATEGIES)),
        padded=draw(st.booleans()),
        rows=rows,
        absent=absent,
    )
    rng = np.random.default_rng(draw(st.integers(0, 10**9)))
    low = draw(st.sampled_from([0, -5, -40, -(10**9)]))
    high = draw(st.sampled_from([0, 40, 10**9]))
    draws = [
        hand_made(mechanism.demand(t), rng, low, min(high, 40) if t <= width else high)
        for t in range(1, horizon + 1)
    ]
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
            assert rows_are_right(panel.rows, mechanism, step.measurements.values)
        else:
            assert step.columns.shape == (before.rows, 1)
            assert np.array_equal(panel.symbols[:, :-1], before.symbols)
        before = panel


def rows_are_right(rows, mechanism, noisy):
    """The public number; the cap with its padding; or the noisy total, with nothing below 0."""
    extra = mechanism.padding * mechanism.bins
    clipped = int(np.maximum(noisy + mechanism.padding, 0).sum())
    if mechanism.absent is not None:
        return rows == mechanism.rows + extra
    cap = math.inf if mechanism.rows is None else mechanism.rows + extra
    if mechanism.neighbours == "add_remove":
        total = clipped if mechanism.padded else max(0, int(noisy.sum()))
        return rows == min(total, cap)
    if mechanism.padded:
        return rows == clipped
    return rows == (max(0, int(noisy.sum())) if mechanism.rows is None else mechanism.rows)


@given(runs())
def test_targets_are_reached_and_what_is_wanted_has_the_panel_s_sums(run):
    mechanism, symbols, draws = run
    q, width = mechanism.q, mechanism.width
    before = None
    for t, _, step, panel in released(mechanism, symbols, draws):
        if step is None:
            continue
        histogram = window_counts(panel.symbols, t, width, q)
        answers = step.measurements.values
        if before is None:
            wanted, targets = mechanism.targets.first(answers, np.random.default_rng(1))
            assert abs(histogram.sum() - targets.sum()) == 0
        else:
            totals = np.bincount(before.codes(width - 1), minlength=q ** (width - 1))
            people = mechanism.people_present(step.estimates)
            coins = np.random.default_rng(1)
            wanted, targets = mechanism.targets.later(totals, answers, coins, people)
            assert np.array_equal(wanted.sum(axis=1), totals)
            assert np.array_equal(targets.sum(axis=1), totals)
            assert np.array_equal(histogram.reshape(-1, q).sum(axis=1), totals)
        assert targets.min() >= 0
        # The same up to what coins decide.
        assert np.abs(targets.ravel() - histogram).max() <= 3
        if (wanted >= 0).all() and mechanism.absent is None:
            assert np.abs(wanted - targets).max() <= 0 or before is None
        before = panel


@given(st.integers(2, 3), st.integers(1, 3), st.integers(0, 10**9), st.booleans(), st.booleans())
def test_without_noise_the_panel_is_the_truth_and_the_padding(q, width, seed, padded, open_):
    rng = np.random.default_rng(seed)
    absent, symbols = (q - 1 if open_ else None), rng.integers(0, q, (40, 6))
    for relation in RELATIONS:
        for strategy in STRATEGIES:
            mechanism = FixedWindow(
                tuple(range(q)), width, 6, RHO, relation,
                strategy=strategy, padded=padded, rows=40, absent=absent,
            )  # fmt: skip
            draws = [hand_made(mechanism.demand(t), rng, 0, 0) for t in range(1, 7)]
            for t, _, step, panel in released(mechanism, symbols, draws):
                if step is not None:
                    histogram = window_counts(panel.symbols, t, width, q)
                    truth = window_counts(symbols, t, width, q)
                    assert np.array_equal(histogram, truth + mechanism.padding)
                    assert step.notes == {"cells_below_zero": 0, "rows_moved_by_repair": 0}


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("q", "width", "absent"), [(2, 1, 1), (2, 3, 0), (3, 2, 2), (3, 1, 1)])
def test_people_who_are_not_there_never_show(q, width, absent, strategy, padded):
    """Whatever stands in the counts for k absences, every byte of the output is the same."""
    mechanism = FixedWindow(
        tuple(range(q)), width, 5, RHO, "add_remove",
        strategy=strategy, padded=padded, rows=60, absent=absent,
    )  # fmt: skip
    unseen = mechanism.contrasts.unseen
    assert unseen == sum(absent * q**i for i in range(width))
    symbols = np.random.default_rng(2).integers(0, q, (50, 5))
    outputs = []
    for crowd in (0, 7, 10**9, -3):
        state, output = mechanism.init(), []
        for t in range(1, 6):
            counts = window_counts(symbols, t, width, q)
            counts[unseen] = crowd
            state, step = mechanism.step(state, counts, SeededNoise(t).draw(mechanism.demand(t)))
            output.append(mechanism.dump(state))
            if step is not None:
                told = step.measurements, step.estimates
                output += [step.columns.tobytes(), repr(step.notes), *(m.queries for m in told)]
                output += [m.values.tobytes() for m in told]
        outputs.append(output)
    assert outputs[0] == outputs[1] == outputs[2] == outputs[3]


def test_those_who_are_not_there_fill_the_cap():
    mechanism = FixedWindow((0, 1, "absent"), 2, 4, RHO, "add_remove", strategy="contrasts",
                            padded=False, rows=100, absent=2)  # fmt: skip
    symbols = np.array([[0, 0, 1, 2]] * 30 + [[2, 1, 2, 2]] * 20)
    rng = np.random.default_rng(1)
    draws = [hand_made(mechanism.demand(t), rng, 0, 0) for t in range(1, 5)]
    for t, _, step, panel in released(mechanism, symbols, draws):
        if step is not None:
            truth = window_counts(symbols, t, 2, 3)
            truth[-1] += 50
            assert np.array_equal(window_counts(panel.symbols, t, 2, 3), truth)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_noise_above_the_cap_is_projected_onto_it(strategy):
    mechanism = FixedWindow((0, 1), 2, 5, RHO, "add_remove", strategy=strategy, padded=False,
                            rows=50, absent=1)  # fmt: skip
    rng = np.random.default_rng(1)
    draws = [hand_made(mechanism.demand(t), rng, 500, 900) for t in range(1, 6)]
    for t, _, step, panel in released(mechanism, np.zeros((30, 5), int), draws):
        if step is not None:
            assert panel.rows == 50
            assert t > 2 or window_counts(panel.symbols, t, 2, 2)[-1] == 0


def test_an_open_population_needs_a_cap():
    with pytest.raises(ValueError, match="cap"):
        FixedWindow((0, "absent"), 2, 5, RHO, "add_remove", absent=1)


@pytest.mark.parametrize("absent", [None, 1])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("q", "width"), [(2, 1), (2, 3), (5, 1), (3, 2), (2, 6)])
def test_the_best_form_has_the_smallest_mean_variance_in_theory(q, width, relation, absent):
    given_ = (tuple(range(q)), width, 12, RHO, relation)
    best = FixedWindow.best(*given_, rows=999, absent=absent)
    assert not best.padded
    for strategy in STRATEGIES:
        other = FixedWindow.best(*given_, rows=999, absent=absent, strategy=strategy)
        assert other.strategy == strategy
        assert best.mean_variance <= other.mean_variance
        assert float(other.worst_variance) >= other.mean_variance * (1 - 1e-12)
        means = [other.design.bin_variances(t)[other.measured].mean() for t in range(width, 13)]
        assert np.mean(means) == pytest.approx(other.mean_variance)
    if relation == "add_remove" and width > 1:
        assert best.strategy == "contrasts"
    if absent is None:
        assert FixedWindow.best(*given_).padded
    assert FixedWindow.best(*given_, rows=9, absent=absent, padded=True).padded


def test_the_ratio_is_the_best_of_its_kind():
    """No other division of the same cost has a smaller mean variance, but for its two digits."""
    for relation in RELATIONS:
        for q, width, absent in ((2, 3, None), (3, 2, None), (2, 4, 1), (4, 2, 0)):
            made = FixedWindow(tuple(range(q)), width, 12, RHO, relation,
                               strategy="contrasts", rows=99, absent=absent)  # fmt: skip
            x, y = made.contrasts.mean_shares(made.design.releases)
            means = {}
            for factor in (0.7, 0.9, 1, 1.1, 1.4):
                ratio = float(made.design.ratio) * factor
                cost = float(made.design.costs(made.design.releases, Fraction(1 / ratio))[-1])
                means[factor] = (x * ratio + y) * cost / float(2 * RHO)
            assert means[1] == pytest.approx(made.mean_variance)
            assert means[1] <= min(means.values()) * (1 + 1e-4)
            assert min(means[0.7], means[1.4]) > means[1] * 1.001


def test_titles_name_the_form():
    base = FixedWindow((0, 1), 3, 12, RHO, "add_remove")
    assert base.title == "fixed window (Bun et al. 2024, Algorithm 1)"
    by = replace(base, strategy="contrasts", padded=False, rows=9, absent=1)
    assert by.title == (
        "fixed window, contrasts, projected, open population (after Bun et al. 2024, Algorithm 1)"
    )


def test_padding_of_contrasts_is_the_bound_of_their_worst_bin():
    made = FixedWindow((0, 1), 3, 12, RHO, "add_remove", strategy="contrasts")
    assert made.worst_variance == Fraction(460, 8) + Fraction(7, 16) * 1150
    spread = float(made.worst_variance) ** 0.5 + 0.5**0.5
    assert made.padding == math.ceil(spread * (2 * math.log(8 * 10 / 0.05)) ** 0.5)
    assert made.error_bound == pytest.approx(spread * (2 * math.log(16 * 10 / 0.05)) ** 0.5)
    assert replace(made, padded=False).padding == 0
    assert replace(made, padded=False).error_bound == made.error_bound


def test_a_state_of_the_other_strategy_is_refused():
    base = FixedWindow((0, 1), 3, 6, RHO, "add_remove")
    by = replace(base, strategy="contrasts")
    for here, there in ((base, by), (by, base)):
        with pytest.raises(Inconsistent):
            here.load(there.dump(there.init()), None)
    assert base.load(pack_state(1, 2, rows=np.array(0)), None).period == 2
