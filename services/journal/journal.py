"""The journal: the releaser's confidential record of decisions, a chain of messages.

Entry 0 (genesis) binds the study to its input. It holds the key of the hash of ids, and the study's
design: what its mechanisms compute in floats, once for every machine. Every other entry closes a
period, publishes the result of a batch job that a close began, names another key of signatures, or
notes that the logs are in other files. An entry holds the exact records to be published, signatures
included, so that publishing, at once or after a crash, only copies them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial

import msgspec

from stream_dp import __version__
from stream_dp.continual.stored_design import StoredDesign, unpacked_designs
from stream_dp.errors import Inconsistent
from stream_dp.json_object import Json
from stream_dp.log.chain import read_chain, read_part, read_parts
from stream_dp.log.log import Log, Positions, Record
from stream_dp.log.message import Message, build_message, message_records, read_messages
from stream_dp.population import CellCounts
from stream_dp.population.report_decoding import ReadAs
from stream_dp.privacy.ledger import Charge
from stream_dp.study import Study
from stream_dp.study.topics import JOURNAL

from ..jobs.job_records import Job, SnapshotFile
from .closed_input import ClosedInput
from .journal_heads import (
    ChargeHead,
    CloseHead,
    GenesisHead,
    Head,
    JobHead,
    KeyHead,
    PlacedHead,
    ResultHead,
    head_of,
)
from .journal_parts import PUBLIC, entry_parts, record_of, state_name, state_of

DESIGN = "design"  # the part of genesis with the study's design


@dataclass(frozen=True)
class Entry:
    """A journal entry: the typed head of its message, and the contents of its parts.

    message: it lacks its parts where they are read when they are asked for.
    complete: reads the message with its parts, which takes memory only while they are used.
    fetch: reads the part of a name.
    """

    message: Message
    complete: Callable[[], Message] | None = field(default=None, compare=False)
    fetch: Callable[[str], bytes] | None = field(default=None, compare=False)

    @cached_property
    def head(self) -> Head:
        """Raises Inconsistent where the message is no journal entry."""
        return head_of(self.message)

    @property
    def closes(self) -> bool:
        """Whether it closes a period, as genesis does for number 0."""
        return isinstance(self.head, GenesisHead | CloseHead)

    @property
    def number(self) -> int:
        """The number of its period; 0 for genesis.

        That is the period that it closes, the one of its job, or the last that was closed before.
        """
        return self.head.number

    @property
    def cut(self) -> Positions:
        """By partition, the position where the input of its period ends."""
        return dict(self._closing.cut)

    @property
    def marks(self) -> dict[int, int]:
        """By partition, the last period that a marker below the cut closes."""
        return dict(self._closing.marks)

    @property
    def marked(self) -> dict[int, int]:
        """By partition, when that marker was appended, in milliseconds."""
        return dict(self.head.marked) if isinstance(self.head, CloseHead) else {}

    @property
    def charges(self) -> tuple[Charge, ...]:
        return tuple(Charge(c.release, self.number, Fraction(c.rho)) for c in self.head.charges)

    @property
    def published(self) -> list[str]:
        """Hashes of the public messages of this entry, in order."""
        return list(self.head.public)

    @property
    def places(self) -> dict[str, str]:
        """The places of both logs, by `log` and `public`, where the entry notes them."""
        return dict(self.head.places) if isinstance(self.head, GenesisHead | PlacedHead) else {}

    @property
    def signer(self) -> str | None:
        """The public key that the entry names for what is published from then on."""
        return self.head.signer if isinstance(self.head, GenesisHead | KeyHead) else None

    @property
    def jobs(self) -> list[Job]:
        """The batch jobs that the close begins."""
        if not isinstance(self.head, CloseHead):
            return []
        return [job.job(self.number) for job in self.head.jobs]

    @property
    def result_of(self) -> str | None:
        """The job whose result it publishes; None for an entry of another kind."""
        return self.head.job if isinstance(self.head, ResultHead) else None

    @property
    def snapshot(self) -> tuple[str, str]:
        """Name and SHA-256 of the population's snapshot at the close of a period."""
        assert isinstance(self.head, CloseHead)
        return self.head.snapshot.name, self.head.snapshot.sha256

    @property
    def accounting(self) -> CellCounts | None:
        """The outcome of all cells up to the cut; None for entries that close no period."""
        return self.head.accounting if isinstance(self.head, CloseHead) else None

    @property
    def read_as(self) -> ReadAs | None:
        """How the input of its period was read; None for plain reports."""
        return self.head.read_as if isinstance(self.head, CloseHead) else None

    @property
    def genesis(self) -> GenesisHead:
        """The head of entry 0. Raises Inconsistent for any other."""
        if not isinstance(self.head, GenesisHead):
            raise Inconsistent("journal: its first entry does not begin a study")
        return self.head

    @property
    def designs(self) -> dict[str, StoredDesign]:
        """By release, what was computed when the study began; genesis has it."""
        return unpacked_designs(self.part(DESIGN))

    @property
    def key(self) -> bytes:
        """The key of the hash of ids, which genesis has."""
        return bytes.fromhex(self.genesis.key)

    @property
    def declaration(self) -> Json:
        """The study as genesis publishes it."""
        manifest = self.public_records()[-1]
        declared: Json = msgspec.json.decode(manifest.value or b"")["study"]
        return declared

    @property
    def _closing(self) -> GenesisHead | CloseHead:
        assert isinstance(self.head, GenesisHead | CloseHead)
        return self.head

    def read(self) -> Message:
        """The message with its parts. Raises Inconsistent unless they are as its manifest says."""
        return self.message if self.complete is None else self.complete()

    def part(self, name: str) -> bytes:
        """A part of the message. Raises Inconsistent unless it is as the manifest says."""
        return self.message.part(name) if self.fetch is None else self.fetch(name)

    def state(self, release: str) -> bytes:
        """What the period adds to the state of a release's mechanism."""
        return state_of(self.part(state_name(release)))

    def public_records(self) -> list[Record]:
        """The records to be published, as they were decided."""
        return [record_of(data) for name, data in self.read().parts if name.startswith(PUBLIC)]


