"""The chain of a topic's messages, read by their manifests, without the parts between them.

A manifest states the number of its message's records and the hash of the message before it. So the
chain is read backwards from its end, and the parts of large messages are not read; those of small
messages are read and checked. Where anything is not as expected, every record is read from the
beginning instead, and `read_messages` raises Inconsistent with the reason.
"""

from __future__ import annotations

from dataclasses import replace

from stream_dp.errors import Inconsistent

from .base import NEVER, Log, Stored
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


def read_chain(log: Log, topic: str, what: str) -> list[Message]:
    """Every message of a topic, in order, without its parts; `read_parts` reads them.

    Raises Inconsistent for a gap, a broken chain, a damaged manifest, and records after the last.
    """
    check_topic(log, topic, what)
    chain = _from_the_end(log, topic)
    if chain is None:
        chain = [replace(message, parts=()) for message in read_messages(log, topic, what)]
    return chain


def read_parts(log: Log, topic: str, message: Message, what: str) -> Message:
    """A message of `read_chain` with its parts. Raises Inconsistent unless they are its own."""
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
    parts = tuple((part_name(record), record.value or b"") for record in records[:-1])
    if (
        not records
        or records[-1].value != message.manifest
        or listed_parts(parts) != message.listed
    ):
        raise _other_bytes(message, what)
    return replace(message, parts=parts)


def read_part(log: Log, topic: str, message: Message, name: str, what: str) -> bytes:
    """A part of a message of `read_chain`, without its other parts; see `Message.part`.

    Raises Inconsistent unless it is as the manifest says.
    """
    places = [i for i, (listed, _, _) in enumerate(message.listed) if is_part(listed, name)]
    if not places:
        return b""
    first, last = message.start + places[0], message.start + places[-1]
    parts = [(part_name(r), r.value or b"") for r in _records(log, topic, first, last + 1)]
    if listed_parts(parts) != [message.listed[i] for i in places]:
        raise _other_bytes(message, what)
    return b"".join(data for _, data in parts)


def _other_bytes(message: Message, what: str) -> Inconsistent:
    return Inconsistent(f"{what}: message {message.index} does not have the bytes of its manifest")


def _from_the_end(log: Log, topic: str) -> list[Message] | None:
    """The messages without their parts; None where a record is not where it should be."""
    chain, below, count = list[Message](), log.cut(topic, NEVER)[0], _FIRST
    while below > 0:
        first = max(0, below - count)
        records = _records(log, topic, first, below)
        # After a small message there may be a large one: more is read little by little.
        below, most = first, min(_MOST, 2 * count)
        while records:
            message = _last_message(records, chain)
            if message is None:
                return None
            own = len(message.listed) + 1
            size = sum(length for _, length, _ in message.listed) + len(message.manifest)
            count = max(_FEWEST, min(most, _AT_ONCE * own // size))
            if len(records) < own and size <= _AT_ONCE:
                below = records[-1].offset + 1
                if below - first >= own:
                    return None  # a record is missing
                count = max(own, count)
                break  # it is small: read all of it
            del records[-own:]
            chain.append(replace(message, parts=()))
            below = message.start
    if chain and (chain[-1].index, chain[-1].previous) != (0, START):
        return None
    return chain[::-1]


def _records(log: Log, topic: str, first: int, below: int) -> list[Stored]:
    """The records at positions from `first` to one below `below`, as far as there are any."""
    records, position = list[Stored](), first
    while position < below:
        batch = log.read(topic, {0: position}, below - position, 0)
        records += [record for record in batch.records if record.offset < below]
        position = batch.next[0]
        if batch.at_end:
            break
    return records


def _last_message(records: list[Stored], chain: list[Message]) -> Message | None:
    """The message whose manifest is the last of the records; None where that is not as expected.

    Its parts are checked where all of them are among the records.

    chain: the messages after it, the next one last.
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
    own = records[-1 - len(message.listed) : -1]
    if len(own) < len(message.listed):
        # The records of a transaction have one position after the other.
        start = last.offset - len(message.listed)
        inside = not own or last.offset - own[0].offset == len(own)
        return replace(message, start=start) if inside and start >= 0 else None
    if listed_parts([(part_name(r), r.value or b"") for r in own]) != message.listed:
        return None
    return replace(message, start=(own or records[-1:])[0].offset)
