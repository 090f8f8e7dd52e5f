"""Writes records to a Kafka log: appends, and commits of a role's owner in transactions.

A role is a fixed transactional.id: a new owner fences the former owner. After a failure inside
a transaction its result is unknown to this process. The process must end; the next one reads the
log to find the result.

An owner signs before it takes a role, so the log knows the last owner of each role. A broker gives
the same error to a producer that another one has fenced and to one whose transaction was aborted
because it took too long, as after a pause of its process. Only the first has lost its role to
another owner; the last signature tells the two apart. A signature is stored as the metadata of an
offset that the consumer group with the role's name commits, so it needs no topic.
"""

from __future__ import annotations

import time as clock_module
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from threading import Lock
from typing import Any, TypeVar

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from stream_dp.privacy.noise import system_entropy

from .kafka_clients import (
    DENIED_TOPIC,
    TIMEOUT,
    TRANSIENT_ERRORS,
    forbidden,
    log_error,
    new_client,
)
from .kafka_topics import BROKER_BYTES, Topics
from .log import (
    MAX_RECORD,
    Fenced,
    Forbidden,
    LogError,
    Record,
    Unavailable,
    UnknownCommit,
    payload_bytes,
    too_large,
)
from .records import RecordColumns

_UNSEEN = {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED}
# A broker that has just begun, or taken over, knows its groups only after a moment.
_NOT_YET = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
# A consumer that is a member of the group keeps all others from committing.
_TAKEN = {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
}
_PAUSE = 0.2
_Answer = TypeVar("_Answer")


class Signature:
    """A random name of this owner of `role`. topic: a topic that the owner may read."""

    def __init__(self, settings: Mapping[str, str], role: str, topic: str) -> None:
        self._settings = {**settings, "group.id": role, "enable.auto.commit": False}
        self._role, self._topic, self._name = role, topic, system_entropy(16).hex()

    def sign(self) -> bool:
        """Stores the name as the last signature. Returns False without the right to. Raises
        LogError.
        """
        offset = TopicPartition(self._topic, 0, 0, self._name)

        def commit(consumer: Any) -> None:
            for result in consumer.commit(offsets=[offset], asynchronous=False):
                if result.error is not None:
                    raise KafkaException(result.error)

        try:
            self._with_consumer(commit)
        except KafkaException as error:
            if error.args[0].code() in _UNSEEN:
                return False
            if error.args[0].code() in _TAKEN:
                raise LogError(
                    f"kafka: a consumer of another program is in the group '{self._role}', in which"
                    " stream-dp notes who has this role; stop that consumer, or give it another"
                    " group.id"
                ) from None
            raise log_error(f"kafka: the role '{self._role}' is not to be had", error) from None
        return True

    def is_last(self) -> bool:
        """Tells whether this owner's signature is still the last. Raises LogError."""
        try:
            (committed,) = self._with_consumer(
                lambda consumer: consumer.committed([TopicPartition(self._topic, 0)], TIMEOUT)
            )
        except KafkaException as error:
            raise log_error(f"kafka: who has the role '{self._role}' is not known", error) from None
        return bool(committed.metadata == self._name)

    def _with_consumer(self, ask: Callable[[Any], _Answer]) -> _Answer:
        """Asks the group's coordinator; repeats while it is starting. Raises KafkaException."""
        end = clock_module.monotonic() + TIMEOUT
        with closing(new_client(Consumer, self._settings)) as consumer:
            while True:
                try:
                    return ask(consumer)
                except KafkaException as error:
                    late = clock_module.monotonic() > end
                    if late or error.args[0].code() not in _NOT_YET:
                        raise
                clock_module.sleep(_PAUSE)


_CONNECTING = 1.0  # seconds to wait at most for the first connection
_FENCED = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
}


