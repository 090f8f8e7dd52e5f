"""The default questions of a release's page, and titles of queries in words from labels."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from stream_dp.answers.query import (
    event_words,
    known_values,
    query_words,
    value_of_interest,
    value_title,
)
from stream_dp.client import PublicLog
from stream_dp.release import answer
from stream_dp.study import Release, Study

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def query_title(study: Study, declared: Release, query: str) -> str:
    """A query to a release as a heading; the query itself where it has no shorter words.

    The query has been understood: this function judges nothing.
    """
    phrase = query_words(query)
    title = _words(study, declared, shlex.split(phrase.query))
    if not title or phrase.weighted:
        return heading(query)
    return heading(title if phrase.among is None else f"{title}, among {phrase.among}")


def heading(text: str) -> str:
    """A text with a capital letter, unless it begins with the name of an attribute."""
    return text if "=" in text.split(" ")[0] else text[:1].upper() + text[1:]


def _words(study: Study, declared: Release, tokens: list[str]) -> str:
    """The title of a query in words from labels; empty for one without such words."""
    period_unit = study.periods.every
    match tokens:
        case ["total", "at-least", need] if declared.totals is not None:
            return f"{event_words(study, declared.totals)} in {_at_least(need, period_unit)} so far"
        case ["at-least" | "consecutive" as form, need, "of", "last", width, event]:
            value = _value(study, declared, event)
            if int(width) == 1:
                return _in_the(value, period_unit)
            last = f"the last {counted(int(width), period_unit)}"
            if form == "consecutive" and int(need) > 1:
                return f"{value} at least {need} {period_unit}s in a row in {last}"
            if int(need) == int(width):
                return f"{value} in all of {last}"
            return f"{value} in at least {need} of {last}"
        case ["pattern", *values]:
            return _pattern(study, declared, values)
        case [answer.RESPONDENTS]:
            return f"answered in the {period_unit}"
        case [event]:
            return _in_the(_value(study, declared, event), period_unit)
    return ""


def _in_the(value: str, period_unit: str) -> str:
    """'poor in the month', once where a label already says so."""
    phrase = f" in the {period_unit}"
    return value.removesuffix(phrase) + phrase


def _at_least(need: str, period_unit: str) -> str:
    """'at least 1 month'."""
    return f"at least {counted(int(need), period_unit)}"


def _value(study: Study, declared: Release, event: str) -> str:
    """An event, 'A=1' or '1', or several joined by '|', in words."""
    name = study.alphabet(declared).name
    values = event.removeprefix(f"{name}=").split("|") if "&" not in name else [event]
    return " or ".join(value_title(study, declared, value) for value in values)


def _pattern(study: Study, declared: Release, values: list[str]) -> str:
    """The title of a pattern, or empty if it is long or asks for nothing."""
    period_unit, width = study.periods.every, len(values)
    if {*values} == {"?"} or width > len(_ORDINALS):
        return ""
    if width == 1:
        return _in_the(_value(study, declared, values[0]), period_unit)
    if len({*values}) == 1:
        return (
            f"{_value(study, declared, values[0])} in all of the last {counted(width, period_unit)}"
        )
    by_value: dict[str, list[str]] = {}
    for ordinal, value in zip(_ORDINALS, values, strict=False):
        by_value.setdefault(value, []).append(ordinal)
    by_value.pop("?", None)
    clauses = [
        f"{_value(study, declared, value)} in the {' and '.join(ordinals)}"
        for value, ordinals in by_value.items()
    ]
    return f"{', '.join(clauses)} of the last {width} {period_unit}s"


_MOST_VALUES = 6  # of an attribute, that get a chart each
_TIMES = (1, 3, 6, 12, 24, 60)
_MOST_TIMES = 4


@dataclass(frozen=True)
class Question:
    """A query with a title for people. count: whether its natural answer is a number of people."""

    title: str
    query: str
    count: bool = False


def questions(study: Study, declared: Release) -> list[Question]:
    """Questions that show the contents of a release, about the present first."""
    shown_questions = []
    if declared.patterns is not None:
        shown_questions += _windows(study, declared)
    if declared.totals is not None:
        shown_questions += totals(study, declared)
    return shown_questions


def counted(count: int, noun: str) -> str:
    """A number with its noun: '3 months', '1 year'."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _windows(study: Study, declared: Release) -> list[Question]:
    """The questions about the last periods: each value now, and the value of interest over time."""
    values, width = known_values(study, declared), declared.history
    value = value_of_interest(study, declared)
    shown = [value] if len(values) == 2 else values[:_MOST_VALUES]
    windows = [
        Question(
            _in_the(value_title(study, declared, v), study.periods.every),
            f"pattern {shlex.quote(v)}",
        )
        for v in shown
    ]
    name, title = study.alphabet(declared).name, value_title(study, declared, value)
    event = shlex.quote(f"{name}={value}" if len(declared.attributes) == 1 else value)
    last = counted(width, study.periods.every)
    for need in dict.fromkeys((1, min(2, width), width)):
        if width > 1:
            quantifier = "all of the" if need == width else f"at least {need} of the"
            in_last = f"{title} in {quantifier} last {last}"
            windows.append(Question(in_last, f"at-least {need} of last {width} {event}"))
    if width > 2:
        in_last = f"{title} at least twice in a row in the last {last}"
        windows.append(Question(in_last, f"consecutive 2 of last {width} {event}"))
    response = response_question(study, declared)
    return [*windows, *([] if response is None else [response])]


def default_query(public: PublicLog, name: str) -> str:
    """A query about the present, with which a comparison begins."""
    declared = next((release for release in public.study.releases if release.name == name), None)
    default_questions = [] if declared is None else questions(public.study, declared)
    return default_questions[0].query if default_questions else public.queries(name)[0]


def response_question(study: Study, declared: Release) -> Question | None:
    """The question about the response rate; None for releases without absences."""
    # Where the number of people is private, only those who answer are counted: 100 %.
    is_of_all = study.size is not None and declared.where is None
    if not is_of_all or study.alphabet(declared).absent is None:
        return None
    return Question(f"answered in the {study.periods.every}", answer.RESPONDENTS)


def totals(study: Study, declared: Release) -> list[Question]:
    """Questions about how often people have had the event so far."""
    first, last = study.span(declared)
    count = last - first + 1
    times = [*[b for b in _TIMES if b < count][: _MOST_TIMES - 1], count]
    unit = study.periods.every
    return [
        Question(
            f"{'at least' if b < count else 'all'} {counted(b, unit)}",
            f"total at-least {b}",
            count=True,
        )
        for b in dict.fromkeys(times)
    ]
