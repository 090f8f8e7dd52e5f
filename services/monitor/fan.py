"""Fans: intervals of three levels around every answer.

A pointwise fan contains the truth of each single period at its level. A simultaneous fan contains
the truths of all periods together at its level, so it is wider.
"""

from __future__ import annotations

from statistics import NormalDist

from stream_dp.answers.answer import QUANTILE, Answer, Interval
from stream_dp.answers.joint_answers import JointAnswers

from .feasible import clip, feasible_interval

LEVELS = (0.5, 0.8, 0.95)
FanEnds = tuple[Interval, ...]
_FACTORS = tuple(NormalDist().inv_cdf((1 + level) / 2) / QUANTILE for level in LEVELS)


def pointwise(answer: Answer) -> FanEnds:
    """The intervals of `LEVELS` around an answer; none for an answer without an interval.

    The narrower intervals are the interval of 95 %, shrunk towards the value in the ratio of the
    normal quantiles. This is exact for linear answers, and of first order for ratios.
    """
    if answer.interval is None:
        return ()
    below, above = answer.value - answer.interval[0], answer.interval[1] - answer.value
    return tuple((answer.value - f * below, answer.value + f * above) for f in _FACTORS)


def simultaneous(joint: JointAnswers) -> list[FanEnds]:
    """By answer, the intervals that contain all true answers together.

    Raises UserError for an answer without a standard error.
    """
    by_level = [zip(low, high, strict=True) for low, high in joint.bands(LEVELS)]
    return [
        tuple((float(low), float(high)) for low, high in ends)
        for ends in zip(*by_level, strict=True)
    ]


def feasible_fan(fan: FanEnds, feasible: Interval) -> FanEnds:
    """The feasible parts of a fan's intervals, of which the widest is never a point."""
    if not fan:
        return ()
    return (*(clip(ends, feasible) for ends in fan[:-1]), feasible_interval(fan[-1], feasible))
