"""Queries from the fields of forms, and the addresses of pages and figures with their answers.

Queries are in the language of `stream-dp estimate`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

from stream_dp.answers.query import (
    EVERYBODY,
    known_values,
    of_people,
    query_words,
    value_of_interest,
)
from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.release.answer import RESPONDENTS, Answer
from stream_dp.study import Release, Study

from ..portals.description import citation
from .public_state import State


@dataclass(frozen=True)
class FigureLinks:
    """The addresses of a figure.

    kind: one of `figure_files.FIGURES`.
    fields: the query of the address, as on the figure's page.
    """

    kind: str
    name: str
    fields: str

    def file(self, form: str) -> str:
        """The address of the figure in a format."""
        return f"/figure/{self.kind}/{quote(self.name, safe='')}.{form}{self._query}"

    @property
    def embed(self) -> str:
        """The address of the figure for a frame of another page."""
        return f"/embed/{self.kind}/{quote(self.name, safe='')}{self._query}"

    @property
    def page(self) -> str:
        """The address of the page that shows the figure."""
        kind = {"totals": "release", "map": "data", "series": "data"}.get(self.kind, self.kind)
        return f"/{kind}/{quote(self.name, safe='')}{self._query}"

    @property
    def _query(self) -> str:
        return f"?{self.fields}" if self.fields else ""


def figure_citation(state: State, title: str, address: str) -> str:
    """A sentence to cite a figure. address: the path of its page."""
    return f"\u201c{title}\u201d, in {citation(state.public)}; {state.url}{address}"


LONGEST_QUERY = 500


def query_of_form(study: Study, declared: Release, fields: Mapping[str, str]) -> str:
    """Builds a query from the fields of the form. Raises UserError.

    fields: `form` is at-least, consecutive, total, pattern or words. The other fields depend on
        `form`: `need`, `width`, `value`, `p1` to `pw` (the oldest first), `words`.
    """
    form = fields.get("form", "words")
    if form == "words":
        query = " ".join(fields.get("words", "").split())
        if not query:
            raise UserError("query: write one, such as those below")
        return within_length(query)
    need = _number(fields.get("need", "1"), "how many periods")
    if form == "total":
        return f"total at-least {need}"
    if form == "pattern":
        values = [fields.get(f"p{i}", "?") or "?" for i in range(1, declared.history + 1)]
        return within_length(
            "pattern " + " ".join(v if v == "?" else shlex.quote(v) for v in values)
        )
    if form not in {"at-least", "consecutive"}:
        raise UserError("query: 'form' is at-least, consecutive, total, pattern or words")
    width = _number(fields.get("width", "1"), "of how many periods")
    value = fields.get("value", "")
    alphabet = study.alphabet(declared)
    event = f"{alphabet.name}={value}" if len(alphabet.symbols) == 1 else value
    return within_length(f"{form} {need} of last {width} {shlex.quote(event)}")


def within_length(query: str) -> str:
    """Returns the query. Raises UserError for a query of more than `LONGEST_QUERY` characters."""
    if len(query) > LONGEST_QUERY:
        raise UserError(f"query: is longer than {LONGEST_QUERY} characters")
    return query


def _number(text: str, label: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise UserError(f"query: write {label} as a number")
    return int(text)


@dataclass(frozen=True)
class PageQuery:
    """A question of a release's page, read from the address.

    count: whether the answer is a number, not a share.
    beside: other releases.
    together: whether the fan contains all true answers together.
    panel: whether the synthetic panel's own answers are drawn.
    """

    query: str
    count: bool = False
    beside: tuple[str, ...] = ()
    together: bool = False
    panel: bool = False

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> PageQuery:
        """The question of the fields of an address; `beside` is a list. Raises UserError.

        of: whom a share is of, if the question does not say so.
        """
        return cls(
            within_length(of_people(fields.get("q", ""), fields.get("of") or None)),
            fields.get("measure") == "count",
            tuple(fields.get("beside", ())[:8]),
            fields.get("band") == "simultaneous",
            fields.get("panel") in {"1", "true"},
        )

    def changed(self, **fields: Any) -> PageQuery:
        """The question with other fields."""
        return replace(self, **fields)

    def fields(self) -> str:
        """The fields of the address."""
        fields = [("q", self.query), *([("measure", "count")] if self.count else [])]
        fields += [("beside", sibling) for sibling in self.beside]
        fields += [("band", "simultaneous")] if self.together else []
        fields += [("panel", "1")] if self.panel else []
        return urlencode(fields)

    def address(self, name: str) -> str:
        """The address of the page with the answer, for sharing."""
        return f"/release/{quote(name, safe='')}?{self.fields()}"


def address(name: str, query: str, *, count: bool = False) -> str:
    """The address of the page with the answer to a query."""
    return PageQuery(query, count).address(name)


def siblings(study: Study, declared: Release) -> list[str]:
    """The names of other releases with the same attributes and kind."""
    return [
        candidate.name
        for candidate in study.releases
        if candidate is not declared
        and candidate.attributes == declared.attributes
        and candidate.kind == declared.kind
    ]


def comparable(study: Study, declared: Release, beside: Sequence[str]) -> tuple[str, ...]:
    """The siblings of a release among some names."""
    names = siblings(study, declared)
    return tuple(name for name in dict.fromkeys(beside) if name in names)


def builder(study: Study, declared: Release) -> dict[str, object]:
    """The choices in the form of a release: kinds of queries, values, the number of periods."""
    first, last = study.span(declared)
    return {
        "windows": declared.patterns is not None,
        "totals": declared.totals is not None,
        "values": known_values(study, declared),
        "interest": value_of_interest(study, declared),
        "every_value": [str(value) for value in study.alphabet(declared).values],
        "width": declared.history,
        "most": last - first + 1,
        "siblings": siblings(study, declared),
    }


def other_base(public: PublicLog, answer: Answer, query: str) -> tuple[str, str] | None:
    """The alternative base of a share, in words, with its query; None for a share with one base.

    answer: to the query.
    """
    phrase = query_words(query)
    if answer.measure != "share" or phrase.weighted:
        return None
    if phrase.among is None:
        of_respondents = answer.base.startswith(RESPONDENTS)
        base = f"all {answer.unit}", of_people(query, EVERYBODY)
        return base if of_respondents else None
    usual = public.answer(answer.release, phrase.query, answer.period, count=False)
    return None if usual.base == answer.base else (usual.base, phrase.query)
