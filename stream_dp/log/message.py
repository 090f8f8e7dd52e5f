"""Messages: a manifest and its parts, committed together to a topic.

Every part is a record. The manifest comes last. It holds each part's name, length and SHA-256, the
hash of the preceding message, and a head with the writer's content. The manifest's SHA-256 is the
message's hash: so messages form a chain.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property

from stream_dp.errors import Inconsistent
from stream_dp.json_object import Json

from .log import Headers, Log, Record, Stored, TopicInfo
from .signing import SigningKey

# Room for headers and framing under the log's limit for a record.
MAX_PART = 900_000
START = "0" * 64
PART = "stream-dp-part"  # the header with the name of a part
MANIFEST = b"manifest"  # and its value for a manifest
PartListing = tuple[str, int, str]  # name, bytes, SHA-256
SIGNATURE = "stream-dp-signature"  # the header of a manifest that is signed (signing.py)
_AT_ONCE = 20  # records of one read: a record is up to a megabyte


@dataclass(frozen=True)
class Message:
    """A message.

    index: the message's number in the chain, from 0.
    head: JSON.
    parts: (name, bytes); empty if only the manifest was read.
    previous: the hash of the preceding message.
    hash: the hash of this message.
    signature: of the manifest, an attestation in JSON; empty if it was read without one.
    start: the offset of its first record in the topic that it was read from.
    """

    index: int
    head: Json
    parts: tuple[tuple[str, bytes], ...]
    previous: str
    hash: str
    manifest: bytes
    signature: str = field(default="", compare=False)
    start: int = field(default=-1, compare=False)

    @cached_property
    def listed(self) -> list[PartListing]:
        """The name, length and SHA-256 of every part in the manifest."""
        return [(p["name"], p["bytes"], p["sha256"]) for p in json.loads(self.manifest)["parts"]]

    def part(self, name: str) -> bytes:
        """Returns a part's bytes, or the joined bytes of the parts NAME/0, NAME/1, ..."""
        return b"".join(data for listed, data in self.parts if is_part(listed, name))


def is_part(listed: str, name: str) -> bool:
    """Tells whether a listed part is the part `name` or a piece of it (`split_part`)."""
    return listed == name or listed.rsplit("/", 1)[0] == name


def canonical(value: object) -> bytes:
    """Writes JSON with sorted keys and no spaces: the same bytes for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def split_part(name: str, data: bytes) -> list[tuple[str, bytes]]:
    """Splits data of any length into parts within the limit of a record."""
    return [
        (f"{name}/{i}", data[start : start + MAX_PART])
        for i, start in enumerate(range(0, max(len(data), 1), MAX_PART))
    ]


def build_message(
    index: int, previous: str, head: Json, contents: Sequence[tuple[str, bytes]]
) -> Message:
    """Builds a message with its manifest and hash. Raises ValueError on a large part."""
    if any(len(data) > MAX_PART for _, data in contents):
        raise ValueError("a part is too large for a record")
    listed = [
        {"name": name, "bytes": length, "sha256": digest}
        for name, length, digest in listed_parts(contents)
    ]
    manifest = canonical({**head, "index": index, "previous": previous, "parts": listed})
    digest = hashlib.sha256(manifest).hexdigest()
    return Message(
        index=index,
        head=head,
        parts=tuple(contents),
        previous=previous,
        hash=digest,
        manifest=manifest,
    )


def message_records(
    sent: Message,
    topic: str,
    *,
    kind: str,
    source: str,
    content: str,
    time: float | None,
    signer: SigningKey | None = None,
) -> list[Record]:
    """Returns the message as records of partition 0, with CloudEvents headers (Kafka binding 1.0).

    content: the parts' media type.
    time: Unix seconds, the event's scheduled time. Without it there is no ce_time, and the
    timestamp
        is 0, which a log may store as 1 (`Record`).
    signer: signs the manifest.
    """
    common: list[tuple[str, bytes]] = [
        ("ce_specversion", b"1.0"),
        ("ce_type", kind.encode()),
        ("ce_source", source.encode()),
    ]
    if time is not None:
        common.append(("ce_time", rfc3339_utc(time).encode()))
    stamp = 0 if time is None else max(0, round(time * 1000))

    def record(name: str, data: bytes, media: str, *extra_headers: tuple[str, bytes]) -> Record:
        headers: Headers = (
            *common,
            ("ce_id", f"{sent.index}/{name}".encode()),
            ("content-type", media.encode()),
            (PART, name.encode()),
            *extra_headers,
        )
        return Record(
            topic=topic,
            value=data,
            key=str(sent.index).encode(),
            headers=headers,
            partition=0,
            time=stamp,
        )

    records = [record(name, data, content) for name, data in sent.parts]
    signed = [] if signer is None else [(SIGNATURE, signer.sign(sent.manifest).encode())]
    return [*records, record("manifest", sent.manifest, "application/json", *signed)]


def parts_in_records(sent: Sequence[Record]) -> tuple[tuple[str, bytes], ...]:
    """Returns the parts among a message's records, without its manifest."""
    named = [(dict(r.headers)[PART].decode(), r.value or b"") for r in sent]
    return tuple((name, data) for name, data in named if name != "manifest")


