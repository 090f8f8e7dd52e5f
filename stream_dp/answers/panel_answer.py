"""From a query in words to an answer with its error, and the panel's own answer beside it.

A share is of the declared number of people; where that is private, or the release is of people who
come and go, of a noisy number: those present at the period, or those who have entered by it.
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

from .answer import Answer
from .blocks import Floats
from .estimator import (
    Question,
    StreamEstimator,
    fieller_ratios,
    fieller_share,
    people_question,
)
from .joint_answers import JointAnswers, with_error
from .level import QUANTILE
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

    @property
    def totals(self) -> bool:
        """Whether the query is about totals, not about patterns."""
        return isinstance(self.query, TotalQuery)

    def question(self) -> Question:
        """The query to the stream's measurements. Raises UserError, Inconsistent."""
        if isinstance(self.query, TotalQuery):
            return self.best.total_question(self.query.least, self.number)
        weights = query_weights(self.query, self.release)
        question = self.best.pattern_question(self.number, weights)
        if question is None:
            where = f"public log: {self.release.declared.name} at {self.period}"
            raise Inconsistent(f"{where}: not the measurements that it declares")
        return question

    @cached_property
    def people(self) -> tuple[Question, str] | None:
        """The noisy number of people that a share is of, and who they are, in words.

        None where their number is declared, or nobody measured it.
        """
        stream = self.best.stream
        if stream.size is not None:
            return None
        return people_question(stream, self.best, self.release, self.number, totals=self.totals)

    def people_words(self) -> str:
        """Whom a share is of."""
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
    if not has_patterns(declared) and query.split()[:1] != ["total"]:
        raise UserError(f"query '{query}': ask a cumulative release 'total at-least B'")
    alphabet = study.alphabet(declared)
    asked = parse_query(query, alphabet.name, alphabet.values)
    if isinstance(asked, WindowQuery):
        return asked
    if not has_totals(declared):
        raise UserError(f"query '{asked.text}': ask a window release for a pattern instead")
    first, last = study.span(declared)
    if not 1 <= asked.least <= last - first + 1:
        raise UserError(f"query '{asked.text}': ask for 1 to {last - first + 1} periods")
    return asked


def answer_query(asked: PanelQuery, panel: Panel | PanelCounts, *, count: bool) -> Answer:
    """The best answer to a query.

    panel: the release's panel up to the query's period
    count: whether the answer is a number of people, not a share

    Raises UserError where there is no such share, Inconsistent where measurements are missing.
    """
    stream, release = asked.best.stream, asked.release
    value = stream.answers([asked.question()])
    people = asked.people
    noisy = None if people is None else stream.answers([people[0]])
    answer = asked.answer(value.value, math.sqrt(value.variance), count=True)
    if not count:
        answer = _share(answer, value, noisy, stream.size)
    rows = 1.0 if count else max(_rows(release, panel, noisy), 1.0)
    return replace(
        answer,
        synthetic=float(_panel(asked, panel)) / rows,
        padding=_padding(asked.query, release) / rows,
    )


def _share(count: Answer, value: Answers, people: Answers | None, size: int | None) -> Answer:
    """The share of a count, which is `value`, of the declared or the noisy number of people.

    Raises UserError where neither is known well enough.
    """
    if size is not None:
        share, error = count.value / size, math.sqrt(value.variance) / size
        interval = count.ends[0] / size, count.ends[1] / size
    elif people is not None:
        share, error, interval = fieller_share(value, people, QUANTILE)
    else:
        raise UserError(NO_PEOPLE)
    return replace(count, measure="share", value=share, standard_error=error, interval=interval)


def joint_panel_answers(asked: Sequence[PanelQuery], *, count: bool) -> JointAnswers:
    """The answers to queries of one stream together; nobody counts their panels.

    Raises UserError where one of them is not measured.
    """
    stream = asked[0].best.stream
    questions = [one.question() for one in asked]
    if count or stream.size is not None:
        scale = 1 if count or stream.size is None else stream.size
        answers = stream.answers(questions)
        covariance = answers.covariance(answers) / scale**2
        return _joint(asked, answers.values / scale, covariance, count=count)
    people = [one.people for one in asked]
    known = [one for one in people if one is not None]
    if len(known) < len(asked):
        raise UserError(NO_PEOPLE)
    answers = stream.answers([*questions, *(question for question, _ in known)])
    values, covariance, half = answers.values, answers.covariance(answers), len(asked)
    numbers, shares = values[half:], values[:half] / values[half:]
    slopes = np.hstack([np.diag(1 / numbers), np.diag(-shares / numbers)])
    joint = _joint(asked, shares, slopes @ covariance @ slopes.T, count=False)
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
    asked: Sequence[PanelQuery], values: Floats, covariance: Floats, *, count: bool
) -> JointAnswers:
    errors = np.sqrt(np.maximum(0.0, covariance.diagonal()))
    answers = (
        one.answer(float(value), float(error), count=count)
        for one, value, error in zip(asked, values, errors, strict=True)
    )
    return JointAnswers(tuple(answers), covariance)


def query_weights(asked: WindowQuery, release: ReleaseMeasurements) -> Floats:
    """The query's patterns as weights, (q^j,) for its j periods.

    Raises UserError where the release does not measure them.
    """
    window = release.window
    assert window is not None
    width = window.width
    if asked.width > width:
        raise UserError(
            f"query '{asked.text}': looks at {asked.width} periods and the release at {width};"
            " the exported panel can be asked, without a guarantee on the error"
        )
    if window.absent_pattern is not None and asked.over(window.bins)[window.absent_pattern]:
        raise UserError(
            f"query '{asked.text}': people absent in all of {width} periods are never counted,"
            " and it would count them; ask for other values in some period"
        )
    return asked.mask.astype(float)


def _panel(asked: PanelQuery, panel: Panel | PanelCounts) -> int:
    """How many synthetic rows answer the query."""
    query, release = asked.query, asked.release
    if isinstance(query, WindowQuery):
        return panel.matching(query.mask, query.width)
    return panel.reaching(panel_events(release.study, release.declared), query.least)


def _padding(asked: Query, release: ReleaseMeasurements) -> float:
    """How many of these rows are padding: as many for each pattern."""
    window = release.window
    if window is None or not isinstance(asked, WindowQuery):
        return 0.0
    return float(window.padding * asked.over(window.bins).sum())


def panel_events(study: Study, declared: Release) -> tuple[int, ...]:
    """The codes of a panel's symbols that are the event of its totals."""
    if not has_totals(declared):
        return ()
    return study.event_codes(declared) if has_patterns(declared) else (1,)


def _rows(
    release: ReleaseMeasurements, panel: Panel | PanelCounts, people: Answers | None
) -> float:
    """The rows that a share of the panel is of: all, or those present, or those who have entered.

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
