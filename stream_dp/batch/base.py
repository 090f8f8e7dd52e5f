"""What every batch synthesizer is: fitted to groups and members in rounds that are decided once.

A round is what touched the data: a seed, a choice of queries, noisy answers. It is recorded,
durably and exclusively, before it is used; everything after the rounds is post-processing, with
randomness that comes from the seed of round 0. So a fit that is interrupted goes on from its
transcript, and makes the same data set again on the same machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from stream_dp.privacy.measurements import Measurements
from stream_dp.privacy.noise import NoiseSource
from stream_dp.study import Study
from stream_dp.study.groups import BatchRelease, Groups

from .data.domain import Column, Domain, Hierarchy, Roles

__all__ = [
    "FitTranscript",
    "FittedModel",
    "ProgressCallback",
    "Synthesizer",
    "release_domain",
]


class FitTranscript(Protocol):
    """The rounds of one job."""

    def rounds(self) -> list[bytes]:
        """Those that are decided, from 0 on."""

    def record(self, number: int, data: bytes) -> bytes:
        """Decide round `number`: what holds from now on, which is another's if it came first.

        Durable on return. Nothing of `data` may be used but what this returns.
        """


# Called after every round with the rounds done, how many there will be, and the error of the model
# on the noisy answers, 1 where only the noise is missed, nan where unknown. May raise to end a fit.
ProgressCallback = Callable[[int, int, float], None]


class FittedModel(Protocol):
    """A model. title: the method in words; notes: public numbers about the fit."""

    @property
    def title(self) -> str: ...
    @property
    def measurements(self) -> Measurements: ...
    @property
    def notes(self) -> Mapping[str, int | float | str]: ...
    def sample(self, seed: int) -> Hierarchy: ...


class Synthesizer(Protocol):
    """Satisfies `release.rho`-zCDP under `replace_in_place`, for one person of the hierarchy."""

    def __call__(
        self,
        hierarchy: Hierarchy,
        release: BatchRelease,
        source: NoiseSource,
        transcript: FitTranscript,
        progress: ProgressCallback,
    ) -> FittedModel: ...


@dataclass
class MemoryTranscript:
    """A transcript that is kept nowhere: for tests and for experiments on public data."""

    held: list[bytes] = field(default_factory=list)

    def rounds(self) -> list[bytes]:
        return list(self.held)

    def record(self, number: int, data: bytes) -> bytes:
        if number == len(self.held):
            self.held.append(data)
        return self.held[number]


def release_domain(study: Study, release: BatchRelease) -> Domain:
    """The columns of a batch release. Raises UserError."""
    assert study.groups is not None
    return declared_domain(study.groups, study.attributes, release)


def declared_domain(groups: Groups, attributes: Mapping[str, Any], release: BatchRelease) -> Domain:
    """Of people the role comes first, where there is one."""
    people = tuple(Column(name, attributes[name].symbols) for name in release.attributes)
    of_groups = tuple(Column(name, a.values) for name, a in groups.attributes.items())
    if groups.roles is None:
        return Domain(of_groups, people, groups.most)
    alone = roles_domain(groups)
    return Domain(of_groups, (*alone.person, *people), groups.most, alone.roles)


def roles_domain(groups: Groups) -> Domain:
    """Members of whom nothing is known but their roles, which must be declared."""
    declared = groups.roles
    assert declared is not None
    roles = Roles(
        declared.column, declared.head, declared.spouse, declared.child, declared.children
    )
    return Domain((), (Column(declared.column, declared.values),), groups.most, roles)
