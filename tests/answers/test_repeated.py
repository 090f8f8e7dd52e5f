"""Intervals of a pair that is measured again because its first answer showed a signal."""

import numpy as np
import pytest

from stream_dp.answers.tables.table_facts import REPEATED
from stream_dp.batch.people.all_pairs import NUMBER, ONE_WAYS, PAIRS, SIGNAL
from stream_dp.release.answer import LEVEL, QUANTILE

DRAWS = 100_000
SHARE = float((1 - NUMBER - ONE_WAYS - PAIRS) / (1 - NUMBER - ONE_WAYS))  # of the second one


def intervals(freedom, signal, cosine, factor, seed=0):
    """The share of intervals that hold, and the errors' root mean square over the stated one.

    freedom: the pair's degrees of freedom.
    signal: its length in units of the one that is measured again half of the time.
    cosine: between the query and the signal.
    factor: on the standard errors of what is measured twice.
    """
    rng = np.random.default_rng(seed)
    length = signal * np.sqrt(SIGNAL * np.sqrt(2 * freedom))
    own, other = length * cosine, length * np.sqrt(1 - cosine**2)
    error = rng.standard_normal(DRAWS)
    squares = (own + error) ** 2
    if freedom > 1:
        squares += (other + rng.standard_normal(DRAWS)) ** 2
    if freedom > 2:
        squares += rng.chisquare(freedom - 2, DRAWS)
    again = (squares - freedom) / np.sqrt(2 * freedom) > SIGNAL
    second = rng.standard_normal(DRAWS) * np.sqrt((1 - SHARE) / SHARE)
    answer = np.where(again, (1 - SHARE) * error + SHARE * second, error)
    stated = np.where(again, factor * np.sqrt(1 - SHARE), 1.0)
    covered = float((np.abs(answer) < QUANTILE * stated).mean())
    return covered, float(np.sqrt(np.square(answer).mean() / np.square(stated).mean()))


GRID = [
    (freedom, signal, cosine)
    for freedom in (1, 2, 4, 12, 50)
    for signal in (0.5, 1.0, 1.5, 2.0, 3.0)
    for cosine in ((1.0,) if freedom == 1 else (1.0, 0.7, 0.0))
]
SPREAD = 4 * np.sqrt(LEVEL * (1 - LEVEL) / DRAWS)


@pytest.mark.parametrize(("freedom", "signal", "cosine"), GRID)
def test_intervals_hold_whatever_the_signal_is(freedom, signal, cosine):
    covered, ratio = intervals(freedom, signal, cosine, REPEATED)
    assert covered > LEVEL - SPREAD
    assert ratio < 1.05


def test_they_would_not_without_the_factor():
    assert min(intervals(*case, 1.0)[0] for case in GRID) < LEVEL - SPREAD
