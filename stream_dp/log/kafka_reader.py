"""Reads records of a Kafka log, under read_committed and with manual assignment.

A topic's end is what the broker reports as the end of the partition, never arithmetic on offsets,
for control records take offsets too.
"""

from __future__ import annotations

import time as clock_module
from array import array
from collections.abc import Mapping
from contextlib import suppress
from operator import itemgetter
from typing import Any

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from .base import (
    MAX_BATCH,
    Batch,
    Headers,
    LogError,
    OutOfRange,
    Positions,
    Stored,
    Unavailable,
    memory_bytes,
)
from .records import Records
from .texts import packed
from .topics import TIMEOUT, TRANSIENT_ERRORS, Topics, error_text, new_client
from .unreadable import Unreadable

_CHUNK = 0.05  # seconds that one call waits for messages
_BULK = 1000  # messages of one call: more at a time are slower, for they leave the cache
# Of so many messages at a time, which are small then, nothing stays but their bytes: what is freed
# while the cache has it is used for the next ones.
_PACKED = 100
_FIRST_BULK, _BULK_BYTES = 8, 4_000_000  # fewer while their sizes are not known, or are large
# A fetch is bounded as it is sent, and a few bytes may expand to megabytes: so little of it at a
# time. A batch that expands to more than the last of these cannot be read; see `unreadable.py`.
_FETCHED, _QUEUED, _EXPANDED = 16_384, 16_000_000, 64_000_000
READING: dict[str, Any] = {  # librdkafka's settings of a reader
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 10,  # a topic's end is told by an answer without records
    "fetch.queue.backoff.ms": 20,
    "queued.min.messages": 200_000,
    "queued.max.messages.kbytes": _QUEUED // 1000,
    "message.max.bytes": _FETCHED,
    "fetch.message.max.bytes": _FETCHED,
    "fetch.max.bytes": _FETCHED,
    "receive.message.max.bytes": _EXPANDED,
}
_TIME = itemgetter(1)  # of a message's timestamp and its kind
_UNREADABLE = object()  # headers of a message
_RANGE = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}


