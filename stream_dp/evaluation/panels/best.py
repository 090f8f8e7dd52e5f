"""The errors, in theory, of the best linear unbiased estimates from all that a release publishes.

The client's own estimator answers (`stream_dp.estimate.estimator`): its weights are fixed numbers,
so the error is known exactly and nothing is repeated. The sums of a cumulative release by itself
are the best already: a counter measures as many numbers as there are sums, or uses its
measurements in the best way.
"""

from __future__ import annotations

import math

import numpy as np

from stream_dp.estimate.estimator import StreamEstimator, StreamMeasurements
from stream_dp.estimate.measurements import PeriodMeasurements, ReleaseMeasurements
from stream_dp.estimate.system import Answers
from stream_dp.study import Release, Study

from .patterns import PatternsJudge
from .totals import TotalsJudge
from .trial import Floats, PanelJudge, TrialPlan

# Each answer solves a linear system: with more of them than this, none is computed.
MOST_ANSWERS = 1500


def best_errors(study: Study, release: Release, plan: TrialPlan) -> tuple[Floats | None, ...]:
    """For each judge of a plan the standard deviations of the best answers to its queries.

    They are (queries, periods), from all that is published up to the horizon; NaN for a query
    without an answer, None for a judge without any.
    """
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
        for t, step in plan.simulated_steps(0)
    )
    measured = ReleaseMeasurements(study, release, messages)
    best = StreamEstimator(StreamMeasurements((measured,)), measured)
    return tuple(_deviations(judge, best, first - 1) for judge in plan.judges)


def _deviations(judge: PanelJudge, best: StreamEstimator, before: int) -> Floats:
    """before: how many periods of the study lie before the first of the release."""
    deviations = np.full(judge.truth.shape, np.nan)
    for i, place in np.argwhere(~np.isnan(judge.truth)):
        number = before + judge.first + int(place)
        answer: Answers | None
        if isinstance(judge, TotalsJudge):
            answer = best.total(int(i) + 1, number)
        else:
            assert isinstance(judge, PatternsJudge)
            answer = best.patterns(number, judge.queries[i].mask.astype(float))
        if answer is not None:
            deviations[i, place] = math.sqrt(answer.variance)
    return deviations
