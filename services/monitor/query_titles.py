"""Titles of queries, in words from declared labels."""

from __future__ import annotations

import shlex

from stream_dp.study import Release, Study

from .questions import counted, event_words, value_title

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def query_title(study: Study, declared: Release, query: str) -> str:
    """A query to a release as a heading; the query itself where it has no shorter words.

    The query has been understood: this function judges nothing.
    """
    return heading(_words(study, declared, shlex.split(query)) or query)


def heading(text: str) -> str:
    """A text with a capital letter, unless it begins with the name of an attribute."""
    return text if "=" in text.split(" ")[0] else text[:1].upper() + text[1:]


def _words(study: Study, declared: Release, tokens: list[str]) -> str:
    period_unit = study.periods.every
    match tokens:
        case ["total", "at-least", need] if declared.totals is not None:
            return f"{event_words(study, declared.totals)} in {_at_least(need, period_unit)} so far"
        case ["at-least" | "consecutive" as form, need, "of", "last", width, event]:
            value = _value(study, declared, event)
            if int(width) == 1:
                return f"{value} in the {period_unit}"
            last = f"the last {counted(int(width), period_unit)}"
            if form == "consecutive" and int(need) > 1:
                return f"{value} at least {need} {period_unit}s in a row in {last}"
            if int(need) == int(width):
                return f"{value} in all of {last}"
            return f"{value} in at least {need} of {last}"
        case ["pattern", *values]:
            return _pattern(study, declared, values)
        case [event]:
            return f"{_value(study, declared, event)} in the {period_unit}"
    return ""


def _at_least(need: str, period_unit: str) -> str:
    """'at least 1 month'."""
    return f"at least {counted(int(need), period_unit)}"


def _value(study: Study, declared: Release, event: str) -> str:
    """An event, 'A=1' or '1', or several joined by '|', in words."""
    name = study.alphabet(declared).name
    values = event.removeprefix(f"{name}=").split("|") if "&" not in name else [event]
    return " or ".join(value_title(study, declared, value) for value in values)


def _pattern(study: Study, declared: Release, values: list[str]) -> str:
    period_unit, width = study.periods.every, len(values)
    if {*values} == {"?"} or width > len(_ORDINALS):
        return ""
    if width == 1:
        return f"{_value(study, declared, values[0])} in the {period_unit}"
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
