"""From a query in words to an answer with its error, beside the panel's answer.

A share is of the people that the query names after `among`. By default it is of those who answered
in the period, where people can be absent: a panel that loses people keeps its shares. A share of
the absent, or of all who answered, is of everybody: the declared number of people or, if it is
private, the noisy number of those present or of those who have entered by then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stream_dp.errors import Inconsistent, UserError
from stream_dp.panel import Panel, PanelCounts
from stream_dp.release.answer import DECLARED, RESPONDENTS, Answer
from stream_dp.study import Release, Study

from .estimator import Question, StreamEstimator
from .joint_answers import UNCLEAR, JointAnswers, Ratios, sampled_shares, with_error
from .measured_rows import ReleaseMeasurements
from .measurement_blocks import Floats
from .query import (
    EVERYBODY,
    Query,
    TotalQuery,
    WindowQuery,
    among,
    parse_query,
    query_words,
)

_TOGETHER = 32  # periods
METHOD = "best linear unbiased"
NO_PEOPLE = "share: the number of people is private and not measured; ask for a count"


@dataclass(frozen=True, eq=False)
class PanelQuery:
    """A query to a release of a panel at a period.

    best: answers about the release from its stream
    number: of the period in the study
    among: the people that a share is of, who include those of the query; None for everybody
    """

    best: StreamEstimator
    query: Query
    number: int
    among: Query | None = None

    @property
    def release(self) -> ReleaseMeasurements:
        return self.best.release

    @property
    def period(self) -> str:
        return self.release.study.periods.labels[self.number - 1]

    def question(self) -> Question:
        """The query to the stream's measurements. Raises UserError, Inconsistent."""
        return self._question(self.query)

    def _question(self, query: Query) -> Question:
        """The people who satisfy a query, as a sum of unknowns."""
        (question,) = _questions(self.best, query, [self.number])
        if isinstance(question, UserError):
            raise question
        return question

    @cached_property
    def people(self) -> tuple[Question, str] | None:
        """The question for the denominator of a share, and its people in words.

        It asks for the people named after `among`, or else for the declared number, which is a
        constant, or else for the people who are present, or have entered. None where their number
        is private and nobody measured it.
        """
        if self.among is not None:
            return self._question(self.among), f"among {self.among.text}"
        if (size := self.best.stream.size) is not None:
            no_unknowns, no_weights = np.zeros(0, np.int64), np.zeros(0)
            return Question(no_unknowns, no_weights, float(size)), DECLARED
        return self.best.people_question(self.number, totals=isinstance(self.query, TotalQuery))

    def people_words(self) -> str:
        """The people of a share, in words."""
        return "private and not measured" if self.people is None else self.people[1]

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


def share_query(
    study: Study, declared: Release, text: str, *, count: bool
) -> tuple[Query, Query | None]:
    """The parsed query of a release, and the people of whom a share is; None for everybody.

    count: whether a number of people is asked for. Then only people named by `among` are a base.

    Raises UserError where the release cannot answer it.
    """
    asked = query_words(text)
    query = release_query(study, declared, asked.query)
    if asked.among is None:
        return (query, None) if count else among_respondents(study, declared, query)
    if asked.among == EVERYBODY:
        return query, None
    if asked.among == RESPONDENTS and isinstance(query, TotalQuery):
        raise UserError(
            f"query '{query.text}': totals are of all who have entered; leave 'among' out"
        )
    others: Query = (
        _respondents(study, declared)
        if asked.among == RESPONDENTS
        else release_query(study, declared, asked.among)
    )
    return among(query, others, f"{query.text} among {others.text}"), others


def among_respondents(
    study: Study, declared: Release, query: Query
) -> tuple[Query, WindowQuery | None]:
    """The people of a query who answered in the period, and all who did: the base of a share.

    Everybody is the base, None, where nobody can be absent, of totals, and of shares of the absent
    or of all who answered, which tell the response.
    """
    if isinstance(query, TotalQuery) or study.alphabet(declared).absent is None:
        return query, None
    answered = _respondents(study, declared)
    both = among(query, answered, query.text)
    assert isinstance(both, WindowQuery)
    if not both.mask.any() or both.mask.sum() == answered.over(both.mask.size).sum():
        return query, None
    return both, answered


def _respondents(study: Study, declared: Release) -> WindowQuery:
    """The people who are not absent in a period. Raises UserError where nobody can be absent."""
    absent, q = study.alphabet(declared).absent, len(study.alphabet(declared).values)
    if absent is None:
        raise UserError(
            f"query '{RESPONDENTS}': nobody can be absent in '{declared.name}', because every"
            " missing answer becomes a value; ask without it"
        )
    return WindowQuery(RESPONDENTS, 1, np.arange(q) != absent)


