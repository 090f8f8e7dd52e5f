"""What the best linear unbiased estimates from all that a release publishes are off by, in theory.

The client's own estimator is asked (`estimator.py`): its weights are fixed numbers, so the error
is known exactly and nothing is repeated. The sums of a cumulative release by itself are the best
already: a counter measures as many numbers as there are sums, or uses what it measures best.
"""

from __future__ import annotations

import math

import numpy as np

from stream_dp.estimate.estimator import StreamEstimator, StreamMeasurements
from stream_dp.estimate.measurements import PeriodMeasurements, ReleaseMeasurements
from stream_dp.study import Release, Study

from .patterns import PatternsJudge
from .totals import TotalsJudge
from .trial import Floats, PanelJudge, TrialPlan

# Each answer is a solve: above so many there is none.
MOST_ANSWERS = 1500


def best_errors(study: Study, release: Release, plan: TrialPlan) -> tuple[Floats | None, ...]:
    """For each judge of a plan, (queries, periods) as it asks, from everything that is published
    up to the horizon; NaN or None where there is no answer."""
    windows = [judge for judge in plan.judges if isinstance(judge, PatternsJudge)]
    answers = sum(judge.truth.size for judge in plan.judges)
    if not windows or answers > MOST_ANSWERS:
        return (None,) * len(plan.judges)
    first, _ = study.span(release)
    messages = tuple(
        PeriodMeasurements(
            first + t - 1,
            step.measurements.values.astype(float),
            step.measurements.standard_errors() ** 2,
        )
        for t, step in plan.released(0)
    )
    measured = ReleaseMeasurements(study, release, messages)
    best = StreamEstimator(StreamMeasurements((measured,)), measured)
    return tuple(_errors(judge, best, first - 1) for judge in plan.judges)


def _errors(judge: PanelJudge, best: StreamEstimator, before: int) -> Floats:
    found = np.full(judge.truth.shape, np.nan)
    for i, p in np.argwhere(~np.isnan(judge.truth)):
        number = before + judge.first + int(p)
        if isinstance(judge, TotalsJudge):
            one = best.total(int(i) + 1, number)
        else:
            assert isinstance(judge, PatternsJudge)
            one = best.patterns(number, judge.queries[i].mask.astype(float))
        if one is not None:
            found[i, p] = math.sqrt(best.covariance(one, one))
    return found
