"""Messages: a manifest and its parts, committed together to a topic.

Every part is a record. The manifest comes last. It holds each part's name, length and SHA-256, the
hash of the preceding message, and a head with the writer's content. The manifest's SHA-256 is the
message's hash: so messages form a chain.

A manifest also states the number of its message's records. So `read_chain` reads the chain
backwards from its end, without the parts of large messages; the parts of small messages are read
and checked. If a record is not as expected, every record is read from the beginning instead, and
`read_messages` raises Inconsistent with the reason.
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

from .log import NEVER, Headers, Log, Record, Stored, TopicInfo, stop_following
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
        timestamp is 0, which a log may store as 1 (`Record`).
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


_BYTES_AT_ONCE = 2_000_000  # bytes of one read, about
_FIRST, _FEWEST, _MOST = 20, 2, 1_000  # records of one read


def read_chain(log: Log, topic: str, label: str) -> list[Message]:
    """Reads every message of a topic, in order, without its parts.

    label: the topic's name in error messages. `read_parts` reads the parts.

    Raises Inconsistent for a gap, a broken chain, a damaged manifest, and records after the last.
    """
    check_topic(log, topic, label)
    chain = _read_backwards(log, topic)
    if chain is None:
        chain = [replace(message, parts=()) for message in read_messages(log, topic, label)]
    return chain


def read_parts(log: Log, topic: str, message: Message, label: str) -> Message:
    """Reads the parts of a message returned by `read_chain`.

    Raises Inconsistent unless the parts are those in the manifest.
    """
    records, position = list[Stored](), message.start
    while not records or part_name(records[-1]) != "manifest":
        batch = log.read(topic, {0: position}, len(message.listed) + 1, 0)
        position = batch.next[0]
        for record in batch.records:
            records.append(record)
            if part_name(record) == "manifest":
                break
        if batch.at_end:
            break
    contents = tuple((part_name(record), record.value or b"") for record in records[:-1])
    if (
        not records
        or records[-1].value != message.manifest
        or listed_parts(contents) != message.listed
    ):
        raise _other_bytes(message, label)
    return replace(message, parts=contents)


def read_part(log: Log, topic: str, message: Message, name: str, label: str) -> bytes:
    """Reads a single part of a message returned by `read_chain`; see `Message.part`.

    Raises Inconsistent unless the part is as the manifest says.
    """
    listed_rows = [i for i, (listed, _, _) in enumerate(message.listed) if is_part(listed, name)]
    if not listed_rows:
        return b""
    first, last = message.start + listed_rows[0], message.start + listed_rows[-1]
    contents = [(part_name(r), r.value or b"") for r in _records(log, topic, first, last + 1)]
    if listed_parts(contents) != [message.listed[i] for i in listed_rows]:
        raise _other_bytes(message, label)
    return b"".join(data for _, data in contents)


def _other_bytes(message: Message, label: str) -> Inconsistent:
    return Inconsistent(f"{label}: message {message.index} does not have the bytes of its manifest")


def _read_backwards(log: Log, topic: str) -> list[Message] | None:
    """Reads the messages backwards, without parts. None if a record is not as expected.

    A message is its parts' records and then its manifest, so the end of a window of records tells
    how many records before it belong to the message. The parts of a small message are checked,
    which needs a window that holds all of them. The parts of a large message, above
    _BYTES_AT_ONCE, are not read: the next window ends where the large message starts.

    The length of the next window follows from the message read last. It is so many records of that
    message's average size that they have about _BYTES_AT_ONCE bytes.
    """
    chain, end, count = list[Message](), log.cut(topic, NEVER)[0], _FIRST
    while end > 0:
        first = max(0, end - count)
        records = _records(log, topic, first, end)
        # Larger records may precede small ones, so a window has at most twice as many records as
        # the window before.
        end, max_count = first, min(_MOST, 2 * count)
        while records:
            message = _last_message(records, chain)
            if message is None:
                return None
            record_count = len(message.listed) + 1
            size = sum(length for _, length, _ in message.listed) + len(message.manifest)
            count = max(_FEWEST, min(max_count, _BYTES_AT_ONCE * record_count // size))
            if len(records) < record_count and size <= _BYTES_AT_ONCE:
                end = records[-1].offset + 1
                if end - first >= record_count:
                    return None  # a record is missing
                count = max(record_count, count)
                break  # a small message that starts before the window: read all of its records
            del records[-record_count:]  # all that are left, of a large message
            chain.append(replace(message, parts=()))
            end = message.start
    if chain and (chain[-1].index, chain[-1].previous) != (0, START):
        return None
    return chain[::-1]


def _records(log: Log, topic: str, first: int, end: int) -> list[Stored]:
    """Reads the records at offsets `first` to `end` - 1; fewer if the topic is shorter."""
    records, position = list[Stored](), first
    while position < end:
        batch = log.read(topic, {0: position}, end - position, 0)
        records += [record for record in batch.records if record.offset < end]
        position = batch.next[0]
        if batch.at_end:
            break
    else:
        stop_following(log, topic)
    return records


def _last_message(records: list[Stored], chain: list[Message]) -> Message | None:
    """Reads the message at the end of the records.

    The message's parts are checked if the records contain all of them.

    chain: the messages after it, the next one last.

    Returns None if the last record is not the expected manifest.
    """
    last = records[-1]
    if part_name(last) != "manifest":
        return None
    try:
        message = manifest_message(last.value or b"")
    except ValueError:
        return None
    if chain and (message.index, message.hash) != (chain[-1].index - 1, chain[-1].previous):
        return None
    if not all(type(length) is int and 0 <= length <= MAX_PART for _, length, _ in message.listed):
        return None
    part_records = records[-1 - len(message.listed) : -1]
    if len(part_records) < len(message.listed):
        # The records of a transaction have consecutive offsets.
        start = last.offset - len(message.listed)
        inside = not part_records or last.offset - part_records[0].offset == len(part_records)
        return replace(message, start=start) if inside and start >= 0 else None
    if listed_parts([(part_name(r), r.value or b"") for r in part_records]) != message.listed:
        return None
    return replace(message, start=(part_records or records[-1:])[0].offset)
