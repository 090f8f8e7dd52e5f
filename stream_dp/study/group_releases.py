"""Declarations of groups of people, and of batch releases of groups with their members.

Who belongs to which group, the groups' sizes and attributes come from a table of their own, once,
before the study begins, and never from anybody's report.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from stream_dp.errors import UserError

from .adult_ages import read_group_rules
from .families import Family, Kind, kinds_of
from .field_types import Declaration, Name, Probability, Symbol
from .hierarchy_releases import KEY_COLUMN as KEY_COLUMN
from .hierarchy_releases import RELATIONS as RELATIONS
from .hierarchy_releases import ROWS as ROWS
from .hierarchy_releases import SIZE_COLUMN as SIZE_COLUMN
from .hierarchy_releases import HierarchyRelease
from .plugins import AS_IT_IS
from .structural_rules import Rule
from .table_releases import NoneIfEmpty, RuleText, rule_text

_LISTED = kinds_of(Family.HOUSEHOLDS)
if TYPE_CHECKING:
    HouseholdsKind = Kind
else:
    HouseholdsKind = Annotated[
        Literal[_LISTED], Kind.field(lambda k: k.family is Family.HOUSEHOLDS), AS_IT_IS
    ]
BATCH_RELATION = "replace_in_place"  # the only one with a proved cost of batch releases
_OPTIONAL = {"rows", "relations", "rules"}  # stated in a certificate where they apply


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
        return settings


def check_relation(neighbours: str) -> None:
    """Raises UserError unless the cost of batch releases is proved under a relation."""
    if neighbours != BATCH_RELATION:
        raise UserError(
            f"neighbours: what releases of groups and members cost under '{neighbours}' is not"
            f" proved; declare neighbours = '{BATCH_RELATION}', or leave such releases out"
        )
