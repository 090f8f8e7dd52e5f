"""Messages: a manifest and its parts, as records of one topic that are committed together.

Every part is a record of its own; the manifest comes last and holds each part's name, length
and SHA-256, the hash of the message before it, and whatever its writer put in its head. The
manifest's own SHA-256 is the message's hash: so messages form a chain.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from stream_dp.errors import Inconsistent

from .base import Headers, Log, Record, Stored
from .signing import SigningKey

# Room for headers and framing under the log's limit for a record.
MAX_PART = 900_000
START = "0" * 64
_PART = "stream-dp-part"
PartListing = tuple[str, int, str]  # name, bytes, SHA-256
SIGNATURE = "stream-dp-signature"  # the header of a manifest that is signed
_AT_ONCE = 20  # records of one read: a record is up to a megabyte


@dataclass(frozen=True)
class Message:
    """A message.

    index: from 0, its place in the chain.
    head: JSON.
    parts: (name, bytes); empty where only the manifest was read.
    previous, hash: the hash of the message before it, and its own.
    signature: of the manifest, in base64; empty where it was read without one.
    start: the position of its first record in the topic that it was read from.
    """

    index: int
    head: dict[str, Any]
    parts: tuple[tuple[str, bytes], ...]
    previous: str
    hash: str
    manifest: bytes
    signature: str = field(default="", compare=False)
    start: int = field(default=-1, compare=False)

    @cached_property
    def listed(self) -> list[PartListing]:
        """The parts as the manifest lists them."""
        return [(p["name"], p["bytes"], p["sha256"]) for p in json.loads(self.manifest)["parts"]]

    def part(self, name: str) -> bytes:
        """A part's bytes, or those of the parts NAME/0, NAME/1, ... joined."""
        return b"".join(data for listed, data in self.parts if is_part(listed, name))


def is_part(listed: str, name: str) -> bool:
    """Whether a listed part is the named one, or one of those that it was split into."""
    return listed == name or listed.rsplit("/", 1)[0] == name


def canonical(value: object) -> bytes:
    """JSON with sorted keys and no spaces: the same bytes for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def split_part(name: str, data: bytes) -> list[tuple[str, bytes]]:
    """A part of any length as parts that fit a record."""
    return [
        (f"{name}/{i}", data[start : start + MAX_PART])
        for i, start in enumerate(range(0, max(len(data), 1), MAX_PART))
    ]


def build_message(
    index: int, previous: str, head: dict[str, Any], parts: Sequence[tuple[str, bytes]]
) -> Message:
    """The message with that content, its manifest and hash. Raises ValueError on a large part."""
    if any(len(data) > MAX_PART for _, data in parts):
        raise ValueError("a part is too large for a record")
    listed = [
        {"name": name, "bytes": length, "sha256": digest}
        for name, length, digest in listed_parts(parts)
    ]
    manifest = canonical({**head, "index": index, "previous": previous, "parts": listed})
    digest = hashlib.sha256(manifest).hexdigest()
    return Message(
        index=index,
        head=head,
        parts=tuple(parts),
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
    """The message as records of partition 0, with CloudEvents headers (Kafka binding 1.0).

    content: the parts' media type. time: Unix seconds, the event's scheduled time; without one,
    no ce_time and a timestamp of 0, which a log may store as 1 (base.Record).
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

    def record(name: str, data: bytes, media: str, *more: tuple[str, bytes]) -> Record:
        headers: Headers = (
            *common,
            ("ce_id", f"{sent.index}/{name}".encode()),
            ("content-type", media.encode()),
            (_PART, name.encode()),
            *more,
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
    """The parts among a message's records, without its manifest."""
    named = [(dict(r.headers)[_PART].decode(), r.value or b"") for r in sent]
    return tuple((name, data) for name, data in named if name != "manifest")


def rfc3339_utc(time: float) -> str:
    """Unix seconds as RFC 3339 in UTC."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def listed_parts(parts: Iterable[tuple[str, bytes]]) -> list[PartListing]:
    """Parts as a manifest lists them."""
    return [(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in parts]


def part_name(record: Stored) -> str:
    """The name of the part in a record; `manifest` for that of the manifest."""
    return record.header(_PART).decode("utf-8", "replace")


def check_topic(log: Log, topic: str, what: str) -> None:
    """Raises Inconsistent for several partitions, and where the first records are gone."""
    info = log.describe(topic)
    if info.partitions != 1:
        raise Inconsistent(f"{what}: has {info.partitions} partitions and must have 1")
    if info.first[0] != 0:
        raise Inconsistent(
            f"{what}: begins at position {info.first[0]}, so its first records are gone; "
            "restore it whole and give it unlimited retention"
        )


def read_messages(log: Log, topic: str, what: str) -> Iterator[Message]:
    """Every message of a topic, in order, each checked against its manifest and the chain.

    Raises Inconsistent that says which: a gap, a broken chain, a damaged part.
    """
    check_topic(log, topic, what)
    position, parts, start = 0, list[tuple[str, bytes]](), 0
    index, previous = 0, START
    while True:
        batch = log.read(topic, {0: position}, _AT_ONCE, 0)
        for record in batch.records:
            name = part_name(record)
            start = start if parts else record.offset
            if name != "manifest":
                parts.append((name, record.value or b""))
                continue
            message = _checked_message(
                manifest=record.value or b"",
                parts=tuple(parts),
                index=index,
                previous=previous,
                what=what,
            )
            index, previous, parts = index + 1, message.hash, []
            signature = record.header(SIGNATURE).decode("ascii", "replace")
            yield replace(message, start=start, signature=signature)
        position = batch.next[0]
        if batch.at_end:
            break
    if parts:
        raise Inconsistent(f"{what}: ends in the middle of message {index}; restore a backup")


def manifest_message(manifest: bytes) -> Message:
    """The message of a manifest, without its parts. Raises ValueError for a damaged one."""
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
    manifest: bytes, parts: tuple[tuple[str, bytes], ...], index: int, previous: str, what: str
) -> Message:
    """The message of a manifest and its parts, at its place in the chain. Raises Inconsistent."""
    try:
        message = manifest_message(manifest)
    except ValueError:
        raise Inconsistent(f"{what}: the manifest of message {index} is damaged") from None
    if message.index != index:
        raise Inconsistent(f"{what}: message {index} is missing; the next one is {message.index}")
    if message.previous != previous:
        raise Inconsistent(
            f"{what}: message {index} does not follow the one before it (broken hash chain)"
        )
    if listed_parts(parts) != message.listed:
        raise Inconsistent(f"{what}: message {index} does not have the bytes of its manifest")
    return replace(message, parts=parts)


def _finite(text: str) -> float:
    """A number of JSON. Raises ValueError for one that is none, or too large for a float."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number
