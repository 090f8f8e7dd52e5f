"""Sentences that read an answer or a change aloud."""

from __future__ import annotations

import math

from stream_dp.figures.marks import period_words
from stream_dp.release.answer import LEAST_ERROR, QUANTILE, Answer, Interval

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
