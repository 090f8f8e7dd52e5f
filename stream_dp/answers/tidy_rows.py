"""All answers of a release as rows of a tidy table: patterns, times of a value, totals.

At each period of windows: all measured patterns (up to `MOST_PATTERNS`), each single value, and for
each value that people report `at-least b of last k` and runs. At each period of totals: every
`total at-least b`. Each as a count and, where the number of people is measured or public, as a
share, with the people of whom it is (`panel_answer.py`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from stream_dp.continual.window.measurement_strategy import pattern_words
from stream_dp.release.answer import DECLARED, QUANTILE, base_words
from stream_dp.study import Study
from stream_dp.study.field_types import ABSENT

from .estimator import StreamEstimator, StreamMeasurements
from .joint_answers import Ratios
from .least_error_answers import LeastErrorAnswers
from .linear_system import Answers
from .measured_rows import ReleaseMeasurements
from .measurement_blocks import Floats
from .panel_answer import PanelQuery, among_respondents, share_query
from .query import WindowQuery, parse_query

MOST_PATTERNS = 4096
ANSWER_COLUMNS = dict.fromkeys(("query", "measure", "people"), pa.string())
_NUMBERS = ("value", "standard_error", "low", "high")
_UNBIASED = ("unbiased", "unbiased_error", "unbiased_low", "unbiased_high")
ANSWER_COLUMNS |= dict.fromkeys((*_NUMBERS, *_UNBIASED), pa.float64())


class Row(NamedTuple):
    """An answer.

    number: of the period
    people: of whom a share is, in words; None for a count
    low, high: the ends of the interval
    unbiased, unbiased_error, unbiased_low, unbiased_high: of an answer of least error, the unbiased
        one beside it; else None
    """

    number: int
    query: str
    measure: str
    people: str | None
    value: float
    standard_error: float | None
    low: float | None
    high: float | None
    unbiased: float | None = None
    unbiased_error: float | None = None
    unbiased_low: float | None = None
    unbiased_high: float | None = None


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


def panel_answers(
    stream: StreamMeasurements,
    release: ReleaseMeasurements,
    head: str,
    least: LeastErrorAnswers | None,
) -> pa.Table:
    """The `answer_table` of all answers about a panel's release."""
    declared = release.declared
    stratum = "&".join(f"{name}={value}" for name, value in (declared.where or {}).items())
    rows = every_answer(stream, release, QUANTILE)
    if least is not None:
        best = StreamEstimator(stream, release)
        rows = (_of_least_error(row, best, least) for row in rows)
    return answer_table(release.study, declared.name, rows, head=head, stratum=stratum or None)


def _of_least_error(row: Row, best: StreamEstimator, least: LeastErrorAnswers) -> Row:
    """The row with the answer of least error, where there is one."""
    study, declared = best.release.study, best.release.declared
    count = row.measure == "count"
    query, among = share_query(study, declared, row.query, count=count)
    numbers = least.numbers(PanelQuery(best, query, row.number, among), count=count)
    if numbers is None:
        return row
    value, error, low, high = numbers
    own = row.value, row.standard_error, row.low, row.high
    return Row(*row[:4], value, error, low, high, *own)


def every_answer(
    stream: StreamMeasurements, release: ReleaseMeasurements, z: float
) -> Iterator[Row]:
    """The rows of a release, by period. z: the quantile of the intervals"""
    rows: list[Row] = []
    best = StreamEstimator(stream, release)
    if release.window is not None:
        widths = range(1, release.window.width + 1)
        queries = [_window_queries(release, width) for width in widths]
        for number in range(release.first, release.last + 1):
            so_far = min(release.time(number), release.window.width)
            rows += _window_rows(best, number, queries[so_far - 1], z)
    if release.totals is not None:
        numbers = range(release.first, release.last + 1)
        people = _everybody(best, numbers, totals=True)
        for b in range(1, len(numbers) + 1):
            rows += _total_rows(best, b, people, z)
    # The sort is stable within a period.
    return iter(sorted(rows, key=lambda row: row.number))


