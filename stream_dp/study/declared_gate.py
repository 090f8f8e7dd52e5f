"""The declaration of a paid gate: the section `[study.gate]` of a study file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .field_types import Declaration, Probability, Rho


class Gate(Declaration):
    """The paid gate: periods with too few answers are held for the operator."""

    rho: Rho
    """The gate's part of the budget, for all periods together. Each period costs the same."""
    least: Probability
    """A period is held if its noisy count is below this share of `expected`, such as 0.5."""
    expected: Annotated[int, Field(ge=1, le=10**9, strict=True)] | None = None
    """How many people of earlier periods answer in a full period; public, so not from the data. By
    default the declared `size`; required under `add_remove`."""
