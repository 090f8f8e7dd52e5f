"""Groups and their members: the declared columns, and the data as arrays of codes.

The size of a group is an attribute of the group: the last column of `Hierarchy.groups`, with code
size - 1. People and their events have the same form: a person is a group, and may have none, so
that the code is the size. If a person column states roles, every group has exactly one head, at
most one spouse and a bounded number of children; people with any other value of that column have
no relatives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.study.group_releases import SIZE_COLUMN
from stream_dp.study.structural_rules import CHILD, HEAD, RULE_ROLES, SPOUSE, Rule, Variable
from stream_dp.study.structural_rules import column_numbers as read_numbers

MOST_VALUES = 1 << 15  # of a column: the targets of queries are 16 bits, -1 is free

Codes = NDArray[np.integer]
Int64Array = NDArray[np.int64]
Columns = tuple[int, ...]  # numbers of columns


@dataclass(frozen=True)
class Column:
    """An attribute and its possible values, in code order.

    name: the attribute's.
    values: a value declared as 1 may be written 1 or '1' in the data.
    missing: the value of an empty cell; None: an empty cell is a fault.
    Raises UserError for a declaration that contradicts itself.
    """

    name: str
    values: tuple[int | str, ...]
    missing: int | str | None = None

    def __post_init__(self) -> None:
        texts = [str(v) for v in self.values]
        if not 1 <= len(texts) <= MOST_VALUES:
            raise UserError(f"column '{self.name}': declare 1 to {MOST_VALUES} values")
        if len(set(texts)) < len(texts) or "" in texts:
            raise UserError(f"column '{self.name}': a value is empty or stands there twice")
        if self.missing is not None and self.missing not in self.values:
            raise UserError(f"column '{self.name}': missing must be one of its values")

    def code(self, value: int | str) -> int:
        """The code of a value. Raises UserError for a value that is not declared."""
        if value not in self.values:
            raise UserError(f"column '{self.name}': {value} is none of its declared values")
        return self.values.index(value)

    def codes(self, cells: pa.Array) -> Int64Array:
        """(n,) codes of an array of text; -1 for a cell without a declared value."""
        from pyarrow import compute as pc  # takes long to import, and most commands read no cells

        if self.missing is not None:
            cells = cells.fill_null(str(self.missing))
        index = pc.index_in(cells, pa.array([str(v) for v in self.values], pa.string()))
        codes: Int64Array = index.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return codes


@dataclass(frozen=True)
class Roles:
    """The person column that states roles, and its values for three of them.

    column: its name.
    head, spouse, child: its values; people with any other value have no relatives in the group.
    children: the largest number of children.
    """

    column: str
    head: int | str
    spouse: int | str
    child: int | str
    children: int


@dataclass(frozen=True)
class Domain:
    """The declared columns of groups and people.

    group: attributes of groups, without the size.
    person: attributes of people.
    most: the largest number of members.
    roles: who is related to whom; None if that is unknown.
    rules: sound rules that every synthetic group keeps; real groups may break them.
    events: whether groups are people and members are their events. A person may have no event, and
        what is protected is a person with all events.
    All names are different. Raises UserError with a line for each fault.
    """

    group: tuple[Column, ...]
    person: tuple[Column, ...]
    most: int
    roles: Roles | None = None
    rules: tuple[Rule, ...] = ()
    events: bool = False

    def __post_init__(self) -> None:
        names = [c.name for c in (*self.group, *self.person)]
        lines = [f"column '{n}': declared twice" for n in sorted(set(names)) if names.count(n) > 1]
        if SIZE_COLUMN in names:
            lines.append(f"column '{SIZE_COLUMN}': reserved for the number of a group's members")
        if not self.person:
            lines.append("domain: declare at least one attribute of persons")
        if type(self.most) is not int or not 1 <= self.most <= 1000:
            lines.append("domain: the largest group must have 1 to 1000 members")
        if self.events and self.roles is not None:
            lines.append("domain: events have no roles")
        if self.roles is not None:
            if self.roles.column not in [c.name for c in self.person]:
                lines.append(f"roles: there is no person column '{self.roles.column}'")
            elif len(set(self.role_codes)) < 3:
                lines.append("roles: head, spouse and child must be three values")
            if not 1 <= self.roles.children < max(self.most, 2):
                lines.append("roles: children must be at least 1 and fewer than the largest group")
        if lines:
            raise UserError(lines)

    @property
    def least(self) -> int:
        """The smallest number of members."""
        return 0 if self.events else 1

    @property
    def tables(self) -> tuple[str, str]:
        """The names of the tables of groups and of members."""
        return ("people", "events") if self.events else ("groups", "people")

    @cached_property
    def group_columns(self) -> tuple[Column, ...]:
        """The columns of `Hierarchy.groups`: the group attributes, then the size."""
        return (*self.group, Column(SIZE_COLUMN, tuple(range(self.least, self.most + 1))))

    @cached_property
    def group_values(self) -> tuple[int, ...]:
        """How many values each column of `Hierarchy.groups` has, the size last."""
        return tuple(len(c.values) for c in self.group_columns)

    @cached_property
    def person_values(self) -> tuple[int, ...]:
        """How many values each column of `Hierarchy.people` has."""
        return tuple(len(c.values) for c in self.person)

    @cached_property
    def role_column(self) -> int:
        """Index of the person column that states roles. Raises ValueError without roles."""
        if self.roles is None:
            raise ValueError("the domain declares no roles")
        return [c.name for c in self.person].index(self.roles.column)

    @cached_property
    def role_codes(self) -> tuple[int, int, int]:
        """The codes of head, spouse and child. Raises ValueError without roles."""
        column, roles = self.person[self.role_column], self.roles
        assert roles is not None
        return column.code(roles.head), column.code(roles.spouse), column.code(roles.child)


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """G groups and their N members. Confidential, unless it is synthetic.

    domain: the columns and their values.
    groups: (G, group columns) codes, the size last.
    people: (N, person columns) codes.
    group_of: int64 (N,), the row of each person's group, in increasing order.
    Codes may be of any integer type, and are stored as 8 or 16 bits. Raises ValueError unless every
    group has least..most members, its size agrees, codes lie in their columns and roles are as
    declared.
    """

    domain: Domain
    groups: Codes
    people: Codes
    group_of: Int64Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", compact_codes(self.groups, self.domain.group_values))
        object.__setattr__(self, "people", compact_codes(self.people, self.domain.person_values))
        object.__setattr__(self, "group_of", np.ascontiguousarray(self.group_of, np.int64))
        if self.group_of.shape != (self.N,) or (np.diff(self.group_of) < 0).any():
            raise ValueError("group_of must hold a group for each person, in increasing order")
        if self.N and not 0 <= self.group_of[0] <= self.group_of[-1] < self.G:
            raise ValueError("a person belongs to a group that is not there")
        sizes = np.bincount(self.group_of, minlength=self.G)
        least, most = self.domain.least, self.domain.most
        if ((sizes < least) | (sizes > most)).any():
            raise ValueError(f"a group has not between {least} and {most} members")
        if (self.groups[:, -1] != sizes - least).any():
            raise ValueError("a group's size is not the number of its members")
        for fault, _ in role_faults(self.domain, self.people, self.group_of, self.G):
            raise ValueError(f"a group has {fault}")

    @property
    def G(self) -> int:
        return int(self.groups.shape[0])

    @property
    def N(self) -> int:
        return int(self.people.shape[0])

    @cached_property
    def starts(self) -> Int64Array:
        """(G + 1,): the first person of every group, and N."""
        return np.searchsorted(self.group_of, np.arange(self.G + 1))

    def part(self, first: int, last: int) -> Hierarchy:
        """Groups first..last-1 with their members."""
        a, b = self.starts[first], self.starts[last]
        group_of = self.group_of[a:b] - first
        return Hierarchy(self.domain, self.groups[first:last], self.people[a:b], group_of)


def role_faults(
    domain: Domain, people: NDArray[np.integer], group_of: Int64Array, groups: int
) -> Iterator[tuple[str, Int64Array]]:
    """Yields the faults of the roles in words, with the faulty groups."""
    if domain.roles is None:
        return
    role = people[:, domain.role_column]
    heads, spouses, children = (
        np.bincount(group_of[role == code], minlength=groups) for code in domain.role_codes
    )
    limit = domain.roles.children
    for text, wrong in (
        ("no head", heads < 1),
        ("more than one head", heads > 1),
        ("more than one spouse", spouses > 1),
        (f"more than {limit} children", children > limit),
    ):
        if wrong.any():
            yield text, np.flatnonzero(wrong)


def compact_codes(codes: NDArray[np.integer], values: tuple[int, ...]) -> Codes:
    """Codes in 8 bits, or 16. Raises ValueError for codes outside their columns."""
    codes = np.asarray(codes)
    if codes.ndim != 2 or codes.shape[1] != len(values):
        raise ValueError("codes must have a row for each record and a column for each attribute")
    if ((codes < 0) | (codes >= np.array(values, np.int64))).any():
        raise ValueError("a code lies outside its column")
    return np.ascontiguousarray(codes, np.uint8 if max(values) <= 256 else np.uint16)


_LOWEST, _HIGHEST = -(1 << 62), 1 << 62  # stand for a number that nobody has


def numbers_by_code(domain: Domain, column: int) -> tuple[int | None, ...] | None:
    """The number of every code of a person column, None for the code of 'absent'.

    None instead of the tuple for a column of texts.
    """
    return read_numbers(domain.person[column].values)


def column_numbers(domain: Domain, column: int) -> tuple[int | None, ...]:
    """The number of every code of a person column, None for the code of 'absent'."""
    numbers = numbers_by_code(domain, column)
    assert numbers is not None, "rules are about whole numbers"
    return numbers


def groups_that_break(hierarchy: Hierarchy, rule: Rule) -> NDArray[np.bool_]:
    """(G,) whether each group breaks the rule low + gap <= high for some pair of members.

    A group breaks it exactly if its largest low + gap is above its smallest high. A missing
    variable is 0. Confidential, unless the groups are synthetic.
    """
    largest_low = np.full(hierarchy.G, _LOWEST if rule.low is not None else rule.gap)
    smallest_high = np.full(hierarchy.G, _HIGHEST if rule.high is not None else 0)
    if rule.low is not None:
        group, number = _numbers(hierarchy, rule.low)
        np.maximum.at(largest_low, group, number + rule.gap)
    if rule.high is not None:
        group, number = _numbers(hierarchy, rule.high)
        np.minimum.at(smallest_high, group, number)
    return largest_low > smallest_high


def _numbers(
    hierarchy: Hierarchy, variable: Variable
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(n,) the group and (n,) the number of every member with the variable's role and a number."""
    domain = hierarchy.domain
    column = [c.name for c in domain.person].index(variable.column)
    numbers = column_numbers(domain, column)
    has_number = np.array([n is not None for n in numbers])
    by_code = np.array([n if n is not None else 0 for n in numbers], np.int64)
    codes = hierarchy.people[:, column]
    role = hierarchy.people[:, domain.role_column]
    named = dict(zip((HEAD, SPOUSE, CHILD), domain.role_codes, strict=True))
    if variable.role in named:
        member = role == named[variable.role]
    else:
        assert variable.role == RULE_ROLES[-1]
        member = ~np.isin(role, domain.role_codes)
    rows = np.flatnonzero(member & has_number[codes])
    return hierarchy.group_of[rows], by_code[codes[rows]]
