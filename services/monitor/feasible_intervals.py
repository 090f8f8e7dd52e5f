"""Intervals for people: fans of three levels, inside of the range of what can be.

Noise carries estimates beyond what can be, such as a share below 0. Programs get the unbiased
numbers, because a mean of clipped numbers is biased. People get the feasible part of an interval,
which contains the truth exactly as often as the whole interval does. An interval without a feasible
part becomes half of its width from the nearest end of the range, so that it is never a point.

A pointwise fan contains the truth of each single period at its level. A simultaneous fan contains
the truths of all periods together at its level, so it is wider.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

from stream_dp.answers.joint_answers import JointAnswers
from stream_dp.release.answer import QUANTILE, RECORDS_LIMITED, Answer, Interval

LEVELS = (0.5, 0.8, 0.95)
FanEnds = tuple[Interval, ...]
_FACTORS = tuple(NormalDist().inv_cdf((1 + level) / 2) / QUANTILE for level in LEVELS)


def pointwise(answer: Answer) -> FanEnds:
    """The intervals of `LEVELS` around an answer; none for an answer without an interval.

    The narrower intervals are the interval of 95 %, shrunk towards the value in the ratio of the
    normal quantiles. This is exact for linear answers, and of first order for ratios. Those of an
    answer with the unbiased answer's interval are shrunk towards the unbiased value.
    """
    limited = answer.unbiased if answer.method == RECORDS_LIMITED else None
    value, interval = (limited or answer).value, (limited or answer).interval
    if answer.interval is None or interval is None:
        return ()
    lower_width, upper_width = value - interval[0], interval[1] - value
    narrower = ((value - f * lower_width, value + f * upper_width) for f in _FACTORS[:-1])
    return (*narrower, answer.interval)


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


_RANGES: dict[str, Interval] = {
    "share": (0.0, 1.0),
    "count": (0.0, math.inf),
    "mean": (0.0, math.inf),
    "quantile": (0.0, math.inf),
    "ratio": (0.0, math.inf),
}
EVERYTHING: Interval = (-math.inf, math.inf)


def feasible_range(answer: Answer, size: int | None) -> Interval:
    """The range of the true answer.

    size: the public number of people, the most that a count can be; None if it is private.
    """
    low, high = _RANGES.get(answer.measure, EVERYTHING)
    if answer.measure == "count" and size is not None and answer.weighted_by is None:
        high = float(size)
    return (-high, high) if answer.minus is not None else (low, high)


def clip(interval: Interval, feasible: Interval) -> Interval:
    """The part of an interval inside of a range; the range's nearest end twice without a part."""
    low, high = (min(max(end, feasible[0]), feasible[1]) for end in interval)
    return low, high


def feasible_interval(interval: Interval, feasible: Interval) -> Interval:
    """The feasible part of an interval, or half of its width from the nearest end of the range."""
    (low, high), half = interval, (interval[1] - interval[0]) / 2
    if high < feasible[0]:
        return clip((feasible[0], feasible[0] + half), feasible)
    if low > feasible[1]:
        return clip((feasible[1] - half, feasible[1]), feasible)
    return clip(interval, feasible)


def for_people(answer: Answer, size: int | None = None) -> Answer:
    """The answer with its value and its interval inside of the feasible range."""
    feasible = feasible_range(answer, size)
    interval = answer.interval and feasible_interval(answer.interval, feasible)
    sampled = answer.sampled
    if sampled is not None:
        sampled = replace(sampled, interval=feasible_interval(sampled.interval, feasible))
    value = clip((answer.value,) * 2, feasible)[0]
    return replace(answer, value=value, interval=interval, sampled=sampled)
