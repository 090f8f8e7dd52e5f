"""Proposals for the columns of a table, from their names alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from stream_dp.errors import UserError
from stream_dp.population.tables.column_layout import numbered_columns

_PERSON = re.compile(
    r"(p|person|pers|member|household|hh|resp|respondent|case|unit)?_?(id|idcode|key|nr|no|num)?"
)
_GROUP = re.compile(r"(household|hh|family|hogar)_?(id|key|nr|no|num)?")
_MEMBER = re.compile(r"(p|per|pers|person|member|line)_?(nr|no|num|number)|member")
PAIR = "+"  # between the columns of a group's key and a member's number
_PERIOD = ("period", "month", "quarter", "year", "week", "date", "day", "wave", "time")
_PAIR = (_GROUP, _MEMBER)
_LENGTHS = {
    "day": ("date", "day"),
    "week": ("week",),
    "quarter": ("quarter",),
    "year": ("year",),
    "step": ("wave", "round"),
}


@dataclass(frozen=True)
class TableHeader:
    """The names of a table's columns, in order."""

    names: tuple[str, ...]

    @property
    def person(self) -> str:
        """The column that looks like ids, or a group's key and a member's number; else empty."""
        pair = [next((n for n in self.names if p.fullmatch(n.casefold())), "") for p in _PAIR]
        if all(pair):
            return PAIR.join(pair)
        named = [n for n in self.names if n and _PERSON.fullmatch(n.casefold())]
        return next(iter(named), "")

    @property
    def period(self) -> str:
        """The column that looks like periods; empty if none does."""
        folded = {name.casefold(): name for name in self.names}
        return next((folded[word] for word in _PERIOD if word in folded), "")

    @property
    def wide(self) -> str:
        """The pattern of most columns that end in a number, as `m{}`; empty if there is none."""
        return numbered_columns(self.names)

    def matching(self, pattern: str) -> list[str]:
        """The columns that a pattern with `{}` fits."""
        prefix, _, suffix = pattern.partition("{}")
        fits = re.compile(re.escape(prefix) + ".*" + re.escape(suffix), re.DOTALL).fullmatch
        return [name for name in self.names if fits(name)]

    def period_columns(self, pattern: str, labels: Sequence[str], *, steps: bool) -> dict[str, str]:
        """The `--columns` of `send` for the columns of a pattern: their periods.

        labels: of the study's periods.
        steps: whether periods have numbers of their own, and no dates.

        Columns whose numbers go up by one are the periods in order. If numbers are left out, steps
        follow the order of the columns, and of dates a column has the one that ends in its number.
        Raises UserError for a column without a period.
        """
        columns = self.matching(pattern)
        prefix, _, suffix = pattern.partition("{}")
        texts = [column[len(prefix) : len(column) - len(suffix)] for column in columns]
        numbers = [int(text) if re.fullmatch("[0-9]{1,9}", text) else None for text in texts]
        rising = numbers == [*range(numbers[0] or 0, (numbers[0] or 0) + len(numbers))]
        if len(columns) <= len(labels) and (rising or not any(n is not None for n in numbers)):
            return {pattern: "..."}
        found: dict[str, str] = dict(zip(columns, labels, strict=False)) if steps else {}
        if not steps:
            for column, text in zip(columns, texts, strict=True):
                ending = [label for label in labels if label.endswith(text)]
                found |= {column: ending[0]} if len(ending) == 1 else {}
        if missing := [column for column in columns if column not in found]:
            raise UserError(
                f"column '{missing[0]}' has no period of its own from {labels[0]} to {labels[-1]};"
                " give more periods, or begin again with periods of length 'step'"
            )
        return found


def period_length(column: str) -> str:
    """The length of periods that the name of their column tells; 'month' if it tells none."""
    folded = column.casefold()
    return next((e for e, words in _LENGTHS.items() if folded in words), "month")


def study_name(text: str) -> str:
    """A name that a study file accepts: letters, digits, '.', '_' and '-'."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:64] or "study"


def attribute_names(columns: Sequence[str]) -> dict[str, str]:
    """By column, a name of an attribute that a study file accepts, each once."""
    named: dict[str, str] = {}
    for column in columns:
        name = study_name(column.casefold())
        while name in named.values():
            name = f"{name[:60]}-{len(named) + 1}"
        named[column] = name
    return named
