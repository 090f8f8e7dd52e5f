"""The declared population: the public number of units, or a closed cohort."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .field_types import Declaration, Flag


class DeclaredPopulation(Declaration):
    """Who can be counted: the public number of units, or when the last of them enters."""

    size: Annotated[int, Field(ge=1, le=10**9, strict=True)] | None = None
    """The number of units, public. Required where the relation makes it public, refused under
    `add_remove`; whoever is beyond it is turned away for good."""
    closed: Flag = None
    """`true`: a closed cohort of private size. Who has no accepted answer by the first period that
    any release covers is turned away for good. Patterns then have less noise than where people may
    enter late. For `add_remove`; a declared `size` already counts everybody from the start."""