def release_query(study: Study, declared: Release, query: str) -> Query:
    """The parsed query of a release. Raises UserError where the release cannot answer it."""
    if not isinstance(query, str):
        raise UserError(f"query: must be a text such as 'pattern 1 1', not {query!r}")
    if declared.patterns is None and query.split()[:1] != ["total"]:
        raise UserError(f"query '{query}': ask a cumulative release 'total at-least B'")
    alphabet = study.alphabet(declared)
    if query == RESPONDENTS:
        return _respondents(study, declared)
    parsed = parse_query(query, alphabet.name, alphabet.values)
    if isinstance(parsed, WindowQuery):
        return parsed
    if declared.totals is None:
        raise UserError(f"query '{parsed.text}': ask a window release for a pattern instead")
    first, last = study.span(declared)
    if not 1 <= parsed.threshold <= last - first + 1:
        raise UserError(f"query '{parsed.text}': ask for 1 to {last - first + 1} periods")
    return parsed


def _questions(
    best: StreamEstimator, query: Query, numbers: Sequence[int]
) -> list[Question | UserError]:
    """The people who satisfy a query at each period, or why the period has no answer.

    Raises UserError where the release answers at no period.
    """
    if isinstance(query, TotalQuery):
        return [best.total_question(query.threshold, number) for number in numbers]
    release = best.release
    weights = query_weights(query, release)
    seen = [number for number in numbers if release.time(number) >= query.width]
    measured = dict(zip(seen, best.pattern_questions(seen, weights), strict=True))
    labels, questions = release.study.periods.labels, list[Question | UserError]()
    for number in numbers:
        question, label = measured.get(number), labels[number - 1]
        if question is not None:
            questions.append(question)
        elif number in measured:
            location = f"public log: {release.declared.name} at {label}"
            questions.append(Inconsistent(f"{location}: not the measurements that it declares"))
        else:
            questions.append(
                UserError(
                    f"query '{query.text}': looks at {query.width} periods, and at {label} there"
                    f" are {release.time(number)} so far"
                )
            )
    return questions


class _PeriodAnswer(NamedTuple):
    """An answer without the panel's own, and the number of people of its share."""

    answer: Answer
    people: float


@dataclass(frozen=True, eq=False)
class PanelCurve:
    """A query to a release of a panel, with the best answers at its periods.

    Answers are computed `_TOGETHER` periods at once, and always the same periods. So an answer has
    the same digits by itself and in a curve.

    among: the people that a share is of, as in `PanelQuery`
    count: whether the answers are numbers of people, not shares
    """

    best: StreamEstimator
    query: Query
    among: Query | None
    count: bool
    _found: dict[int, _PeriodAnswer | UserError] = field(default_factory=dict)

    def at(self, number: int) -> PanelQuery:
        """The query at a period."""
        return PanelQuery(self.best, self.query, number, self.among)

    def answer(self, number: int, panel: Panel | PanelCounts, bias: str | None) -> Answer:
        """The best answer at a period.

        panel: the release's panel up to the period
        bias: how its answers are biased

        Raises UserError where there is no such share, Inconsistent where measurements are missing.
        """
        if number not in self._found:
            self._compute(number)
        found = self._found[number]
        if isinstance(found, UserError):
            raise found.with_traceback(None)
        query, release = self.query, self.best.release
        rows = 1.0 if self.count else max(_rows(self.at(number), panel, found.people), 1.0)
        return replace(
            found.answer,
            synthetic=_matching(query, release, panel) / rows,
            padding=_padding(query, release) / rows,
            bias=bias,
        )

    def _compute(self, number: int) -> None:
        """Computes the answers of all periods that are computed together with a period."""
        release, start = self.best.release, number - (number - 1) % _TOGETHER
        numbers = range(max(start, release.first), min(start + _TOGETHER, release.last + 1))
        queries = [self.at(n) for n in numbers]
        asked = list[tuple[PanelQuery, Question]]()
        for query, question in zip(
            queries, _questions(self.best, self.query, numbers), strict=True
        ):
            if isinstance(question, UserError):
                self._found[query.number] = question
            elif not self.count and query.people is None:
                self._found[query.number] = UserError(NO_PEOPLE)
            else:
                asked.append((query, question))
        if asked and self.count:
            self._add_counts(asked)
        elif asked:
            self._add_shares(asked)

    def _add_counts(self, asked: Sequence[tuple[PanelQuery, Question]]) -> None:
        answers = self.best.stream.answers([question for _, question in asked])
        columns = answers.values.tolist(), np.sqrt(answers.variances).tolist()
        for (query, _), value, error in zip(asked, *columns, strict=True):
            self._found[query.number] = _PeriodAnswer(query.answer(value, error, count=True), 1.0)

    def _add_shares(self, asked: Sequence[tuple[PanelQuery, Question]]) -> None:
        stream, study = self.best.stream, self.best.release.study
        x = stream.answers([question for _, question in asked])
        people = [query.people[0] for query, _ in asked if query.people is not None]
        n = stream.answers(people)
        ratios = Ratios(x.values, x.variances, n.values, n.variances, x.paired_covariance(n))
        columns = [column.tolist() for column in (*ratios.intervals(), n.values)]
        sampled = sampled_shares(ratios, study.sampling)
        for (query, _), share, error, low, high, base, design in zip(
            asked, *columns, sampled, strict=True
        ):
            if math.isnan(error) or math.isnan(low):
                self._found[query.number] = UserError(UNCLEAR)
                continue
            answer = replace(
                query.answer(share, math.nan, count=False),
                standard_error=error,
                interval=(low, high),
                sampled=design,
            )
            self._found[query.number] = _PeriodAnswer(answer, base)


