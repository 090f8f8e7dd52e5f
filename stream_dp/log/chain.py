"""Reads a topic's chain of messages from the manifests, without the parts in between.

A manifest states the number of records of its message and the hash of the preceding message. So the
chain is read backwards from its end. The parts of large messages are not read; the parts of small
messages are read and checked. If a record is not as expected, every record is read from the
beginning instead, and `read_messages` raises Inconsistent with the reason.
"""

from __future__ import annotations

from dataclasses import replace

from stream_dp.errors import Inconsistent

from .log import NEVER, Log, Stored
from .message import (
    MAX_PART,
    START,
    Message,
    check_topic,
    is_part,
    listed_parts,
    manifest_message,
    part_name,
    read_messages,
)

_AT_ONCE = 2_000_000  # bytes of one read, about
_FIRST, _FEWEST, _MOST = 20, 2, 1_000  # records of one read


def read_chain(log: Log, topic: str, label: str) -> list[Message]:
    """Reads every message of a topic, in order, without its parts.

    label: the topic's name in error messages. `read_parts` reads the parts.

    Raises Inconsistent for a gap, a broken chain, a damaged manifest, and records after the last.
    """
    check_topic(log, topic, label)
    chain = _from_the_end(log, topic)
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


def _from_the_end(log: Log, topic: str) -> list[Message] | None:
    """Reads the messages backwards, without parts.

    Returns None if a record is not as expected.
    """
    chain, end, count = list[Message](), log.cut(topic, NEVER)[0], _FIRST
    while end > 0:
        first = max(0, end - count)
        records = _records(log, topic, first, end)
        # A large message may precede a small one: the number of records grows slowly.
        end, max_count = first, min(_MOST, 2 * count)
        while records:
            message = _last_message(records, chain)
            if message is None:
                return None
            record_count = len(message.listed) + 1
            size = sum(length for _, length, _ in message.listed) + len(message.manifest)
            count = max(_FEWEST, min(max_count, _AT_ONCE * record_count // size))
            if len(records) < record_count and size <= _AT_ONCE:
                end = records[-1].offset + 1
                if end - first >= record_count:
                    return None  # a record is missing
                count = max(record_count, count)
                break  # a small message: read all of its records
            del records[-record_count:]
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
