"""Bun24, Algorithm 2: the noisy S_b at t has variance popcount(t - b + 1) times a node's."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2
from spread import LARGE, RIGHT, SCALES, SMALL, DrawnAhead, Scaled, spread_is, unbiased

from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.privacy.noise import SeededNoise, SystemNoise

T = 12
PEOPLE = 400
MECHANISM = Cumulative(
    horizon=T, rho=Fraction(1, 20), neighbours="replace_one", rows=PEOPLE, counter="tree"
)
CELLS = [(b, t) for t in range(1, T + 1) for b in range(1, t + 1)]
POPCOUNT = np.array([(t - b + 1).bit_count() for b, t in CELLS])
UNIT = np.array([float(MECHANISM.variances[b - 1]) ** 0.5 for b, _ in CELLS])
EVENTS = (np.random.default_rng(5).random((PEOPLE, T)) < 0.3).astype(np.int64)


def truth_and_rises(horizon):
    """S_b at t for every cell, and what a mechanism of this horizon takes."""
    totals = EVENTS[:, :horizon].cumsum(axis=1)
    cells = [(b, t) for t in range(1, horizon + 1) for b in range(1, t + 1)]
    truth = np.array([(totals[:, t - 1] >= b).sum() for b, t in cells])
    rises = [
        np.append(np.bincount(totals[EVENTS[:, t] == 1, t], minlength=horizon + 1)[1:], PEOPLE)
        for t in range(horizon)
    ]
    return cells, truth, rises


def raw_errors(mechanism, source, repetitions):
    """Errors of the unbiased S_b at t, (repetitions, cells), people."""
    cells, truth, rises = truth_and_rises(mechanism.horizon)
    demands = [mechanism.demand(t) for t in range(1, mechanism.horizon + 1)]
    errors, source = np.zeros((repetitions, len(cells))), DrawnAhead(source, repetitions)
    for r in range(repetitions):
        state, seen = mechanism.init(), []
        for demand, counts in zip(demands, rises, strict=True):
            state, _ = mechanism.observe(state, counts, source.draw(demand).noise)
            seen.append(mechanism.sums(state))
        errors[r] = np.concatenate(seen) - truth
    return errors


def repeat(mechanism, source, repetitions):
    """Errors of the raw and of the released S_b at t, (repetitions, cells), in noise units.

    Divided by the sd of counter b's nodes, so that the variance ought to be popcount.
    """
    _, truth, rises = truth_and_rises(T)
    raw, released = np.zeros((2, repetitions, len(CELLS)))
    source = DrawnAhead(source, repetitions)
    for r in range(repetitions):
        state, seen, kept = mechanism.init(), [], []
        for t in range(1, T + 1):
            state, step = mechanism.step(state, rises[t - 1], source.draw(mechanism.demand(t)))
            seen.append(step.estimates.values[:t])
            kept.append(state.sums[1 : t + 1])
        raw[r], released[r] = np.concatenate(seen) - truth, np.concatenate(kept) - truth
    return raw / UNIT, released / UNIT


def proportional(errors, z=6):
    """Is the variance of each class of cells its number of nodes, popcount 1, 2 and 3?"""
    return [spread_is(errors[:, nodes == POPCOUNT], nodes, z) for nodes in (1, 2, 3)]


def every_cell(errors, alarm=1e-9):
    """Is the sum of squares of every single (b, t) that of popcount(t - b + 1) nodes?"""
    statistic = (errors**2).sum(axis=0) / POPCOUNT
    low, high = chi2.ppf([alarm, 1 - alarm], len(errors))
    return bool(((low < statistic) & (statistic < high)).all())


@pytest.fixture(scope="module")
def system():
    return repeat(MECHANISM, SystemNoise(), 100)


@pytest.fixture(scope="module")
def seeded():
    return raw_errors(MECHANISM, SeededNoise(22), 1300) / UNIT


def test_variance_is_popcount_nodes_for_every_cell(system):
    raw, _ = system
    assert proportional(raw, z=7) == [True] * 3
    assert every_cell(raw)
    assert unbiased(raw, z=7)


def test_a_scale_5_percent_off_is_rejected_in_every_class(seeded):
    """Errors are linear in the noise."""
    assert proportional(seeded, z=4) == [True] * 3
    assert every_cell(seeded)
    for wrong in (SMALL, LARGE):
        assert proportional(seeded * float(wrong), z=4) == [False] * 3


def test_another_law_than_popcount_is_rejected(seeded):
    """As many nodes as levels, or one node always."""
    levels = np.array([(t - b + 1).bit_length() for b, t in CELLS])
    assert not every_cell(seeded / np.sqrt(levels / POPCOUNT))
    assert not every_cell(seeded / np.sqrt(1 / POPCOUNT))


def test_the_error_bound_holds_before_and_after_the_clamp():
    raw, released = repeat(MECHANISM, SeededNoise(26), 100)
    largest = np.abs(raw * UNIT).max(axis=1)
    assert (largest > MECHANISM.error_bound).mean() <= 0.05
    assert (np.abs(released * UNIT).max(axis=1) <= largest + 1e-9).all()
    assert (released**2).mean() < (raw**2).mean()


@pytest.mark.parametrize("counter", [None, "honaker", "square-root", "unbounded"])
def test_other_measurements_have_their_variance_in_theory(counter):
    """Noise 5 % too small or too large is rejected; errors are linear in the noise."""
    mechanism = Cumulative(
        horizon=5, rho=Fraction(1, 20), neighbours="replace_one", rows=PEOPLE, counter=counter
    )
    cells, _, _ = truth_and_rises(5)
    theory = np.array([mechanism.variance(b, t) for b, t in cells])
    errors = raw_errors(mechanism, SeededNoise(31), 1500) / np.sqrt(theory)
    assert spread_is(errors, 1, z=4)
    for wrong in (SMALL, LARGE):
        assert not spread_is(errors * float(wrong), 1, z=4)
    assert unbiased(errors)


def test_the_systems_noise_on_the_lattice_has_the_variance_in_theory():
    mechanism = Cumulative(horizon=5, rho=Fraction(1, 20), neighbours="replace_one", rows=PEOPLE)
    cells, _, _ = truth_and_rises(5)
    theory = np.array([mechanism.variance(b, t) for b, t in cells])
    errors = raw_errors(mechanism, SystemNoise(), 300) / np.sqrt(theory)
    assert spread_is(errors, 1, z=8)
    assert unbiased(errors, z=8)


@pytest.mark.parametrize("scale", SCALES)
def test_a_measured_number_of_people_has_its_declared_variance(scale):
    sized = Cumulative(
        horizon=T, rho=Fraction(1), neighbours="add_remove", rows=None, size_share=Fraction(1, 200)
    )
    assert sized.size_variance == 100
    sizes, counts = np.zeros((5_000, 1)), np.append(np.zeros(T, np.int64), PEOPLE)
    source = DrawnAhead(Scaled(SeededNoise(25), scale), len(sizes))
    state, demand = sized.init(), sized.demand(1)
    for r in range(len(sizes)):
        _, answers = sized.observe(state, counts, source.draw(demand).noise)
        sizes[r] = answers[-1]
    assert spread_is(sizes - PEOPLE, 100, z=4) is (scale == RIGHT)
