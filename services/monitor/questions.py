"""The default questions of a release's page."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from stream_dp.answers.query import value_of_interest
from stream_dp.study import (
    CumulativeRelease,
    JointRelease,
    Release,
    Study,
)
from stream_dp.study.alphabet import ABSENT

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


def known_values(study: Study, declared: Release) -> list[str]:
    """The values of a release's attribute, without values of absence."""
    values = [str(value) for value in study.alphabet(declared).values]
    return [v for v in values if ABSENT not in v.replace("=", "&").split("&")]


def counted(count: int, noun: str) -> str:
    """A number with its noun: '3 months', '1 year'."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _windows(study: Study, declared: Release) -> list[Question]:
    values, width = known_values(study, declared), declared.history
    value = value_of_interest(study, declared)
    shown = [value] if len(values) == 2 else values[:_MOST_VALUES]
    windows = [
        Question(
            f"{value_title(study, declared, v)} in the {study.periods.every}",
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
    return windows


def totals(study: Study, declared: Release) -> list[Question]:
    """Questions about how often people have had the event so far."""
    first, last = study.span(declared)
    most = last - first + 1
    times = [*[b for b in _TIMES if b < most][: _MOST_TIMES - 1], most]
    every = study.periods.every
    return [
        Question(
            f"{'at least' if b < most else 'all'} {counted(b, every)}",
            f"total at-least {b}",
            count=True,
        )
        for b in dict.fromkeys(times)
    ]


def event_words(study: Study, declared: CumulativeRelease | JointRelease) -> str:
    """The event that a release counts: 'poverty=1', or the value's label."""
    return " or ".join(value_title(study, declared, str(value)) for value in declared.event)


def value_title(study: Study, declared: Release, value: str) -> str:
    """A value of a release's attribute in words: the label of the value of interest, or 'a=1'.

    The other one of two values is 'not' and the label.
    """
    if len(declared.attributes) > 1:
        return value
    attribute = study.attributes[declared.attributes[0]]
    if attribute.label and value == value_of_interest(study, declared):
        return attribute.label
    if attribute.label and len(known_values(study, declared)) == 2:
        return f"not {attribute.label}"
    return f"{declared.attributes[0]}={value}"
