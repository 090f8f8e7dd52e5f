"""The production log: topics of a Kafka cluster, through confluent-kafka.

`kafka_reader.py` reads, and is the definition. Where it is installed, the compiled reader takes the
messages out of librdkafka's queue without an object of Python for each. Both use the library that
confluent-kafka has loaded. `kafka_writer.py` writes and owns roles.

A topic without a codec of its own is read in quick fetches of small batches. Where a batch is
large, it and more and more reads behind it take small fetches, which hold a whole batch each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import confluent_kafka.cimpl
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from stream_dp.compiled import compiled_reader

from .kafka_clients import new_client
from .kafka_reader import CHUNK, SMALL, Event, Fetch, KafkaReader, LargeBatch, fetch_of
from .kafka_topics import Topics
from .kafka_writer import KafkaOwner, KafkaWriter
from .log import MAX_BATCH, Batch, Headers, Positions, Record, TopicInfo
from .records import Records

_SMALL_READS = 1023  # at most, after a large batch


class KafkaLog:
    """Topics `PREFIX.NAME` on a cluster.

    settings: librdkafka's connection settings (bootstrap.servers among them).
    replication: for topics that `create` makes.
    timed: names of topics whose records carry the broker's append time.
    latest: names of compacted topics: the broker keeps the last record of each key.
    kept: by timed topic, the seconds after which records may be deleted; 0 if nothing is known.
    named: topics that others own, with their whole names; they are never created.
    """

    def __init__(
        self,
        prefix: str,
        settings: Mapping[str, str],
        *,
        replication: int = 3,
        timed: Iterable[str] = (),
        latest: Iterable[str] = (),
        kept: Mapping[str, float] | None = None,
        named: Mapping[str, str] | None = None,
    ) -> None:
        self._topics = Topics(prefix, settings, replication, timed, latest, kept, named)
        self._settings, self._group = settings, f"{prefix}.reader"
        self._readers = {SMALL: open_reader(self._topics, settings, self._group, SMALL)}
        self._fetches: dict[str, Fetch] = {}  # by topic
        # By topic, the reads until the next quick one, and how many there were at the last time.
        self._small_reads: dict[str, tuple[int, int]] = {}
        self._writer = KafkaWriter(self._topics, settings)

    def close(self) -> None:
        self._writer.close()
        for reader in self._readers.values():
            reader.close()
        self._topics.close()

    @property
    def file_identity(self) -> str:
        return ""

    def mark(self, name: str) -> bytes:
        return b""

    def create(self, topics: Mapping[str, int]) -> None:
        self._topics.create(topics)

    def faults(self, topics: Mapping[str, int]) -> list[str]:
        return self._topics.faults(topics)

    def name(self, topic: str) -> str:
        return self._topics.name(topic)

    def hazards(self, topics: Iterable[str]) -> list[str]:
        return self._topics.hazards(topics)

    def describe(self, topic: str) -> TopicInfo:
        return self._topics.describe(topic)

    def describe_all(self, topics: Iterable[str]) -> dict[str, TopicInfo]:
        return self._topics.describe_all(topics)

    def cut(self, topic: str, time: float) -> Positions:
        return self._topics.cut(topic, time)

    def stable(self, topic: str) -> Positions:
        return self._topics.stable(topic)

    def now(self, topic: str) -> float:
        """Returns the broker's clock, which dates appended records, in Unix seconds."""
        return self._writer.broker_time(topic)

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        if topic not in self._fetches:
            self._fetches[topic] = fetch_of(self._topics.codec(topic))
        fetch, (small, last) = self._fetches[topic], self._small_reads.get(topic, (0, 0))
        if not small:
            try:
                return self._reader(fetch).read(topic, positions, limit, timeout)
            except LargeBatch:
                small = last = min(2 * last + 1, _SMALL_READS)
        self._small_reads[topic] = (small - 1, last)
        return self._reader(SMALL).read(topic, positions, limit, timeout)

    def _reader(self, fetch: Fetch) -> KafkaReader:
        if fetch not in self._readers:
            self._readers[fetch] = open_reader(self._topics, self._settings, self._group, fetch)
        return self._readers[fetch]

    def append(self, records: Iterable[Record]) -> None:
        self._writer.append(records)

    @contextmanager
    def own(self, name: str, topic: str | None = None) -> Iterator[KafkaOwner]:
        owner = self._writer.owner(name, topic)
        try:
            yield owner
        finally:
            owner.over = True