class KafkaWriter:
    """A producer for appends, made at the first append, and a new producer for each role.

    topics: names and partitions of the log's topics.
    settings: librdkafka's connection settings.
    """

    def __init__(self, topics: Topics, settings: Mapping[str, str]) -> None:
        self._topics, self._settings = topics, dict(settings)
        self._producer: Producer | None = None
        self._appending = Lock()

    def close(self) -> None:
        if self._producer is not None:
            self._producer.flush(TIMEOUT)
            self._producer = None

    def append(self, records: Iterable[Record]) -> None:
        """Appends records, durable on return. Raises LogError; Unavailable if every failure may
        pass, and Forbidden.
        """
        # Columns go whole if none of their records can be too large, otherwise one by one.
        as_columns = isinstance(records, RecordColumns) and records.most_bytes() <= MAX_RECORD
        checked = [] if as_columns else self.checked(records)
        with self._appending:
            producer = self._append_producer()
            if isinstance(records, RecordColumns) and as_columns:
                failed = self._produce_columns(producer, records)
            else:
                failed = self.produce(producer, checked)
            unanswered = producer.flush(2 * TIMEOUT)
            if unanswered or failed:
                self._producer = None
        if any(error.code() == DENIED_TOPIC for error in failed):
            columns_topic = [records.topic] if isinstance(records, RecordColumns) else []
            raise self.denied({*columns_topic, *(record.topic for record in checked)})
        if unanswered or failed:
            lasting = [e for e in failed if e.code() not in TRANSIENT_ERRORS]
            reason = (lasting or failed)[0].str() if failed else "no answer"
            text = f"kafka: some records were not written ({reason}); send them again"
            raise LogError(text) if lasting else Unavailable(text)

    def broker_time(self, topic: str) -> float:
        """Reads the broker's clock from a record appended to `topic`, in Unix seconds."""
        times: list[int] = []
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            kind, time = message.timestamp()
            if error is not None:
                failed.append(error)
            elif kind == TIMESTAMP_LOG_APPEND_TIME:
                times.append(time)

        self._topics.partitions(topic)
        producer = self._append_producer()
        name = self._topics.name(topic)
        producer.produce(name, b"", partition=0, on_delivery=delivered)
        unanswered = producer.flush(2 * TIMEOUT)
        if any(error.code() == DENIED_TOPIC for error in failed):
            raise self.denied([topic])
        if unanswered or not times:
            self._producer = None
            raise Unavailable(f"kafka: {name} does not tell the time")
        return times[0] / 1000

    def owner(self, role: str, topic: str | None) -> KafkaOwner:
        """Takes a role. topic: see `Log.own`. Raises LogError if the role cannot be taken."""
        name = self._topics.name(role)
        signature = None
        if topic is not None:
            # Sign before claiming the role: then the former owner sees the signature.
            candidate = Signature(self._settings, name, self._topics.name(topic))
            signature = candidate if candidate.sign() else None
        producer = _connected(self._transactional_settings(name), self._topics.any_known())
        try:
            producer.init_transactions(2 * TIMEOUT)
        except KafkaException as error:
            denied = forbidden("use", f"transactional id '{name}'", "Write")
            raise log_error(f"kafka: the role '{role}' is not to be had", error, denied) from None
        return KafkaOwner(self, producer, signature)

    def checked(self, records: Iterable[Record]) -> list[Record]:
        """Checks the size and partition of records and returns them. Raises LogError."""
        checked = list(records)
        for record in checked:
            if too_large(record):
                length = payload_bytes(record)
                raise LogError(f"kafka: a record of {length} bytes is over {MAX_RECORD}")
            count = self._topics.partitions(record.topic)
            if record.partition is not None and not 0 <= record.partition < count:
                raise LogError(f"kafka: {self._topics.name(record.topic)} has {count} partitions")
        return checked

    def denied(self, topics: Iterable[str]) -> Forbidden:
        """Makes the error for records of these topics that this user may not write."""
        names = " or ".join(f"topic '{self._topics.name(topic)}'" for topic in sorted(topics))
        return forbidden("write to", names, "Write")

    def produce(self, producer: Producer, records: list[Record]) -> list[KafkaError]:
        """Queues records. Returns a list to which failed deliveries add their errors later."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        for record in records:
            # To librdkafka a time of 0 is the present.
            options: dict[str, object] = {}
            if record.time is not None:
                options["timestamp"] = record.time or 1
            if record.partition is not None:
                options["partition"] = record.partition
            while True:
                try:
                    producer.produce(
                        self._topics.name(record.topic),
                        record.value,
                        record.key,
                        headers=list(record.headers),
                        on_delivery=delivered,
                        **options,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        return failed

    def _produce_columns(self, producer: Producer, records: RecordColumns) -> list[KafkaError]:
        """Queues small records like `produce`, without an object for each."""
        self._topics.partitions(records.topic)
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        name, rows = self._topics.name(records.topic), records.all_headers()
        for key, value, headers in zip(records.keys, records.values, rows, strict=True):
            while True:
                try:
                    producer.produce(name, value, key, headers=list(headers), on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
        return failed

    def _append_producer(self) -> Producer:
        """Returns the producer for appends."""
        if self._producer is None:
            self._producer = _connected(self._producer_settings(), self._topics.any_known())
        return self._producer

    def _producer_settings(self) -> dict[str, object]:
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

    def _transactional_settings(self, name: str) -> dict[str, object]:
        """The settings of the producer of a role."""
        timeout = str(self._settings.get("transaction.timeout.ms", 60_000))
        settings = {
            **self._producer_settings(),
            "transactional.id": name,
            "transaction.timeout.ms": timeout,
        }
        if timeout.isdigit():
            # Brokers may be away for long, but the client refuses to deliver for longer than a
            # transaction lasts.
            settings["delivery.timeout.ms"] = min(round(2000 * TIMEOUT), int(timeout))
        return settings


class KafkaOwner:
    """The owner of a role: a transactional producer, unusable after the first failure.

    signature: of this owner; None if it could not be stored.
    over: whether nothing can be committed any more.
    ending: the error of the commit that ended the ownership.
    """

    def __init__(
        self, writer: KafkaWriter, producer: Producer, signature: Signature | None
    ) -> None:
        self._writer, self._producer, self.over = writer, producer, False
        self._signature, self._committing = signature, Lock()
        self.ending: Fenced | Forbidden | UnknownCommit | None = None

    def commit(self, records: Iterable[Record]) -> None:
        with self._committing:
            if self.over:
                raise self.ending or Fenced("this writer's ownership is over")
            try:
                self._commit(records)
            except (Fenced, Forbidden, UnknownCommit) as error:
                self.ending = error
                raise

    def _commit(self, records: Iterable[Record]) -> None:
        """Commits records in a transaction. Raises Fenced, Forbidden, UnknownCommit."""
        checked = self._writer.checked(records)
        self.over = True
        try:
            self._producer.begin_transaction()
            self._writer.produce(self._producer, checked)
            self._producer.commit_transaction(2 * TIMEOUT)
        except (KafkaException, SystemError) as error:
            cause = _cause(error)
            if cause.code() == DENIED_TOPIC:  # so the commit was never asked for
                with suppress(KafkaException):
                    self._producer.abort_transaction(TIMEOUT)
                raise self._writer.denied({record.topic for record in checked}) from None
            if cause.code() == KafkaError._FATAL:
                try:
                    self._producer.poll(0)
                except (KafkaException, SystemError) as reason:
                    cause = _cause(reason)
            if cause.code() in _FENCED:
                if self._is_last():
                    raise UnknownCommit(
                        "kafka: the broker ended a transaction that took too long, as after a"
                        " pause of this process; no other one has its role: start again"
                    ) from None
                raise Fenced("another process has taken this role") from None
            raise UnknownCommit(
                f"kafka: whether a commit took place is not known: {cause.str()}"
            ) from None
        self.over = False

    def _is_last(self) -> bool:
        """Tells whether no later owner has signed. Raises UnknownCommit without an answer."""
        try:
            return self._signature is not None and self._signature.is_last()
        except LogError as error:
            raise UnknownCommit(str(error)) from None

    def mark(self, content: bytes) -> None:
        pass


def _connected(settings: Mapping[str, object], topic: str | None) -> Producer:
    """Makes a producer and waits briefly for its connection to the cluster.

    Without a connection a producer asks for its id half a second later, and sends nothing before.

    topic: the name to ask for, instead of all topics of the cluster.
    """
    producer: Producer = new_client(Producer, settings)
    with suppress(KafkaException):
        producer.list_topics(topic, timeout=_CONNECTING)
    return producer


def _cause(error: BaseException) -> KafkaError:
    """Returns why the client failed.

    A fatal error that the client raises during reports of deliveries arrives as the cause of a
    SystemError; an error that it has not raised yet has no more than the code `_FATAL`.
    """
    while isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
    cause = error.args[0] if isinstance(error, KafkaException) else None
    return cause if cause is not None else KafkaError(KafkaError._FAIL, str(error))
