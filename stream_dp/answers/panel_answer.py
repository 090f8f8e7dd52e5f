"""From a query in words to an answer with its error, beside the panel's answer.

A share is of the declared number of people. If this number is private, or people enter late or drop
out, a share is of a noisy number: the people present at the period, or who have entered by then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stream_dp.errors import Inconsistent, UserError
from stream_dp.panel import Panel
from stream_dp.study import Release, Study, has_patterns, has_totals

from .answer import QUANTILE, Answer
from .blocks import Floats
from .estimator import (
    Question,
    StreamEstimator,
    fieller_ratios,
    fieller_share,
)
from .joint_answers import JointAnswers, with_error
from .measured_rows import ReleaseMeasurements
from .panel_counts import PanelCounts
from .query import Query, TotalQuery, WindowQuery, parse_query
from .system import Answers

METHOD = "best linear unbiased"
NO_PEOPLE = "share: the number of people is private and not measured; ask for --count"


@dataclass(frozen=True, eq=False)
class PanelQuery:
    """A query to a release of a panel at a period.

    best: answers about the release from its stream
    number: of the period in the study
    """

    best: StreamEstimator
    query: Query
    number: int

    @property
    def release(self) -> ReleaseMeasurements:
        return self.best.release

    @property
    def period(self) -> str:
        return self.release.study.periods.labels[self.number - 1]

    def question(self) -> Question:
        """The query to the stream's measurements. Raises UserError, Inconsistent."""
        if isinstance(self.query, TotalQuery):
            return self.best.total_question(self.query.threshold, self.number)
        weights = query_weights(self.query, self.release)
        question = self.best.pattern_question(self.number, weights)
        if question is None:
            location = f"public log: {self.release.declared.name} at {self.period}"
            raise Inconsistent(f"{location}: not the measurements that it declares")
        return question

    @cached_property
    def people(self) -> tuple[Question, str] | None:
        """The noisy number of people that a share is of, and who they are, in words.

        None where their number is declared, or nobody measured it.
        """
        if self.best.stream.size is not None:
            return None
        return self.best.people_question(self.number, totals=isinstance(self.query, TotalQuery))

    def people_words(self) -> str:
        """The people of a share, in words."""
        people = self.people
        private = "private and not measured" if self.best.stream.size is None else "declared"
        return private if people is None else people[1]

    def answer(self, value: float, error: float, *, count: bool) -> Answer:
        """The answer with this value and its standard error."""
        study, sources = self.release.study, self.best.stream.releases
        return with_error(
            Answer(
                release=self.release.declared.name,
                query=self.query.text,
                period=self.period,
                measure="count" if count else "share",
                unit=f"{study.unit}s",
                value=value,
                standard_error=None,
                interval=None,
                method=METHOD,
                people=self.people_words(),
                sources=tuple(source.declared.name for source in sources),
                through=study.periods.labels[max(source.last for source in sources) - 1],
            ),
            error,
        )


def release_query(study: Study, declared: Release, query: str) -> Query:
    """The parsed query of a release. Raises UserError where the release cannot answer it."""
    if not isinstance(query, str):
        raise UserError(f"query: must be a text such as 'pattern 1 1', not {query!r}")
    if not has_patterns(declared) and query.split()[:1] != ["total"]:
        raise UserError(f"query '{query}': ask a cumulative release 'total at-least B'")
    alphabet = study.alphabet(declared)
    parsed = parse_query(query, alphabet.name, alphabet.values)
    if isinstance(parsed, WindowQuery):
        return parsed
    if not has_totals(declared):
        raise UserError(f"query '{parsed.text}': ask a window release for a pattern instead")
    first, last = study.span(declared)
    if not 1 <= parsed.threshold <= last - first + 1:
        raise UserError(f"query '{parsed.text}': ask for 1 to {last - first + 1} periods")
    return parsed


def answer_query(query: PanelQuery, panel: Panel | PanelCounts, *, count: bool) -> Answer:
    """The best answer to a query.

    panel: the release's panel up to the query's period
    count: whether the answer is a number of people, not a share

    Raises UserError where there is no such share, Inconsistent where measurements are missing.
    """
    stream, release = query.best.stream, query.release
    value = stream.answers([query.question()])
    people = query.people
    noisy = None if people is None else stream.answers([people[0]])
    answer = query.answer(value.value, math.sqrt(value.variance), count=True)
    if not count:
        answer = _share(answer, value, noisy, stream.size)
    rows = 1.0 if count else max(_rows(release, panel, noisy), 1.0)
    return replace(
        answer,
        synthetic=float(_panel(query, panel)) / rows,
        padding=_padding(query.query, release) / rows,
    )


