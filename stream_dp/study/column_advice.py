"""Columns that look like functions of others or stand in an order, by names and labels alone.

Nothing here looks at data. Of declared values their range alone counts. The person who declares the
study decides.

The column `trade_group` may follow from `trade` because of its name. Its values say so as well if
each code of `trade` begins with one of the group's codes, or if each number lies in one of the
group's ranges.

Five kinds of names of numbers are known to be in order:

    job_start_year <= job_end_year     two ends of the same thing, in years, dates or ages
    hours_min <= hours_max             a smallest and a largest number of the same thing
    age_first_job <= age               an age at an event, or years of something, and the age
    birth_year <= hired_year           the year of birth and a later year
    hh_children <= hh_size             some members of a household, and all

Clock times, months and days start again, so a start may be above an end. Amounts at a start and at
an end are in no order. So every word of a name must be known; a name with another word says
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

from .attribute import Attribute
from .column_rules import attribute_cells, column_rule_faults, read_column_rule
from .families import Family

if TYPE_CHECKING:
    from .study import Study
    from .table_releases import DataSetRelease


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_FIRST_YEAR, _LAST_YEAR = 1800, 2200


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_FILLERS = _set(
    "a an at by did do does for he her his how i in my of old on respondent respondents person"
    " persons she the they their was were what when which you your r p"
)
_CALENDAR = _set("date year years yr yrs yyyy calendar")
_AGE = frozenset({"age"})
_SUBJECTS = _set(
    "care college contract course current education employment first job lease last main marriage"
    " membership military position present previous program programme project relationship"
    " residence school schooling service smoking spell stay studies study tenure therapy training"
    " treatment unemployment university work"
)
_EARLIER = {
    "start": "end",
    "started": "ended finished stopped",
    "starting": "ending",
    "begin": "end",
    "began": "ended finished stopped",
    "beginning": "end",
    "first": "last",
    "from": "to until",
    "entry": "exit",
    "entered": "left",
    "arrived": "left",
    "birth": "death",
    "born": "died",
    "hired": "left",
    "admission": "discharge",
    "admitted": "discharged",
    "enrolled": "graduated",
    "enrollment": "graduation",
    "opened": "closed",
}
_ENDS = frozenset((low, high) for low, highs in _EARLIER.items() for high in highs.split())
_LIMITS = frozenset({("min", "max"), ("minimum", "maximum"), ("lowest", "highest")})
_EVENTS = _set(
    "admission admitted arrival arrived began diagnosed diagnosis employed enrolled enrollment"
    " entered entry graduated graduation hired immigrated immigration interview left marriage"
    " married onset start started survey"
)
_BIRTH = frozenset({"birth", "born"})
_LASTING = _set(
    "education employed employment experience job married marriage residence school schooling"
    " smoked smoking studied tenure work worked working"
)
_MEMBERS = _set("adults children earners infants kids workers")
_COUNTED = _set("count n nr num number total")
_HOUSEHOLD = _set("family hh household")


def likely_orders(texts: Mapping[str, str], attributes: Mapping[str, Attribute]) -> Iterator[str]:
    """Rules like `start <= end` that names or labels suggest.

    texts: by column, its label, or its name where it has none.
    attributes: sound, by column. Columns without whole numbers are in no rule. Numbers from
        1800 to 2200 are years.
    """
    words = dict[str, frozenset[str]]()
    for name, text in texts.items():
        numbers = [
            (c.least, c.most)
            for c in attribute_cells(attributes[name])
            if c.least is not None and c.most is not None
        ]
        if numbers:
            years = all(first >= _FIRST_YEAR and last <= _LAST_YEAR for first, last in numbers)
            words[name] = _words(text) | ({"year"} if years else frozenset())
    for low, high in permutations(words, 2):
        rule = f"{low} <= {high}"
        if _in_order(words[low], words[high]) and not any(
            column_rule_faults([read_column_rule(rule)], attributes)
        ):
            yield rule


def _words(text: str) -> frozenset[str]:
    """The words of a name or a label, without those that say nothing."""
    return frozenset(word.lower() for word in _WORD.findall(text)) - _FILLERS


def _in_order(low: frozenset[str], high: frozenset[str]) -> bool:
    """Whether the words of two columns say that the first is never above the second."""
    return (
        _are_ends(low, high)
        or (_is_own_age(high) and (_is_age_at_event(low) or _is_duration(low)))
        or (_is_birth_year(low) and _is_later_year(high))
        or (_is_part_of_household(low, high) and _is_household_size(high))
    )


def _are_ends(low: frozenset[str], high: frozenset[str]) -> bool:
    """Two names that differ in one word each: `job_start_year` and `job_end_year`."""
    if len(low - high) != 1 or len(high - low) != 1:
        return False
    (earlier,), (later,), common = low - high, high - low, low & high
    pair = earlier, later
    if pair in _LIMITS:
        return bool(common)
    times = common & (_CALENDAR | _AGE)
    is_time = bool(times) and common <= times | _SUBJECTS
    return pair in _ENDS and is_time


def _is_own_age(words: frozenset[str]) -> bool:
    return "age" in words and words <= {"age", "years", "current", "interview", "survey", "now"}


def _is_age_at_event(words: frozenset[str]) -> bool:
    """`age_first_job`, `age_at_marriage`: an age at something that has happened."""
    events = (words & _EVENTS) | (words & {"first"} if words & _SUBJECTS - {"first"} else set())
    return "age" in words and bool(events) and words <= _AGE | _EVENTS | _SUBJECTS


def _is_duration(words: frozenset[str]) -> bool:
    """`years_of_schooling`."""
    return bool(words & _LASTING) and "years" in words and words <= _LASTING | _SUBJECTS | {"years"}


def _is_birth_year(words: frozenset[str]) -> bool:
    if words - _CALENDAR == {"yob"}:
        return True
    return bool(words & _BIRTH) and bool(words & _CALENDAR) and words <= _BIRTH | _CALENDAR


def _is_later_year(words: frozenset[str]) -> bool:
    """`hired_year`, `year_of_first_marriage`."""
    known = _CALENDAR | _EVENTS | _SUBJECTS
    return bool(words & _CALENDAR) and bool(words & _EVENTS) and words <= known


def _is_part_of_household(words: frozenset[str], size: frozenset[str]) -> bool:
    """`hh_children`; children without a household may have left it, and adults the family."""
    known = _MEMBERS | _COUNTED | _HOUSEHOLD
    home = "family" in words or (bool(words & _HOUSEHOLD) and "family" not in size)
    return bool(words & _MEMBERS) and home and words <= known


def _is_household_size(words: frozenset[str]) -> bool:
    return bool(words & _HOUSEHOLD) and "size" in words and words <= _HOUSEHOLD | {"size"}


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
