"""The parts of journal entries: states and public records, compressed; a study's records."""

from __future__ import annotations

import lzma
from collections.abc import Mapping, Sequence
from itertools import chain

import msgspec

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Record
from stream_dp.log.message import Message, message_records, split_part
from stream_dp.log.signing import SigningKey
from stream_dp.population.report_decoding import ReadAs, SchemaUse
from stream_dp.study import Study

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
