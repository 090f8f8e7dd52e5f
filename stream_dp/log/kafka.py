"""The production log: topics of a Kafka cluster, through confluent-kafka.

`kafka_reader.py` reads, or `compiled_kafka_reader.py` where the compiled reader is installed.
`kafka_writer.py` writes and owns roles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from .compiled_kafka_reader import open_reader
from .kafka_reader import SMALL_FETCH, KafkaReader, fetch_size
from .kafka_topics import Topics
from .kafka_writer import KafkaOwner, KafkaWriter
from .log import Batch, Positions, Record, TopicInfo


class KafkaLog:
    """Topics `PREFIX.NAME` on a cluster.

    settings: librdkafka's connection settings (bootstrap.servers among them).
    replication: for topics that `create` makes.
    timed: names of topics whose records carry the broker's append time.
    latest: names of compacted topics: the broker keeps the last record of each key.
    kept: by timed topic, the seconds after which records may be deleted; 0 if nothing is known.
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
    ) -> None:
        self._topics = Topics(prefix, settings, replication, timed, latest, kept)
        self._settings, self._group = settings, f"{prefix}.reader"
        self._reader = open_reader(self._topics, settings, self._group, SMALL_FETCH)
        self._readers = {SMALL_FETCH: self._reader}  # by the size of a fetch
        self._fetch_sizes: dict[str, int] = {}  # by topic
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
        return self._reader_of(topic).read(topic, positions, limit, timeout)

    def _reader_of(self, topic: str) -> KafkaReader:
        """Returns the reader for a topic's codec, which it looks up at the first call."""
        if topic not in self._fetch_sizes:
            self._fetch_sizes[topic] = fetch_size(self._topics.codec(topic))
        size = self._fetch_sizes[topic]
        if size not in self._readers:
            self._readers[size] = open_reader(self._topics, self._settings, self._group, size)
        return self._readers[size]

    def append(self, records: Iterable[Record]) -> None:
        self._writer.append(records)

    @contextmanager
    def own(self, name: str, topic: str | None = None) -> Iterator[KafkaOwner]:
        owner = self._writer.owner(name, topic)
        try:
            yield owner
        finally:
            owner.over = True
