"""Several answers together: their covariances, and what follows from these.

Answers about one stream share its measurements and equalities, so their errors go together; those
of different streams, data sets or regions are independent. Counts are linear in the measurements,
and their covariances exact. A share of a noisy number of people is a ratio: to the first order.
Errors are those of the privacy noise alone, and intervals take it as normal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from stream_dp.errors import UserError

from .answer import Answer, ReleaseQuery
from .bands import simultaneous_quantile
from .blocks import Floats
from .estimator import fieller_ratios
from .level import LEVEL, QUANTILE

Q = TypeVar("Q")
INDEPENDENT = "both, whose noise is independent"
TOGETHER = "both, with the error that they have together"


@dataclass(frozen=True, eq=False)
class JointAnswers:
    """Answers with the covariance of their errors, as `PublicLog.answers` gives them.

    covariance: (n, n); NaN in the row and the column of an answer without a standard error
    """

    answers: tuple[Answer, ...]
    covariance: Floats

    @cached_property
    def values(self) -> Floats:
        """(n,)"""
        return np.array([answer.value for answer in self.answers])

    @cached_property
    def standard_errors(self) -> Floats:
        """(n,)"""
        return np.sqrt(np.maximum(0.0, self.covariance.diagonal()))

    def combined(self, weights: Floats) -> JointAnswers:
        """weights @ the answers: (m,) answers for (m, n), such as the changes since a period."""
        covariance = weights @ self.covariance @ weights.T
        errors = np.sqrt(np.maximum(0.0, covariance.diagonal()))
        rows = zip(weights, weights @ self.values, errors, strict=True)
        return JointAnswers(tuple(self._combination(*row) for row in rows), covariance)

    def _combination(self, weights: Floats, value: float, error: float) -> Answer:
        places = np.flatnonzero(weights)
        of = [self.answers[place] for place in places] or [self.answers[0]]
        terms = (f"{weights[p]:+g} ({_named(self.answers[p])})" for p in places)
        own = [answer.synthetic for answer in of]
        known = [number for number in own if number is not None]
        return with_error(
            Answer(
                release=", ".join(dict.fromkeys(answer.release for answer in of)),
                query=" ".join(terms),
                period=of[-1].period,
                measure=of[0].measure,
                unit=of[0].unit,
                value=float(value),
                standard_error=None,
                interval=None,
                method=of[0].method,
                reason=next((answer.reason for answer in of if answer.reason), ""),
                origin=of[0].origin,
                synthetic=float(weights[places] @ known) if len(known) == len(places) else None,
            ),
            float(error),
        )

    def difference(self, one: int, other: int) -> Answer:
        """The answer `one` less the answer `other`, with its error from both together."""
        first, second = self.answers[one], self.answers[other]
        covariance = self.covariance
        variance = covariance[one, one] + covariance[other, other] - 2 * covariance[one, other]
        synthetic = None
        if first.synthetic is not None and second.synthetic is not None:
            synthetic = first.synthetic - second.synthetic
        known = not math.isnan(variance)
        change = replace(
            first,
            value=first.value - second.value if known or synthetic is None else synthetic,
            reason=first.reason or second.reason,
            standard_error=None,
            interval=None,
            synthetic=synthetic,
            padding=None,
            people=None,
            method=f"{first.method}; {TOGETHER if covariance[one, other] else INDEPENDENT}",
            minus=ReleaseQuery(second.release, second.query, second.period, second.region),
        )
        return with_error(change, float(np.sqrt(np.maximum(0.0, variance))))

    def ratio(self, one: int, other: int) -> Answer:
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
        first, second = self.answers[one], self.answers[other]
        return Answer(
            release=first.release,
            query=f"({_named(first)}) / ({_named(second)})",
            period=first.period,
            measure="ratio",
            unit="",
            value=float(ratios[0]),
            standard_error=float(errors[0]),
            interval=(float(low[0]), float(high[0])),
            method=first.method,
            origin=first.origin,
        )

    def band(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """Low and high ends, (n,) each, that cover all true answers at once at this level.

        As many standard errors to both sides of every answer as `bands.py` says. Raises UserError
        where an answer has no standard error.
        """
        for answer in self.answers:
            if answer.reason:
                raise UserError(f"query '{answer.query}': no error is known: {answer.reason}")
        reach = simultaneous_quantile(self.covariance, level) * self.standard_errors
        return self.values - reach, self.values + reach


def with_error(answer: Answer, error: float) -> Answer:
    """The answer with a standard error and its normal interval; without both where it is NaN."""
    if math.isnan(error):
        return answer
    interval = answer.value - QUANTILE * error, answer.value + QUANTILE * error
    return replace(answer, standard_error=error, interval=interval, reason="")


def joined(
    queries: Sequence[Q],
    source: Callable[[Q], Hashable],
    answered: Callable[[list[Q]], JointAnswers],
) -> JointAnswers:
    """The answers to all queries, in their order, those of different sources independent.

    source: where the noise of a query's answer comes from
    answered: the answers to queries of one source
    """
    sources = [source(query) for query in queries]
    answers: dict[int, Answer] = {}
    covariance = np.zeros((len(queries), len(queries)))
    for one in dict.fromkeys(sources):
        places = [place for place, other in enumerate(sources) if other == one]
        part = answered([queries[place] for place in places])
        answers |= zip(places, part.answers, strict=True)
        covariance[np.ix_(places, places)] = part.covariance
    return JointAnswers(tuple(answers[place] for place in range(len(queries))), covariance)


def _named(answer: Answer) -> str:
    return f"{answer.release}, {answer.query} at {answer.period}"
