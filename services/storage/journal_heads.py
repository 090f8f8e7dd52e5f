"""The form of journal entries: a head as JSON, and parts.

Fields of a head with their default are not written. An entry with an unknown field is refused: a
later version wrote the entry, and the field may change its meaning. The parts are states of
mechanisms and public records, compressed.
"""

from __future__ import annotations

import lzma
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TypeAlias

import msgspec

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Record
from stream_dp.log.message import Message, message_records, split_part
from stream_dp.log.signing import SigningKey
from stream_dp.population.cells import Answering, CellCounts
from stream_dp.population.shapes.record_contents import ReadAs, SchemaUse
from stream_dp.privacy.ledger import Charge
from stream_dp.study import Study

from .job_records import Job, SnapshotFile

PUBLIC = "public/"  # begins the names of parts that are public records
SCHEMAS = "schemas"  # the part with the schemas of a period's reports, if the head has no room
_IN_HEAD = 100_000  # bytes of the schemas in the head, at most
_PRESET = 0  # a panel's column of 10^8 rows takes 4 seconds


def entry_parts(public: Sequence[Record], states: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """The parts of an entry: the states, split to fit a record, and the public records."""
    packed = [_compressed(msgspec.msgpack.encode(record)) for record in public]
    return [
        *chain.from_iterable(
            split_part(state_name(release), _compressed(state)) for release, state in states.items()
        ),
        *((f"{PUBLIC}{i}", data) for i, data in enumerate(packed)),
    ]


def divided_reading(read_as: ReadAs | None) -> tuple[ReadAs | None, list[tuple[str, bytes]]]:
    """How a period's records were read, for the head of its entry and for its parts."""
    if read_as is None:
        return None, []
    schemas = msgspec.json.encode(read_as.schemas)
    if len(schemas) <= _IN_HEAD:
        return read_as, []
    return ReadAs(read_as.mapping), split_part(SCHEMAS, _compressed(schemas))


def schemas_of(data: bytes) -> dict[int, SchemaUse]:
    """Unpacks the schemas of a period. Raises Inconsistent."""
    schemas = _decompressed(data, "the list of schemas of a period")
    return msgspec.json.decode(schemas, type=dict[int, SchemaUse])


def state_name(release: str) -> str:
    """The name of the part with a period's addition to the state of a release."""
    return f"state {release}"


def state_of(data: bytes) -> bytes:
    """Unpacks a state. Raises Inconsistent."""
    return _decompressed(data, "a mechanism's state")


def record_of(data: bytes) -> Record:
    """Unpacks a public record. Raises Inconsistent."""
    return msgspec.msgpack.decode(_decompressed(data, "what is to be published"), type=Record)


def _compressed(data: bytes) -> bytes:
    # LZMA takes answers, which are columns of numbers, to two thirds of what zlib does.
    return lzma.compress(data, check=lzma.CHECK_NONE, preset=_PRESET)


def _decompressed(data: bytes, subject: str) -> bytes:
    try:
        return lzma.decompress(data)
    except lzma.LZMAError:
        raise Inconsistent(f"journal: {subject} is damaged; restore a backup") from None


def study_records(
    message: Message,
    topic: str,
    study: Study,
    kind: str,
    content: str = "application/json",
    *,
    time: float | None = None,
    signer: SigningKey | None = None,
) -> list[Record]:
    """The records of a study's message, see `message_records`."""
    source = f"stream-dp/{study.name}"
    return message_records(
        message, topic, kind=kind, source=source, content=content, time=time, signer=signer
    )


GENESIS, CLOSE, RESULT, PLACED, KEY, GATE = "genesis", "close", "result", "placed", "key", "gate"
READING, WEIGHTS = "reading", "weights"


class ChargeHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    release: str
    rho: str  # an exact fraction

    @classmethod
    def of(cls, charge: Charge) -> ChargeHead:
        return cls(charge.release, str(charge.rho))


class JobHead(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A batch job. The entry has the job's period."""

    id: str
    release: str
    rho: str  # an exact fraction
    groups: SnapshotFile | None
    people: SnapshotFile | None
    sizes: SnapshotFile | None = None

    @classmethod
    def of(cls, job: Job) -> JobHead:
        return cls(job.id, job.release, job.rho, job.groups, job.people, job.sizes)

    def job(self, period: int) -> Job:
        return Job(self.id, self.release, period, self.rho, self.groups, self.people, self.sizes)


class ReportsTopic(msgspec.Struct, frozen=True):
    identity: str
    partitions: int


class PeriodInput(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The input of a period, up to its close or to its gate.

    cut: by partition, the position where the input ends.
    marks: by partition, the last period that a marker below the cut closes.
    marked: by partition, the append time of that marker, in milliseconds.
    accounting: the outcome of all cells since the study began; None before the close.
    answering: the people with an answer for the period, and their answers, at the close.
    read_as: how the records were read; None for plain reports, and before the close.
    """

    cut: dict[int, int]
    marks: dict[int, int]
    marked: dict[int, int]
    accounting: CellCounts | None = None
    answering: Answering = Answering()
    read_as: ReadAs | None = None


class _Head(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag=GENESIS,
):
    number: int  # of a period, see Entry.number
    public: list[str]  # hashes of the public messages, in order
    charges: list[ChargeHead]
    code_version: str

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        fields: dict[str, object] = msgspec.to_builtins(self, str_keys=True)
        return fields


class GenesisHead(_Head, frozen=True, kw_only=True, tag=GENESIS):
    """The head of entry 0."""

    study_hash: str
    reports: ReportsTopic
    key: str  # of the hash of ids, hexadecimal
    simulated: bool
    cut: dict[int, int]  # by partition, 0
    marks: dict[int, int]  # by partition, 0
    places: dict[str, str]  # identities of both logs, by `log` and `public`
    groups: str | None = None  # the hash of the table of groups
    signer: str | None = None  # the public key that signs what is published


class CloseHead(_Head, frozen=True, kw_only=True, tag=CLOSE):
    """The head of an entry with a closed period: the fields of its input beside the others."""

    cut: dict[int, int]
    marks: dict[int, int]
    marked: dict[int, int]
    snapshot: SnapshotFile
    accounting: CellCounts
    answering: Answering = Answering()
    jobs: list[JobHead] = []
    read_as: ReadAs | None = None


class ResultHead(_Head, frozen=True, kw_only=True, tag=RESULT):
    """The head of an entry that publishes the result of a job."""

    job: str
    release: str
    result: str  # the hash of the result's manifest
    fused_with: list[int] = []  # the periods of the tables that it descends from


class PlacedHead(_Head, frozen=True, kw_only=True, tag=PLACED):
    """The head of an entry that notes the identities of both logs."""

    places: dict[str, str]


class ReadingHead(_Head, frozen=True, kw_only=True, tag=READING):
    """The head of an entry after which reports are read from more partitions, or another topic.

    begin: by partition, the position where the reports of the next close begin.
    another: whether it is another topic than before.
    """

    reports: ReportsTopic
    begin: dict[int, int]
    another: bool = False


class KeyHead(_Head, frozen=True, kw_only=True, tag=KEY):
    """The head of an entry that publishes a new key of signatures."""

    signer: str


class WeightsHead(_Head, frozen=True, kw_only=True, tag=WEIGHTS):
    """The head of an entry that publishes the weights of answers after a close."""


class GateHead(_Head, frozen=True, kw_only=True, tag=GATE):
    """The head of an entry with the gate of the period after `number`, the last closed one."""

    counted: PeriodInput
    people: int  # the noisy count
    held: bool


Head: TypeAlias = (
    GenesisHead
    | CloseHead
    | ResultHead
    | PlacedHead
    | ReadingHead
    | KeyHead
    | WeightsHead
    | GateHead
)


def head_of(message: Message) -> Head:
    """The head of a journal entry. Raises Inconsistent for any other message."""
    try:
        head: Head = msgspec.convert(message.head, Head, str_keys=True)
    except msgspec.ValidationError:
        raise Inconsistent(
            f"journal: entry {message.index} is none that this version of stream-dp reads; run the"
            " version that wrote it"
        ) from None
    return head
