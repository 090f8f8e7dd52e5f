"""Groups of people, and batch releases of groups with their members: what a study declares.

Who belongs to which group, the groups' sizes and attributes come from a table of their own, once,
before the study begins, and never from anybody's report.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from .declared import Declared, Name, Rho, Symbol

Kind = Literal["independent", "mwem", "hpd-fixed", "hpd-gen"]
KINDS: tuple[str, ...] = get_args(Kind)
_Count = Annotated[int, Field(ge=1, le=10**6, strict=True)]


class GroupAttribute(Declared):
    """A public property of a group, such as its region, and its possible values."""

    values: Annotated[tuple[Symbol, ...], Field(min_length=1, max_length=1 << 15)]


class RoleColumn(Declared):
    """Who is who in a group, in a column of the table of members: it stays, as membership does.

    Every group has exactly one head, at most one spouse, of the head, and at most `children`, of
    both; others are related to nobody.
    """

    column: Name
    head: Symbol
    spouse: Symbol
    child: Symbol
    others: tuple[Symbol, ...] = ()
    children: Annotated[int, Field(ge=1, le=999, strict=True)]

    @property
    def values(self) -> tuple[Symbol, ...]:
        return (self.head, self.spouse, self.child, *self.others)


class Groups(Declared):
    """unit: what a group is called, such as household; most: members of the largest."""

    unit: Annotated[str, Field(min_length=1, max_length=64)]
    most: Annotated[int, Field(ge=1, le=1000, strict=True)]
    attributes: dict[Name, GroupAttribute] = Field(default_factory=dict)
    roles: RoleColumn | None = None


class Batch(Declared):
    """A synthetic data set of groups with their members, made anew at some periods' closes.

    attributes: of people, from their reports, each with the symbol that the person has at the
    close by the attribute's missing rule; every, at: how many periods apart, or which periods;
    rho: of each of its data sets. The rest is the method's own: rounds of picking badly answered
    candidates, how many of them a round measures, rows of the mixture that is fitted; ways: how
    many attributes a query is about; candidates: whole marginals, or single queries.
    """

    name: Name
    kind: Kind
    attributes: Annotated[tuple[str, ...], Field(min_length=1, max_length=64)]
    rho: Rho
    every: Annotated[int, Field(ge=1, strict=True)] | None = None
    at: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    rounds: _Count = 20
    per_round: _Count = 1
    rows: _Count | None = None
    ways: Annotated[int, Field(ge=1, le=8, strict=True)] = 3
    candidates: Literal["marginals", "queries"] = "marginals"
