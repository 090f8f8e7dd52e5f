"""The kinds of batch releases: what each declares of itself, and its synthesizer.

A synthesizer's module is imported on first use, so that JAX is imported only for a kind that needs
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, cast

from stream_dp.errors import UserError
from stream_dp.study import DataSetRelease, Study
from stream_dp.study.groups import BATCH_RELATION
from stream_dp.study.method_titles import possible_titles

from .base import Synthesizer
from .planned import PlannedPhase


@dataclass(frozen=True)
class SynthesizerKind:
    """A synthesizer, and what it declares of itself.

    module: the name of its module, below this package.
    function: the name of the `base.Synthesizer` in that module.
    data: what it looks at.
    relations: those under which its cost is proved.
    planned: the function that gives its phases before any data, after its module.
    settings: the keys of a study file that it uses beside those of every data set.
    titles: the function that gives the mechanisms that it may be, after its module; None for one.
    jax: whether it needs JAX, the `batch` extra.
    """

    module: str
    function: str
    data: InputData
    relations: tuple[str, ...]
    planned: tuple[str, str]
    settings: tuple[str, ...] = ()
    titles: tuple[str, str] | None = None
    jax: bool = True

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that it publishes."""
        if self.data == "places":
            return ("regions", "sizes")
        return ("people",) if self.data == "people" else ("groups", "people")


InputData = Literal["people", "groups and their members", "places"]
_ALL = ("add_remove", "replace_one", "replace_in_place")
_PICKED = ("rounds", "per_round", "ways", "candidates", "relations")
_GROUPED = ("workload.planned", "planned_groups")
KINDS = {
    "mixture": SynthesizerKind(
        "people.synthesizer",
        "fit_people",
        data="people",
        relations=_ALL,
        planned=("people.planned", "planned_people"),
        titles=("people.planned", "people_titles"),
        settings=("rounds", "per_round", "derived"),
    ),
    "rap": SynthesizerKind(
        "people.linear",
        "fit_rap",
        data="people",
        relations=_ALL,
        planned=("people.planned", "planned_people"),
        titles=("people.planned", "people_titles"),
        settings=("labels", "linear", "rounds", "per_round", "derived"),
    ),
    "match": SynthesizerKind(
        "people.match.synthesizer",
        "fit_match",
        data="people",
        relations=_ALL,
        planned=("people.match.planned", "planned_match"),
        titles=("people.match.planned", "match_titles"),
        settings=(
            *("one_ways", "threshold", "exempt", "composites", "coarser", "marginals"),
            "derived",
        ),
    ),
    "sizes": SynthesizerKind(
        "sizes.declared",
        "fit_release",
        data="places",
        relations=("add_remove", "replace_one"),
        planned=("sizes.declared", "planned_sizes"),
        settings=("largest", "methods", "parts", "choice", "epsilon", "merge"),
        jax=False,
    ),
    "independent": SynthesizerKind(
        "independent",
        "fit_independent",
        data="groups and their members",
        relations=(BATCH_RELATION,),
        planned=("workload.planned", "planned_independent"),
        jax=False,
    ),
    "mwem": SynthesizerKind(
        "mwem.mwem",
        "fit_mwem",
        data="groups and their members",
        relations=(BATCH_RELATION,),
        planned=_GROUPED,
        settings=_PICKED,
        jax=False,
    ),
    "hpd-fixed": SynthesizerKind(
        "hpd.synthesizer",
        "fit_mixture",
        data="groups and their members",
        relations=(BATCH_RELATION,),
        planned=_GROUPED,
        settings=(*_PICKED, "rows"),
    ),
    "hpd-gen": SynthesizerKind(
        "hpd.synthesizer",
        "fit_mixture",
        data="groups and their members",
        relations=(BATCH_RELATION,),
        planned=_GROUPED,
        settings=(*_PICKED, "rows"),
    ),
}


def require_available(kinds: Iterable[str]) -> None:
    """Raises UserError unless this installation can fit these kinds. Imports no module."""
    for kind in kinds:
        entry = KINDS[kind]
        if find_spec(f"{__package__}.{entry.module}") is None:
            raise UserError(f"kind '{kind}': this version of stream-dp cannot fit it")
        if entry.jax and find_spec("jax") is None:
            raise UserError(f"kind '{kind}' needs JAX: pip install 'stream-dp[batch]'")


def planned_phases(study: Study, release: DataSetRelease) -> tuple[PlannedPhase, ...]:
    """What a release will measure, from its declaration. Raises UserError if it is too large."""
    module, function = KINDS[release.kind].planned
    phases = getattr(import_module(f"{__package__}.{module}"), function)(study, release)
    return cast("tuple[PlannedPhase, ...]", phases)


def planned_titles(study: Study, release: DataSetRelease) -> tuple[str, ...]:
    """The mechanisms that a certificate of the release may name; noisy answers decide if several.

    The fit asks the same rule. Raises UserError if the release is too large.
    """
    named = KINDS[release.kind].titles
    if named is None:
        return possible_titles(release)
    module, function = named
    titles = getattr(import_module(f"{__package__}.{module}"), function)(study, release)
    return cast("tuple[str, ...]", titles)


def load_synthesizer(kind: str) -> Synthesizer[Any, Any]:
    """The synthesizer of a kind. Raises UserError unless this installation can fit it."""
    require_available([kind])
    module = import_module(f"{__package__}.{KINDS[kind].module}")
    return cast(Synthesizer[Any, Any], getattr(module, KINDS[kind].function))
