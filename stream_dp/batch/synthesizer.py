"""The interface of batch synthesizers: models fitted to groups and members in recorded rounds.

Round 0 is a seed; every later round is a choice of queries with their noisy answers, the only
results that depend on the data. A round is recorded in a transcript before it is used, durably and
only once. Everything after the rounds is post-processing, whose random numbers come from the seed.
A fit that is interrupted therefore continues from its transcript, and gives the same data set on
the same machine.

A fit may use interactions of columns that other releases have published, at no cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.privacy.noise import Measurements, NoiseSource
from stream_dp.study import Attribute, Study
from stream_dp.study.field_types import ABSENT
from stream_dp.study.group_releases import BatchRelease, EventsRelease, Groups

from .data.domain import Column, Domain, Hierarchy, Roles


@dataclass(frozen=True, eq=False)
class Known:
    """An interaction of the people whom the fit looks at.

    columns: in increasing order; of none the value is the number of people.
    values: one axis for each column, numbers of people, which sum to 0 along every axis.
    variance: of the noise in a cell, before it was centred; independent of all other noise.
    """

    columns: tuple[int, ...]
    values: NDArray[np.float64]
    variance: float


__all__ = [
    "EarlierTable",
    "FitContext",
    "FitTranscript",
    "FittedModel",
    "ProgressCallback",
    "Synthesizer",
    "begun_rounds",
    "chained_tables",
    "first_seed",
    "release_domain",
]

D = TypeVar("D")  # what a release looks at: people, or groups and their members
S = TypeVar("S", covariant=True)
R = TypeVar("R", contravariant=True)  # the release's declaration


class FitTranscript(Protocol):
    """The recorded rounds of one job."""

    def rounds(self) -> list[bytes]:
        """The rounds recorded so far, from round 0 on."""

    def record(self, number: int, data: bytes) -> bytes:
        """Records round `number` durably and returns the recorded bytes.

        Where another worker recorded the round first, that is the other worker's data. The caller
        uses only what is returned, never `data` itself.
        """


# Called after every round with the number of rounds so far, the number of all rounds, and the
# model's error on the noisy answers: about 1 if the model misses only their noise, nan if unknown.
# May raise an exception to end a fit.
ProgressCallback = Callable[[int, int, float], None]


@dataclass
class MemoryTranscript:
    """A transcript in memory, lost with the process: for tests and experiments on public data.

    recorded: the rounds
    """

    recorded: list[bytes] = field(default_factory=list)

    def rounds(self) -> list[bytes]:
        return list(self.recorded)

    def record(self, number: int, data: bytes) -> bytes:
        if number == len(self.recorded):
            self.recorded.append(data)
        return self.recorded[number]


@dataclass(frozen=True)
class EarlierTable:
    """A data set that the same release measured before.

    number: of the data set in its schedule, from 1.
    release: its declaration, with its rho.
    rounds: its transcript, complete.
    known: what others had published when it was measured.
    """

    number: int
    release: Any
    rounds: tuple[bytes, ...]
    known: tuple[Known, ...] = ()

    @property
    def digest(self) -> bytes:
        """The SHA-256 of its rounds."""
        return sha256(msgspec.msgpack.encode(self.rounds)).digest()


@dataclass(frozen=True)
class FitContext:
    """The surroundings of a fit, besides the data.

    source: draws the privacy noise.
    transcript: keeps the rounds; by default in memory.
    progress: called after every round; by default nothing is reported.
    known: of tables of people, what other releases have published of the same people and columns.
        It is the same whenever a fit goes on.
    number: of the data set in its schedule, from 1.
    earlier: of a release that combines periods, what it measured before, in order. There may be
        more of it when a fit goes on: round 0 states what the fit uses.
    """

    source: NoiseSource
    transcript: FitTranscript = field(default_factory=MemoryTranscript)
    progress: ProgressCallback = lambda done, rounds, error: None
    known: tuple[Known, ...] = ()
    number: int = 1
    earlier: tuple[EarlierTable, ...] = ()


FORMAT = b"1"  # of recorded rounds; round 0 states it
_SEED = 32  # bytes


def begun_rounds(context: FitContext) -> list[bytes]:
    """Returns the recorded rounds; records round 0 if there is none.

    Round 0 is a seed, FORMAT, and the numbers and digests of the earlier data sets.

    Raises UserError if round 0 states another format.
    """
    rounds = context.transcript.rounds()
    if not rounds:
        # From the source's random bits, so that a seeded simulation can be repeated.
        seed = context.source.draw([]).coins.bytes(_SEED)
        chain = [(table.number, table.digest) for table in context.earlier]
        stated = msgspec.msgpack.encode(chain) if chain else b""
        rounds.append(context.transcript.record(0, seed + FORMAT + stated))
    if rounds[0][_SEED : _SEED + 1] != FORMAT:
        raise UserError(
            "the job's rounds have a format that this version of stream-dp does not know: finish"
            " the job with the version that began it, or give it up with 'stream-dp jobs --abandon'"
        )
    return rounds


def chained_tables(context: FitContext, rounds: Sequence[bytes]) -> tuple[EarlierTable, ...]:
    """The earlier data sets that round 0 states, in order.

    Raises UserError if one is missing, or is not what it was.
    """
    stated = rounds[0][_SEED + 1 :]
    chain = msgspec.msgpack.decode(stated, type=list[tuple[int, bytes]]) if stated else []
    tables = {(table.number, table.digest): table for table in context.earlier}
    if not tables.keys() >= {*chain}:
        raise UserError(
            "the job began with earlier data sets whose transcripts are not there, or are others:"
            " restore the confidential log, or give the job up with 'stream-dp jobs --abandon'"
        )
    return tuple(tables[link] for link in chain)


def first_seed(rounds: list[bytes]) -> int:
    """The seed of round 0."""
    return int.from_bytes(rounds[0][:_SEED], "big")


class FittedModel(Protocol[S]):
    """A fitted model.

    title: the method in words.
    measurements: the noisy answers that it was fitted to.
    notes: public numbers about the fit.
    """

    @property
    def title(self) -> str: ...
    @property
    def measurements(self) -> Measurements: ...
    @property
    def notes(self) -> Mapping[str, int | float | str]: ...
    def sample(self, seed: int) -> S: ...


class Synthesizer(Protocol[D, R]):
    """Fits a model: `release.rho`-zCDP for one person, under the data's relation.

    A hierarchy is protected under `replace_in_place`, people under the relation of their domain.
    """

    def __call__(self, data: D, release: R, context: FitContext, /) -> FittedModel[D]: ...


def release_domain(study: Study, release: BatchRelease) -> Domain:
    """The columns of a batch release. Raises UserError."""
    assert study.groups is not None
    return declared_domain(study.groups, study.attributes, release)


def declared_domain(
    groups: Groups, attributes: Mapping[str, Attribute], release: BatchRelease
) -> Domain:
    """The columns of a batch release, given its groups and attributes by name.

    Of people the role comes first, where groups declare roles.
    """
    people = tuple(Column(name, tuple(attributes[name].symbols)) for name in release.attributes)
    of_groups = tuple(Column(name, a.symbols) for name, a in groups.attributes.items())
    if groups.roles is None:
        return Domain(of_groups, people, groups.most)
    members = roles_domain(groups)
    return Domain(of_groups, (*members.person, *people), groups.most, members.roles)


def events_domain(attributes: Mapping[str, Attribute], release: EventsRelease) -> Domain:
    """The columns of people and of their events.

    attributes: by name, sound. An event has a value in the first column, and may be 'absent' in
    others.
    """
    people = tuple(Column(name, tuple(attributes[name].symbols)) for name in release.attributes)
    events = list[Column]()
    for column, slots in zip(release.events.columns, release.slots, strict=True):
        values = attributes[slots[0]].listed
        events.append(Column(column, values if not events else (*values, ABSENT)))
    return Domain(people, tuple(events), release.events.most, events=True)


def roles_domain(groups: Groups) -> Domain:
    """The domain of members with a known role and nothing else. The groups must declare roles."""
    declared = groups.roles
    assert declared is not None
    roles = Roles(
        column=declared.column,
        head=declared.head,
        spouse=declared.spouse,
        child=declared.child,
        children=declared.children,
    )
    return Domain((), (Column(declared.column, declared.values),), groups.most, roles)


def with_events(
    attributes: Mapping[str, Attribute], release: EventsRelease, answers: NDArray[np.integer]
) -> Hierarchy:
    """People with their events; one row changes one person.

    answers: codes (people, attributes), in the order of `release.names`. An event whose first
        column is 'absent' does not count.

    Raises ValueError for codes outside the attributes.
    """
    domain = events_domain(attributes, release)
    most, columns = domain.most, len(domain.person)
    people = answers[:, : len(domain.group)]
    slots = answers[:, len(domain.group) :].reshape(len(answers), columns, most)
    present = slots[:, 0] < len(domain.person[0].values)  # 'absent' is the last code
    sizes = present.sum(axis=1)
    events = slots.transpose(0, 2, 1)[present]
    return Hierarchy(
        domain, np.column_stack([people, sizes]), events, np.repeat(np.arange(len(answers)), sizes)
    )