def _window_queries(release: ReleaseMeasurements, width: int) -> list[WindowQuery]:
    """The queries about the last `width` periods that a release answers."""
    window, alphabet = release.window, release.study.alphabet(release.declared)
    assert window is not None
    names = [str(value) for value in alphabet.values]
    texts = [f"pattern {shlex.quote(name)}" for name in names if width > 1]
    if window.q**width <= MOST_PATTERNS:
        codes = np.arange(window.q**width)
        texts += pattern_words(codes, window.q, width, [shlex.quote(name) for name in names])
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
    """The rows of a period: counts, and shares of those who answered or of everybody."""
    study, declared = best.release.study, best.release.declared

    def measured(asked: Iterable[WindowQuery]) -> tuple[list[str], Answers]:
        found = [(q.text, best.pattern_question(number, q.mask.astype(float))) for q in asked]
        pairs = [(text, question) for text, question in found if question is not None]
        return [text for text, _ in pairs], best.stream.answers([asked for _, asked in pairs])

    texts, answers = measured(queries)
    yield from _counts(answers, [number] * len(texts), texts, z)
    bases = [among_respondents(study, declared, query) for query in queries]
    narrowed = {query.text for query, base in bases if base is not None}
    of_all = np.flatnonzero([text not in narrowed for text in texts])
    if of_all.size:
        chosen = answers.chosen(of_all), [number] * of_all.size, [texts[i] for i in of_all]
        yield from _shares(*chosen, people=_everybody(best, [number]), z=z)
    answering = [query for query, base in bases if base is not None]
    respondents = next((base for _, base in bases if base is not None), None)
    if respondents is not None:
        texts, answers = measured(q for q in answering if isinstance(q, WindowQuery))
        people = _base(best, number, respondents)
        yield from _shares(answers, [number] * len(texts), texts, people=people, z=z)


def _total_rows(best: StreamEstimator, b: int, people: _People, z: float) -> Iterator[Row]:
    """The rows of the people with the event in at least b periods, at every period."""
    first, last = best.release.first, best.release.last
    numbers = list(range(first + b - 1, last + 1))
    answers = best.stream.answers([best.total_question(b, number) for number in numbers])
    texts = [f"total at-least {b}"] * len(numbers)
    yield from _counts(answers, numbers, texts, z)
    yield from _shares(answers, numbers, texts, people=people, z=z)


class _People(NamedTuple):
    """The people of whom shares are.

    size: their public number; None if it is noisy.
    positions, answers: the noisy number by period, where it is measured.
    words: by period, who they are.
    """

    size: int | None
    positions: dict[int, int]
    answers: Answers | None
    words: dict[int, str]


def _everybody(best: StreamEstimator, numbers: Sequence[int], *, totals: bool = False) -> _People:
    """The people of the declared number, or those present or, for totals, entered by then."""
    unit = f"{best.release.study.unit}s"
    if (size := best.stream.size) is not None:
        return _People(size, {}, None, dict.fromkeys(numbers, base_words(DECLARED, unit)))
    measured = {n: best.people_question(n, totals=totals) for n in numbers}
    questions = {number: asked for number, asked in measured.items() if asked is not None}
    positions = {number: position for position, number in enumerate(questions)}
    words = {number: base_words(people, unit) for number, (_, people) in questions.items()}
    asked = [question for question, _ in questions.values()]
    return _People(None, positions, best.stream.answers(asked) if asked else None, words)


def _base(best: StreamEstimator, number: int, base: WindowQuery) -> _People:
    """The people of a base who are there at a period."""
    question = best.pattern_question(number, base.mask.astype(float))
    if question is None:
        return _People(None, {}, None, {})
    words = {number: base_words(f"among {base.text}", f"{best.release.study.unit}s")}
    return _People(None, {number: 0}, best.stream.answers([question]), words)


def _counts(
    answers: Answers, numbers: Sequence[int], texts: Sequence[str], z: float
) -> Iterator[Row]:
    """The rows of answers: a count, and a share if the answer has a share.

    numbers, texts: of each answer, its period and its query.
    """
    errors = np.sqrt(answers.variances)
    columns = answers.values, errors, answers.values - z * errors, answers.values + z * errors
    for number, text, *fields in zip(numbers, texts, *map(np.ndarray.tolist, columns), strict=True):
        yield Row(number, text, "count", None, *fields)


def _shares(
    answers: Answers, numbers: Sequence[int], texts: Sequence[str], *, people: _People, z: float
) -> Iterator[Row]:
    """The rows of shares whose number of people is public or clearly positive."""
    values, errors, low, high = _share_columns(answers, numbers, people, z)
    for i, (number, text) in enumerate(zip(numbers, texts, strict=True)):
        if not np.isnan(values[i]):
            fields = (float(column[i]) for column in (values, errors, low, high))
            yield Row(number, text, "share", people.words[number], *fields)


def _share_columns(
    answers: Answers, numbers: Sequence[int], people: _People, z: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Values, errors and both ends of shares; NaN where the people are not clearly more than 0."""
    if people.size is not None:
        values, errors = answers.values / people.size, np.sqrt(answers.variances) / people.size
        return values, errors, values - z * errors, values + z * errors
    shares = np.full((4, len(numbers)), np.nan)
    measured = np.array([i for i, number in enumerate(numbers) if number in people.positions], int)
    if people.answers is not None and measured.size:
        positions = np.array([people.positions[numbers[i]] for i in measured])
        x, n = answers.chosen(measured), people.answers.chosen(positions)
        cov_xn = x.covariance(people.answers)[np.arange(measured.size), positions]
        ratios = Ratios(x.values, x.variances, n.values, n.variances, cov_xn)
        shares[:, measured] = ratios.intervals(z)
    values, errors, low, high = shares
    return values, errors, low, high
