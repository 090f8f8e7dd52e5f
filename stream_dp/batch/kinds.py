"""The synthesizers of the kinds of data sets in `stream_dp.study.families`.

A synthesizer's module is imported on first use, so that JAX is imported only for a kind that needs
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from typing import Any, Literal, cast

from stream_dp.errors import UserError, missing_extra
from stream_dp.study import DataSetRelease, Family, Kind, Study
from stream_dp.study import families as declared
from stream_dp.study.families import DATA_SET_FAMILIES, KINDS, Registry
from stream_dp.study.method_titles import possible_titles

from .data.domain import Domain
from .planned_phases import PlannedPhase
from .synthesizer import Synthesizer

InputData = Literal["people", "groups and their members", "people and their events", "places"]
LOOKED_AT: Registry[Family, InputData] = Registry(
    "data that a synthesizer looks at",
    DATA_SET_FAMILIES,
    {
        Family.PEOPLE: "people",
        Family.HOUSEHOLDS: "groups and their members",
        Family.EVENTS: "people and their events",
        Family.SIZES: "places",
    },
)


def require_available(kinds: Iterable[str]) -> None:
    """Raises UserError unless this installation can fit `kinds`. Imports no module."""
    for kind in kinds:
        entry = _entry(kind)
        module = entry.fit.partition(":")[0]
        if find_spec(f"{__package__}.{module}") is None:
            raise UserError(f"kind '{kind}': this version of stream-dp cannot fit it")
        if entry.jax and find_spec("jax") is None:
            raise missing_extra(f"kind '{kind}' needs JAX", "batch")


def planned_phases(study: Study, release: DataSetRelease) -> tuple[PlannedPhase, ...]:
    """The future measurements of a declared release. Raises UserError for a release too large."""
    phases = _loaded(release.synthesizer.planned)(study, release)
    return cast("tuple[PlannedPhase, ...]", phases)


def planned_titles(study: Study, release: DataSetRelease) -> tuple[str, ...]:
    """The mechanisms for certificates of the release.

    Noisy answers decide between several, and the rho of a data set. The fit asks the same rule.
    Raises UserError if the release is too large.
    """
    named = release.synthesizer.titles
    if named is None:
        return possible_titles(release)
    data_sets = {r.rho: r for r in study.schedule(release).values()} or {release.rho: release}
    titles = _loaded(named)
    several = (cast("tuple[str, ...]", titles(study, one)) for one in data_sets.values())
    return tuple(dict.fromkeys(chain.from_iterable(several)))


def check_limits(release: DataSetRelease, domain: Domain) -> None:
    """Raises UserError where the domain of a release of groups is too large for its kind."""
    limits = release.synthesizer.limits
    if limits is not None:
        _loaded(limits)(domain)


def load_synthesizer(kind: str) -> Synthesizer[Any, Any]:
    """The synthesizer of a kind. Raises UserError unless this installation can fit the kind."""
    require_available([kind])
    return cast(Synthesizer[Any, Any], _loaded(_entry(kind).fit))


def _entry(kind: str) -> declared.Synthesizer:
    """The synthesizer of a kind. Raises UserError for a kind that has none."""
    entry = KINDS[Kind(kind)].synthesizer if kind in [*Kind] else None
    if entry is None:
        kinds = [each for each in Kind if KINDS[each].synthesizer is not None]
        raise UserError(f"kind: must be one of {', '.join(kinds)}, not {kind!r}")
    return entry


def _loaded(name: str) -> Callable[..., object]:
    """The function of a kind's entry, MODULE:FUNCTION below this package."""
    module, _, function = name.partition(":")
    return cast(Callable[..., object], getattr(import_module(f"{__package__}.{module}"), function))
