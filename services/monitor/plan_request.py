"""Requests to the planner."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from stream_dp.errors import UserError


@dataclass(frozen=True)
class PlanRequest:
    """A request for expected errors, a needed budget or alternatives.

    release: the name of a release; None for all releases that can answer
    queries: the queries in words; None for examples of every release
    error: the half-width to reach at every period; None for no goal
    confidence: the level of the intervals
    count: whether errors are numbers of people instead of shares
    people: the number of people under shares; None for the study's number
    periods: the number of periods; None for the declared number
    alternatives: whether to compare other declarations
    """

    release: str | None = None
    queries: tuple[str, ...] | None = None
    error: float | None = None
    confidence: float = 0.95
    count: bool = False
    people: int | None = None
    periods: int | None = None
    alternatives: bool = False

    def check(self) -> None:
        """Raises UserError for numbers out of range."""
        if not 0 < self.confidence < 1:
            raise UserError("--confidence: write a level between 0 and 1, such as 0.95")
        if self.people is not None and self.people < 1:
            raise UserError("--people: write a number of at least 1")
        if self.error is not None and not 0 < self.error < math.inf:
            raise UserError("--error: write a number above 0")

    @property
    def quantile(self) -> float:
        """Half-width over standard error."""
        return NormalDist().inv_cdf((1 + self.confidence) / 2)
