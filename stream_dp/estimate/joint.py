"""Several answers together: their covariances, and what follows from these.

Answers about one stream share its measurements and equalities, so their errors go together; those
of different streams are independent. Counts are linear in the measurements, and their covariances
exact. A share of a noisy number of people is a ratio: to the first order. Errors are those of the
privacy noise alone, and intervals take it as normal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stream_dp.errors import UserError

from .bands import simultaneous_quantile
from .blocks import Floats
from .estimator import Question, StreamEstimator, fieller_ratios, people_question
from .level import LEVEL, QUANTILE
from .query import TotalQuery, WindowQuery

Compared = tuple[float, float, tuple[float, float]]  # a value, its standard error, its interval


@dataclass(frozen=True, eq=False)
class JointEstimates:
    """Answers with the covariance of their errors, as `PublicLog.joint` gives them.

    values: (n,)
    covariance: (n, n)
    """

    values: Floats
    covariance: Floats

    @cached_property
    def standard_errors(self) -> Floats:
        """(n,)"""
        return np.sqrt(np.maximum(0.0, self.covariance.diagonal()))

    def combined(self, weights: Floats) -> JointEstimates:
        """weights @ the answers: (m,) answers for (m, n), such as the changes since a period."""
        return JointEstimates(weights @ self.values, weights @ self.covariance @ weights.T)

    def difference(self, one: int, other: int) -> Compared:
        """The answer `one` less the answer `other`, its standard error and interval."""
        value = float(self.values[one] - self.values[other])
        cross = self.covariance[one, one] + self.covariance[other, other]
        variance = float(cross - 2 * self.covariance[one, other])
        error = float(np.sqrt(max(0.0, variance)))
        return value, error, (value - QUANTILE * error, value + QUANTILE * error)

    def ratio(self, one: int, other: int) -> Compared:
        """The answer `one` over the answer `other`: its standard error to the first order (the
        delta method) and the interval of Fieller 1954, which covers however noisy `other` is.

        Raises UserError where `other` is not clearly above 0.
        """
        values, variances = self.values, self.covariance.diagonal()
        ratios, errors, low, high = fieller_ratios(
            values=values[[one]],
            variances=variances[[one]],
            people=values[[other]],
            of_people=variances[[other]],
            together=self.covariance[[one], [other]],
            z=QUANTILE,
        )
        if np.isnan(ratios[0]):
            raise UserError("ratio: the noisy answer below the line is not clearly above 0")
        return float(ratios[0]), float(errors[0]), (float(low[0]), float(high[0]))

    def band(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """Low and high ends, (n,) each, that cover all true answers at once at this level.

        As many standard errors to both sides of every answer as `bands.py` says.
        """
        reach = simultaneous_quantile(self.covariance, level) * self.standard_errors
        return self.values - reach, self.values + reach


Asked = tuple[StreamEstimator, WindowQuery | TotalQuery, int]


def joint_estimates(asked: Sequence[Asked], *, count: bool) -> JointEstimates:
    """Answers together. Raises UserError where one of them is not measured.

    asked: of each the release's estimator, the query and the period's number
    count: whether they are counts, not shares
    """
    values, covariance = np.zeros(len(asked)), np.zeros((len(asked), len(asked)))
    streams = [id(best.stream) for best, _, _ in asked]
    for stream in set(streams):
        places = [i for i, other in enumerate(streams) if other == stream]
        part = _of_stream([asked[i] for i in places], count=count)
        values[places], covariance[np.ix_(places, places)] = part.values, part.covariance
    return JointEstimates(values, covariance)


def _of_stream(asked: Sequence[Asked], *, count: bool) -> JointEstimates:
    stream = asked[0][0].stream
    questions = [question_of(*one) for one in asked]
    noisy = not count and stream.size is None
    people = [people_of(best, query, number) for best, query, number in asked] if noisy else []
    known = [one for one in (*questions, *people) if one is not None]
    if len(known) < len(questions) + len(people):
        raise UserError("share: the number of people is not measured; ask for --count")
    answers = stream.answers(known)
    values, covariance = answers.values, answers.covariance(answers)
    if count:
        return JointEstimates(values, covariance)
    if stream.size is not None:
        return JointEstimates(values / stream.size, covariance / stream.size**2)
    half = len(questions)
    numbers, shares = values[half:], values[:half] / values[half:]
    slopes = np.hstack([np.diag(1 / numbers), np.diag(-shares / numbers)])
    return JointEstimates(shares, slopes @ covariance @ slopes.T)


def question_of(
    best: StreamEstimator, query: WindowQuery | TotalQuery, number: int
) -> Question | None:
    """What is asked at a period, None where nobody measured it."""
    if isinstance(query, TotalQuery):
        return best.total_question(query.least, number)
    return best.pattern_question(number, query.mask.astype(float))


def people_of(
    best: StreamEstimator, query: WindowQuery | TotalQuery, number: int
) -> Question | None:
    """The noisy number of people that its share is of, None where nobody measured it."""
    totals = isinstance(query, TotalQuery)
    asked = people_question(best.stream, best, best.release, number, totals=totals)
    return None if asked is None else asked[0]
