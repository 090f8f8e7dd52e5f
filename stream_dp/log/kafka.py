"""The production log: topics of a Kafka cluster, through confluent-kafka.

`kafka_reader.py` reads, or `compiled_kafka_reader.py` where the compiled reader is installed.
`kafka_writer.py` writes and owns roles.

A topic without a codec of its own is read in quick fetches of small batches. Where a batch is
large, it and more and more reads behind it take small fetches, which hold a whole batch each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from .compiled_kafka_reader import open_reader
from .kafka_reader import SMALL, Fetch, KafkaReader, LargeBatch, fetch_of
from .kafka_topics import Topics
from .kafka_writer import KafkaOwner, KafkaWriter
from .log import Batch, Positions, Record, TopicInfo

_SMALL_READS = 1023  # at most, after a large batch


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
