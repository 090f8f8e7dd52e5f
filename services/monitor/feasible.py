"""Answers for people: values and intervals inside of the range of what can be.

Noise carries estimates beyond what can be, such as a share below 0. Programs get the unbiased
numbers, because a mean of clipped numbers is biased. People get the feasible part of an interval,
which contains the truth exactly as often as the whole interval does. An interval without a feasible
part becomes half of its width from the nearest end of the range, so that it is never a point.
"""

from __future__ import annotations

import math
from dataclasses import replace

from stream_dp.answers.answer import Answer, Interval

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
