"""The journal: the releaser's confidential record of decisions, a chain of messages.

Entry 0 (genesis) binds the study to its input. It holds the key of the hash of ids, and the study's
design: the mechanisms' computations in floats, once for every machine. Every other entry closes a
period, has the gate of the next one, publishes the result of a batch job or the weights of answers,
names another key of signatures, or notes new files of the logs or another topic of reports. An
entry holds the exact records to be published, signatures included, so that publishing, at once or
after a crash, only copies them. The gate of a period is drawn once, before the period's close.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp import __version__
from stream_dp.continual.mechanism_interface import StoredDesign, unpacked_designs
from stream_dp.errors import Inconsistent
from stream_dp.json_object import Json
from stream_dp.log.log import NEVER, Log, Positions, Record
from stream_dp.log.message import (
    Message,
    build_message,
    is_part,
    read_chain,
    read_messages,
    read_part,
    read_parts,
)
from stream_dp.population.shapes.record_contents import ReadAs
from stream_dp.privacy.ledger import Charge
from stream_dp.study import Study
from stream_dp.study.topics import JOURNAL

from .job_records import Job, SnapshotFile
from .journal_heads import (
    PUBLIC,
    SCHEMAS,
    ChargeHead,
    CloseHead,
    GateHead,
    GenesisHead,
    Head,
    JobHead,
    KeyHead,
    PeriodInput,
    PlacedHead,
    ReadingHead,
    ReportsTopic,
    ResultHead,
    WeightsHead,
    divided_reading,
    entry_parts,
    head_of,
    record_of,
    schemas_of,
    state_name,
    state_of,
    study_records,
)


def gate_entry(
    previous: Message,
    number: int,
    counted: PeriodInput,
    *,
    charge: Charge,
    people: int,
    held: bool,
) -> Message:
    """Builds the entry with the gate of a period, after the entry `previous`.

    number: the open period.
    people: the noisy count.
    """
    head = GateHead(
        number=number - 1,
        counted=counted,
        charges=[ChargeHead.of(charge)],
        public=[],
        code_version=__version__,
        people=people,
        held=held,
    )
    return next_message(previous, head, [])


def gates(entries: Sequence[Entry]) -> dict[int, Entry]:
    """By period, the entry with its gate."""
    return {entry.gated: entry for entry in entries if entry.gated is not None}


def open_gate(entries: Sequence[Entry]) -> Entry | None:
    """The entry with the gate of the open period. None before the gate is drawn."""
    return gates(entries).get(closes(entries)[-1].number + 1) if entries else None


def is_held(entries: Sequence[Entry]) -> bool:
    """Whether the gate holds the open period."""
    gate = open_gate(entries)
    return gate is not None and gate.gate.held


DESIGN = "design"  # the part of genesis with the study's design


class Counted(Protocol):
    """The counts of a closed period, to be read after the noise is drawn."""

    @property
    def counts(self) -> dict[str, NDArray[np.int64]]:
        """The counts of every release's mechanism."""


