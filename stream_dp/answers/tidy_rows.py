"""All answers of a release as rows of a tidy table: patterns, times of a value, totals.

At each period of windows: all measured patterns (up to `MOST_PATTERNS`), each single value, and for
each value that people report `at-least b of last k` and runs. At each period of totals: every
`total at-least b`. Each as a count and, where the number of people is measured or public, as a
share.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from stream_dp.release.answer import QUANTILE
from stream_dp.study import Study
from stream_dp.study.alphabet import ABSENT

from .estimator import (
    Question,
    StreamEstimator,
    StreamMeasurements,
)
from .joint_answers import Ratios
from .linear_system import Answers
from .measured_rows import ReleaseMeasurements
from .measurement_blocks import Floats
from .query import WindowQuery, parse_query

MOST_PATTERNS = 4096
ANSWER_COLUMNS = {"query": pa.string(), "measure": pa.string()}
ANSWER_COLUMNS |= dict.fromkeys(("value", "standard_error", "low", "high"), pa.float64())


class Row(NamedTuple):
    """An answer.

    number: of the period
    low, high: the ends of the interval
    """

    number: int
    query: str
    measure: str
    value: float
    standard_error: float | None
    low: float | None
    high: float | None


def answer_table(
    study: Study, name: str, rows: Iterable[Row], *, head: str, stratum: str | None = None
) -> pa.Table:
    """The answers about a release, with the labels of periods.

    name, stratum: of the release
    head: the hash of the message up to which the answers use what is published
    """
    columns = [*zip(*rows, strict=True)] or [()] * len(Row._fields)
    numbers, *fields = columns

    def repeated(word: str | None) -> pa.Array:
        return pa.array([word] * len(numbers), pa.string())

    periods = [study.periods.labels[number - 1] for number in numbers]
    kinds = zip(ANSWER_COLUMNS.items(), fields, strict=True)
    return pa.table(
        {
            "release": repeated(name),
            "period": pa.array(periods, pa.string()),
            "stratum": repeated(stratum),
            **{column: pa.array(values, kind) for (column, kind), values in kinds},
            "head": repeated(head),
        }
    )


def panel_answers(stream: StreamMeasurements, release: ReleaseMeasurements, head: str) -> pa.Table:
    """The `answer_table` of all answers about a panel's release."""
    declared = release.declared
    stratum = "&".join(f"{name}={value}" for name, value in (declared.where or {}).items())
    rows = every_answer(stream, release, QUANTILE)
    return answer_table(release.study, declared.name, rows, head=head, stratum=stratum or None)


def every_answer(
    stream: StreamMeasurements, release: ReleaseMeasurements, z: float
) -> Iterator[Row]:
    """The rows of a release, by period. z: the quantile of the intervals"""
    rows: list[Row] = []
    best = StreamEstimator(stream, release)
    if release.window is not None:
        queries = _window_queries(release)
        for message in release.messages:
            rows += _window_rows(best, message.number, queries, z)
    if release.totals is not None:
        numbers = range(release.first, release.last + 1)
        people = _people(best, numbers, totals=True)
        for b in range(1, len(numbers) + 1):
            rows += _total_rows(best, b, people, z)
    # The sort is stable within a period.
    return iter(sorted(rows, key=lambda row: row.number))


def _window_queries(release: ReleaseMeasurements) -> list[WindowQuery]:
    """The queries about the last periods that a release answers at each of its periods."""
    window, alphabet = release.window, release.study.alphabet(release.declared)
    assert window is not None
    names, width = [str(value) for value in alphabet.values], window.width
    texts = [f"pattern {shlex.quote(name)}" for name in names if width > 1]
    if window.bins <= MOST_PATTERNS:
        texts += window.bin_words
    reported = [v for v in names if ABSENT not in v.replace("=", "&").split("&")]
    single = len(alphabet.symbols) == 1
    for value in reported:
        event = shlex.quote(f"{alphabet.name}={value}" if single else value)
        texts += [f"at-least {b} of last {width} {event}" for b in range(1, width)]
        texts += [f"consecutive {b} of last {width} {event}" for b in range(2, width)]
    queries = [parse_query(text, alphabet.name, alphabet.values) for text in texts]
    unseen = window.absent_pattern
    return [
        query
        for query in queries
        if isinstance(query, WindowQuery)
        and (unseen is None or not query.over(window.bins)[unseen])
    ]


