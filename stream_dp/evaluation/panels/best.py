"""The theoretical errors of the best linear unbiased estimates from all published values.

The client's own estimator answers (`stream_dp.answers.estimator`): its weights are fixed numbers,
so the error is known exactly and nothing is repeated. The sums of a cumulative release alone
are the best already: a counter measures as many numbers as there are sums, or uses its
measurements in the best way.
"""

from __future__ import annotations

import math

import numpy as np

from stream_dp.answers.estimator import StreamEstimator, StreamMeasurements
from stream_dp.answers.measured_rows import PeriodMeasurements, ReleaseMeasurements
from stream_dp.answers.system import Answers
from stream_dp.study import Release, Study

from .patterns_judge import PatternsJudge
from .totals_judge import TotalsJudge
from .trial import Floats, PanelJudge, TrialPlan

# Each answer solves a linear system: with more answers than this, no error is computed.
MOST_ANSWERS = 1500


def best_errors(study: Study, release: Release, plan: TrialPlan) -> tuple[Floats | None, ...]:
    """Computes the standard deviations of the best answers for each judge of a plan.

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


def _deviations(judge: PanelJudge, best: StreamEstimator, earlier_periods: int) -> Floats:
    """Computes the standard deviations for a judge.

    earlier_periods: the number of periods of the study before the first period of the release.
    """
    deviations = np.full(judge.truth.shape, np.nan)
    for i, index in np.argwhere(~np.isnan(judge.truth)):
        number = earlier_periods + judge.first + int(index)
        answer: Answers | None
        if isinstance(judge, TotalsJudge):
            answer = best.total(int(i) + 1, number)
        else:
            assert isinstance(judge, PatternsJudge)
            answer = best.patterns(number, judge.queries[i].mask.astype(float))
        if answer is not None:
            deviations[i, index] = math.sqrt(answer.variance)
    return deviations
