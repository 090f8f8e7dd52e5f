"""The default answers about tables: the synthetic records' number, limited by the measurements.

The records are fitted to all measurements together, so that their number is nearer to the truth
than the unbiased answer is for most queries, but nothing proves it for a single query. So the
records' number is taken as far as 1.5 standard errors from the unbiased answer, and no further
("limited translation", Efron and Morris 1972). Let t be the truth, x the unbiased answer with the
standard error s, and a the default answer.

- Before it is cut to the possible values, which never takes a farther from t, |a - x| <= 1.5 s. So
  the root mean square of a - t is at most 2.5 s for every query. By Stein's identity the mean of
  (a - t)^2 is that of s^2 + (a - x)^2 - 2 s^2 (1 - da/dx). The last term is a gain, unless the
  records move by more than x does. So the root of s^2 + (a - x)^2, without this gain, is stated as
  the error. It is calibrated on simulated tables, not proved.
- The interval is that of x, so it is as exact. If x is no possible value, the interval is moved
  until x is the nearest possible one, and cut to the possible values. It contains t whenever the
  interval of x does.
"""

from __future__ import annotations

import math
from dataclasses import replace

from stream_dp.release.answer import RECORDS_LIMITED, Answer, Interval

LIMIT = 1.5  # standard errors of the unbiased answer
_DIGITS = 10  # significant: the last digits of floats differ between machines


def limited_records(unbiased: Answer) -> Answer:
    """The default answer, with the unbiased one beside it.

    Without a standard error, and without noise, it is the unbiased answer itself.
    """
    error, records, interval = unbiased.standard_error, unbiased.synthetic, unbiased.interval
    if not error or records is None or interval is None:
        return unbiased
    possible = _possible_values(unbiased)
    center = _nearest(unbiased.value, possible)
    ends = _moved(interval, center - unbiased.value, possible)
    limited = _nearest(records, (unbiased.value - LIMIT * error, unbiased.value + LIMIT * error))
    apart = limited - unbiased.value
    sampled = unbiased.sampled
    if sampled is not None:
        sampled = replace(
            sampled,
            standard_error=_rounded(math.hypot(sampled.standard_error, apart)),
            interval=_moved(sampled.interval, center - unbiased.value, possible),
        )
    return replace(
        unbiased,
        value=_nearest(_rounded(limited), ends),
        standard_error=_rounded(math.hypot(error, apart)),
        interval=ends,
        method=RECORDS_LIMITED,
        sampled=sampled,
        unbiased=unbiased,
    )


def _possible_values(answer: Answer) -> Interval:
    """The range of what the true answer can be, or the true change."""
    most = 1.0 if answer.measure == "share" else math.inf
    return (0.0 if answer.minus is None else -most), most


def _nearest(value: float, ends: Interval) -> float:
    return min(max(value, ends[0]), ends[1])


def _moved(interval: Interval, shift: float, possible: Interval) -> Interval:
    low, high = (_rounded(_nearest(end + shift, possible)) for end in interval)
    return low, high


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
