"""The parser of queries in words, and examples of queries to a release.

poverty=1                            in the period itself
pattern 1 ? 1                        the last periods, oldest first; ? is any value, 0|1 either
at-least 2 of last 3 poverty=1       in how many of the last periods
consecutive 2 of last 3 poverty=1    a run of at least that length among them
total at-least 3                     of all periods so far (cumulative releases)

Two words may stand around a query:

poverty=1 among pattern ? 1          of those with the second: a share of them, or their number
poverty=1 among respondents          of those who are not absent, as shares are by default
poverty=1 among everybody            of all people, the absent included
respondents                          those who are not absent in the period: the response
weighted poverty=1                   by the study's public cells (`weighted.py`)

Where a release is of several attributes, its values are `poverty=1&job=yes`, and a part of one,
`poverty=1`, means all values that have it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.panel import window_symbols
from stream_dp.release.answer import RESPONDENTS
from stream_dp.study import CumulativeRelease, JointRelease, Release, Study
from stream_dp.study.attribute import matching_codes
from stream_dp.study.field_types import ABSENT


def value_of_interest(study: Study, declared: Release) -> str:
    """The value in examples for a release."""
    if len(declared.attributes) == 1:
        interest = study.attributes[declared.attributes[0]].interest
        if interest is not None:
            return str(interest)
    return known_values(study, declared)[-1]


def known_values(study: Study, declared: Release) -> list[str]:
    """The values of a release's attribute, without values of absence."""
    values = [str(value) for value in study.alphabet(declared).values]
    return [v for v in values if ABSENT not in v.replace("=", "&").split("&")]


def event_words(study: Study, declared: CumulativeRelease | JointRelease) -> str:
    """The event that a release counts: 'poverty: 1', or the value's label."""
    return " or ".join(value_title(study, declared, str(value)) for value in declared.event)


def value_title(study: Study, declared: Release, value: str) -> str:
    """A value of a release's attribute in words: its label, or 'Employment status: unemployed'.

    The other one of two values is 'not' and the label.
    """
    if len(declared.attributes) > 1:
        return value
    attribute = study.attributes[declared.attributes[0]]
    if attribute.value_label and value == value_of_interest(study, declared):
        return attribute.value_label
    if attribute.value_label and len(known_values(study, declared)) == 2:
        return f"not {attribute.value_label}"
    return f"{attribute_title(study, declared.attributes[0])}: {value}"


def attribute_title(study: Study, name: str) -> str:
    """An attribute in words: its label, unless that is one of two values, or its name."""
    attribute = study.attributes.get(name)
    if attribute is not None and attribute.label and not attribute.value_label:
        return attribute.label
    return name.replace("-", " ").replace("_", " ")


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
    """Examples of shares among everybody and of weighted answers, where a release has them."""
    queries = example_queries(study, declared)
    among = declared.patterns is not None and study.alphabet(declared).absent is not None
    by = None if study.weights is None else study.weights.by
    return [
        *([f"{queries[2]} among {EVERYBODY}"] if among else []),
        *([f"weighted {queries[-1]}"] if by in (declared.where or {}) else []),
    ]


EVERYBODY = "everybody"
_MOST_MASK = 1 << 20
# A value may have the word 'among' in it, but never a sign of a comparison.
_AMONG = re.compile(
    rf"(.*\S) among ({EVERYBODY}|{RESPONDENTS}(?: & .*)?"
    r"|(?:pattern|at-least|consecutive|total) .*|[^&|=<>]+[=<>].*)"
)
_WEIGHTED = "weighted "


class QueryWords(NamedTuple):
    """The parts of a query in words.

    query: whom it counts
    among: of whom a share is, if the query says so
    weighted: whether it is by the public cells of the study
    """

    query: str
    among: str | None = None
    weighted: bool = False


def query_words(text: str) -> QueryWords:
    """The parts of a query in words. Raises UserError if it is no text.

    >>> query_words("weighted poverty=1")
    QueryWords(query='poverty=1', among=None, weighted=True)
    >>> query_words("pattern ? 1 among pattern 1 ?")
    QueryWords(query='pattern ? 1', among='pattern 1 ?', weighted=False)
    >>> query_words("home=alone among strangers").among
    """
    if not isinstance(text, str):
        raise UserError(f"query: must be a text such as 'pattern 1 1', not {text!r}")
    text = " ".join(text.split())
    rest = text.removeprefix(_WEIGHTED)
    weighted = rest is not text and not rest.startswith(("=", "&"))
    match = _AMONG.fullmatch(rest if weighted else text)
    if match is None:
        return QueryWords(rest if weighted else text, None, weighted)
    return QueryWords(match[1], match[2], weighted)


def of_people(query: str, people: str | None) -> str:
    """The query for a share of these people; the query itself for None. Raises UserError.

    >>> of_people("poverty=1", "everybody")
    'poverty=1 among everybody'
    """
    if people is None:
        return query
    if (named := query_words(query).among) is not None:
        raise UserError(f"query '{query}': is among '{named}' already; leave '{people}' out")
    return f"{query} among {people}"


