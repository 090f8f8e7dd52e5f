"""Structural rules of groups: combinations of members that cannot occur in the world.

A rule compares whole numbers of two roles, or of a role with a constant:

    child.age + 12 <= head.age
    spouse.age >= 16

`<` and `>` are orders, too. The roles are the keys of `[groups.roles]`: head, spouse, child, and
other for everybody else. A rule holds for every member with its role, or for every pair of members
with its two roles. A member without a number, who is 'absent' in the column, keeps every rule.
Rules are public: they come from the world, never from the data.

Heads and spouses of a group are adults by the age of majority of a country (`AGES`):

    adults of DE: age

is `head.age >= 18` and `spouse.age >= 18`. Some people marry or keep house as minors, with a
court's or their parents' leave; no synthetic person does under this rule.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from stream_dp.errors import UserError

from .families import Family
from .field_types import ABSENT, NAME_PATTERN, Symbol

if TYPE_CHECKING:
    from .study import Study
    from .table_releases import DataSetRelease

HEAD, SPOUSE, CHILD, OTHER = RULE_ROLES = ("head", "spouse", "child", "other")
MOST_RULES = 64
_NUMBER = r"(-?\d{1,9})"
_COLUMN = rf"({NAME_PATTERN})(?: ([+-]) (\d{{1,9}}))?"
_OF_ROLES = rf"(?:{_NUMBER}|({'|'.join(RULE_ROLES)})\.{_COLUMN})"
_OF_COLUMNS = rf"(?:{_NUMBER}|(){_COLUMN})"
Numbers = tuple[int | None, ...]  # by code of a column: its number, None for 'absent'
Solution = dict["Variable", int]


@dataclass(frozen=True)
class Variable:
    """A column of the members of a role; of a table of people, whose rules have no roles, ''."""

    role: str
    column: str


@dataclass(frozen=True)
class Rule:
    """The rule low + gap <= high. A missing variable counts as 0, and at most one is missing.

    text: the rule as it was declared.
    """

    text: str
    low: Variable | None
    high: Variable | None
    gap: int

    @staticmethod
    def read(text: str) -> Rule:
        """Reads a rule about roles. Raises UserError for a text other than a rule."""
        rule = Rule._read(text, _OF_ROLES)
        if rule is None:
            raise UserError(
                "is no rule; write such as 'child.age + 12 <= head.age' or 'spouse.age >= 16'"
            )
        if rule.low is None and rule.high is None:
            raise UserError("compares two constants; name a role, such as head.age")
        if rule.low is not None and rule.high is not None and rule.low.role == rule.high.role:
            raise UserError(f"compares '{rule.low.role}' with itself; name two roles")
        return rule

    @staticmethod
    def of_columns(text: str) -> Rule | None:
        """Reads a rule about the columns of a table of people; None for another text."""
        return Rule._read(text, _OF_COLUMNS)

    @staticmethod
    def _read(text: str, side: str) -> Rule | None:
        match = re.fullmatch(f"{side} (<=|>=|<|>) {side}", text)
        if match is None:
            return None
        groups = match.groups()
        sides = [_side(*groups[:5]), _side(*groups[6:])]
        order = groups[5]
        (low, below), (high, above) = sides if order[0] == "<" else reversed(sides)
        return Rule(text, low, high, below - above + (len(order) == 1))

    @property
    def variables(self) -> tuple[Variable, ...]:
        return tuple(v for v in (self.low, self.high) if v is not None)

    @property
    def roles(self) -> frozenset[str]:
        return frozenset(v.role for v in self.variables)


def _side(
    number: str | None, role: str, column: str, sign: str | None, shift: str
) -> tuple[Variable | None, int]:
    """The variable of a side of a rule, and the constant added to it."""
    if number is not None:
        return None, int(number)
    return Variable(role, column), 0 if sign is None else int(f"{sign}{shift}")


def column_numbers(symbols: Iterable[Symbol]) -> Numbers | None:
    """The numbers of a column's symbols. None for a column with a text other than 'absent'."""
    numbers = tuple(None if s == ABSENT else s for s in symbols)
    if any(isinstance(n, str) for n in numbers) or not any(n is not None for n in numbers):
        return None
    return tuple(n if isinstance(n, int) else None for n in numbers)


def rule_faults(
    declared: Sequence[Sequence[Rule]],
    columns: Mapping[str, Sequence[Symbol]],
    *,
    others: bool,
    most: int,
) -> Iterator[str]:
    """The faults of sound texts, to be put after the rules' key in the file.

    declared: the rules of each text.
    columns: the symbols of the release's columns of people, by name.
    others: whether members may be neither head, spouse nor child.
    most: the members of the largest group.
    """
    rules = [rule for release_rules in declared for rule in release_rules]
    if len(rules) > MOST_RULES:
        yield f": {len(rules)} are more than {MOST_RULES}; leave some out"
        return
    numbers = {name: column_numbers(symbols) for name, symbols in columns.items()}
    sound = True
    for index, release_rules in enumerate(declared):
        for variable in (v for rule in release_rules for v in rule.variables):
            fault = None
            if variable.role == OTHER and not others:
                fault = "no member is an other: [groups.roles] declares no others"
            elif variable.column not in numbers:
                fault = f"'{variable.column}' is none of the release's attributes"
            elif numbers[variable.column] is None:
                fault = f"'{variable.column}' has no order: its values must be whole numbers"
            if fault is not None:
                sound = False
                yield f".{index}: {fault}"
    if sound:
        yield from _contradictions(rules, numbers, most)


