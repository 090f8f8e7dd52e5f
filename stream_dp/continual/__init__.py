"""Continual synthesizers: pure, exact, without input or output (symbols: NOTATION.md)."""

from __future__ import annotations

from stream_dp.study import CumulativeRelease, JointRelease, Release, Study

from .base import Mechanism, Step
from .cumulative import Cumulative
from .joint import Joint
from .window import FixedWindow

AnyMechanism = FixedWindow | Cumulative | Joint


def mechanism(study: Study, release: Release) -> AnyMechanism:
    """The mechanism that a release declares."""
    if isinstance(release, CumulativeRelease):
        return Cumulative.of(study, release)
    if isinstance(release, JointRelease):
        return Joint.of(study, release)
    return FixedWindow.of(study, release)


__all__ = ["AnyMechanism", "Cumulative", "FixedWindow", "Joint", "Mechanism", "Step", "mechanism"]
