"""The functions of the kinds of data sets in `stream_dp.study.families`.

A kind's module is imported on first use, so that JAX is imported only for a kind that needs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from itertools import chain
from typing import Any

from stream_dp.errors import UserError, missing_extra
from stream_dp.study import DataSetRelease, Study
from stream_dp.study.families import DATA_SETS, DataSetKind, Kind, loaded

from .data.domain import Domain
from .planned_phases import FitPlan, PlannedPhase
from .synthesizer import Synthesizer


def require_available(kinds: Iterable[str]) -> None:
    """Raises UserError unless this installation can fit `kinds`. Imports no module."""
    for kind in kinds:
        entry = _entry(kind)
        module = entry.fit.partition(":")[0] if isinstance(entry.fit, str) else ""
        if module and find_spec(f"{__package__}.{module}") is None:
            raise UserError(f"kind '{kind}': this version of stream-dp cannot fit it")
        if entry.jax and find_spec("jax") is None:
            raise missing_extra(f"kind '{kind}' needs JAX", "batch")


def fit_plan(study: Study, release: DataSetRelease) -> FitPlan:
    """What a fit of a declared release will do. Raises UserError for a release too large."""
    plan: FitPlan = loaded(__package__, release.data_set.plan)(study, release)
    return plan


def planned_phases(study: Study, release: DataSetRelease) -> tuple[PlannedPhase, ...]:
    """The future measurements of a declared release. Raises UserError for a release too large."""
    return fit_plan(study, release).phases


def planned_titles(study: Study, release: DataSetRelease) -> tuple[str, ...]:
    """The mechanisms for certificates of the release.

    Noisy answers decide between several, and the rho of a data set. The fit asks the same rule.
    Raises UserError if the release is too large.
    """
    data_sets = {r.rho: r for r in study.schedule(release).values()} or {release.rho: release}
    several = (fit_plan(study, one).titles for one in data_sets.values())
    return tuple(dict.fromkeys(chain.from_iterable(several)))


def check_limits(release: DataSetRelease, domain: Domain) -> None:
    """Raises UserError where the domain of a release of groups is too large for its kind."""
    limits = release.data_set.limits
    if limits is not None:
        loaded(__package__, limits)(domain)


def load_synthesizer(kind: str) -> Synthesizer[Any, Any]:
    """The synthesizer of a kind. Raises UserError unless this installation can fit the kind."""
    require_available([kind])
    fit: Synthesizer[Any, Any] = loaded(__package__, _entry(kind).fit)
    return fit


def _entry(kind: str) -> DataSetKind:
    """The parts of a kind. Raises UserError for a kind that is none of data sets."""
    named = Kind.named(kind)
    entry = None if named is None else named.data_set
    if entry is None:
        raise UserError(f"kind: must be one of {', '.join(DATA_SETS)}, not {kind!r}")
    return entry