_NUMBER = 8  # bytes
_OFF = {True: "true", False: "false"}


class CompiledConsumer:
    """The compiled consumer, with the calls of confluent-kafka's that a reader uses.

    reader: the module of the compiled reader.
    """

    def __init__(self, reader: Any, settings: Mapping[str, object]) -> None:
        texts = {
            name: _OFF[value] if isinstance(value, bool) else str(value)
            for name, value in settings.items()
            if name != "logger"  # the compiled consumer logs nothing
        }
        self._fault = reader.ClientError
        self._consumer = reader.Consumer(confluent_kafka.cimpl.__file__, texts)
        self._assigned: dict[tuple[str, int], TopicPartition] = {}

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except self._fault as error:
            raise KafkaException(KafkaError(*error.args)) from None

    def assignment(self) -> list[TopicPartition]:
        return list(self._assigned.values())

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._assigned = {}
        with self._faults():
            self._consumer.assign(_places(partitions))
        self._assigned = {(p.topic, p.partition): p for p in partitions}

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        with self._faults():
            self._consumer.incremental_assign(_places(partitions))
        self._assigned |= {(p.topic, p.partition): p for p in partitions}

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        with self._faults():
            self._consumer.incremental_unassign(_places(partitions))
        for partition in partitions:
            self._assigned.pop((partition.topic, partition.partition), None)

    def unassign(self) -> None:
        with self._faults():
            self._consumer.unassign()
        self._assigned = {}

    def list_topics(self, name: str, seconds: float) -> None:
        """Looks up the leaders of a topic's partitions."""
        with self._faults():
            self._consumer.look_up(name, round(1000 * seconds))

    def fetch(self, limit: int, most_bytes: int, seconds: float) -> tuple[Any, ...]:
        """Takes messages from the queue, up to an event, until none comes for some seconds."""
        fetched: tuple[Any, ...] = self._consumer.fetch(limit, most_bytes, round(1000 * seconds))
        return fetched

    def close(self) -> None:
        self._consumer.close()


class CompiledKafkaReader(KafkaReader):
    """A reader whose messages stay in columns. reader: the module of the compiled reader."""

    def __init__(
        self, reader: Any, topics: Topics, settings: Mapping[str, str], group: str, fetch: Fetch
    ) -> None:
        self._compiled = reader
        super().__init__(topics, settings, group, fetch)

    def _new_consumer(self, settings: Mapping[str, object]) -> Any:
        return new_client(lambda texts: CompiledConsumer(self._compiled, texts), settings)

    def _fill(self, limit: int, next_offsets: Positions, records: Records) -> None:
        while len(records) < limit and self._bytes < MAX_BATCH and not self._blocked:
            if not self._fetch(limit - len(records), CHUNK, next_offsets, records):
                break
            if self._ended.keys() >= next_offsets.keys():
                break

    def _fetch(self, limit: int, seconds: float, next_offsets: Positions, records: Records) -> bool:
        """Takes in messages and then events. Returns whether there were any."""
        fetched = self._consumer.fetch(limit, MAX_BATCH - self._bytes, seconds)
        *numbers, keys, values, named, ends, events, size = fetched
        columns = [memoryview(column) for column in numbers]
        count = len(columns[0]) // _NUMBER
        headers: list[Headers | None] = [()] * count
        for row, several in named:
            headers[row] = several
        records.add(*columns, _texts(count, keys), _texts(count, values), headers)
        self._bytes += size
        self._move(ends, next_offsets)
        for event in events:
            self._note(Event(*event), next_offsets)
        return bool(count or events)


def _places(partitions: list[TopicPartition]) -> list[tuple[str, int, int]]:
    return [(p.topic, p.partition, p.offset) for p in partitions]


def _texts(count: int, buffers: tuple[bytes | None, bytes, bytes]) -> pa.Array:
    """Returns a column of byte strings from its validity bits, bounds and content."""
    arrow_buffers = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(pa.large_binary(), count, arrow_buffers)


def open_reader(
    topics: Topics, settings: Mapping[str, str], group: str, fetch: Fetch
) -> KafkaReader:
    """Opens a reader of a cluster's topics, the compiled reader if installed.

    settings: librdkafka's connection settings.
    group: the consumer's group.id.
    """
    reader = compiled_reader()
    if reader is None:
        return KafkaReader(topics, settings, group, fetch)
    return CompiledKafkaReader(reader, topics, settings, group, fetch)