def _window_rows(
    best: StreamEstimator, number: int, queries: Sequence[WindowQuery], z: float
) -> Iterator[Row]:
    """The rows of queries about the last periods, at one period."""
    questions = [best.pattern_question(number, query.mask.astype(float)) for query in queries]
    measured = [
        (q.text, question) for q, question in zip(queries, questions, strict=True) if question
    ]
    answers = best.stream.answers([question for _, question in measured])
    people = _people(best, [number], totals=False)
    numbers, texts = [number] * len(measured), [text for text, _ in measured]
    yield from _rows(best, answers, numbers, texts, people=people, z=z)


def _total_rows(best: StreamEstimator, b: int, people: _People, z: float) -> Iterator[Row]:
    """The rows of the people with the event in at least b periods, at every period."""
    first, last = best.release.first, best.release.last
    numbers = list(range(first + b - 1, last + 1))
    answers = best.stream.answers([best.total_question(b, number) for number in numbers])
    texts = [f"total at-least {b}"] * len(numbers)
    yield from _rows(best, answers, numbers, texts, people=people, z=z)


class _People(NamedTuple):
    """The noisy numbers of people: by period the position among the answers.

    answers: None if the number is public or not measured.
    """

    positions: dict[int, int]
    answers: Answers | None


def _people(best: StreamEstimator, numbers: Sequence[int], *, totals: bool) -> _People:
    if best.stream.size is not None:
        return _People({}, None)
    questions: dict[int, Question] = {}
    for number in numbers:
        question = best.people_question(number, totals=totals)
        if question is not None:
            questions[number] = question[0]
    positions = {number: position for position, number in enumerate(questions)}
    return _People(positions, best.stream.answers(list(questions.values())) if questions else None)


def _rows(
    best: StreamEstimator,
    answers: Answers,
    numbers: Sequence[int],
    texts: Sequence[str],
    *,
    people: _People,
    z: float,
) -> Iterator[Row]:
    """The rows of answers, each as a count and, where there is one, as a share.

    numbers, texts: of each answer, its period and its query.
    """
    errors = np.sqrt(answers.variances)
    counts = answers.values, errors, answers.values - z * errors, answers.values + z * errors
    shares = _shares(best.stream.size, counts, answers, numbers, people=people, z=z)
    for i, (number, text) in enumerate(zip(numbers, texts, strict=True)):
        yield Row(number, text, "count", *(float(column[i]) for column in counts))
        if not np.isnan(shares[0][i]):
            yield Row(number, text, "share", *(float(column[i]) for column in shares))


def _shares(
    size: int | None,
    counts: tuple[Floats, Floats, Floats, Floats],
    answers: Answers,
    numbers: Sequence[int],
    *,
    people: _People,
    z: float,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Shares, errors, lower and upper ends; NaN where nobody measured the number of people.

    counts: the same of the numbers of people.
    """
    if size is not None:
        value, error, low, high = (column / size for column in counts)
        return value, error, low, high
    shares = np.full((4, len(numbers)), np.nan)
    measured = np.array([i for i, number in enumerate(numbers) if number in people.positions], int)
    if people.answers is not None and measured.size:
        positions = np.array([people.positions[numbers[i]] for i in measured])
        x, n = answers.chosen(measured), people.answers.chosen(positions)
        cov_xn = x.covariance(people.answers)[np.arange(measured.size), positions]
        ratios = Ratios(x.values, x.variances, n.values, n.variances, cov_xn)
        shares[:, measured] = ratios.intervals(z)
    value, error, low, high = shares
    return value, error, low, high
