"""Decisions: what one closed period releases, as one journal entry. No input or output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from stream_dp.continual import AnyMechanism, mechanism
from stream_dp.log.base import Positions, Record
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

    release: Release
    mechanism: AnyMechanism
    state: Any


@dataclass(frozen=True)
class ClosedInput:
    """The input of a period that is closed, as its journal entry states it.

    cut: by partition, the position where the period's input ends.
    marks: by partition, the last period that a marker below the cut closes.
    closed: the population's counts and symbols.
    accounting: what became of all cells since the study began.
    snapshot: name and SHA-256 of the population's snapshot.
    jobs: the batch jobs that the close begins, their snapshots written.
    marked: by partition, when the marker was appended, in milliseconds.
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
    """The last entry of the journal, the last public message that it decides, and what is spent.

    entry: the last entry of the journal.
    index: of the last public message that is decided.
    hash: of the same message.
    certified: the charges of the releases up to that message; a certificate states their sum. A
        job is charged before its result exists, and counts here with its result only.
    """

    entry: Entry
    index: int
    hash: str
    certified: Ledger

    @classmethod
    def of(cls, plan: Plan, entries: Sequence[Entry]) -> ChainEnd:
        hashes = [digest for entry in entries for digest in entry.published]
        ledger = plan.ledger()
        for entry in entries:
            ledger = ledger.charge(*journal.certified_charges(entry, plan.study))
        return cls(entries[-1], len(hashes) - 1, hashes[-1], ledger)


def release_states(study: Study, closes: Sequence[Entry]) -> tuple[ReleaseState, ...]:
    """Every continual release with the state that the last close holds.

    closes: genesis and the entries that close a period.
    """
    return tuple(_release_state(study, release, closes) for release in study.releases)


def _release_state(study: Study, release: Release, closes: Sequence[Entry]) -> ReleaseState:
    synthesizer = mechanism(study, release)
    if len(closes) == 1:
        return ReleaseState(release, synthesizer, synthesizer.init())
    panel: Panel | None = None
    for entry in closes[1:]:
        sent = [r for r in entry.public_records() if (r.key or b"").endswith(_key(release))]
        if sent:
            columns, periods = read_columns(parts_in_records(sent))
            if panel is None:
                panel = Panel(columns, periods, synthesizer.values)
            else:
                panel = panel.extended(columns, periods)
    state = synthesizer.load(closes[-1].state(release.name), panel)
    return ReleaseState(release, synthesizer, state)


def draw_noise(
    study: Study, source: NoiseSource, states: Sequence[ReleaseState], number: int
) -> list[Draw]:
    """Draws all the noise of a period, by release, before its counts are known."""
    times = [study.time(current.release, number) for current in states]
    return [
        source.draw(() if t is None else current.mechanism.demand(t))
        for current, t in zip(states, times, strict=True)
    ]


def decide(
    plan: Plan,
    number: int,
    end: ChainEnd,
    states: Sequence[ReleaseState],
    *,
    draws: Sequence[Draw],
    closed_input: ClosedInput,
    simulated: bool,
) -> tuple[ChainEnd, tuple[ReleaseState, ...]]:
    """The entry that closes a period, as the new end of the chain, and the states after it.

    The ledger must already have accepted the period's charges.

    number: of the period.
    end: the end of the chain before it.
    states: of the continual releases, in the study's order.
    draws: the period's noise, by release in the same order.
    closed_input: what the population holds at the cut.
    simulated: whether the noise is seeded.
    """
    study, ledger = plan.study, end.certified
    index, previous = end.index, end.hash
    after, public, hashes = list[ReleaseState](), list[Record](), list[str]()
    charges = {charge.release: charge for charge in plan.charges(number)}
    for current, draw in zip(states, draws, strict=True):
        release, charge = current.release, charges.get(current.release.name)
        if study.time(release, number) is None:
            after.append(current)
            continue
        counts = closed_input.closed.counts[release.name]
        state, step = current.mechanism.step(current.state, counts, draw)
        after.append(replace(current, state=state))
        ledger = ledger if charge is None else ledger.charge(charge)
        if step is None:
            continue
        cost = Fraction(0) if charge is None else charge.rho
        head = panel_certificate(
            study,
            release,
            current.mechanism,
            number,
            step,
            rho=cost,
            spent=ledger.spent,
            simulated=simulated,
        )
        index += 1
        published = build_message(
            index,
            previous,
            head.model_dump(mode="json", exclude_none=True),
            panel_parts(step, head.columns),
        )
        previous = published.hash
        hashes.append(published.hash)
        public += _records(study, published, release, number)
    entry = journal.close(
        end.entry.message,
        number=number,
        cut=closed_input.cut,
        marks=closed_input.marks,
        marked=closed_input.marked,
        charges=plan.charges(number),
        snapshot=closed_input.snapshot,
        accounting=closed_input.accounting,
        jobs=closed_input.jobs,
        states={s.release.name: s.mechanism.dump(s.state) for s in after},
        public=public,
        hashes=hashes,
    )
    return ChainEnd(Entry(entry), index, previous, ledger), tuple(after)


def _records(study: Study, sent: Message, release: Release, number: int) -> list[Record]:
    """The records of a public message, each key ending with the release's name."""
    keyed = message_records(
        sent,
        TOPIC,
        kind=RELEASE_TYPE,
        source=f"stream-dp/{study.name}",
        content="application/vnd.apache.arrow.stream",
        time=study.periods.release_time(number),
    )
    return [replace(r, key=(r.key or b"") + _key(release)) for r in keyed]


def _key(release: Release) -> bytes:
    return f"/{release.name}".encode()
