"""Declarations of groups, of tables of groups with their members, and of people with their events.

Who belongs to which group, the groups' sizes and attributes come from a table of their own, once,
before the study begins, and never from anybody's report. Events are trips, visits, jobs, days of a
diary.
"""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from functools import cached_property
from typing import Annotated, NamedTuple

from pydantic import Field

from stream_dp.errors import UserError

from .field_types import Declaration, Name, Probability, Symbol, UnlessOff
from .structural_rules import Rule, read_group_rules
from .table_releases import (
    EventsKind,
    HouseholdsKind,
    NoneIfEmpty,
    PastAnswer,
    RuleText,
    TableRelease,
    rule_text,
)

# Reserved names of columns: a member's group, an event's person, and a group's size.
KEY_COLUMN, PERSON_COLUMN, SIZE_COLUMN = "group", "person", "size"
ROWS, RELATIONS = 200, Fraction(1, 2)  # where a release does not declare them
Count = Annotated[int, Field(ge=1, le=10**6, strict=True)]


class Link(NamedTuple):
    """Two published tables, of which the rows of the second belong to rows of the first.

    owners, members: the names of the tables.
    key: the column of members with the row of the owner.
    """

    owners: str
    members: str
    key: str


LINKS = Link("groups", "people", KEY_COLUMN), Link("people", "events", PERSON_COLUMN)


def linked(tables: Collection[str]) -> Link | None:
    """The link of the tables of a data set; None for a single table of people."""
    return next((link for link in LINKS if {link.owners, link.members} <= {*tables}), None)


class HierarchyRelease(TableRelease):
    """A synthetic data set of two tables, drawn anew when certain periods close."""

    attributes: Annotated[tuple[str, ...], Field(min_length=1, max_length=64)]
    """The attributes of people, from their reports. A person without an answer gets
    the symbol of the attribute's `missing` rule."""
    rounds: Count = 20
    """The largest number of rounds. A round selects and measures badly answered marginals."""
    per_round: Count = 1
    """The number of marginals that a round selects and measures."""
    rows: Count | None = None
    """The number of components of the mixture, 200 by default."""
    ways: Annotated[int, Field(ge=1, le=8, strict=True)] = 3
    """The number of attributes of a query."""

    @property
    def share_of_relatives(self) -> Fraction:
        """The part of rho that measures relatives, where there are roles."""
        return RELATIONS

    @property
    def fitted_rows(self) -> int:
        """The rows of a mixture."""
        return self.rows or ROWS


BATCH_RELATION = "replace_in_place"  # the only one with a proved cost of batch releases
_OPTIONAL = {"rows", "relations", "rules", "fuse"}  # stated in a certificate where they apply


class GroupAttribute(Declaration):
    """A public property of a group, for example the region, and the possible values."""

    declared_values: Annotated[tuple[Symbol, ...], Field(min_length=1, max_length=1 << 15)] = Field(
        alias="values"
    )
    """The possible values of the property, integers or text."""

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The possible values in code order."""
        return self.declared_values


class RoleColumn(Declaration):
    """The column of the table of members with the head, spouse and children of a group.

    Roles stay the same over all periods, as membership does. Every group has exactly one head, at
    most one spouse of the head, and at most `children` children of both; others are related to
    nobody.
    """

    column: Name
    """The column's name."""
    head: Symbol
    """The value of the column for the head of a group. Every group has exactly one."""
    spouse: Symbol
    """The value of the column for the spouse of the group's head, at most one."""
    child: Symbol
    """The value of the column for a child of the group's head and spouse."""
    others: tuple[Symbol, ...] = ()
    """The other values of the column, for people who are related to nobody in the group."""
    children: Annotated[int, Field(ge=1, le=999, strict=True)]
    """The largest number of children in a group."""

    @property
    def values(self) -> tuple[Symbol, ...]:
        return (self.head, self.spouse, self.child, *self.others)


