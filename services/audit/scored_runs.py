"""Repeated runs of a release in two neighbouring worlds, and the score of each run."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

from stream_dp.privacy.noise import NoiseSource

from .histories import WorstPair
from .rho_bounds import TwoScores

Progress = Callable[[], None]  # called after each run


class AuditedRelease(Protocol):
    """A declared release on simulated people.

    subject: what is audited, in words.
    rho: its declared cost.
    most: the people whom both worlds may differ by, at most.
    """

    @property
    def subject(self) -> str: ...
    @property
    def rho(self) -> Fraction: ...
    @property
    def most(self) -> int: ...

    def worst_pair(self) -> WorstPair:
        """The neighbours that the release tells apart best, without any noise."""

    def scores(
        self, pair: WorstPair, size: int, runs: int, source: NoiseSource, progress: Progress
    ) -> TwoScores:
        """The scores of `runs` runs in each world. size: the people in which the worlds differ."""
