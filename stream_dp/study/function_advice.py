"""Columns that look like public functions of others, by their names and declared values alone.

Nothing here looks at data. The column `trade_group` may follow from `trade` because of its name.
Its values say so as well if each code of `trade` begins with one of the group's codes, or if each
number lies in one of the group's ranges. The person who declares the study decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .families import Family

if TYPE_CHECKING:
    from .study import Study
    from .table_releases import DataSetRelease

_COARSER = re.compile(
    r"[_. -]?(cat|category|groups?|grp|class|band|bracket|decile|quintile|quartile|recode|major"
    r"|section|division|broad)\d?",
    re.IGNORECASE,
)
_RANGE = re.compile(r"(-?\d+)(?: ?(?:-|\.\.|to) ?(-?\d+)| ?(\+| and (?:over|more|older)))")
_MOST_SHOWN = 12  # values of a function


class LikelyFunction(NamedTuple):
    """A column that is named after another column and has fewer values.

    fine, coarse: the names of the columns.
    values: by value of `fine`, the value of `coarse`, as `function_of` gives them.
    """

    fine: str
    coarse: str
    values: dict[str, str] | None


def likely_functions(columns: Mapping[str, Sequence[str]]) -> Iterator[LikelyFunction]:
    """The pairs of columns that look like functions. columns: by name, the listed values."""
    for fine, texts in columns.items():
        for coarse, fewer in columns.items():
            rest = coarse[len(fine) :] if coarse.lower().startswith(fine.lower()) else ""
            if len(fewer) < len(texts) and _COARSER.fullmatch(rest):
                yield LikelyFunction(fine, coarse, function_of(fewer, texts))


def function_of(coarse: Sequence[str], fine: Sequence[str]) -> dict[str, str] | None:
    """The value of `coarse` for each of `fine`, by the texts alone; None if a value has no single.

    >>> function_of(("1", "2"), ("10", "11", "20"))
    {'10': '1', '11': '1', '20': '2'}
    >>> function_of(("0-17", "18-64", "65+"), ("17", "18", "80"))
    {'17': '0-17', '18': '18-64', '80': '65+'}
    """
    values = dict[str, str]()
    for text in fine:
        found = [label for label in coarse if label == text]
        found = found or [label for label in coarse if _within(text, label)]
        if not found and not any(_RANGE.fullmatch(label) for label in coarse):
            found = [label for label in coarse if text.startswith(label)]
        if len(found) != 1:
            return None
        values[text] = found[0]
    return values


def _within(text: str, label: str) -> bool:
    """Whether a number lies in a range like 18-64 or 65+."""
    ends = _RANGE.fullmatch(label)
    if ends is None or not re.fullmatch(r"-?\d{1,9}", text):
        return False
    first, last, _ = ends.groups()
    return int(first) <= int(text) and (last is None or int(text) <= int(last))


def function_advice(study: Study, release: DataSetRelease) -> Iterator[str]:
    """A line per pair of columns that looks like a function and is not declared as one."""
    if release.family != Family.PEOPLE:
        return
    ruled = {frozenset(rule.columns) for rule in release.column_rules}
    attributes = {answer.column: study.attributes[answer.attribute] for answer in release.answers}
    columns = {n: [*map(str, a.symbols)] for n, a in attributes.items() if a.numbers is None}
    for fine, coarse, values in likely_functions(columns):
        if frozenset((fine, coarse)) in ruled:
            continue
        line = f"'{coarse}' looks like a public function of '{fine}', by its name"
        if values is not None:
            line += " and values"
        line += f"; if so, declare [releases.derived.{coarse}], or rows may contradict it"
        if values is not None and len(values) <= _MOST_SHOWN:
            shown = ", ".join(f'"{value}" = "{of}"' for value, of in values.items())
            line += f": values = {{ {shown} }}"
        yield line
