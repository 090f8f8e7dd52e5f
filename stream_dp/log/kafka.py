"""The production log: topics of a Kafka cluster, through confluent-kafka.

Reading is in `kafka_reader.py`, writing and owning in `kafka_writer.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from .base import Batch, Positions, Record, TopicInfo
from .kafka_reader import KafkaReader
from .kafka_writer import KafkaOwner, KafkaWriter
from .topics import Topics


class KafkaLog:
    """Topics `PREFIX.NAME` on a cluster.

    settings: of librdkafka, for connecting (bootstrap.servers among them).
    replication: of topics that are created.
    timed: names of topics whose records carry the broker's append time.
    latest: names of topics that are compacted: a key's last record stays.
    """

    def __init__(
        self,
        prefix: str,
        settings: Mapping[str, str],
        *,
        replication: int = 3,
        timed: Iterable[str] = (),
        latest: Iterable[str] = (),
    ) -> None:
        self._topics = Topics(prefix, settings, replication, timed, latest)
        self._reader = KafkaReader(self._topics, settings, f"{prefix}.reader")
        self._writer = KafkaWriter(self._topics, settings)

    def close(self) -> None:
        self._writer.close()
        self._reader.close()

    @property
    def place(self) -> str:
        return ""

    def mark(self, name: str) -> bytes:
        return b""

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

    def stable(self, topic: str) -> Positions:
        return self._topics.stable(topic)

    def now(self, topic: str) -> float:
        """The broker's time, which it gives to a record that is appended."""
        return self._writer.broker_time(topic)

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        return self._reader.read(topic, positions, limit, timeout)

    def append(self, records: Iterable[Record]) -> None:
        self._writer.append(records)

    @contextmanager
    def own(self, name: str, topic: str | None = None) -> Iterator[KafkaOwner]:
        owner = self._writer.owner(name, topic)
        try:
            yield owner
        finally:
            owner.over = True
