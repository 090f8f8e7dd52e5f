"""The production log: topics of a Kafka cluster, through confluent-kafka.

Reading is under read_committed with manual assignment; a topic's end is what the broker reports
as the end of the partition, never arithmetic on offsets, for control records take offsets too.
A role is a fixed transactional.id: who takes it fences whoever had it. After any failure inside
a transaction its result is unknown to this process: it must end, and the next one finds out.
"""

from __future__ import annotations

import time as clock_module
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from .base import (
    MAX_BATCH,
    MAX_RECORD,
    Batch,
    Fenced,
    Headers,
    LogError,
    OutOfRange,
    Positions,
    Record,
    Stored,
    TopicInfo,
    Unavailable,
    UnknownCommit,
    memory_bytes,
    payload_bytes,
)
from .signature import Signature
from .topics import (
    BROKER_BYTES,
    TIMEOUT,
    TRANSIENT_ERRORS,
    Topics,
    error_text,
    log_error,
    new_client,
)
from .unreadable import Unreadable

_CHUNK = 0.05  # seconds that one call waits for messages
_BULK = 1000  # messages of one call: more at a time are slower, for they leave the cache
_FIRST_BULK, _BULK_BYTES = 8, 4_000_000  # fewer while their sizes are not known, or are large
# A fetch is bounded as it is sent, and a few bytes may expand to megabytes: so little of it at a
# time. A batch that expands to more than the last of these cannot be read; see `unreadable.py`.
_FETCHED, _QUEUED, _EXPANDED = 16_384, 16_000_000, 64_000_000
_FENCED = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
}
_RANGE = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
# Stored from a tuple of its fields; quicker than _make, which is a function of Python.
_STORED = partial(tuple.__new__, Stored)


