"""Reads records of a Kafka log, under read_committed and with manual assignment.

A topic's end is what the broker reports as the end of the partition, never arithmetic on offsets,
because control records take offsets too.

The client refuses a batch beyond its limit of decompressed bytes, stays in front of it for ever and
does not say how many records it holds. The batch's end is found by probing which offsets behind it
can be read.
"""

from __future__ import annotations

import time as clock_module
from array import array
from collections.abc import Iterable, Mapping
from contextlib import suppress
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from .kafka_clients import (
    DENIED_TOPIC,
    TIMEOUT,
    TRANSIENT_ERRORS,
    error_text,
    forbidden,
    new_client,
)
from .kafka_topics import Topics
from .log import (
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
from .records import Records, packed

_WAIT = 0.5


class Unreadable:
    """Finds the ends of unreadable batches. settings: of the consumer that met them."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._settings = settings
        self._ends: dict[tuple[str, int, int], int] = {}

    def end(self, name: str, partition: int, position: int) -> int:
        """Returns the first offset after the batch of `name` that holds `position`."""
        for (topic, batch_partition, first), end in self._ends.items():
            if (topic, batch_partition) == (name, partition) and first <= position < end:
                return end
        consumer = new_client(Consumer, self._settings)
        try:
            base = _unreadable_batch(consumer, name, partition, position)
            inside, beyond = position, position + 1
            while _unreadable_batch(consumer, name, partition, beyond) == base:
                inside, beyond = beyond, beyond + 2 * (beyond - position)
            while beyond - inside > 1:
                middle = (inside + beyond) // 2
                if _unreadable_batch(consumer, name, partition, middle) == base:
                    inside = middle
                else:
                    beyond = middle
        finally:
            consumer.close()
        if base is not None:
            self._ends[name, partition, base] = beyond
        return beyond


def _unreadable_batch(consumer: Consumer, name: str, partition: int, position: int) -> int | None:
    """Returns the first offset of the unreadable batch at `position`.

    Returns None if the record there can be read.
    """
    consumer.assign([TopicPartition(name, partition, position)])
    deadline = clock_module.monotonic() + TIMEOUT
    while clock_module.monotonic() < deadline:
        message = consumer.poll(_WAIT)
        if message is None:
            continue
        error = message.error()
        if error is None or error.code() in {
            KafkaError._PARTITION_EOF,
            KafkaError._AUTO_OFFSET_RESET,
            KafkaError.OFFSET_OUT_OF_RANGE,
        }:
            return None
        if error.code() == KafkaError._BAD_COMPRESSION:
            return int(message.offset())
    raise Unavailable(f"kafka: {name} cannot be read: no answer")


CHUNK = 0.05  # seconds that one call waits for messages
_BULK = 1000  # messages per call: larger calls are slower because they leave the processor's cache
# From this many messages per call on, messages are small, and only their bytes are kept: memory
# that is freed while it is in the cache is reused for the next messages.
_PACKED = 100
_FIRST_BULK, _BULK_BYTES = 8, 4_000_000  # smaller calls while sizes are unknown or large
# A batch that expands to more than _EXPANDED cannot be read, and is passed by.
_QUEUED, _EXPANDED = 16_000_000, 64_000_000
_LARGE_FETCH = 1 << 20
_QUIET = 0.3  # seconds without an answer after which a batch may be too large for the reader
# By the topic's codec, the most bytes that a compressed byte expands to. A byte of zstd expands to
# 32,768 bytes. A topic without a codec of its own may hold batches of every codec.
_EXPANSION = {"uncompressed": 1, "snappy": 22, "lz4": 255, "gzip": 1032}
READING: dict[str, object] = {  # librdkafka's settings of a reader
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 10,  # a topic's end is told by an answer without records
    "fetch.queue.backoff.ms": 20,
    "queued.min.messages": 200_000,
    "queued.max.messages.kbytes": _QUEUED // 1000,
}
_TIME = itemgetter(1)  # of a message's timestamp and its kind
# Of a batch that expands too far, and of an answer that is too long.
_LARGE = {KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG}
_UNREADABLE = object()  # headers of a message
_RANGE = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}


class Event(NamedTuple):
    """The end of a partition, or a fault: librdkafka's code, and its text as the reason."""

    code: int
    topic: str
    partition: int
    offset: int
    reason: str


class Fetch(NamedTuple):
    """How much a reader fetches at once.

    size: the most bytes of a fetch. A single batch may be larger.
    expanded: the most bytes that a batch expands to, and the most of the broker's answer.
    """

    size: int
    expanded: int

    @property
    def settings(self) -> dict[str, object]:
        """librdkafka's settings."""
        names = ("message.max.bytes", "fetch.message.max.bytes", "fetch.max.bytes")
        return {**dict.fromkeys(names, self.size), "receive.message.max.bytes": self.expanded}


# A topic without a codec of its own may hold batches of zstd. A batch has 61 bytes of its own, and
# 4 bytes of zstd expand to 131,072. The batches of a small fetch expand to 540 MB at most, and
# those of a quick fetch, of at least 75 bytes each, to 400 MB. A quick answer has room for the
# heads of some 1,500 partitions beside its batches.
SMALL = Fetch(16_384, _EXPANDED)
QUICK = Fetch(131_072, 229_376)


class LargeBatch(Exception):
    """A batch is too large for a quick fetch."""


def fetch_of(codec: str | None) -> Fetch:
    """Returns the fetches from a topic.

    The broker bounds a fetch in compressed bytes, and the client expands all of its batches at
    once. A fetch from a topic whose codec the broker enforces expands to at most _EXPANDED bytes;
    only a single batch may be larger than a fetch. Fetches from other topics of strangers are
    quick; the service itself writes large batches.

    codec: the `compression.type` of a topic to which strangers write.
    """
    if codec is None:
        return SMALL
    if (expansion := _EXPANSION.get(codec)) is None:
        return QUICK
    return Fetch(min(_LARGE_FETCH, _EXPANDED // expansion), _EXPANDED)


class Arrivals:
    """Waits behind the ends of partitions by long fetches, which the broker answers at a record.

    A reader's own fetches are short, and a reader that waited with them would send a hundred a
    second. No record is taken from here: what has come is dropped before the reader fetches it, so
    that the two never hold it at once.

    settings: librdkafka's, of the reader.
    """

    def __init__(self, settings: Mapping[str, object]) -> None:
        queue = {"queued.min.messages": 1, "queued.max.messages.kbytes": 1}
        self._settings = {**settings, **SMALL.settings, **queue, "fetch.wait.max.ms": 500}
        self._settings["enable.partition.eof"] = False
        self._consumer: Consumer | None = None
        self._at: tuple[str, Positions] = ("", {})

    def wait(self, name: str, positions: Positions, seconds: float) -> bool:
        """Waits at the ends of the partitions of `name`. Returns whether something came."""
        if self._consumer is None:
            self._consumer = new_client(Consumer, self._settings)
        if self._at != (name, positions):
            self._consumer.assign([TopicPartition(name, p, o) for p, o in positions.items()])
            self._at = (name, dict(positions))
        message = self._consumer.poll(seconds)
        if message is None:
            return False
        error = message.error()
        return error is None or error.code() not in TRANSIENT_ERRORS

    def stop(self) -> None:
        """Ends the fetches until the next wait."""
        if self._consumer is not None and self._at[1]:
            self._consumer.unassign()
        self._at = ("", {})

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


class KafkaReader:
    """A consumer, assigned to the partitions of the last read until they have ended.

    topics: names and partitions of the log's topics.
    settings: librdkafka's connection settings.
    group: the consumer's group.id; no offset is ever committed to it.
    """

    def __init__(
        self, topics: Topics, settings: Mapping[str, str], group: str, fetch: Fetch = SMALL
    ) -> None:
        reading = {**settings, **READING, **fetch.settings, "group.id": group}
        self._quick, self._met_large = fetch == QUICK, False
        self._topics, self._group = topics, group
        self._consumer: Any = self._new_consumer(reading)
        self._unreadable, self._arrivals = Unreadable(reading), Arrivals(reading)
        self._blocked: dict[int, int] = {}  # by partition, the offset of an unreadable batch
        self._bulk, self._bytes = _FIRST_BULK, 0
        self._at: tuple[str, Positions] = ("", {})  # assigned topic, next offset by partition
        self._ended: dict[int, int] = {}  # by partition, the call that saw its end
        self._call = 0
        self._led: set[str] = set()  # topics whose leaders were looked up

    def _new_consumer(self, settings: Mapping[str, object]) -> Any:
        return new_client(Consumer, settings)

    def close(self) -> None:
        with suppress(RuntimeError):  # closed before
            self._arrivals.close()
            self._consumer.close()

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        """Reads as `Log.read` does. Raises LargeBatch if quick, and the first batch is large."""
        try:
            return self._read(topic, positions, limit, timeout)
        except BaseException as error:
            self._arrivals.stop()
            self._at = ("", {})  # the consumer's offset is unknown: the next read assigns it anew
            if not isinstance(error, KafkaException):
                raise
            name = self._topics.name(topic)
            raise Unavailable(f"kafka: {name} cannot be read: {error_text(error)}") from None

    def _read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        """Reads until the batch is full, or all partitions have ended and `timeout` is over."""
        self._call += 1
        self._bytes, self._blocked, self._met_large = 0, {}, False
        if (topic, positions) != self._at:
            self._assign(topic, positions)
        next_offsets, records = dict(positions), Records()
        deadline = clock_module.monotonic() + timeout
        silence = clock_module.monotonic() + max(TIMEOUT, timeout)
        seen, quiet = (0, 0), clock_module.monotonic() + _QUIET
        while len(records) < limit and self._bytes < MAX_BATCH:
            ended = self._ended.keys() >= positions.keys()
            if ended and not self._at_end():
                # A partition that ended may have grown since: only a fresh fetch tells.
                self._assign(topic, next_offsets)
                continue
            time = clock_module.monotonic()
            late = time >= deadline
            if (ended and (late or records)) or (late and records):
                break
            if time > silence:
                name = self._topics.name(topic)
                raise Unavailable(f"kafka: {name} cannot be read: no answer")
            if ended:
                if self._at[1]:
                    self._consumer.unassign()
                    self._at = ("", {})
                rest = min(CHUNK, max(0.0, deadline - time))
                if self._arrivals.wait(self._topics.name(topic), next_offsets, rest):
                    self._arrivals.stop()
                    self._assign(topic, next_offsets)
            else:
                self._fill(limit, next_offsets, records)
            if self._blocked:
                self._skip_blocked(topic, limit, next_offsets, records)
            if seen != (seen := (len(records), len(self._ended))):
                quiet = clock_module.monotonic() + _QUIET
            elif self._quick and not ended and clock_module.monotonic() > quiet:
                self._met_large = True
            if self._met_large:
                self._consumer.unassign()
                self._arrivals.stop()
                self._at = ("", {})
                if not records:
                    raise LargeBatch
                return Batch(records, next_offsets, False)
        self._arrivals.stop()
        at_end = self._at_end()
        if at_end:
            # The next read assigns anew, and would wait for a fetch that is still under way.
            self._consumer.unassign()
        self._at = ("", {}) if at_end else (topic, dict(next_offsets))
        return Batch(records, next_offsets, at_end)

    def _at_end(self) -> bool:
        """Tells whether this call has seen the end of every assigned partition."""
        return all(self._ended.get(partition) == self._call for partition in self._at[1])

    def _assign(self, topic: str, positions: Positions) -> None:
        """Assigns the partitions from these offsets on; those already read to them stay assigned.

        Raises OutOfRange for a partition that the topic does not have.
        """
        name, count = self._topics.name(topic), self._topics.partitions(topic)
        if any(p >= count for p in positions):
            count = self._topics.describe(topic).partitions  # some may have been added
        if outside := [p for p in positions if p >= count]:
            raise OutOfRange(f"kafka: {name} has no partition {outside[0]}")
        if name not in self._led:
            # After a look-up of its leaders, a new topic is read at once, not after a second.
            with suppress(KafkaException):
                self._consumer.list_topics(name, TIMEOUT)
            self._led.add(name)
        assigned = self._at[1] if self._at[0] == topic else {}
        unchanged = {
            p for p, o in positions.items() if assigned.get(p) == o and p not in self._ended
        }
        fresh = [TopicPartition(name, p, o) for p, o in positions.items() if p not in unchanged]
        if not unchanged:
            self._consumer.assign(fresh)
        else:
            # Records already fetched from unchanged partitions are not fetched again.
            if gone := assigned.keys() - unchanged:
                self._consumer.incremental_unassign([TopicPartition(name, p) for p in gone])
            if fresh:
                self._consumer.incremental_assign(fresh)
        self._at, self._ended = (topic, dict(positions)), {}

    def _fill(self, limit: int, next_offsets: Positions, records: Records) -> None:
        """Takes in messages and events up to the limit, or until no more come quickly.

        Unless records are large, one call so takes everything up to the partitions' ends.
        """
        while len(records) < limit and self._bytes < MAX_BATCH and not self._blocked:
            requested, earlier_bytes = min(self._bulk, limit - len(records)), self._bytes
            if not (messages := self._poll_messages(requested)):
                break
            self._take(messages, next_offsets, records)
            fitting = _BULK_BYTES * len(messages) // max(1, self._bytes - earlier_bytes)
            self._bulk = max(1, min(_BULK, 2 * self._bulk, fitting))
            if self._ended.keys() >= next_offsets.keys():
                break

    def _poll_messages(self, limit: int) -> list[Message]:
        """Waits briefly for the first message or event. Returns it with all already fetched.

        A request for a fixed number would also wait behind the last record.
        """
        first = self._consumer.poll(CHUNK)
        if first is None:
            return []
        return [first, *self._consumer.consume(limit - 1, 0)] if limit > 1 else [first]

    def _skip_blocked(
        self, topic: str, limit: int, next_offsets: Positions, records: Records
    ) -> None:
        """Adds an unreadable record per record of batches beyond decompression."""
        name = self._topics.name(topic)
        for partition, blocked_offset in self._blocked.items():
            first = max(blocked_offset, next_offsets[partition])
            end = min(self._unreadable.end(name, partition, first), first + limit - len(records))
            records.extend(Stored.unreadable(partition, offset) for offset in range(first, end))
            next_offsets[partition] = max(next_offsets[partition], end)
        self._blocked = {}
        self._assign(topic, next_offsets)

    def _take(self, messages: list[Message], next_offsets: Positions, records: Records) -> None:
        """Takes in messages, column by column, and then the events among them."""
        events = list[Message]()
        if any(map(Message.error, messages)):
            events = [message for message in messages if message.error() is not None]
            messages = [message for message in messages if message.error() is None]
        count = len(messages)
        partitions = np.fromiter(map(Message.partition, messages), np.int64, count)
        offsets = np.fromiter(map(Message.offset, messages), np.int64, count)
        times = np.fromiter(map(_TIME, map(Message.timestamp, messages)), np.int64, count)
        keys: Any = list(map(Message.key, messages))
        values: Any = list(map(Message.value, messages))
        headers = _headers(messages)
        if count < _PACKED:
            self._bytes += sum(map(len, filter(None, keys))) + sum(map(len, messages))
        else:
            (keys, key_bytes), (values, value_bytes) = packed(keys), packed(values)
            self._bytes += key_bytes + value_bytes
        self._bytes += sum([memory_bytes(None, None, several) for several in headers if several])
        numbers = (array("q", column.tobytes()) for column in (partitions, offsets, times))
        records.add(*numbers, keys, values, headers)
        # The last of each run of one partition.
        last = np.flatnonzero(np.diff(partitions, append=-1))
        ends = partitions[last].tolist(), (offsets[last] + 1).tolist()
        self._move(zip(*ends, strict=True), next_offsets)
        for event in events:
            error, position = event.error(), (event.partition(), event.offset())
            self._note(Event(error.code(), event.topic(), *position, error.str()), next_offsets)

    def _move(self, ends: Iterable[tuple[int, int]], next_offsets: Positions) -> None:
        """Moves the next offsets behind messages. ends: partitions and offsets, in order."""
        for partition, end in ends:
            next_offsets[partition] = end
            self._ended.pop(partition, None)

    def _note(self, event: Event, next_offsets: Positions) -> None:
        """Takes in an event."""
        code, topic, partition, offset, reason = event
        if code == KafkaError._PARTITION_EOF:
            # `next_offsets` already counts messages that came after the event in the same call.
            if offset >= next_offsets[partition]:
                next_offsets[partition] = offset
                self._ended[partition] = self._call
        elif self._quick and code in _LARGE:
            self._met_large = True
        elif code == KafkaError._BAD_COMPRESSION:
            self._blocked[partition] = offset
        elif code in _RANGE:
            raise OutOfRange(f"kafka: {topic} has nothing at position {next_offsets[partition]}")
        elif code == DENIED_TOPIC:
            raise forbidden("read", f"topic '{topic}'", "Read")
        elif code == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise forbidden("use", f"group '{self._group}'", "Describe")
        elif code not in TRANSIENT_ERRORS:
            raise LogError(f"kafka: {topic} cannot be read: {reason}")


def _headers(messages: list[Message]) -> list[Headers | None]:
    """Reads the headers of every message, or None if the client cannot decode a name from UTF-8.

    The headers are read once, and through `map`: after a failure the client's answer has holes that
    end the process when they are touched, and only calls from C are checked for them.
    """
    # An `extend` that fails keeps the items that it has added.
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
