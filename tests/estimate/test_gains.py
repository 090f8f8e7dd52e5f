"""The gain of best estimates over a release's own, and their computing time."""

import time

import numpy as np
import pytest
from kit.histories import joint, study_of, totals, window

from stream_dp.continual import mechanism
from stream_dp.estimate.estimator import ReleaseEstimator, StreamEstimator, StreamMeasurements
from stream_dp.estimate.measurements import PeriodMeasurements, releases_of_stream
from stream_dp.privacy.noise import exact_variance


def quiet(study):
    """The releases of a study whose measurements are all 0: errors do not depend on values."""
    messages = {}
    for declared in study.releases:
        declared_mechanism, width = mechanism(study, declared), getattr(declared, "width", 1)
        for t in range(width, study.periods.count + 1):
            demand = list(declared_mechanism.demand(t))
            if declared.kind == "joint" and t == width:
                demand = [d for s in range(1, t) for d in declared_mechanism.totals.demand(s)]
                demand = [
                    *declared_mechanism.window.demand(t),
                    *demand,
                    *declared_mechanism.totals.demand(t),
                ]
            noise = np.concatenate([np.full(n, exact_variance(v)) for v, n in demand])
            messages.setdefault(declared.name, []).append(
                PeriodMeasurements(t, np.zeros(noise.size), noise)
            )
    return StreamMeasurements(tuple(releases_of_stream(study, messages, study.releases[0].stream)))


def mean_errors(stream, kind):
    """Root mean square errors of counts over all periods: patterns of 3, 'at least 1 of 3', totals.

    kind: "best" for the best estimates, "own" for those of each release alone.
    """
    last, errors = stream.releases[0].last, {}
    for release in stream.releases:
        chosen = StreamEstimator(stream, release) if kind == "best" else ReleaseEstimator(release)
        asked = {}
        if release.window is not None:
            periods = range(3, last + 1)
            asked["bins"] = [chosen.patterns(t, row) for t in periods for row in np.eye(8)]
            asked["once"] = [chosen.patterns(t, 1 - np.eye(8)[0]) for t in periods]
        if release.totals is not None:
            cells = [(b, t) for t in range(1, last + 1) for b in range(1, t + 1)]
            asked["totals"] = [chosen.total(b, t) for b, t in cells]
        for query, answers in asked.items():
            errors[query] = np.mean([chosen.covariance(a, a) for a in answers]) ** 0.5
    return errors


HISTOGRAM, RESIDUALS = (window(3, strategy=how) for how in ("histogram", "residuals"))
SIZED = {"relation": "add_remove"}
ONCE = totals(size_share="1/10")
# 12 months of 2 symbols, rho = 0.005 for each release, errors in people: best, then own.
GAINS = {
    "histograms": ([HISTOGRAM], {}, {"bins": (32.8, 41.8), "once": (32.8, 41.8)}),
    "residuals": ([RESIDUALS], {}, {"bins": (32.8, 32.8), "once": (32.8, 32.8)}),
    "histograms and sums": (
        [HISTOGRAM, totals()],
        {},
        {"bins": (31.6, 41.8), "once": (31.2, 41.8), "totals": (50.5, 55.1)},
    ),
    "residuals and sums": (
        [RESIDUALS, totals()],
        {},
        {"bins": (31.6, 32.8), "once": (31.2, 32.8), "totals": (50.5, 55.1)},
    ),
    "histograms, n private": ([HISTOGRAM], SIZED, {"bins": (25.7, 31.6), "once": (46.2, 83.7)}),
    "patterns and sums, n private": (
        [window(3), ONCE],
        SIZED,
        {"bins": (25.0, 25.7), "once": (38.0, 46.2), "totals": (47.7, 51.8)},
    ),
}


@pytest.mark.parametrize("name", GAINS)
def test_what_is_gained(name):
    releases, more, expected = GAINS[name]
    stream = quiet(study_of(releases, count=12, rho="1/200", **more))
    for place, kind in enumerate(("best", "own")):
        errors = mean_errors(stream, kind)
        assert errors == pytest.approx({q: e[place] for q, e in expected.items()}, abs=0.06), kind


def test_a_long_joint_study_is_answered_at_once():
    """60 periods, 1,830 sums and 58 histograms: the first answer within a second or two of a slow
    machine, the next ones in milliseconds."""
    stream = quiet(study_of([joint(3)], count=60))
    stream.releases[0].totals.design.placed_counters  # noqa: B018  the counters, which are computed once
    best = StreamEstimator(stream, stream.releases[0])
    start = time.perf_counter()
    first = best.total(7, 50)
    middle = time.perf_counter()
    for t in range(10, 30):
        best.patterns(t, np.eye(8)[5])
    assert middle - start < 3
    assert time.perf_counter() - middle < 20 * 0.05
    rows = stream.system
    assert np.abs(rows.design.T @ first.weights).max() < 1.01