class KafkaLog:
    """Topics `PREFIX.NAME` on a cluster.

    settings: of librdkafka, for connecting (bootstrap.servers among them); replication: of
    topics that are created; timed: names of topics whose records carry the broker's append time.
    """

    def __init__(
        self,
        prefix: str,
        settings: Mapping[str, str],
        *,
        replication: int = 3,
        timed: Iterable[str] = (),
    ) -> None:
        self._settings = dict(settings)
        self._topics = Topics(prefix, settings, replication, timed)
        reading = {
            **settings,
            "group.id": f"{prefix}.reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            "fetch.queue.backoff.ms": 20,
            "queued.min.messages": 200_000,
            "queued.max.messages.kbytes": _QUEUED // 1000,
            "message.max.bytes": _FETCHED,
            "fetch.message.max.bytes": _FETCHED,
            "fetch.max.bytes": _FETCHED,
            "receive.message.max.bytes": _EXPANDED,
        }
        self._consumer: Consumer = new_client(Consumer, reading)
        self._unreadable = Unreadable(reading)
        self._blocked: dict[int, int] = {}  # by partition, where a batch cannot be decompressed
        self._bulk, self._bytes = _FIRST_BULK, 0
        self._producer: Producer | None = None
        self._at: tuple[str, Positions] = ("", {})  # what the consumer is assigned, and where
        self._ended: dict[int, int] = {}  # by partition, the call that saw its end
        self._call = 0
        self._led: set[str] = set()

    def close(self) -> None:
        if self._producer is not None:
            self._producer.flush(TIMEOUT)
            self._producer = None
        with suppress(RuntimeError):  # closed before
            self._consumer.close()

    @property
    def place(self) -> str:
        return ""

    def create(self, topics: Mapping[str, int]) -> None:
        self._topics.create(topics)

    def faults(self, topics: Mapping[str, int]) -> list[str]:
        return self._topics.faults(topics)

    def name(self, topic: str) -> str:
        return self._topics.name(topic)

    def describe(self, topic: str) -> TopicInfo:
        return self._topics.describe(topic)

    def cut(self, topic: str, time: float) -> Positions:
        return self._topics.cut(topic, time)

    def now(self, topic: str) -> float:
        """The broker's time, which it gives to a record that is appended."""
        told: list[int] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            kind, time = message.timestamp()
            if error is None and kind == TIMESTAMP_LOG_APPEND_TIME:
                told.append(time)

        self._topics.partitions(topic)
        if self._producer is None:
            self._producer = new_client(Producer, self._writing())
        name = self._topics.name(topic)
        self._producer.produce(name, b"", partition=0, on_delivery=delivered)
        if self._producer.flush(2 * TIMEOUT) or not told:
            self._producer = None
            raise Unavailable(f"kafka: {name} does not tell the time")
        return told[0] / 1000

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
        after, records = dict(positions), list[Stored]()
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
        self._at = (topic, dict(after))
        return Batch(records, after, self._at_end())

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
        held = self._at[1] if self._at[0] == topic else {}
        kept = {p for p, o in positions.items() if held.get(p) == o and p not in self._ended}
        fresh = [TopicPartition(name, p, o) for p, o in positions.items() if p not in kept]
        if not kept:
            self._consumer.assign(fresh)
        else:
            # What is fetched of the partitions that stay is not fetched again.
            if gone := held.keys() - kept:
                self._consumer.incremental_unassign([TopicPartition(name, p) for p in gone])
            if fresh:
                self._consumer.incremental_assign(fresh)
        self._at, self._ended = (topic, dict(positions)), {}

    def _fill(self, limit: int, after: Positions, records: list[Stored]) -> None:
        """Take in messages and events up to the limit, or until no more come quickly."""
        full = True
        while full and len(records) < limit and self._bytes < MAX_BATCH:
            asked, before = min(self._bulk, limit - len(records)), self._bytes
            messages = self._consumer.consume(asked, _CHUNK)
            self._take(messages, after, records)
            fitting = _BULK_BYTES * len(messages) // max(1, self._bytes - before)
            self._bulk = max(1, min(_BULK, 2 * self._bulk, fitting)) if messages else self._bulk
            full = len(messages) == asked

    def _pass(self, topic: str, limit: int, after: Positions, records: list[Stored]) -> None:
        """Take in the records of batches that cannot be decompressed, as unreadable ones."""
        name = self._topics.name(topic)
        for part, place in self._blocked.items():
            first = max(place, after[part])
            end = min(self._unreadable.end(name, part, first), first + limit - len(records))
            records += (Stored.unreadable(part, offset) for offset in range(first, end))
            after[part] = max(after[part], end)
        self._blocked = {}
        self._assign(topic, after)

    def _take(self, messages: list[Message], after: Positions, records: list[Stored]) -> None:
        """Take in messages, column by column, and then the events that came among them."""
        errors = list(map(Message.error, messages))
        events = [m for m, error in zip(messages, errors, strict=True) if error is not None]
        if events:
            messages = [m for m, error in zip(messages, errors, strict=True) if error is None]
        parts, offsets = list(map(Message.partition, messages)), list(map(Message.offset, messages))
        times = [time for _, time in map(Message.timestamp, messages)]
        keys, values = list(map(Message.key, messages)), list(map(Message.value, messages))
        headers = _headers(messages)
        self._bytes += sum(map(len, filter(None, keys))) + sum(map(len, messages))
        self._bytes += sum([memory_bytes(None, None, several) for several in headers if several])
        columns = (parts, offsets, times, keys, values, headers)
        records += map(_STORED, zip(*columns, strict=True))
        for part, offset in dict(zip(parts, offsets, strict=True)).items():
            after[part] = offset + 1
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

    def append(self, records: Iterable[Record]) -> None:
        held = self._checked(records)
        if self._producer is None:
            self._producer = new_client(Producer, self._writing())
        failed = self._produce(self._producer, held)
        if self._producer.flush(2 * TIMEOUT) or failed:
            self._producer = None
            lasting = [e for e in failed if e.code() not in TRANSIENT_ERRORS]
            reason = (lasting or failed)[0].str() if failed else "no answer"
            text = f"kafka: some records were not written ({reason}); send them again"
            raise LogError(text) if lasting else Unavailable(text)

    def _writing(self) -> dict[str, Any]:
        return {
            **self._settings,
            "acks": "all",
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "message.max.bytes": BROKER_BYTES,
            "linger.ms": 5,
            "queue.buffering.max.messages": 500_000,
            "delivery.timeout.ms": round(1000 * TIMEOUT),
        }

    def _checked(self, records: Iterable[Record]) -> list[Record]:
        """The records, none of which can be refused for what it is."""
        held = list(records)
        for record in held:
            if (length := payload_bytes(record)) > MAX_RECORD:
                raise LogError(f"kafka: a record of {length} bytes is over {MAX_RECORD}")
            count = self._topics.partitions(record.topic)
            if record.partition is not None and not 0 <= record.partition < count:
                raise LogError(f"kafka: {self._topics.name(record.topic)} has {count} partitions")
        return held

    def _produce(self, producer: Producer, records: list[Record]) -> list[KafkaError]:
        """Queue records; the errors of those that fail are added to the list as they come."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        for record in records:
            # To librdkafka a time of 0 is the present.
            more: dict[str, Any] = {} if record.time is None else {"timestamp": record.time or 1}
            if record.partition is not None:
                more["partition"] = record.partition
            while True:
                try:
                    producer.produce(
                        self._topics.name(record.topic),
                        record.value,
                        record.key,
                        headers=list(record.headers),
                        on_delivery=delivered,
                        **more,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        return failed

    @contextmanager
    def own(self, name: str, topic: str | None = None) -> Iterator[_Owner]:
        role = self._topics.name(name)
        signature = None
        if topic is not None:
            # Before the role is taken: whoever loses it to this process finds the signature.
            signed = Signature(self._settings, role, self._topics.name(topic))
            signature = signed if signed.sign() else None
        producer: Producer = new_client(Producer, self._committing(role))
        try:
            producer.init_transactions(2 * TIMEOUT)
        except KafkaException as error:
            raise log_error(f"kafka: the role '{name}' is not to be had", error) from None
        owner = _Owner(self, producer, signature)
        try:
            yield owner
        finally:
            owner.over = True

    def _committing(self, role: str) -> dict[str, Any]:
        timeout = str(self._settings.get("transaction.timeout.ms", 60_000))
        settings = {**self._writing(), "transactional.id": role, "transaction.timeout.ms": timeout}
        if timeout.isdigit():
            # The client refuses to deliver for longer than a transaction lasts.
            settings["delivery.timeout.ms"] = min(round(1000 * TIMEOUT), int(timeout))
        return settings


def _headers(messages: list[Message]) -> list[Headers | None]:
    """The headers of each message; None where the client fails to decode a name as UTF-8.

    They are asked once, and through `map`: after that failure the client's answer has holes that
    end the process when they are touched, and only calls from C are checked for it.
    """
    answers, headers = map(Message.headers, messages), list[Headers | None]()
    while len(headers) < len(messages):
        try:
            for several in answers:
                headers.append(tuple([(n, v or b"") for n, v in several]) if several else ())
        except (SystemError, UnicodeDecodeError):
            headers.append(None)
    return headers


class _Owner:
    """A transactional producer; unusable after the first failure."""

    def __init__(self, log: KafkaLog, producer: Producer, signature: Signature | None) -> None:
        self._log, self._producer, self.over = log, producer, False
        self._signature = signature

    def commit(self, records: Iterable[Record]) -> None:
        if self.over:
            raise Fenced("this writer's ownership is over")
        held = self._log._checked(records)
        self.over = True
        try:
            self._producer.begin_transaction()
            self._log._produce(self._producer, held)
            self._producer.commit_transaction(2 * TIMEOUT)
        except (KafkaException, SystemError) as error:
            cause = _cause(error)
            if cause.code() == KafkaError._FATAL:
                try:
                    self._producer.poll(0)
                except (KafkaException, SystemError) as reason:
                    cause = _cause(reason)
            if cause.code() in _FENCED:
                if self._signature is not None and self._signature.is_last():
                    raise UnknownCommit(
                        "kafka: the broker ended a transaction that took too long, as after a"
                        " pause of this process; no other one has its role: start again"
                    ) from None
                raise Fenced("another process has taken this role; this one ends") from None
            raise UnknownCommit(
                f"kafka: whether a commit took place is not known: {cause.str()}"
            ) from None
        self.over = False


def _cause(error: BaseException) -> KafkaError:
    """What the client failed of. A fatal error that it raises amid the reports of deliveries comes
    to us as the cause of a SystemError; one that it has not raised yet is only called fatal."""
    while isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
    held = error.args[0] if isinstance(error, KafkaException) else None
    return held if held is not None else KafkaError(KafkaError._FAIL, str(error))
