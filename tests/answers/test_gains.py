"""The gain of best estimates over a release's own."""

import numpy as np
import pytest
from kit.histories import study_of, totals, window
from kit.quiet import quiet

from stream_dp.answers.estimator import StreamEstimator


def mean_errors(stream, kind):
    """Root mean square errors of counts over all periods: patterns of 3, 'at least 1 of 3', totals.

    kind: "best" for the best estimates, "own" for those of each release alone.
    """
    last, errors = stream.releases[0].last, {}
    for release in stream.releases:
        variances = best_variances if kind == "best" else own_variances
        for query, each in variances(stream, release, last).items():
            errors[query] = np.mean(each) ** 0.5
    return errors


QUERIES = {"bins": list(np.eye(8)), "once": [1 - np.eye(8)[0]]}


def best_variances(stream, release, last):
    best, variances = StreamEstimator(stream, release), {}
    if release.window is not None:
        for query, rows in QUERIES.items():
            each = [best.patterns(t, row).variance for t in range(3, last + 1) for row in rows]
            variances[query] = each
    if release.totals is not None:
        variances["totals"] = [best.total(b, t).variance for b, t in cells(last)]
    return variances


def own_variances(stream, release, last):
    variances, public = {}, stream.size is not None
    if release.window is not None:
        for query, rows in QUERIES.items():
            centred = [row - public * row.mean() for row in rows]
            functional = release.window.functional
            each = [functional(t, row)[1] for t in range(3, last + 1) for row in centred]
            variances[query] = each
    if release.totals is not None:
        variances["totals"] = [release.totals.variance(b, t) for b, t in cells(last)]
    return variances


def cells(last):
    return [(b, t) for t in range(1, last + 1) for b in range(1, t + 1)]


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
        {"bins": (30.7, 41.8), "once": (30.3, 41.8), "totals": (30.95, 33.7)},
    ),
    "residuals and sums": (
        [RESIDUALS, totals()],
        {},
        {"bins": (30.7, 32.8), "once": (30.3, 32.8), "totals": (30.95, 33.7)},
    ),
    "histograms, n private": ([HISTOGRAM], SIZED, {"bins": (25.7, 31.6), "once": (46.2, 83.7)}),
    "patterns and sums, n private": (
        [window(3), ONCE],
        SIZED,
        {"bins": (24.3, 25.7), "once": (35.1, 46.2), "totals": (26.3, 28.5)},
    ),
}


@pytest.mark.parametrize("name", GAINS)
def test_what_is_gained(name):
    releases, more, expected = GAINS[name]
    stream = quiet(study_of(releases, count=12, rho="1/200", **more))
    for place, kind in enumerate(("best", "own")):
        errors = mean_errors(stream, kind)
        assert errors == pytest.approx({q: e[place] for q, e in expected.items()}, abs=0.06), kind
