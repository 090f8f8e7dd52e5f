"""Writes records to a Kafka log: appends, and commits of a role's owner in transactions.

A role is a fixed transactional.id: who takes it fences whoever had it. After any failure inside
a transaction its result is unknown to this process: it must end, and the next one finds out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from threading import Lock
from typing import Any

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)

from .base import (
    MAX_RECORD,
    Fenced,
    LogError,
    Record,
    Unavailable,
    UnknownCommit,
    payload_bytes,
    too_large,
)
from .signature import Signature
from .topics import BROKER_BYTES, TIMEOUT, TRANSIENT_ERRORS, Topics, log_error, new_client

_CONNECTING = 1.0  # seconds at most, which would be waited later otherwise
_FENCED = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
}


class KafkaWriter:
    """One producer for appends, begun when it is needed, and a new one for each role.

    topics: names and partitions of the log's topics.
    settings: of librdkafka, for connecting.
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
        """Durable on return. Raises LogError; Unavailable where only what may pass failed."""
        checked = self.checked(records)
        with self._appending:
            producer = self._begun()
            failed = self.produce(producer, checked)
            unanswered = producer.flush(2 * TIMEOUT)
            if unanswered or failed:
                self._producer = None
        if unanswered or failed:
            lasting = [e for e in failed if e.code() not in TRANSIENT_ERRORS]
            reason = (lasting or failed)[0].str() if failed else "no answer"
            text = f"kafka: some records were not written ({reason}); send them again"
            raise LogError(text) if lasting else Unavailable(text)

    def broker_time(self, topic: str) -> float:
        """Unix seconds by the broker's clock, read from a record that is appended to `topic`."""
        times: list[int] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            kind, time = message.timestamp()
            if error is None and kind == TIMESTAMP_LOG_APPEND_TIME:
                times.append(time)

        self._topics.partitions(topic)
        producer = self._begun()
        name = self._topics.name(topic)
        producer.produce(name, b"", partition=0, on_delivery=delivered)
        if producer.flush(2 * TIMEOUT) or not times:
            self._producer = None
            raise Unavailable(f"kafka: {name} does not tell the time")
        return times[0] / 1000

    def owner(self, role: str, topic: str | None) -> KafkaOwner:
        """Takes a role. topic: see `Log.own`. Raises LogError where the role is not to be had."""
        name = self._topics.name(role)
        signature = None
        if topic is not None:
            # Before the role is claimed: whoever loses it to this process sees the signature.
            candidate = Signature(self._settings, name, self._topics.name(topic))
            signature = candidate if candidate.sign() else None
        producer = _connected(self._transactional_settings(name))
        try:
            producer.init_transactions(2 * TIMEOUT)
        except KafkaException as error:
            raise log_error(f"kafka: the role '{role}' is not to be had", error) from None
        return KafkaOwner(self, producer, signature)

    def checked(self, records: Iterable[Record]) -> list[Record]:
        """The records. Raises LogError for one of a size or a partition that is refused."""
        checked = list(records)
        for record in checked:
            if too_large(record):
                length = payload_bytes(record)
                raise LogError(f"kafka: a record of {length} bytes is over {MAX_RECORD}")
            count = self._topics.partitions(record.topic)
            if record.partition is not None and not 0 <= record.partition < count:
                raise LogError(f"kafka: {self._topics.name(record.topic)} has {count} partitions")
        return checked

    def produce(self, producer: Producer, records: list[Record]) -> list[KafkaError]:
        """Queues records; the errors of those that fail are added to the list as they come."""
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

    def _begun(self) -> Producer:
        """The producer for appends."""
        if self._producer is None:
            self._producer = _connected(self._producer_settings())
        return self._producer

    def _producer_settings(self) -> dict[str, Any]:
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

    def _transactional_settings(self, name: str) -> dict[str, Any]:
        timeout = str(self._settings.get("transaction.timeout.ms", 60_000))
        settings = {
            **self._producer_settings(),
            "transactional.id": name,
            "transaction.timeout.ms": timeout,
        }
        if timeout.isdigit():
            # The client refuses to deliver for longer than a transaction lasts.
            settings["delivery.timeout.ms"] = min(round(1000 * TIMEOUT), int(timeout))
        return settings


class KafkaOwner:
    """The owner of a role: a transactional producer, unusable after the first failure.

    signature: of this owner; None where it could not be left.
    over: whether nothing can be committed any more.
    ending: why, where a commit has found it.
    """

    def __init__(
        self, writer: KafkaWriter, producer: Producer, signature: Signature | None
    ) -> None:
        self._writer, self._producer, self.over = writer, producer, False
        self._signature, self._committing = signature, Lock()
        self.ending: Fenced | UnknownCommit | None = None

    def commit(self, records: Iterable[Record]) -> None:
        with self._committing:
            if self.over:
                raise self.ending or Fenced("this writer's ownership is over")
            try:
                self._commit(records)
            except (Fenced, UnknownCommit) as error:
                self.ending = error
                raise

    def _commit(self, records: Iterable[Record]) -> None:
        checked = self._writer.checked(records)
        self.over = True
        try:
            self._producer.begin_transaction()
            self._writer.produce(self._producer, checked)
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
                raise Fenced("another process has taken this role") from None
            raise UnknownCommit(
                f"kafka: whether a commit took place is not known: {cause.str()}"
            ) from None
        self.over = False

    def mark(self, content: bytes) -> None:
        pass


def _connected(settings: Mapping[str, Any]) -> Producer:
    """A producer that, in most cases, has a connection to the cluster.

    One without a connection asks for its id half a second later, and sends nothing before.
    """
    producer: Producer = new_client(Producer, settings)
    with suppress(KafkaException):
        producer.list_topics(timeout=_CONNECTING)
    return producer


def _cause(error: BaseException) -> KafkaError:
    """Why the client failed.

    A fatal error that the client raises during reports of deliveries arrives as the cause of a
    SystemError; one that it has not raised yet has no more than the code `_FATAL`.
    """
    while isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
    cause = error.args[0] if isinstance(error, KafkaException) else None
    return cause if cause is not None else KafkaError(KafkaError._FAIL, str(error))
