"""Declarations of tables of people with their events: trips, visits, jobs, days of a diary."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from .families import Family, Kind, kinds_of
from .field_types import Declaration, Name
from .hierarchy_releases import SIZE_COLUMN, HierarchyRelease
from .plugins import AS_IT_IS
from .table_releases import PastAnswer

_LISTED = kinds_of(Family.EVENTS)
if TYPE_CHECKING:
    EventsKind = Kind
else:
    EventsKind = Annotated[
        Literal[_LISTED], Kind.field(lambda k: k.family is Family.EVENTS), AS_IT_IS
    ]
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