def _contradictions(
    rules: Sequence[Rule], numbers: Mapping[str, Numbers | None], most: int
) -> Iterator[str]:
    """The first kind of group without allowed values, with the contradicting rules."""
    sorted_numbers = {
        v: tuple(sorted(n for n in numbers[v.column] or () if n is not None))
        for rule in rules
        for v in rule.variables
    }
    roles = [role for role in RULE_ROLES[1:] if any(role in rule.roles for rule in rules)]
    for size in range(min(len(roles), most - 1) + 1):
        for present in combinations(roles, size):
            binding = [rule for rule in rules if rule.roles <= {HEAD, *present}]
            if least_solution(binding, sorted_numbers) is None:
                for rule in tuple(binding):
                    rest = [r for r in binding if r is not rule]
                    if least_solution(rest, sorted_numbers) is None:
                        binding = rest
                members = " and ".join((HEAD, *present))
                texts = ", ".join(f"'{rule.text}'" for rule in binding)
                yield f": no group with {members} can keep {texts}; change or leave out one"
                return


def least_solution(
    rules: Iterable[Rule],
    numbers: Mapping[Variable, Sequence[int]],
    start: Mapping[Variable, int] | None = None,
) -> Solution | None:
    """The solution with the least number of every variable, or None without a solution.

    numbers: the increasing numbers of each variable of the rules.
    start: lower bounds of variables.

    Bounds only rise from the start, to the next number that a rule allows. So every solution lies
    above them, and they end at a solution or beyond some last number.
    """
    rules = tuple(rules)
    solution: Solution = {}
    for variable in {v for rule in rules for v in rule.variables} | {*(start or {})}:
        index = bisect_left(numbers[variable], (start or {}).get(variable, numbers[variable][0]))
        if index == len(numbers[variable]):
            return None
        solution[variable] = numbers[variable][index]
    moved = True
    while moved:
        moved = False
        for rule in rules:
            bound = rule.gap + (solution[rule.low] if rule.low is not None else 0)
            if rule.high is None:
                if bound > 0:
                    return None
            elif solution[rule.high] < bound:
                index = bisect_left(numbers[rule.high], bound)
                if index == len(numbers[rule.high]):
                    return None
                solution[rule.high], moved = numbers[rule.high][index], True
    return solution


_ADULTS = re.compile(rf"adults of (\S+): ({NAME_PATTERN})")
AGES = {
    "AT": 18,  # Allgemeines buergerliches Gesetzbuch, section 21
    "AU": 18,  # Age of Majority Acts of the states and territories
    "BE": 18,  # Ancien Code civil, article 388
    "BR": 18,  # Codigo Civil, article 5
    "CA": 18,  # the lowest of the provinces' ages, which are 18 and 19
    "CH": 18,  # Zivilgesetzbuch, article 14
    "DE": 18,  # Buergerliches Gesetzbuch, section 2
    "DK": 18,  # Vaergemalsloven, section 1
    "ES": 18,  # Constitucion, article 12
    "FI": 18,  # Laki holhoustoimesta, section 2
    "FR": 18,  # Code civil, article 414
    "GB": 16,  # the lowest of its parts: Age of Legal Capacity (Scotland) Act 1991
    "IE": 18,  # Age of Majority Act 1985, section 2
    "IN": 18,  # Majority Act 1875, section 3
    "IT": 18,  # Codice civile, article 2
    "JP": 18,  # Civil Code, article 4
    "KR": 19,  # Civil Act, article 4
    "MX": 18,  # Constitucion, article 34
    "NL": 18,  # Burgerlijk Wetboek, article 1:233
    "NO": 18,  # Vergemalsloven, section 8
    "PL": 18,  # Kodeks cywilny, article 10
    "PT": 18,  # Codigo Civil, article 130
    "SE": 18,  # Foeraldrabalken, chapter 9, section 1
    "US": 18,  # the lowest of the states' ages, which are 18, 19 and 21
    "ZA": 18,  # Children's Act 38 of 2005, section 17
}


_AGE = re.compile(r"(.*[_.-])?(age|agep)([_.-].*)?", re.IGNORECASE)  # names of columns of ages


def rule_advice(study: Study, release: DataSetRelease) -> Iterator[str]:
    """A line for a release of relatives with ages and without rules, from the names alone."""
    roles = None if study.groups is None else study.groups.roles
    if release.family != Family.HOUSEHOLDS or roles is None or release.structural_rules:
        return
    for name in release.names if "rules" in release.data_set.settings else ():
        if _AGE.fullmatch(name) and column_numbers(study.attributes[name].symbols):
            yield (
                "no rules: a synthetic head may be a minor, or a child older than the head; declare"
                f' rules = ["adults of COUNTRY: {name}", "child.{name} + 12 <= head.{name}"];'
                " none holds by default, because the age of majority is a country's, and a study"
                " declares no country unless a rule names it"
            )
            return


def read_group_rules(text: str) -> tuple[Rule, ...]:
    """Reads a declared rule of groups. Raises UserError for a text other than a rule."""
    adults = _ADULTS.fullmatch(text)
    if adults is None:
        return (Rule.read(text),)
    country, column = adults.groups()
    if country not in AGES:
        raise UserError(
            f"no age of majority of '{country}' is known, but of {', '.join(AGES)}; write such as"
            f" 'head.{column} >= 18'"
        )
    return tuple(Rule.read(f"{role}.{column} >= {AGES[country]}") for role in (HEAD, SPOUSE))