def joint_panel_answers(queries: Sequence[PanelQuery], *, count: bool) -> JointAnswers:
    """The answers to queries of one stream together; nobody counts their panels.

    Shares are r_i = x_i / n_i of answers x and numbers of people n, (queries,) each. To the first
    order (the delta method) their covariance is
        J [[Cov(x, x), Cov(x, n)], [Cov(n, x), Cov(n, n)]] J',  J = [diag(1 / n), diag(-r / n)].
    Each interval, and with it each error, is of the ratio itself (`joint_answers.Ratios`).

    Raises UserError where one of them is not measured.
    """
    stream = queries[0].best.stream
    questions, size = [query.question() for query in queries], len(queries)
    if count:
        answers = stream.answers(questions)
        covariance = answers.covariance(answers)
        return _joint(queries, answers.values, np.sqrt(answers.variances), covariance, count=True)
    people = [query.people for query in queries]
    people_questions = [query[0] for query in people if query is not None]
    if len(people_questions) < size:
        raise UserError(NO_PEOPLE)
    answers = stream.answers([*questions, *people_questions])
    covariance, variances = answers.covariance(answers), answers.variances
    x, n = answers.values[:size], answers.values[size:]
    shares = x / n
    jacobian = np.hstack([np.diag(1 / n), np.diag(-shares / n)])
    of_shares = jacobian @ covariance @ jacobian.T
    of_both = covariance[:size, size:].diagonal()
    ratios = Ratios(x, variances[:size], n, variances[size:], of_both)
    _, errors, low, high = (column.tolist() for column in ratios.intervals())
    sampled = sampled_shares(ratios, queries[0].release.study.sampling)
    first_order = np.sqrt(np.maximum(0.0, of_shares.diagonal()))
    joint = _joint(queries, shares, first_order, of_shares, count=False)
    rows = zip(joint.answers, errors, zip(low, high, strict=True), sampled, strict=True)
    return JointAnswers(
        tuple(
            replace(answer, interval=None)
            if math.isnan(error)
            else replace(answer, standard_error=error, interval=ends, sampled=design)
            for answer, error, ends, design in rows
        ),
        joint.covariance,
    )


def _joint(
    queries: Sequence[PanelQuery],
    values: Floats,
    errors: Floats,
    covariance: Floats,
    *,
    count: bool,
) -> JointAnswers:
    answers = (
        query.answer(float(value), float(error), count=count)
        for query, value, error in zip(queries, values, errors, strict=True)
    )
    return JointAnswers(tuple(answers), covariance)


def query_weights(query: WindowQuery, release: ReleaseMeasurements) -> Floats:
    """The weights of the query's patterns, (q^j,) for j periods.

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


def _matching(query: Query, release: ReleaseMeasurements, panel: Panel | PanelCounts) -> int:
    """The query's number of synthetic rows."""
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
    if declared.totals is None:
        return ()
    return (1,) if declared.patterns is None else study.event_codes(declared.totals)


def _rows(query: PanelQuery, panel: Panel | PanelCounts, people: float) -> float:
    """The number of rows of which a panel's share is: all, or the present, or the entered.

    people: the noisy number of people, of whom it is where rows are a bound on the people and all
        alike, or are those of the first period
    """
    release = query.release
    if query.among is not None:
        return float(_matching(query.among, release, panel))
    window, totals = release.window, release.totals
    if window is not None:
        absent = window.absent
    else:
        assert totals is not None
        absent = len(panel.values) - 1 if totals.present else None
        bound = release.declared.rows is not None
        late = release.study.admits_late_entry(release.declared)
        if absent is None and (bound or late):
            return people
    if absent is None:
        return float(panel.rows)
    return float(panel.rows - panel.newest(absent))