class KafkaReader:
    """One consumer, which stays assigned to what was read last until that has ended.

    topics: names and partitions of the log's topics.
    settings: of librdkafka, for connecting.
    group: the consumer's group.id; positions are never committed to it.
    """

    def __init__(self, topics: Topics, settings: Mapping[str, str], group: str) -> None:
        reading = {**settings, **READING, "group.id": group}
        self._topics = topics
        self._consumer: Consumer = new_client(Consumer, reading)
        self._unreadable = Unreadable(reading)
        self._blocked: dict[int, int] = {}  # by partition, where a batch cannot be decompressed
        self._bulk, self._bytes = _FIRST_BULK, 0
        self._at: tuple[str, Positions] = ("", {})  # what the consumer is assigned, and where
        self._ended: dict[int, int] = {}  # by partition, the call that saw its end
        self._call = 0
        self._led: set[str] = set()  # topics whose leaders were asked for

    def close(self) -> None:
        with suppress(RuntimeError):  # closed before
            self._consumer.close()

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        try:
            return self._read(topic, positions, limit, timeout)
        except BaseException as error:
            self._at = ("", {})  # where the consumer stands is not known: the next read says it
            if not isinstance(error, KafkaException):
                raise
            name = self._topics.name(topic)
            raise Unavailable(f"kafka: {name} cannot be read: {error_text(error)}") from None

    def _read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        self._call += 1
        self._bytes, self._blocked = 0, {}
        if (topic, positions) != self._at:
            self._assign(topic, positions)
        after, records = dict(positions), Records()
        deadline = clock_module.monotonic() + timeout
        silence = clock_module.monotonic() + max(TIMEOUT, timeout)
        while len(records) < limit and self._bytes < MAX_BATCH:
            ended = self._ended.keys() >= positions.keys()
            if ended and not self._at_end():
                # A partition that ended may have gone on since: only a fresh fetch tells.
                self._assign(topic, after)
                continue
            now = clock_module.monotonic()
            late = now >= deadline
            if (ended and (late or records)) or (late and records):
                break
            if now > silence:
                name = self._topics.name(topic)
                raise Unavailable(f"kafka: {name} cannot be read: no answer")
            if ended:
                message = self._consumer.poll(min(_CHUNK, max(0.0, deadline - now)))
                self._take([] if message is None else [message], after, records)
            else:
                self._fill(limit, after, records)
            if self._blocked:
                self._pass(topic, limit, after, records)
        at_end = self._at_end()
        if at_end:
            # The next read asks anew, and would wait for the answer to what is asked meanwhile.
            self._consumer.unassign()
        self._at = ("", {}) if at_end else (topic, dict(after))
        return Batch(records, after, at_end)

    def _at_end(self) -> bool:
        """Whether this call has seen the end of every assigned partition."""
        return all(self._ended.get(part) == self._call for part in self._at[1])

    def _assign(self, topic: str, positions: Positions) -> None:
        name, count = self._topics.name(topic), self._topics.partitions(topic)
        if outside := [part for part in positions if part >= count]:
            raise OutOfRange(f"kafka: {name} has no partition {outside[0]}")
        if name not in self._led:
            # Once asked for its leaders, a new topic is read at once and not after a second.
            with suppress(KafkaException):
                self._consumer.list_topics(name, TIMEOUT)
            self._led.add(name)
        assigned = self._at[1] if self._at[0] == topic else {}
        kept = {p for p, o in positions.items() if assigned.get(p) == o and p not in self._ended}
        fresh = [TopicPartition(name, p, o) for p, o in positions.items() if p not in kept]
        if not kept:
            self._consumer.assign(fresh)
        else:
            # What is fetched of the partitions that stay is not fetched again.
            if gone := assigned.keys() - kept:
                self._consumer.incremental_unassign([TopicPartition(name, p) for p in gone])
            if fresh:
                self._consumer.incremental_assign(fresh)
        self._at, self._ended = (topic, dict(positions)), {}

    def _fill(self, limit: int, after: Positions, records: Records) -> None:
        """Take in messages and events up to the limit, or until no more come quickly.

        Unless records are large, all that is there up to the partitions' ends is so one batch.
        """
        while len(records) < limit and self._bytes < MAX_BATCH and not self._blocked:
            asked, before = min(self._bulk, limit - len(records)), self._bytes
            if not (messages := self._come(asked)):
                break
            self._take(messages, after, records)
            fitting = _BULK_BYTES * len(messages) // max(1, self._bytes - before)
            self._bulk = max(1, min(_BULK, 2 * self._bulk, fitting))
            if self._ended.keys() >= after.keys():
                break

    def _come(self, most: int) -> list[Message]:
        """Messages and events that are there, once there is one; none where none comes soon.

        To ask for all of them at once would wait for as many, behind the last record, too.
        """
        first = self._consumer.poll(_CHUNK)
        if first is None:
            return []
        return [first, *self._consumer.consume(most - 1, 0)] if most > 1 else [first]

    def _pass(self, topic: str, limit: int, after: Positions, records: Records) -> None:
        """Take in the records of batches that cannot be decompressed, as unreadable ones."""
        name = self._topics.name(topic)
        for part, place in self._blocked.items():
            first = max(place, after[part])
            end = min(self._unreadable.end(name, part, first), first + limit - len(records))
            records.extend(Stored.unreadable(part, offset) for offset in range(first, end))
            after[part] = max(after[part], end)
        self._blocked = {}
        self._assign(topic, after)

    def _take(self, messages: list[Message], after: Positions, records: Records) -> None:
        """Take in messages, column by column, and then the events that came among them."""
        events = list[Message]()
        if any(map(Message.error, messages)):
            events = [message for message in messages if message.error() is not None]
            messages = [message for message in messages if message.error() is None]
        count = len(messages)
        parts = np.fromiter(map(Message.partition, messages), np.int64, count)
        offsets = np.fromiter(map(Message.offset, messages), np.int64, count)
        times = np.fromiter(map(_TIME, map(Message.timestamp, messages)), np.int64, count)
        keys: Any = list(map(Message.key, messages))
        values: Any = list(map(Message.value, messages))
        headers = _headers(messages)
        if count < _PACKED:
            self._bytes += sum(map(len, filter(None, keys))) + sum(map(len, messages))
        else:
            (keys, more), (values, most) = packed(keys), packed(values)
            self._bytes += more + most
        self._bytes += sum([memory_bytes(None, None, several) for several in headers if several])
        numbers = (array("q", column.tobytes()) for column in (parts, offsets, times))
        records.add(*numbers, keys, values, headers)
        # The last of each run of one partition.
        for row in np.flatnonzero(np.diff(parts, append=-1)).tolist():
            part = int(parts[row])
            after[part] = int(offsets[row]) + 1
            self._ended.pop(part, None)
        for event in events:
            self._note(event, after)

    def _note(self, event: Message, after: Positions) -> None:
        """Take in an event: the end of a partition, or a fault."""
        error, part, offset = event.error(), event.partition(), event.offset()
        if error.code() == KafkaError._PARTITION_EOF:
            # Messages that came after it, in the same call, stand already in `after`.
            if offset >= after[part]:
                after[part] = offset
                self._ended[part] = self._call
        elif error.code() == KafkaError._BAD_COMPRESSION:
            self._blocked[part] = offset
        elif error.code() in _RANGE:
            raise OutOfRange(f"kafka: {event.topic()} has nothing at position {after[part]}")
        elif error.fatal() or error.code() not in TRANSIENT_ERRORS:
            raise LogError(f"kafka: {event.topic()} cannot be read: {error.str()}")


def _headers(messages: list[Message]) -> list[Headers | None]:
    """The headers of each message; None where the client fails to decode a name as UTF-8.

    They are asked once, and through `map`: after that failure the client's answer has holes that
    end the process when they are touched, and only calls from C are checked for it.
    """
    # An `extend` that fails keeps what came before.
    answers, headers = map(Message.headers, messages), list[Any]()
    while len(headers) < len(messages):
        try:
            headers.extend(answers)
        except (SystemError, UnicodeDecodeError):
            headers.append(_UNREADABLE)
    if headers.count(None) == len(headers):
        return [()] * len(headers)
    return [
        None if several is _UNREADABLE else tuple([(n, v or b"") for n, v in several or ()])
        for several in headers
    ]
