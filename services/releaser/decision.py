"""Decisions: what one closed period releases, as one journal entry. No input or output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from stream_dp.continual import AnyMechanism, mechanism
from stream_dp.log.base import Positions
from stream_dp.log.message import Message, build_message, message_records, parts_in_records
from stream_dp.panel import Panel
from stream_dp.plan import Plan
from stream_dp.population import ClosedPeriod
from stream_dp.privacy.ledger import Ledger
from stream_dp.privacy.noise import Draw, NoiseSource
from stream_dp.release.panels import (
    RELEASE_TYPE,
    TOPIC,
    panel_certificate,
    panel_parts,
    read_columns,
)
from stream_dp.study import Release, Study

from .. import journal
from ..jobs.records import Job
from ..journal import Entry


@dataclass(frozen=True)
class ReleaseState:
    """A release of the study, its mechanism, and the mechanism's state after the last period."""

    declared: Release
    mechanism: AnyMechanism
    state: Any


@dataclass(frozen=True)
class ClosedInput:
    """What is known of the input at a cut: where it is, what it held, where the state is kept.

    jobs: the batch jobs that the close begins, their snapshots written. marked: by partition, when
    the marker was appended, in milliseconds.
    """

    cut: Positions
    marks: dict[int, int]
    closed: ClosedPeriod
    accounting: dict[str, Any]
    snapshot: tuple[str, str]
    jobs: tuple[Job, ...] = ()
    marked: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ChainEnd:
    """Where the journal and the public chain end, and what is spent on all that is decided.

    index, hash: of the last public message that is decided. shown: the charges of the releases
    up to it, whose sum a certificate states; the plan charges a job before its result is there,
    and one that is abandoned shows nothing.
    """

    entry: Entry
    index: int
    hash: str
    shown: Ledger

    @classmethod
    def of(cls, plan: Plan, entries: Sequence[Entry]) -> ChainEnd:
        hashes = [digest for entry in entries for digest in entry.published]
        shown = plan.ledger()
        for entry in entries:
            shown = shown.charge(*journal.certified_charges(entry, plan.study))
        return cls(entries[-1], len(hashes) - 1, hashes[-1], shown)


def release_states(study: Study, entries: Sequence[Entry]) -> tuple[ReleaseState, ...]:
    """Every continual release with the state that the last close holds. entries: the closes."""
    return tuple(_line(study, release, entries) for release in study.releases)


def _line(study: Study, release: Release, entries: Sequence[Entry]) -> ReleaseState:
    made = mechanism(study, release)
    if len(entries) == 1:
        return ReleaseState(release, made, made.init())
    panel: Panel | None = None
    for entry in entries[1:]:
        sent = [r for r in entry.public_records() if (r.key or b"").endswith(_key(release))]
        if sent:
            columns, periods = read_columns(parts_in_records(sent))
            if panel is None:
                panel = Panel(columns, periods, made.values)
            else:
                panel = panel.extended(columns, periods)
    return ReleaseState(release, made, made.load(entries[-1].state(release.name), panel))


def draw_noise(
    study: Study, source: NoiseSource, held: Sequence[ReleaseState], number: int
) -> list[Draw]:
    """All the noise of a period, before its counts are known."""
    times = [study.time(line.declared, number) for line in held]
    return [
        source.draw(() if t is None else line.mechanism.demand(t))
        for line, t in zip(held, times, strict=True)
    ]


def decide(
    plan: Plan,
    number: int,
    tail: ChainEnd,
    held: Sequence[ReleaseState],
    draws: Sequence[Draw],
    taken: ClosedInput,
    simulated: bool,
) -> tuple[ChainEnd, tuple[ReleaseState, ...]]:
    """The entry that closes period `number`, as the new tail, and the lines after it.

    The ledger must already have accepted the period's charges.
    """
    study, ledger = plan.study, tail.shown
    index, previous = tail.index, tail.hash
    after, public, hashes = [], [], []
    charges = {charge.release: charge for charge in plan.charges(number)}
    for line, drawn in zip(held, draws, strict=True):
        name, charge = line.declared.name, charges.get(line.declared.name)
        if study.time(line.declared, number) is None:
            after.append(line)
            continue
        state, step = line.mechanism.step(line.state, taken.closed.counts[name], drawn)
        after.append(replace(line, state=state))
        ledger = ledger if charge is None else ledger.charge(charge)
        if step is None:
            continue
        cost = Fraction(0) if charge is None else charge.rho
        words = panel_certificate(
            study, line.declared, line.mechanism, number, step, cost, ledger.spent, simulated
        )
        index += 1
        sent = build_message(
            index,
            previous,
            words.model_dump(mode="json", exclude_none=True),
            panel_parts(step, words.columns),
        )
        previous = sent.hash
        hashes.append(sent.hash)
        public += _records(study, sent, line.declared, number)
    entry = journal.close(
        tail.entry.message,
        number,
        taken.cut,
        taken.marks,
        taken.marked,
        plan.charges(number),
        taken.snapshot,
        taken.accounting,
        taken.jobs,
        {line.declared.name: line.mechanism.dump(line.state) for line in after},
        public,
        hashes,
    )
    return ChainEnd(Entry(entry), index, previous, ledger), tuple(after)


def _records(study: Study, sent: Message, release: Release, number: int) -> list[Any]:
    made = message_records(
        sent,
        TOPIC,
        kind=RELEASE_TYPE,
        source=f"stream-dp/{study.name}",
        content="application/vnd.apache.arrow.stream",
        time=study.periods.release_time(number),
    )
    return [replace(r, key=(r.key or b"") + _key(release)) for r in made]


def _key(release: Release) -> bytes:
    return f"/{release.name}".encode()
