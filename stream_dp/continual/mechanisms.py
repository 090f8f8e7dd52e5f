"""The mechanism of every family of panels."""

from __future__ import annotations

from collections.abc import Callable

from stream_dp.errors import UserError
from stream_dp.study import (
    Family,
    Release,
    Study,
)
from stream_dp.study.families import PANEL_FAMILIES, Registry
from stream_dp.study.study import checked_study

from .cumulative.cumulative import Cumulative
from .joint.joint import Joint
from .mechanism_interface import NONE, StoredDesign
from .window.window import FixedWindow

AnyMechanism = FixedWindow | Cumulative | Joint


def mechanism(study: Study, release: Release, stored: StoredDesign = NONE) -> AnyMechanism:
    """The mechanism of a release.

    stored: what was computed when the study began; without it, it is computed here.
    """
    checked_study(study)
    family = getattr(release, "family", None)
    if family not in _MECHANISMS:
        raise UserError("release: must be a panel's declaration, one of study.releases")
    return _MECHANISMS[release.family](study, release, stored)


_MECHANISMS: Registry[Family, Callable[..., AnyMechanism]] = Registry(
    "mechanisms of panels",
    PANEL_FAMILIES,
    {Family.WINDOW: FixedWindow.of, Family.CUMULATIVE: Cumulative.of, Family.JOINT: Joint.of},
)


def patterns_part(chosen: AnyMechanism) -> FixedWindow | None:
    """The mechanism of a panel's patterns; None where the panel has totals alone."""
    if isinstance(chosen, Cumulative):
        return None
    return chosen.window if isinstance(chosen, Joint) else chosen


def totals_part(chosen: AnyMechanism) -> Cumulative | None:
    """The mechanism of a panel's totals; None where the panel has patterns alone."""
    if isinstance(chosen, Cumulative):
        return chosen
    return chosen.totals if isinstance(chosen, Joint) else None
