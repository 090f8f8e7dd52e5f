"""The query that a form's fields state, in the words of `stream-dp estimate`, and its address."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from stream_dp.errors import UserError
from stream_dp.study import CumulativeRelease, Release, Study, WindowRelease

from ..pages.questions import known_values

LONGEST_QUERY = 500


def words_of_form(study: Study, declared: Release, fields: Mapping[str, str]) -> str:
    """The query that a builder's fields mean. Raises UserError.

    fields: `form` is at-least, consecutive, total, pattern or words; `need`, `width`, `value`,
        `p1` to `pw` (the oldest first) and `words` are what the forms need.
    """
    form = fields.get("form", "words")
    if form == "words":
        words = " ".join(fields.get("words", "").split())
        if not words:
            raise UserError("query: write one, such as those below")
        return short(words)
    need = _number(fields.get("need", "1"), "how many periods")
    if form == "total":
        return f"total at-least {need}"
    if form == "pattern":
        assert not isinstance(declared, CumulativeRelease)
        values = [fields.get(f"p{i}", "?") or "?" for i in range(1, declared.width + 1)]
        return short("pattern " + " ".join(v if v == "?" else shlex.quote(v) for v in values))
    if form not in {"at-least", "consecutive"}:
        raise UserError("query: 'form' is at-least, consecutive, total, pattern or words")
    width = _number(fields.get("width", "1"), "of how many periods")
    value = fields.get("value", "")
    alphabet = study.alphabet(declared)
    event = f"{alphabet.name}={value}" if len(alphabet.parts) == 1 else value
    return short(f"{form} {need} of last {width} {shlex.quote(event)}")


def short(words: str) -> str:
    """The words of a query. Raises UserError where they are longer than any meaningful ones."""
    if len(words) > LONGEST_QUERY:
        raise UserError(f"query: is longer than {LONGEST_QUERY} characters")
    return words


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise UserError(f"query: write {what} as a number")
    return int(text)


def address(name: str, query: str, *, count: bool, beside: Sequence[str] = ()) -> str:
    """The address of the page that answers a query: a link that can be shared."""
    fields = [("q", query), *([("measure", "count")] if count else [])]
    fields += [("beside", other) for other in beside]
    return f"/release/{quote(name, safe='')}?{urlencode(fields)}"


def siblings(study: Study, declared: Release) -> list[str]:
    """The other releases that can answer the same questions: of the same attribute and kind."""
    return [
        other.name
        for other in study.releases
        if other is not declared
        and other.attributes == declared.attributes
        and other.kind == declared.kind
    ]


def builder(study: Study, declared: Release) -> dict[str, object]:
    """What the builder of a release offers: its forms, values, and how far back it can ask."""
    first, last = study.span(declared)
    width = 1 if isinstance(declared, CumulativeRelease) else declared.width
    return {
        "windows": not isinstance(declared, CumulativeRelease),
        "totals": not isinstance(declared, WindowRelease),
        "values": known_values(study, declared),
        "every_value": [str(value) for value in study.alphabet(declared).values],
        "width": width,
        "most": last - first + 1,
        "siblings": siblings(study, declared),
    }
