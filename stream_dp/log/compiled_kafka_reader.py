"""Reads records of a Kafka log by the compiled reader, where it is installed.

The reader in Python is the definition. This one takes the messages out of librdkafka's queue
without an object of Python for each. Both use the library that confluent-kafka has loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import confluent_kafka.cimpl
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from stream_dp.compiled import compiled_reader

from .kafka_clients import new_client
from .kafka_reader import CHUNK, Event, Fetch, KafkaReader
from .kafka_topics import Topics
from .log import MAX_BATCH, Headers, Positions
from .records import Records

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
