"""Continual synthesizers: pure, exact, without input or output (symbols: NOTATION.md)."""

from __future__ import annotations

from stream_dp.study import CumulativeRelease, JointRelease, Release, Study

from .base import Mechanism, Step
from .cumulative import Cumulative
from .joint import Joint
from .stored_design import NONE, StoredDesign
from .window import FixedWindow

AnyMechanism = FixedWindow | Cumulative | Joint


def mechanism(study: Study, release: Release, stored: StoredDesign = NONE) -> AnyMechanism:
    """The mechanism that a release declares.

    stored: what was computed when the study began; without it, it is computed here.
    """
    if isinstance(release, CumulativeRelease):
        return Cumulative.of(study, release, stored)
    if isinstance(release, JointRelease):
        return Joint.of(study, release, stored)
    return FixedWindow.of(study, release, stored)


__all__ = ["AnyMechanism", "Cumulative", "FixedWindow", "Joint", "Mechanism", "Step", "mechanism"]