def _share(count: Answer, value: Answers, people: Answers | None, size: int | None) -> Answer:
    """The share of a count, `value`, of the declared or the noisy number of people.

    Raises UserError if there is no such number or it is too noisy.
    """
    if size is not None:
        share, error = count.value / size, math.sqrt(value.variance) / size
        interval = count.ends[0] / size, count.ends[1] / size
    elif people is not None:
        share, error, interval = fieller_share(value, people, QUANTILE)
    else:
        raise UserError(NO_PEOPLE)
    return replace(count, measure="share", value=share, standard_error=error, interval=interval)


def joint_panel_answers(queries: Sequence[PanelQuery], *, count: bool) -> JointAnswers:
    """The answers to queries of one stream together; nobody counts their panels.

    Raises UserError where one of them is not measured.
    """
    stream = queries[0].best.stream
    questions = [query.question() for query in queries]
    if count or stream.size is not None:
        scale = 1 if count or stream.size is None else stream.size
        answers = stream.answers(questions)
        covariance = answers.covariance(answers) / scale**2
        return _joint(queries, answers.values / scale, covariance, count=count)
    people = [query.people for query in queries]
    people_questions = [query for query in people if query is not None]
    if len(people_questions) < len(queries):
        raise UserError(NO_PEOPLE)
    answers = stream.answers([*questions, *(question for question, _ in people_questions)])
    values, covariance, half = answers.values, answers.covariance(answers), len(queries)
    numbers, shares = values[half:], values[:half] / values[half:]
    slopes = np.hstack([np.diag(1 / numbers), np.diag(-shares / numbers)])
    joint = _joint(queries, shares, slopes @ covariance @ slopes.T, count=False)
    variances = covariance.diagonal()
    _, _, low, high = fieller_ratios(
        values=values[:half],
        variances=variances[:half],
        people=numbers,
        of_people=variances[half:],
        together=covariance[:half, half:].diagonal(),
        z=QUANTILE,
    )
    ends = [None if np.isnan(a) else (float(a), float(b)) for a, b in zip(low, high, strict=True)]
    pairs = zip(joint.answers, ends, strict=True)
    return JointAnswers(tuple(replace(a, interval=e) for a, e in pairs), joint.covariance)


def _joint(
    queries: Sequence[PanelQuery], values: Floats, covariance: Floats, *, count: bool
) -> JointAnswers:
    errors = np.sqrt(np.maximum(0.0, covariance.diagonal()))
    answers = (
        query.answer(float(value), float(error), count=count)
        for query, value, error in zip(queries, values, errors, strict=True)
    )
    return JointAnswers(tuple(answers), covariance)


def query_weights(query: WindowQuery, release: ReleaseMeasurements) -> Floats:
    """The query's patterns as weights, (q^j,) for its j periods.

    Raises UserError where the release does not measure them.
    """
    window = release.window
    assert window is not None
    width = window.width
    if query.width > width:
        raise UserError(
            f"query '{query.text}': looks at {query.width} periods and the release at {width};"
            " the exported panel can be asked, without a guarantee on the error"
        )
    if window.absent_pattern is not None and query.over(window.bins)[window.absent_pattern]:
        raise UserError(
            f"query '{query.text}': people absent in all of {width} periods are never counted,"
            " and it would count them; ask for other values in some period"
        )
    return query.mask.astype(float)


def _panel(asked: PanelQuery, panel: Panel | PanelCounts) -> int:
    """The number of synthetic rows that answer the query."""
    query, release = asked.query, asked.release
    if isinstance(query, WindowQuery):
        return panel.matching(query.mask, query.width)
    return panel.reaching(panel_events(release.study, release.declared), query.threshold)


def _padding(query: Query, release: ReleaseMeasurements) -> float:
    """The number of padding rows in the query's patterns, equal for every pattern."""
    window = release.window
    if window is None or not isinstance(query, WindowQuery):
        return 0.0
    return float(window.padding * query.over(window.bins).sum())


def panel_events(study: Study, declared: Release) -> tuple[int, ...]:
    """The codes of a panel's symbols that are the event of its totals."""
    if not has_totals(declared):
        return ()
    return study.event_codes(declared) if has_patterns(declared) else (1,)


def _rows(
    release: ReleaseMeasurements, panel: Panel | PanelCounts, people: Answers | None
) -> float:
    """The number of rows of which a panel's share is: all, or the present, or the entered.

    Where rows are a bound on the people and all alike, the noisy number of people.
    """
    window, totals = release.window, release.totals
    if window is not None:
        absent = window.absent
    else:
        assert totals is not None
        absent = len(panel.values) - 1 if totals.present else None
        if absent is None and release.declared.rows is not None and people is not None:
            return people.value
    if absent is None:
        return float(panel.rows)
    return float(panel.rows - panel.newest(absent))
