"""Examples of queries to a release."""

from __future__ import annotations

import shlex

from stream_dp.study import Release, Study, has_patterns, has_totals
from stream_dp.study.alphabet import ABSENT


def example_queries(study: Study, declared: Release) -> list[str]:
    """Examples of queries to a release, with values of the attribute."""
    alphabet = study.alphabet(declared)
    totals = []
    if has_totals(declared):
        first, last = study.span(declared)
        top = last - first + 1
        totals = [f"total at-least {b}" for b in dict.fromkeys((1, min(3, top), top))]
    if not has_patterns(declared):
        return totals
    reported = [v for v in alphabet.values if ABSENT not in str(v).replace("=", "&").split("&")]
    value, width = shlex.quote(str(reported[-1])), declared.width
    event = shlex.quote(
        f"{alphabet.name}={reported[-1]}" if len(alphabet.symbols) == 1 else str(reported[-1])
    )
    return [
        "pattern " + " ".join([value] * width),
        f"pattern {value}" + " ?" * (width - 1),
        f"at-least 1 of last {width} {event}",
        f"consecutive {min(2, width)} of last {width} {event}",
        *totals,
    ]
