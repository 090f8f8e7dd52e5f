"""The declared population: the public number of units, or a closed cohort."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .field_types import Declaration, Flag


class DeclaredPopulation(Declaration):
    """Who can be counted: the public number of units, or when the last of them enters."""

    size: Annotated[int, Field(ge=1, le=10**9, strict=True)] | None = None
    """The public number of units. Required if the relation makes the number public, and refused
    under `add_remove`. Further newcomers are refused for good."""
    closed: Flag = None
    """`true`: a closed cohort of private size. A person without an accepted answer by the first
    period of any release is refused for good. Patterns have less noise than in a population with
    late entry. Only for `add_remove`, because a declared `size` already counts everybody from the
    start."""
