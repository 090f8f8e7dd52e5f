"""Estimates of a joint panel, reconciled: every unit of noise through the mechanisms themselves."""

from fractions import Fraction

import numpy as np
import pytest
from kit.walks import when_present

from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.joint.joint import Joint
from stream_dp.continual.repeatable_products import factor_below
from stream_dp.continual.window.window import FixedWindow
from stream_dp.panel import window_codes
from stream_dp.privacy.noise import exact_variance

UNIT = 10**6
HORIZON = 5
KINDS = {
    "public size": {"neighbours": "replace_one", "rows": 30},
    "closed": {"neighbours": "add_remove", "rows": None},
    "late": {"neighbours": "add_remove", "rows": None, "blank": 0},
    "come and go": {"neighbours": "add_remove", "rows": 40, "absent": 2},
}


def joint_of(kind, width=2, counter=None):
    own = dict(KINDS[kind])
    shape = {"horizon": HORIZON, "rho": Fraction(1, 2)}
    values = (0, 1, "absent") if "absent" in own else (0, 1, 2)
    window = FixedWindow(values=values, width=width, **shape, **own).best(padded=False)
    people = {key: own[key] for key in ("neighbours", "rows")}
    return Joint(window, Cumulative(counter=counter, **shape, **people), (1,))


def noiseless(joint):
    return [[np.zeros(n, np.int64) for _, n in joint.demand(t)] for t in range(1, HORIZON + 1)]


def reconciled(joint, noise, truth=None):
    """By period from k on, the gaps, the patterns, the sums and their stated variances."""
    state = joint.init()
    windows, totals, gaps, bins = state.windows, state.totals, state.gaps, joint.window.bins
    size, found = joint.window.measurement.counts_size, []
    for t, drawn in enumerate(noise, 1):
        counts, rises = np.zeros(size, np.int64), np.zeros(HORIZON + 1, np.int64)
        if truth is not None:
            if t >= joint.window.width:
                codes = window_codes(truth[:, t - joint.window.width : t], joint.window.q)
                counts[:bins] = np.bincount(codes, minlength=bins)
                if size > bins:
                    out = joint.window.left_out
                    counts[bins:] = when_present(truth, t, joint.window.width, out)
            happens = truth[:, :t] == 1
            reached = happens.sum(axis=1)[happens[:, -1]]
            rises[:-1] = np.bincount(reached, minlength=HORIZON + 1)[1:]
        own = len(joint.window.demand(t))
        windows, observation = joint.window.observe(windows, counts, drawn[:own])
        totals = joint.totals.recorded(totals, rises)
        if observation is None:
            continue
        at = own
        for period in joint._measured_at(t):
            more = drawn[at : at + len(joint.totals.demand(period))]
            totals, _ = joint.totals.answered(totals, period, more)
            at += len(more)
        before = state.__class__(windows, totals, gaps)
        gaps, both, sums = joint._reconciled(before, observation, totals)
        found.append((gaps[:t], both.histogram, sums.values, sums.variances))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_both_tell_the_same_numbers_of_events(kind):
    joint = joint_of(kind)
    truth = np.random.default_rng(1).integers(0, 3, (30, HORIZON)).astype(np.uint8)
    for t, (gaps, _, sums, _) in enumerate(reconciled(joint, noiseless(joint), truth), 2):
        assert np.abs(gaps).max() < 1e-6
        reached = (truth[:, :t] == 1).sum(axis=1)
        assert np.allclose(sums, [(reached >= b).sum() for b in range(1, t + 1)], atol=1e-6)


@pytest.mark.parametrize("counter", [None, "tree"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_estimate_is_correlated_with_a_gap_and_variances_are_as_stated(kind, counter):
    joint = joint_of(kind, counter=counter)
    start = reconciled(joint, noiseless(joint))
    effects, variances = [], []
    for t in range(1, HORIZON + 1):
        for i, (variance, size) in enumerate(joint.demand(t)):
            for j in range(size):
                noise = noiseless(joint)
                noise[t - 1][i][j] = UNIT
                ends = reconciled(joint, noise)
                effects.append(
                    [
                        [(a - b) / UNIT for a, b in zip(end[:3], first[:3], strict=True)]
                        for end, first in zip(ends, start, strict=True)
                    ]
                )
                variances.append(exact_variance(variance))
    weights = np.array(variances)
    for step, (*_, stated) in enumerate(start):
        gaps, patterns, sums = (
            np.array([effect[step][part] for effect in effects]) for part in range(3)
        )
        spread = (gaps**2 * weights[:, None]).sum(axis=0) ** 0.5
        assert (spread > 0).all()
        for estimates in (patterns[:, joint.window.measured], sums):
            own = (estimates**2 * weights[:, None]).sum(axis=0) ** 0.5
            shared = (estimates * weights[:, None]).T @ gaps
            assert np.abs(shared / own[:, None] / spread).max() < 1e-4
        assert (sums**2 * weights[:, None]).sum(axis=0) == pytest.approx(stated, rel=1e-4)
        raw = [joint.totals.variance(b, step + 2) for b in range(1, step + 3)]
        assert (stated < np.array(raw)).all()


def test_a_factor_gives_its_matrix():
    rng = np.random.default_rng(3)
    matrix = (lambda a: a @ a.T)(rng.normal(size=(6, 9)))
    lower = factor_below(matrix)
    assert np.allclose(lower @ lower.T, matrix)
    assert (np.triu(lower, 1) == 0).all()