@dataclass(frozen=True)
class ClosedPeriod:
    """A closed period, before its releases are decided.

    number: the period's number.
    input: with its accounting.
    closed: the counts.
    snapshot: of the population, or the manifest of its parts.
    jobs: the batch jobs that the close begins; their snapshots are written.
    """

    number: int
    input: PeriodInput
    closed: Counted
    snapshot: SnapshotFile
    jobs: tuple[Job, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A journal entry: the typed head of its message, and the contents of its parts.

    message: without its parts if they are read from a log, to be in memory only during their use.
    log: the log with the parts; None for a message with its parts.
    reading: of an entry that closes a period, the last change of the reports before the next close.
    """

    message: Message
    log: Log | None = field(default=None, compare=False)
    reading: ReadingHead | None = field(default=None, compare=False)

    @cached_property
    def head(self) -> Head:
        """Raises Inconsistent if a message is not a journal entry."""
        return head_of(self.message)

    @property
    def closes(self) -> bool:
        """Whether the entry closes a period; genesis closes number 0."""
        return isinstance(self.head, GenesisHead | CloseHead)

    @property
    def number(self) -> int:
        """The number of the closed period, of the job's, or of the last closed; 0 for genesis."""
        return self.head.number

    @cached_property
    def input(self) -> PeriodInput:
        """The input of a closed period, or the input that a gate counted; none for genesis.

        The head may lack the schemas of the reports: see `read_as`.
        """
        head = self.head
        if isinstance(head, GateHead):
            return head.counted
        if isinstance(head, CloseHead):
            return PeriodInput(
                head.cut, head.marks, head.marked, head.accounting, head.answering, head.read_as
            )
        return PeriodInput(self.genesis.cut, self.genesis.marks, {})

    @property
    def next_begin(self) -> Positions:
        """By partition, the position where the reports of the next close begin."""
        return dict(self.input.cut if self.reading is None else self.reading.begin)

    @property
    def next_marks(self) -> dict[int, int]:
        """By partition of the next close, the last period that a marker below the cut closes."""
        return {partition: self.input.marks.get(partition, 0) for partition in self.next_begin}

    @property
    def charges(self) -> tuple[Charge, ...]:
        period = self.gated or self.number
        return tuple(Charge(c.release, period, Fraction(c.rho)) for c in self.head.charges)

    @property
    def gated(self) -> int | None:
        """The period of the entry's gate. None for entries without a gate."""
        return self.number + 1 if isinstance(self.head, GateHead) else None

    @property
    def gate(self) -> GateHead:
        """The head of an entry with a gate."""
        assert isinstance(self.head, GateHead)
        return self.head

    @property
    def published(self) -> list[str]:
        """Hashes of the public messages of this entry, in order."""
        return list(self.head.public)

    @property
    def places(self) -> dict[str, str]:
        """The identities of both logs, by `log` and `public`, if the entry notes them."""
        return dict(self.head.places) if isinstance(self.head, GenesisHead | PlacedHead) else {}

    @property
    def signer(self) -> str | None:
        """The public key of the following messages. None if the entry names no key."""
        return self.head.signer if isinstance(self.head, GenesisHead | KeyHead) else None

    @property
    def jobs(self) -> list[Job]:
        """The batch jobs of the close."""
        if not isinstance(self.head, CloseHead):
            return []
        return [job.job(self.number) for job in self.head.jobs]

    @property
    def result_of(self) -> str | None:
        """The job of a published result. None for entries without a result."""
        return self.head.job if isinstance(self.head, ResultHead) else None

    @property
    def snapshot(self) -> tuple[str, str]:
        """Name and SHA-256 of the population's snapshot at the close of a period."""
        assert isinstance(self.head, CloseHead)
        return self.head.snapshot.name, self.head.snapshot.sha256

    @property
    def read_as(self) -> ReadAs | None:
        """The mapping and all schemas of a closed period's input. None for plain reports."""
        read_as = self.head.read_as if isinstance(self.head, CloseHead) else None
        if read_as is None or not any(is_part(name, SCHEMAS) for name, *_ in self.message.listed):
            return read_as
        return ReadAs(read_as.mapping, schemas_of(self.part(SCHEMAS)))

    @property
    def genesis(self) -> GenesisHead:
        """The head of entry 0. Raises Inconsistent for another entry."""
        if not isinstance(self.head, GenesisHead):
            raise Inconsistent("journal: its first entry does not begin a study")
        return self.head

    @property
    def designs(self) -> dict[str, StoredDesign]:
        """By release, the computations of the study's beginning, which genesis has."""
        return unpacked_designs(self.part(DESIGN))

    @property
    def key(self) -> bytes:
        """The key of the hash of ids, from genesis."""
        return bytes.fromhex(self.genesis.key)

    @property
    def declaration(self) -> Json:
        """The study in the public message of genesis."""
        manifest: Json = msgspec.json.decode(self.public_records()[-1].value or b"")
        declared: Json = manifest["study"]
        return declared

    def read(self) -> Message:
        """The message with its parts. Raises Inconsistent for parts of another hash."""
        if self.log is None:
            return self.message
        return read_parts(self.log, JOURNAL, self.message, "journal")

    def part(self, name: str) -> bytes:
        """A part of the message. Raises Inconsistent for a part of another hash."""
        if self.log is None:
            return self.message.part(name)
        return read_part(self.log, JOURNAL, self.message, name, label="journal")

    def state(self, release: str) -> bytes:
        """The period's addition to the state of a release's mechanism."""
        return state_of(self.part(state_name(release)))

    def public_records(self) -> list[Record]:
        """The decided records to be published."""
        return [record_of(data) for name, data in self.read().parts if name.startswith(PUBLIC)]


def close(
    previous: Message,
    period: ClosedPeriod,
    *,
    charges: Sequence[Charge],
    states: Mapping[str, bytes],
    public: Sequence[Record],
    hashes: Sequence[str],
) -> Message:
    """Builds the entry that closes a period, after the entry `previous`.

    period: its counts are not read.
    charges: of the period.
    states: by release, the period's addition to the mechanism's state.
    public: the records to be published.
    hashes: of the public messages, in order.
    """
    read_as, schemas = divided_reading(period.input.read_as)
    assert period.input.accounting is not None
    head = CloseHead(
        number=period.number,
        cut=period.input.cut,
        marks=period.input.marks,
        marked=period.input.marked,
        charges=[ChargeHead.of(charge) for charge in charges],
        snapshot=period.snapshot,
        accounting=period.input.accounting,
        answering=period.input.answering,
        public=list(hashes),
        code_version=__version__,
        jobs=[JobHead.of(job) for job in period.jobs],
        read_as=read_as,
    )
    return next_message(previous, head, [*entry_parts(public, states), *schemas])


def result(
    previous: Message,
    job: Job,
    digest: str,
    public: Sequence[Record],
    hashes: Sequence[str],
    fused_with: Sequence[int] = (),
) -> Message:
    """Builds the entry that publishes a job's result, after the entry `previous`.

    It has no charges, as the close that began the job was charged. digest: of the result's
    manifest. public, hashes: see `close`. fused_with: the periods of the tables of the same
    release that the result descends from.
    """
    head = ResultHead(
        number=job.period,
        job=job.id,
        release=job.release,
        result=digest,
        fused_with=list(fused_with),
        charges=[],
        public=list(hashes),
        code_version=__version__,
    )
    return next_message(previous, head, entry_parts(public, {}))


def weights(
    previous: Message, number: int, public: Sequence[Record], hashes: Sequence[str]
) -> Message:
    """Builds the entry that publishes weights of answers, after the entry `previous`.

    number: the last closed period. public, hashes: see `close`.
    """
    head = WeightsHead(number=number, charges=[], public=list(hashes), code_version=__version__)
    return next_message(previous, head, entry_parts(public, {}))


def weighted(entries: Sequence[Entry]) -> int:
    """The last period whose weights of answers are decided; 0 without any."""
    return max((e.number for e in entries if isinstance(e.head, WeightsHead)), default=0)


def placed(previous: Message, identities: Mapping[str, str]) -> Message:
    """Builds the entry that notes the identities of both logs, after the entry `previous`."""
    head = PlacedHead(
        number=head_of(previous).number,
        places=dict(identities),
        charges=[],
        public=[],
        code_version=__version__,
    )
    return next_message(previous, head, [])


def next_message(previous: Message, head: Head, message_parts: list[tuple[str, bytes]]) -> Message:
    """Builds the entry with a head and parts, after the entry `previous`."""
    return build_message(previous.index + 1, previous.hash, head.as_dict(), message_parts)


def journal_records(entry: Message, study: Study) -> list[Record]:
    kind, content = "stream-dp.decision", "application/octet-stream"
    return study_records(entry, JOURNAL, study, kind, content)


def has_begun(log: Log) -> bool:
    """Whether the journal has an entry."""
    return log.cut(JOURNAL, NEVER)[0] > 0


def genesis_hash(log: Log) -> str | None:
    """The hash of the first entry; None for an empty journal. Raises the errors of `read`."""
    entries = read_heads(log)
    return entries[0].message.hash if entries else None


def read(log: Log) -> list[Entry]:
    """All entries. Raises Inconsistent for a gap, damage or a broken chain."""
    return _in_order([Entry(decision) for decision in read_messages(log, JOURNAL, "journal")])


def read_heads(log: Log) -> list[Entry]:
    """All entries; their parts are read from the log, and checked, on access.

    Raises Inconsistent for a gap, a damaged head or a broken chain.
    """
    return _in_order([Entry(link, log) for link in read_chain(log, JOURNAL, "journal")])


def _in_order(entries: list[Entry]) -> list[Entry]:
    """The entries. Raises Inconsistent unless each closes the next period or ends a job.

    Before the close of a period there is at most one gate of it.
    """
    begun: set[str] = set()
    closed, gated = -1, 0
    for index, entry in enumerate(entries):
        result_of = entry.result_of
        if isinstance(entry.head, PlacedHead | ReadingHead | KeyHead | WeightsHead):
            continue
        if isinstance(entry.head, GateHead):
            if entry.number != closed or gated > closed:
                raise Inconsistent(f"journal: entry {index} has the gate of period {entry.gated}")
            gated = closed + 1
        elif result_of is None:
            closed += 1
            if entry.number != closed:
                raise Inconsistent(f"journal: entry {index} closes period {entry.number}")
            begun |= {job.id for job in entry.jobs}
        elif result_of in begun:
            begun.remove(result_of)
        else:
            raise Inconsistent(f"journal: entry {index} takes a result that no job waits for")
    return entries


def closes(entries: Sequence[Entry]) -> list[Entry]:
    """Genesis, and the entries that close a period: entry n closes period n."""
    found = list[Entry]()
    for entry in entries:
        if entry.closes:
            found.append(entry)
        elif found and isinstance(entry.head, ReadingHead):
            found[-1] = replace(found[-1], reading=entry.head)
    return found


def reports_topic(entries: Sequence[Entry]) -> ReportsTopic:
    """The topic of reports that a begun journal names last."""
    named = (e.head.reports for e in reversed(entries) if isinstance(e.head, ReadingHead))
    return next(named, entries[0].genesis.reports)


def has_drawn(entries: Sequence[Entry]) -> bool:
    """Whether noise was drawn: whether a period is closed, or has its gate."""
    return any(entry.closes or entry.gated is not None for entry in entries[1:])


def outstanding(entries: Sequence[Entry]) -> list[Job]:
    """The begun batch jobs without a result."""
    done = {entry.result_of for entry in entries}
    return [job for entry in entries for job in entry.jobs if job.id not in done]