@dataclass(frozen=True, eq=False)
class WindowQuery:
    """A predicate on the last `width` periods."""

    text: str
    width: int
    # Whether it is true of each pattern, by code in base q: (q^width,).
    mask: NDArray[np.bool_]

    def over(self, bins: int) -> NDArray[np.bool_]:
        """The mask over wider windows of `bins` patterns: older periods are free."""
        return np.tile(self.mask, bins // self.mask.shape[0])


@dataclass(frozen=True)
class TotalQuery:
    """Asks for the people with the event in at least `threshold` periods so far."""

    text: str
    threshold: int


Query = WindowQuery | TotalQuery


def among(query: Query, others: Query, text: str) -> Query:
    """The query for the people who satisfy both. Raises UserError if no release measured the
    people.

    text: of the new query
    """
    if isinstance(query, TotalQuery) and isinstance(others, TotalQuery):
        return TotalQuery(text, max(query.threshold, others.threshold))
    if isinstance(query, TotalQuery) or isinstance(others, TotalQuery):
        raise UserError(
            f"query '{text}': totals and patterns are not measured together; ask for totals among"
            " totals, or for patterns among patterns"
        )
    bins = max(query.mask.size, others.mask.size)
    return WindowQuery(text, max(query.width, others.width), query.over(bins) & others.over(bins))


def parse_query(text: str, attribute: str, values: tuple[int | str, ...]) -> Query:
    """Parses a query about an attribute.

    text: the query, in one of the forms above
    attribute: the name of the release's attribute, or of several joined by &
    values: the names of its symbols, in the order of their codes

    Raises UserError if `text` is no query of the attribute.

    >>> query = parse_query("pattern 1 ?", "poverty", (0, 1))
    >>> query.width, query.mask.tolist()  # of the patterns 00, 01, 10, 11
    (2, [False, False, True, True])
    >>> parse_query("at-least 1 of last 2 poverty=1", "poverty", (0, 1)).mask.tolist()
    [False, True, True, True]
    >>> parse_query("total at-least 3", "poverty", (0, 1))
    TotalQuery(text='total at-least 3', threshold=3)
    """
    text = " ".join(text.split())
    try:
        tokens = shlex.split(text)
    except ValueError:
        raise UserError(f"query '{text}': a quotation mark is not closed") from None
    if tokens and tokens[0] == "pattern" and len(tokens) > 1:
        return _pattern(text, tokens[1:], values)
    match tokens:
        case ["total", "at-least", least] if _number(least):
            return TotalQuery(f"total at-least {int(least)}", int(least))
        case ["at-least" | "consecutive" as form, need, "of", "last", width, event] if _number(
            need
        ) and _number(width):
            value = _event_value(text, event, attribute)
            times, periods = int(need), int(width)
            if not 1 <= times <= periods:
                raise UserError(f"query '{text}': cannot ask for {times} of {periods} periods")
            hits = np.isin(_all(text, len(values), periods), _codes(text, value, values))
            count = _run(hits) if form == "consecutive" else hits.sum(axis=1)
            return WindowQuery(text, periods, np.asarray(count >= times))
        case [event] if "=" in event:
            value = _event_value(text, event, attribute)
            return _pattern(text, [value], values)
    start = next((i for i, token in enumerate(tokens) if "=" in token), len(tokens))
    event = " ".join(tokens[start:])
    if " " in event and event.partition("=")[2] in values:
        quoted = " ".join([*tokens[:start], shlex.quote(event)])
        raise UserError(f"query '{text}': a value with spaces stands in quotes: write {quoted}")
    hint = nearest(tokens[0], ("pattern", "at-least", "consecutive", "total")) if tokens else ""
    raise UserError(
        f"query '{text}': not understood; write 'pattern 1 ? 1', 'at-least 2 of last 3 A=1', "
        f"'consecutive 2 of last 3 A=1', 'total at-least 3' or 'A=1'{hint}"
    )


def _number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 7


def _event_value(text: str, event: str, attribute: str) -> str:
    """The value, or the part of a product, in an event like `poverty=1`."""
    if "&" in attribute:
        return event
    name, _, value = event.rpartition("=")
    if name and name != attribute:
        raise UserError(f"query '{text}': the release is of '{attribute}', not '{name}'")
    return value


def nearest(word: str, choices: Iterable[object]) -> str:
    """'; did you mean ...?' if a choice is near the word, else ''."""
    by_small = {str(choice).lower(): str(choice) for choice in choices}
    matches = get_close_matches(word.lower(), by_small, n=1)
    return f"; did you mean '{by_small[matches[0]]}'?" if matches else ""


def _pattern(text: str, words: list[str], values: tuple[int | str, ...]) -> WindowQuery:
    """The query for a pattern. words: by period a value, several joined by |, or ? for any."""
    q, width = len(values), len(words)
    symbols = _all(text, q, width)
    mask = np.ones(q**width, bool)
    for column, word in zip(symbols.T, words, strict=True):
        if word != "?":
            mask &= np.isin(column, _codes(text, word, values))
    return WindowQuery(text, width, mask)


def _codes(text: str, word: str, values: tuple[int | str, ...]) -> list[int]:
    """The codes of the values in a word like 'none|some'. text: the query, for errors."""
    all_codes = []
    for value in word.split("|"):
        codes = matching_codes(value, values)
        if not codes:
            listed = ", ".join(map(str, values))
            hint = nearest(value, values)
            raise UserError(f"query '{text}': '{value}' is no value; the values are {listed}{hint}")
        all_codes += codes
    return all_codes


def _all(text: str, q: int, width: int) -> NDArray[np.uint8]:
    """All windows of a width, (q^width, width), in the order of their codes."""
    if q**width > _MOST_MASK:
        raise UserError(f"query '{text}': {width} periods are too many to ask about")
    return window_symbols(np.arange(q**width), q, width)


def _run(hits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The longest run in every row."""
    longest = run = np.zeros(hits.shape[0], np.int64)
    for column in hits.T:
        run = (run + 1) * column
        longest = np.maximum(longest, run)
    return longest
