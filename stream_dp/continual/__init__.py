"""Continual synthesizers: pure, exact, without input or output."""

from __future__ import annotations

from ..study import Cumulative as DeclaredCumulative
from ..study import Release, Study, Window
from .base import Mechanism, Step
from .cumulative import Cumulative
from .window import FixedWindow

AnyMechanism = FixedWindow | Cumulative


def mechanism(study: Study, release: Release) -> AnyMechanism:
    """The mechanism that a release declares."""
    if isinstance(release, DeclaredCumulative):
        return Cumulative.of(study, release)
    assert isinstance(release, Window)
    return FixedWindow.of(study, release)


__all__ = ["AnyMechanism", "Cumulative", "FixedWindow", "Mechanism", "Step", "mechanism"]
