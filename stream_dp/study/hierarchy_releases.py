"""The common keys of tables of groups with members, and of people with their events."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from typing import Annotated, NamedTuple

from pydantic import Field

from .table_releases import TableRelease

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
