"""Declarations of groups of people, and of batch releases of groups with their members.

Who belongs to which group, the groups' sizes and attributes come from a table of their own, once,
before the study begins, and never from anybody's report.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal, get_args

from pydantic import Discriminator, Field, Tag

from stream_dp.errors import UserError

from .data_sets import PEOPLE_KINDS, PeopleRelease, TableRelease
from .match import MATCH_KINDS, MatchRelease
from .numbers import Declaration, Name, Probability, Symbol
from .places import SIZES_KINDS, SizesRelease

BatchKind = Literal["independent", "mwem", "hpd-fixed", "hpd-gen"]
BATCH_KINDS: tuple[str, ...] = get_args(BatchKind)
# Reserved names of columns: a person's group, and a group's size.
KEY_COLUMN, SIZE_COLUMN = "group", "size"
BATCH_RELATION = "replace_in_place"  # the only one with a proved cost of batch releases
ROWS, RELATIONS = 200, Fraction(1, 2)  # where a release does not declare them
_Count = Annotated[int, Field(ge=1, le=10**6, strict=True)]


class GroupAttribute(Declaration):
    """A public property of a group, such as its region, and its possible values."""

    values: Annotated[tuple[Symbol, ...], Field(min_length=1, max_length=1 << 15)]
    """Its possible values, integers or text."""


class RoleColumn(Declaration):
    """The column of the table of members that says who is head, spouse or child of a group.

    Roles stay the same over all periods, as membership does. Every group has exactly one head, at
    most one spouse of the head, and at most `children` children of both; others are related to
    nobody.
    """

    column: Name
    """The column's name."""
    head: Symbol
    """Its value for a head; every group has exactly one."""
    spouse: Symbol
    """Its value for the head's spouse; at most one in a group."""
    child: Symbol
    """Its value for a child of head and spouse."""
    others: tuple[Symbol, ...] = ()
    """Its other values, of people who are related to nobody."""
    children: Annotated[int, Field(ge=1, le=999, strict=True)]
    """The most children that a group has."""

    @property
    def values(self) -> tuple[Symbol, ...]:
        return (self.head, self.spouse, self.child, *self.others)


class Groups(Declaration):
    """The groups that people belong to; their table is sent once, before the study begins."""

    unit: Annotated[str, Field(min_length=1, max_length=64)]
    """What a group is called, such as household."""
    most: Annotated[int, Field(ge=1, le=1000, strict=True)]
    """How many members the largest group has."""
    attributes: dict[Name, GroupAttribute] = Field(default_factory=dict)
    """`[groups.attributes.NAME]`: public properties of a group, such as its region."""
    roles: RoleColumn | None = None
    """`[groups.roles]`: who is head, spouse and child, where relatives matter."""


class BatchRelease(TableRelease):
    """A synthetic data set of groups with their members, drawn anew when certain periods close."""

    kind: BatchKind
    """The synthesizer."""
    attributes: Annotated[tuple[str, ...], Field(min_length=1, max_length=64)]
    """The attributes of people, from their reports. A person without an answer in the period has
    the symbol that the attribute's `missing` rule gives."""
    rounds: _Count = 20
    """How often badly answered candidates are picked and measured, at most."""
    per_round: _Count = 1
    """How many candidates a round picks and measures."""
    rows: _Count | None = None
    """Rows of the mixture that is fitted (`hpd-fixed`, `hpd-gen`): 200 where it is not declared."""
    ways: Annotated[int, Field(ge=1, le=8, strict=True)] = 3
    """How many attributes a query is about."""
    candidates: Literal["marginals", "queries"] = "marginals"
    """What a round picks from: marginals, or single cells of them."""
    relations: Probability | None = None
    """The part of `rho` that measures relatives by themselves, where `[groups.roles]` says who they
    are: 1/2 where it is not declared."""

    def settings(self, roles: bool) -> dict[str, Any]:
        """What the kind uses of this declaration, defaults included, as JSON values.

        roles: whether the groups declare them.
        """
        if self.kind == "independent":
            return {}
        used = {"rounds", "per_round", "ways", "candidates"}
        settings = self.model_dump(mode="json", include=used)
        if self.kind.startswith("hpd"):
            settings["rows"] = self.rows or ROWS
        if roles:
            settings["relations"] = str(self.relations or RELATIONS)
        return settings


def _section_of(release: Any) -> str:
    """The section that reads a data set's kind: keys of `match` are its own."""
    kind = release.get("kind") if isinstance(release, dict) else getattr(release, "kind", None)
    of = {**dict.fromkeys(PEOPLE_KINDS, "people"), **dict.fromkeys(MATCH_KINDS, "match")}
    return {**of, **dict.fromkeys(SIZES_KINDS, "sizes")}.get(str(kind), "groups")


AnyDataSet = Annotated[
    Annotated[BatchRelease, Tag("groups")]
    | Annotated[PeopleRelease, Tag("people")]
    | Annotated[MatchRelease, Tag("match")]
    | Annotated[SizesRelease, Tag("sizes")],
    Discriminator(_section_of),
]


def check_relation(neighbours: str) -> None:
    """Raises UserError unless the cost of batch releases is proved under the study's relation."""
    if neighbours != BATCH_RELATION:
        raise UserError(
            f"neighbours: what releases of groups and members cost under '{neighbours}' is not"
            f" proved; declare neighbours = '{BATCH_RELATION}', or leave such releases out"
        )