def rfc3339_utc(time: float) -> str:
    """Formats Unix seconds in RFC 3339, UTC."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def listed_parts(contents: Iterable[tuple[str, bytes]]) -> list[PartListing]:
    """Lists the name, length and SHA-256 of every part, in the form of a manifest."""
    return [(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in contents]


def part_name(record: Stored) -> str:
    """Returns the name of the part in a record, `manifest` for the manifest."""
    return record.header(PART).decode("utf-8", "replace")


def check_topic(log: Log, topic: str, label: str) -> None:
    """Checks that a topic has a single partition and still has its first record.

    Raises Inconsistent. label: the topic's name in error messages.
    """
    check_whole(log.describe(topic), label)


def check_whole(info: TopicInfo, label: str) -> None:
    """Raises Inconsistent unless a topic has a single partition with its first record."""
    if info.partitions != 1:
        raise Inconsistent(f"{label}: has {info.partitions} partitions and must have 1")
    if info.first[0] != 0:
        raise Inconsistent(
            f"{label}: begins at position {info.first[0]}, so its first records are gone; "
            "restore it whole and give it unlimited retention"
        )


def read_messages(
    log: Log, topic: str, label: str, after: Message | None = None
) -> Iterator[Message]:
    """Yields every message of a topic, in order, checked against its manifest and the chain.

    after: the last message that was read before, to yield those after it

    Raises Inconsistent for a gap, a broken chain or a damaged part; the text names the message.
    """
    check_topic(log, topic, label)
    position, contents, start = 0, list[tuple[str, bytes]](), 0
    index, previous = 0, START
    if after is not None:  # read again, to see that the log still has it
        position, index, previous = after.start, after.index, after.previous
    while True:
        batch = log.read(topic, {0: position}, _AT_ONCE, 0)
        for record in batch.records:
            name = part_name(record)
            start = start if contents else record.offset
            if name != "manifest":
                contents.append((name, record.value or b""))
                continue
            message = _checked_message(
                manifest=record.value or b"",
                contents=tuple(contents),
                index=index,
                previous=previous,
                label=label,
            )
            index, previous, contents = index + 1, message.hash, []
            if after is not None and message.index == after.index:
                if message.hash != after.hash:
                    raise Inconsistent(f"{label}: message {message.index} is another one by now")
                continue
            signature = record.header(SIGNATURE).decode("ascii", "replace")
            yield replace(message, start=start, signature=signature)
        position = batch.next[0]
        if batch.at_end:
            break
    if contents:
        raise Inconsistent(f"{label}: ends in the middle of message {index}; restore a backup")
    if after is not None and index == after.index:
        raise Inconsistent(f"{label}: message {index} is not there any more; restore a backup")


def manifest_message(manifest: bytes) -> Message:
    """Returns the message of a manifest, without its parts. Raises ValueError for a damaged
    manifest.
    """
    try:
        head = json.loads(manifest, parse_float=_finite, parse_constant=_finite)
        all((p["name"], p["bytes"], p["sha256"]) for p in head.pop("parts"))
        index, previous = head.pop("index"), head.pop("previous")
    except (KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError from None
    if type(index) is not int or not 0 <= index < 1 << 63:
        raise ValueError
    return Message(
        index=index,
        head=head,
        parts=(),
        previous=previous,
        hash=hashlib.sha256(manifest).hexdigest(),
        manifest=manifest,
    )


def _checked_message(
    manifest: bytes, contents: tuple[tuple[str, bytes], ...], index: int, previous: str, label: str
) -> Message:
    """Checks a manifest, its parts and its index in the chain. Raises Inconsistent."""
    try:
        message = manifest_message(manifest)
    except ValueError:
        raise Inconsistent(f"{label}: the manifest of message {index} is damaged") from None
    if message.index != index:
        raise Inconsistent(f"{label}: message {index} is missing; the next one is {message.index}")
    if message.previous != previous:
        raise Inconsistent(
            f"{label}: message {index} does not follow the one before it (broken hash chain)"
        )
    if listed_parts(contents) != message.listed:
        raise Inconsistent(f"{label}: message {index} does not have the bytes of its manifest")
    return replace(message, parts=contents)


def _finite(text: str) -> float:
    """Parses a JSON number. Raises ValueError unless the text is a finite float."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number