def close(
    before: Message,
    closed_input: ClosedInput,
    *,
    charges: Sequence[Charge],
    states: Mapping[str, bytes],
    public: Sequence[Record],
    hashes: Sequence[str],
) -> Message:
    """Builds the entry that closes a period, after the entry `before`.

    closed_input: the period's input; its counts are not looked at.
    charges: the period's charges.
    states: by release, what the period adds to its mechanism's state.
    public: the records to be published.
    hashes: the hashes of the public messages, in order.
    """
    head = CloseHead(
        number=closed_input.number,
        cut=dict(closed_input.cut),
        marks=dict(closed_input.marks),
        marked=dict(closed_input.marked),
        charges=[ChargeHead.of(charge) for charge in charges],
        snapshot=SnapshotFile(*closed_input.snapshot),
        accounting=closed_input.accounting,
        public=list(hashes),
        code_version=__version__,
        jobs=[JobHead.of(job) for job in closed_input.jobs],
        read_as=closed_input.read_as,
    )
    return next_message(before, head, entry_parts(public, states))


def result(
    before: Message, job: Job, digest: str, public: Sequence[Record], hashes: Sequence[str]
) -> Message:
    """The entry that publishes a job's result, after the entry `before`.

    It has no charges, as the close that began the job was charged.

    digest: the hash of the result's manifest.
    public: the records to be published.
    hashes: the hashes of the public messages, in order.
    """
    head = ResultHead(
        number=job.period,
        job=job.id,
        release=job.release,
        result=digest,
        charges=[],
        public=list(hashes),
        code_version=__version__,
    )
    return next_message(before, head, entry_parts(public, {}))


def placed(before: Message, places: Mapping[str, str]) -> Message:
    """The entry that notes the places of both logs, after the entry `before`."""
    head = PlacedHead(
        number=head_of(before).number,
        places=dict(places),
        charges=[],
        public=[],
        code_version=__version__,
    )
    return next_message(before, head, [])


def next_message(before: Message, head: Head, parts: list[tuple[str, bytes]]) -> Message:
    """The entry with this head and these parts, after the entry `before`."""
    return build_message(before.index + 1, before.hash, head.as_dict(), parts)


def journal_records(entry: Message, study: Study) -> list[Record]:
    return message_records(
        entry,
        JOURNAL,
        kind="stream-dp.decision",
        source=f"stream-dp/{study.name}",
        content="application/octet-stream",
        time=None,
    )


def read(log: Log) -> list[Entry]:
    """All entries. Raises Inconsistent for a gap, damage or a broken chain."""
    return _in_order([Entry(decision) for decision in read_messages(log, JOURNAL, "journal")])


def read_heads(log: Log) -> list[Entry]:
    """All entries; their parts are read from the log, and checked, when they are asked for.

    Raises Inconsistent for a gap, a damaged head or a broken chain.
    """
    return _in_order(
        [
            Entry(
                link,
                partial(read_parts, log, JOURNAL, link, "journal"),
                partial(read_part, log, JOURNAL, link, label="journal"),
            )
            for link in read_chain(log, JOURNAL, "journal")
        ]
    )


def _in_order(entries: list[Entry]) -> list[Entry]:
    """The entries. Raises Inconsistent unless each closes the next period or ends a job."""
    begun: set[str] = set()
    closed = -1
    for index, entry in enumerate(entries):
        result_of = entry.result_of
        if isinstance(entry.head, PlacedHead | KeyHead):
            continue
        if result_of is None:
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
    return [entry for entry in entries if entry.closes]


def certified_charges(entry: Entry, study: Study) -> tuple[Charge, ...]:
    """The charges that certificates count once the entry is published.

    The charge of a data set is in the close that begins its job, but counts only with the job's
    result, as an abandoned job publishes nothing.
    """
    if not isinstance(entry.head, ResultHead):
        return tuple(c for c in entry.charges if study.batch(c.release) is None)
    batch = study.batch(entry.head.release)
    assert batch is not None
    return (Charge(batch.name, entry.number, batch.rho),)


def outstanding(entries: Sequence[Entry]) -> list[Job]:
    """The batch jobs that have begun and have no result."""
    done = {entry.result_of for entry in entries}
    return [job for entry in entries for job in entry.jobs if job.id not in done]
