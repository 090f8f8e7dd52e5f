"""Declarations of data sets: synthetic tables that are drawn anew when certain periods close."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .numbers import Declaration, Name, Rho


class DataSetRelease(Declaration):
    """The keys of every release of a data set."""

    name: Name
    """The release's name; each stands once in a study."""
    kind: str
    """The synthesizer."""
    attributes: Annotated[tuple[str, ...], Field(min_length=1, max_length=64)]
    """The attributes of people, from their reports. A person without an answer in the period has
    the symbol that the attribute's `missing` rule gives."""
    rho: Rho
    """The cost of each of its data sets, charged at the close that begins it."""
    every: Annotated[int, Field(ge=1, strict=True)] | None = None
    """A data set every so many periods; either this or `at`."""
    at: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """The periods whose closes begin a data set."""


class PeopleRelease(DataSetRelease):
    """A synthetic table of people, a row for each, drawn anew when certain periods close."""

    kind: Literal["mixture"]
    """The synthesizer."""
    attributes: Annotated[tuple[str, ...], Field(min_length=2, max_length=64)]
    """The columns: attributes of people, from their reports. Who has no answer in the period has
    the symbol that the attribute's `missing` rule gives. Who is `absent` in all is no row."""


PEOPLE_KINDS: tuple[str, ...] = ("mixture",)
