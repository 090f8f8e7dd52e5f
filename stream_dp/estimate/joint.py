"""Several answers together: their covariances, and what follows from these.

Answers about one stream share its measurements and equalities, so their errors go together.
Counts are linear in the measurements, and their covariances exact. A share of a noisy number of
people is a ratio: to the first order. Errors are those of the privacy noise alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stream_dp.errors import UserError

from .blocks import Floats
from .estimator import Question, StreamEstimator, people_question
from .level import QUANTILE
from .query import TotalQuery, WindowQuery


@dataclass(frozen=True, eq=False)
class JointEstimates:
    """values: (n,)
    covariance: (n, n)
    """

    values: Floats
    covariance: Floats

    def difference(self, one: int, other: int) -> tuple[float, float, tuple[float, float]]:
        """The answer `one` less the answer `other`, its standard error and interval."""
        value = float(self.values[one] - self.values[other])
        cross = self.covariance[one, one] + self.covariance[other, other]
        variance = float(cross - 2 * self.covariance[one, other])
        error = float(np.sqrt(max(0.0, variance)))
        return value, error, (value - QUANTILE * error, value + QUANTILE * error)


Asked = tuple[StreamEstimator, WindowQuery | TotalQuery, int]


def joint_estimates(asked: Sequence[Asked], *, count: bool) -> JointEstimates:
    """Answers about releases of one stream. Raises UserError where one of them is not measured.

    asked: of each the release's estimator, the query and the period's number
    count: whether they are counts, not shares
    """
    stream = asked[0][0].stream
    questions = [_question(*one) for one in asked]
    noisy = not count and stream.size is None
    people = [_people(best, query, number) for best, query, number in asked] if noisy else []
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


def _question(
    best: StreamEstimator, query: WindowQuery | TotalQuery, number: int
) -> Question | None:
    if isinstance(query, TotalQuery):
        return best.total_question(query.least, number)
    return best.pattern_question(number, query.mask.astype(float))


def _people(best: StreamEstimator, query: WindowQuery | TotalQuery, number: int) -> Question | None:
    totals = isinstance(query, TotalQuery)
    asked = people_question(best.stream, best, best.release, number, totals=totals)
    return None if asked is None else asked[0]
