"""A study over a new number of periods."""

from __future__ import annotations

from stream_dp.errors import UserError
from stream_dp.study import Study
from stream_dp.study.call_arguments import checked_study
from stream_dp.study.faults import contradictions
from stream_dp.study.periods import Periods

from .plan import plan_study

MOST_PERIODS = 1000  # of a study that is planned over more of them than it declares


def over_periods(study: Study, count: int) -> Study:
    """The study over `count` periods, at the same rho, possibly with contradictions."""
    periods = {name: getattr(study.periods, name) for name in Periods.model_fields}
    return study.revised(periods=Periods(**periods | {"count": count}))


def study_over(study: Study, count: int) -> Study:
    """The study over `count` periods, at the same rho. Raises UserError for contradictions."""
    checked_study(study)
    if type(count) is not int or not 0 < count <= MOST_PERIODS:
        raise UserError(f"--periods: write a number from 1 to {MOST_PERIODS}")
    longer = over_periods(study, count)
    faults = contradictions(longer)
    if faults:
        raise UserError(f"--periods {count}: {line}" for line in faults)
    plan_study(longer)
    return longer
