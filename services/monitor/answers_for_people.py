"""Answers for people: in sentences, and with fans of three levels inside the range of what can be.

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
from stream_dp.figures.marks import period_words
from stream_dp.release.answer import LEAST_ERROR, QUANTILE, RECORDS_LIMITED, Answer, Interval

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


SURE = 0.05  # the chance of noise alone below which a change is called one
_FORMS = {"share": "{:.2%}", "count": "{:,.0f}", "ratio": "{:.3f}"}  # by measure


def number_words(value: float, measure: str) -> str:
    """A number in the form of its measure, with a true minus sign."""
    return _FORMS.get(measure, "{:.4g}").format(value).replace("-", "−")


def interval_words(interval: Interval, measure: str) -> str:
    """The ends of an interval: '13.2% to 15.0%'."""
    return " to ".join(number_words(end, measure) for end in interval)


def reading(title: str, answer: Answer) -> str:
    """The answer as a sentence. title: the query in words."""
    region = "" if answer.region is None else f", {'/'.join(answer.region) or 'all regions'}"
    value = number_words(answer.value, answer.measure)
    noun = {"share": f" of {answer.base}", "count": f" {answer.unit}"}.get(answer.measure, "")
    sentence = f"{title}, {period_words(answer.period)}{region}: an estimated {value}{noun}"
    if answer.interval is None:
        return f"{sentence}. No error of it is known: {answer.reason}."
    ends = interval_words(answer.interval, answer.measure)
    sentence = f"{sentence}; the 95% interval of the privacy noise is {ends}."
    if answer.sampled is None:
        return sentence
    interval = interval_words(answer.sampled.interval, answer.measure)
    return f"{sentence} The 95% interval of {answer.sampled.covers} is {interval}."


def noise_alone(difference: Answer) -> float | None:
    """The chance that noise alone gives a difference at least this large between equal truths.

    None without a standard error; 0 for a difference without noise.
    """
    error = difference.standard_error
    if error is None:
        return None
    if difference.method == LEAST_ERROR and difference.interval is not None:
        # The interval is wider than a normal one, by what reruns of the mechanism say.
        low, high = difference.interval
        error = max(difference.value - low, high - difference.value) / QUANTILE
    elif difference.unbiased is not None:  # of a table: its interval is the default answer's, too
        return noise_alone(difference.unbiased)
    if error == 0.0:
        return 0.0 if difference.value else 1.0
    return math.erfc(abs(difference.value) / error / math.sqrt(2))


def chance_words(chance: float) -> str:
    """A chance as a number of releases: 'in 2 of 100 releases'.

    >>> chance_words(0.0231), chance_words(0.004), chance_words(1e-9)
    ('in 2 of 100 releases', 'in 4 of 1,000 releases', 'in fewer than 1 of 1,000 releases')
    """
    if chance >= 0.0095:
        return f"in {round(100 * chance)} of 100 releases"
    if chance >= 0.0005:
        return f"in {round(1000 * chance)} of 1,000 releases"
    return "in fewer than 1 of 1,000 releases"


def verdict(difference: Answer, *, over_time: bool) -> str:
    """Says whether a difference stands out of the noise.

    difference: of two answers, for people.
    over_time: whether the answers are of one question at two periods.
    """
    chance = noise_alone(difference)
    if chance is None or difference.interval is None:
        return f"The error of this difference is not known: {difference.reason}."
    size = difference_words(abs(difference.value), difference.measure, difference.unit)
    low, high = difference.interval
    ends = " to ".join(
        difference_words(end, difference.measure, "" if end == low else difference.unit)
        for end in (low, high)
    )
    verbs = ("rose", "fell") if over_time else ("is higher", "is lower")
    verb = verbs[difference.value < 0]
    noun = "change" if over_time else "difference"
    if difference.measure == "share" and difference.people is not None:
        size += f" of {difference.base}"
    chances = f"noise alone would give a {noun} this large {chance_words(chance)}"
    if chance < SURE:
        return f"It {verb} by {size} (95% interval {ends}); {chances}."
    estimate = f"the estimate {verb} by {size} (95% interval {ends}), and {chances}"
    return f"No {noun} can be told from the noise: {estimate}."


def difference_words(value: float, measure: str, unit: str) -> str:
    """A difference: percentage points for shares. unit: what is counted; empty to leave it out."""
    if measure == "share":
        number = f"{100 * value:.2f}"
        noun = "percentage points" if unit else ""
    else:
        number = number_words(value, measure)
        noun = unit if measure == "count" else ""
    return f"{number} {noun}".strip().replace("-", "−")
