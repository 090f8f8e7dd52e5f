"""The production log: topics of a Kafka cluster, through confluent-kafka.

Reading is under read_committed with manual assignment; a topic's end is what the broker reports
as the end of the partition, never arithmetic on offsets, for control records take offsets too.
A role is a fixed transactional.id: who takes it fences whoever had it. After any failure inside
a transaction its result is unknown to this process: it must end, and the next one finds out.
"""

from __future__ import annotations

import logging
import time as clock_module
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec

from .base import (
    MOST_BYTES,
    Batch,
    Fenced,
    LogError,
    OutOfRange,
    Positions,
    Record,
    Stored,
    TopicInfo,
    Unknown,
)

_ANSWER = 30.0  # seconds that a broker may take to answer
_CHUNK = 0.05  # seconds that one call waits for messages
_QUIET = logging.getLogger("stream_dp.quiet")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False
_FENCED = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
}
_MOVING = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}
_RANGE = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}


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
        self._prefix, self._replication, self._timed = prefix, replication, frozenset(timed)
        # Errors reach the caller through results; librdkafka's own log may name what it read.
        self._settings: dict[str, Any] = {**settings, "logger": _QUIET}
        self._admin = AdminClient(self._settings)
        self._consumer = Consumer(
            {
                **self._settings,
                "group.id": f"{prefix}.reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
                "queued.min.messages": 200_000,
            }
        )
        self._producer: Producer | None = None
        self._at: tuple[str, Positions] = ("", {})  # what the consumer is assigned, and where
        self._ended: set[int] = set()

    def close(self) -> None:
        if self._producer is not None:
            self._producer.flush(_ANSWER)
        self._consumer.close()

    def name(self, topic: str) -> str:
        return f"{self._prefix}.{topic}"

    def create(self, topics: Mapping[str, int]) -> None:
        known = self._cluster().topics
        missing = [
            NewTopic(
                self.name(topic),
                num_partitions=count,
                replication_factor=self._replication,
                config=self.config(topic),
            )
            for topic, count in topics.items()
            if self.name(topic) not in known
        ]
        if not missing:
            return
        for future in self._admin.create_topics(missing, operation_timeout=_ANSWER).values():
            try:
                future.result(_ANSWER)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise LogError(f"kafka: a topic was not made: {_why(error)}") from None
        deadline = clock_module.monotonic() + _ANSWER
        wanted = {self.name(topic) for topic in topics}
        while not wanted <= self._cluster().topics.keys():
            if clock_module.monotonic() > deadline:
                raise LogError("kafka: the new topics do not appear")
            clock_module.sleep(0.05)

    def config(self, topic: str) -> dict[str, str]:
        """What a topic of ours must be set to: nothing is ever deleted or compacted."""
        return {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "min.insync.replicas": str(max(1, self._replication - 1)),
            "unclean.leader.election.enable": "false",
            "message.timestamp.type": "LogAppendTime" if topic in self._timed else "CreateTime",
        }

    def faults(self, topics: Mapping[str, int]) -> list[str]:
        known = self._cluster().topics
        problems = [
            f"kafka: no topic '{self.name(topic)}'"
            for topic in topics
            if self.name(topic) not in known
        ]
        for topic, count in topics.items():
            if self.name(topic) in known:
                found = known[self.name(topic)]
                problems += self._misplaced(topic, count, found) + self._misconfigured(topic)
        return problems

    def _misplaced(self, topic: str, count: int, found: Any) -> list[str]:
        """Wrong numbers of partitions or of copies of them."""
        problems = []
        if len(found.partitions) != count:
            problems.append(
                f"kafka: {self.name(topic)} has {len(found.partitions)} partitions, not {count}"
            )
        copies = min((len(p.replicas) for p in found.partitions.values()), default=0)
        if copies < self._replication:
            problems.append(
                f"kafka: {self.name(topic)} has {copies} replicas, fewer than {self._replication};"
                " say replication in [run] where that is meant"
            )
        return problems

    def _misconfigured(self, topic: str) -> list[str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.name(topic))
        future = self._admin.describe_configs([resource], request_timeout=_ANSWER)[resource]
        try:
            settings = future.result(_ANSWER)
        except KafkaException as error:
            raise LogError(f"kafka: {self.name(topic)} cannot be checked: {_why(error)}") from None
        problems = []
        for name, wanted in self.config(topic).items():
            held = settings[name].value if name in settings else None
            enough = name == "min.insync.replicas" and int(held or 0) >= int(wanted)
            # Reports may expire once they are in a snapshot; what is decided never may.
            free = topic in self._timed and name.startswith("retention.")
            if held != wanted and not enough and not free:
                problems.append(f"kafka: {self.name(topic)} has {name} = {held}, not {wanted}")
        return problems

    def _cluster(self) -> Any:
        try:
            return self._admin.list_topics(timeout=_ANSWER)
        except KafkaException as error:
            raise LogError(f"kafka: the cluster does not answer: {_why(error)}") from None

    def _partitions(self, topic: str) -> int:
        found = self._cluster().topics.get(self.name(topic))
        if found is None or found.error is not None:
            raise LogError(f"kafka: no topic '{self.name(topic)}'")
        return len(found.partitions)

    def describe(self, topic: str) -> TopicInfo:
        count = self._partitions(topic)
        name = self.name(topic)
        try:
            described = self._admin.describe_topics(TopicCollection([name]))[name].result(_ANSWER)
        except KafkaException as error:
            raise LogError(f"kafka: {name} cannot be described: {_why(error)}") from None
        identity = f"{self._cluster().cluster_id}/{described.topic_id}"
        first = self._offsets(topic, range(count), OffsetSpec.earliest())
        return TopicInfo(identity, count, first)

    def _offsets(self, topic: str, partitions: Iterable[int], spec: OffsetSpec) -> Positions:
        asked = {TopicPartition(self.name(topic), p): spec for p in partitions}
        deadline = clock_module.monotonic() + _ANSWER
        while True:
            futures = self._admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_ANSWER
            )
            try:
                return {place.partition: f.result(_ANSWER).offset for place, f in futures.items()}
            except KafkaException as error:
                # A new topic, or one whose leader moves, has no leader for a moment.
                if error.args[0].code() not in _MOVING or clock_module.monotonic() > deadline:
                    raise LogError(f"kafka: no positions of {topic}: {_why(error)}") from None
                clock_module.sleep(0.1)

    def cut(self, topic: str, time: float) -> Positions:
        spec = OffsetSpec.for_timestamp(round(time * 1000))
        found = self._offsets(topic, range(self._partitions(topic)), spec)
        for part in [part for part, position in found.items() if position < 0]:
            found[part] = self._end(topic, part)
        return found

    def _end(self, topic: str, part: int) -> int:
        """The position at the end of a partition, as the broker reports it."""
        last = self._offsets(topic, [part], OffsetSpec.latest())[part]
        position = {part: last}
        while True:
            batch = self.read(topic, position, 1000, 0)
            position = batch.next
            if batch.at_end:
                return position[part]

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        # A partition that ended may have gone on since: only a fresh fetch tells.
        if (topic, positions) != self._at or self._ended >= positions.keys():
            self._assign(topic, positions)
        after, records = dict(positions), list[Stored]()
        deadline = clock_module.monotonic() + timeout
        silence = clock_module.monotonic() + max(_ANSWER, timeout)
        while len(records) < limit:
            wait = _CHUNK if self._ended < positions.keys() else 0.0
            for message in self._consumer.consume(limit - len(records), wait):
                self._note(message, after, records)
            if self._ended >= positions.keys():
                if records or clock_module.monotonic() >= deadline:
                    break
                self._wait(
                    min(_CHUNK, max(0.0, deadline - clock_module.monotonic())), after, records
                )
            elif records and clock_module.monotonic() >= deadline:
                break
            elif clock_module.monotonic() > silence:
                raise LogError(f"kafka: {self.name(topic)} cannot be read: no answer")
        self._at = (topic, dict(after))
        return Batch(records, after, self._ended >= positions.keys())

    def _assign(self, topic: str, positions: Positions) -> None:
        name = self.name(topic)
        self._consumer.assign([TopicPartition(name, p, o) for p, o in positions.items()])
        self._at, self._ended = (topic, dict(positions)), set()

    def _wait(self, seconds: float, after: Positions, records: list[Stored]) -> None:
        message = self._consumer.poll(seconds)
        if message is not None:
            self._note(message, after, records)

    def _note(self, message: Message, after: Positions, records: list[Stored]) -> None:
        """Take in one message or event of the consumer."""
        error = message.error()
        part, offset = message.partition(), message.offset()
        if error is None:
            headers = message.headers()
            records.append(
                Stored(
                    part,
                    offset,
                    message.timestamp()[1],
                    message.key(),
                    message.value(),
                    tuple(headers) if headers else (),
                )
            )
            after[part] = offset + 1
            self._ended.discard(part)
        elif error.code() == KafkaError._PARTITION_EOF:
            after[part] = max(after[part], offset)
            self._ended.add(part)
        elif error.code() in _RANGE:
            self._at = ("", {})
            raise OutOfRange(f"kafka: {message.topic()} has nothing at position {after[part]}")
        elif not error.retriable():
            self._at = ("", {})
            raise LogError(f"kafka: {message.topic()} cannot be read: {error.str()}")

    def append(self, records: Iterable[Record]) -> None:
        if self._producer is None:
            self._producer = Producer(self._writing())
        failed = self._produce(self._producer, records)
        if self._producer.flush(2 * _ANSWER) or failed:
            why = failed[0].str() if failed else "no answer"
            raise LogError(f"kafka: some records were not written ({why}); send them again")

    def _writing(self) -> dict[str, Any]:
        return {
            **self._settings,
            "acks": "all",
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            "queue.buffering.max.messages": 500_000,
            "delivery.timeout.ms": round(1000 * _ANSWER),
        }

    def _produce(self, producer: Producer, records: Iterable[Record]) -> list[KafkaError]:
        """Queue records; the errors of those that fail are added to the list as they come."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        for record in records:
            size = len(record.value or b"") + sum(len(v) for _, v in record.headers)
            if size > MOST_BYTES:
                raise LogError(f"kafka: a record of {size} bytes is over {MOST_BYTES}")
            more: dict[str, Any] = {} if record.time is None else {"timestamp": record.time}
            if record.partition is not None:
                more["partition"] = record.partition
            while True:
                try:
                    producer.produce(
                        self.name(record.topic),
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
    def own(self, name: str) -> Iterator[_Owner]:
        role = {"transactional.id": self.name(name), "transaction.timeout.ms": 60_000}
        producer = Producer({**self._writing(), **role})
        try:
            producer.init_transactions(2 * _ANSWER)
        except KafkaException as error:
            raise LogError(f"kafka: the role '{name}' is not to be had: {_why(error)}") from None
        owner = _Owner(self, producer)
        try:
            yield owner
        finally:
            owner.over = True


class _Owner:
    """A transactional producer; unusable after the first failure."""

    def __init__(self, log: KafkaLog, producer: Producer) -> None:
        self._log, self._producer, self.over = log, producer, False

    def commit(self, records: Iterable[Record]) -> None:
        if self.over:
            raise Fenced("this writer's ownership is over")
        held = list(records)
        for record in held:
            if len(record.value or b"") > MOST_BYTES:
                raise LogError(f"kafka: a record is over {MOST_BYTES} bytes")
        try:
            self._producer.begin_transaction()
            self._log._produce(self._producer, held)
            self._producer.commit_transaction(2 * _ANSWER)
        except KafkaException as error:
            self.over = True
            if error.args[0].code() in _FENCED:
                raise Fenced("another process has taken this role; this one ends") from None
            raise Unknown(
                f"kafka: whether a commit took place is not known: {_why(error)}"
            ) from None


def _why(error: KafkaException) -> str:
    return str(error.args[0].str())
