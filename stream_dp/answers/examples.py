"""Examples of queries to a release."""

from __future__ import annotations

import shlex

from stream_dp.study import Release, Study
from stream_dp.study.alphabet import ABSENT


def value_of_interest(study: Study, declared: Release) -> str:
    """The value in examples for a release."""
    values = [str(v) for v in study.alphabet(declared).values]
    reported = [v for v in values if ABSENT not in v.replace("=", "&").split("&")]
    if len(declared.attributes) == 1:
        interest = study.attributes[declared.attributes[0]].interest
        if interest is not None:
            return str(interest)
    return reported[-1]


def example_queries(study: Study, declared: Release) -> list[str]:
    """Examples of queries to a release, with values of the attribute."""
    alphabet = study.alphabet(declared)
    totals = []
    if declared.totals is not None:
        first, last = study.span(declared)
        top = last - first + 1
        totals = [f"total at-least {b}" for b in dict.fromkeys((1, min(3, top), top))]
    if declared.patterns is None:
        return totals
    interest, width = value_of_interest(study, declared), declared.patterns.width
    value = shlex.quote(interest)
    event = shlex.quote(f"{alphabet.name}={interest}" if len(alphabet.symbols) == 1 else interest)
    return [
        "pattern " + " ".join([value] * width),
        f"pattern {value}" + " ?" * (width - 1),
        f"at-least 1 of last {width} {event}",
        f"consecutive {min(2, width)} of last {width} {event}",
        *totals,
    ]


def telling_queries(study: Study, declared: Release) -> list[str]:
    """Examples of a release, with events in several periods before patterns."""
    examples = example_queries(study, declared)
    if declared.totals is None and declared.history == 1:
        return examples[:1]
    return sorted(examples, key=lambda query: not query.startswith(("at-least", "total")))


def survey_examples(study: Study, declared: Release) -> list[str]:
    """Examples of shares among respondents and of weighted answers, where a release has them."""
    queries = example_queries(study, declared)
    among = declared.patterns is not None and study.alphabet(declared).absent is not None
    by = None if study.weights is None else study.weights.by
    return [
        *([f"{queries[2]} among respondents"] if among else []),
        *([f"weighted {queries[-1]}"] if by in (declared.where or {}) else []),
    ]