class Groups(Declaration):
    """The groups of people; the table of groups is sent once, before the study begins."""

    unit: Annotated[str, Field(min_length=1, max_length=64)]
    """The word for a group, such as household."""
    most: Annotated[int, Field(ge=1, le=1000, strict=True)]
    """The largest number of members of a group."""
    attributes: dict[Name, GroupAttribute] = Field(default_factory=dict)
    """`[groups.attributes.NAME]`: public properties of a group, such as its region."""
    roles: RoleColumn | None = None
    """`[groups.roles]`: who is head of the group, spouse and child, if relatives matter."""

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The columns of values in the tables of groups and members."""
        return (*self.attributes, *(() if self.roles is None else (self.roles.column,)))


class BatchRelease(HierarchyRelease):
    """A synthetic data set of groups with their members, drawn anew when certain periods close."""

    kind: HouseholdsKind
    """The synthesizer."""
    relations: Probability | None = None
    """The part of `rho` that measures relatives of `[groups.roles]`. By default 1/2."""
    rules: Annotated[
        tuple[Annotated[RuleText, rule_text(read_group_rules)], ...] | None, NoneIfEmpty
    ] = None
    """Rules such as `["child.age + 12 <= head.age", "adults of DE: age"]`. Every synthetic group
    satisfies every rule. Needs `[groups.roles]`."""
    fuse: UnlessOff = None
    """By default each data set of a schedule also uses the measurements of the release in earlier
    periods, free of charge. `false` fits every data set alone."""

    @property
    def fused(self) -> bool:
        """Whether each data set also uses the measurements of those of earlier periods."""
        return "fuse" in self.data_set.settings and self.fuse is not False

    @property
    def share_of_relatives(self) -> Fraction:
        """The part of rho for relatives, `relations` or its default."""
        return self.relations or RELATIONS

    @property
    def needs_members(self) -> bool:
        """Whether a fit needs the members of groups: always."""
        return True

    @property
    def structural_rules(self) -> tuple[Rule, ...]:
        """The rules, read."""
        return tuple(rule for text in self.rules or () for rule in read_group_rules(text))

    def settings(self, roles: bool) -> dict[str, object]:
        """The parameters of the kind in this declaration, defaults included, as JSON values.

        roles: whether the groups declare roles.
        """
        used = set(self.data_set.settings)
        settings = self.model_dump(mode="json", include=used - _OPTIONAL)
        if "rows" in used:
            settings["rows"] = self.fitted_rows
        if roles and "relations" in used:
            settings["relations"] = str(self.share_of_relatives)
        if roles and "rules" in used:
            settings["rules"] = list(self.rules or ())
        if self.fuse is not None:
            settings["fuse"] = self.fuse
        return settings


def check_relation(neighbours: str) -> None:
    """Raises UserError unless the cost of batch releases is proved under a relation."""
    if neighbours != BATCH_RELATION:
        raise UserError(
            f"neighbours: what releases of groups and members cost under '{neighbours}' is not"
            f" proved; declare neighbours = '{BATCH_RELATION}', or leave such releases out"
        )


MOST_SLOTS = 64  # events of a person in a period


def slot_attribute(name: str, number: int) -> str:
    """The attribute of a person's event of a number, from 1: `mode_3` of the third one."""
    return f"{name}_{number}"


class Events(Declaration):
    """The events of a person in a period."""

    unit: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9 _-]{0,63}$")]
    """The word for an event, such as trip."""
    columns: Annotated[tuple[Name, ...], Field(min_length=1, max_length=16)]
    """The columns of an event, such as `["mode", "purpose"]`: attributes with `slots`. An event
    without a value in the first column does not count."""
    most: Annotated[int, Field(ge=1, le=MOST_SLOTS, strict=True)]
    """How many events a person has in a period, at most; the `slots` of every column."""


class EventsRelease(HierarchyRelease):
    """A synthetic table of people and one of their events, drawn anew when certain periods close.

    Every declared person is a row of the first table. The column `size` is the number of events.
    """

    kind: EventsKind
    """The synthesizer."""
    events: Events
    """`[releases.events]`: what people do several times in a period."""

    @cached_property
    def answers(self) -> tuple[PastAnswer, ...]:
        """The people's attributes, then the slots of every column of events."""
        names = (*self.attributes, *(name for slots in self.slots for name in slots))
        return tuple(PastAnswer(name, 0) for name in names)

    @property
    def columns_text(self) -> str:
        """The columns of both tables."""
        return ", ".join((*self.attributes, SIZE_COLUMN, *self.events.columns))

    @property
    def slots(self) -> tuple[tuple[str, ...], ...]:
        """By column of events, the attributes of the first to the last event."""
        numbers = range(1, self.events.most + 1)
        return tuple(
            tuple(slot_attribute(column, number) for number in numbers)
            for column in self.events.columns
        )

    @property
    def row_units(self) -> dict[str, str]:
        return {"events": self.events.unit}
