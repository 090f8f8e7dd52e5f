"""A log in memory, for tests and scripts, with the behaviour of the logs on SQLite and Kafka.

Its topics last as long as the object. The threads of a process may share it.
"""

from __future__ import annotations

import time as clock_module
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Condition

from stream_dp.privacy.noise import system_entropy

from .log import (
    MAX_BATCH,
    MAX_RECORD,
    NEVER,
    Batch,
    Busy,
    Fenced,
    LogError,
    Missing,
    OutOfRange,
    Positions,
    Record,
    Stored,
    TopicInfo,
    memory_bytes,
    payload_bytes,
    too_large,
)


class MemoryLog:
    """A log whose topics are lists. `close` does nothing: the topics can still be read.

    timed: topics whose records have the time of appending, whatever their own `time` is
    clock: the append times, in Unix seconds

    >>> log = MemoryLog()
    >>> log.create({"reports": 1})
    >>> log.append([Record("reports", b"one"), Record("reports", b"two")])
    >>> [record.value for record in log.read("reports", {0: 0}, limit=10, timeout=0).records]
    [b'one', b'two']
    """

    def __init__(
        self, *, timed: Iterable[str] = (), clock: Callable[[], float] = clock_module.time
    ) -> None:
        self._timed, self._clock = frozenset(timed), clock
        self._topics: dict[str, list[list[Stored]]] = {}  # records by topic and partition
        self._owners: set[str] = set()  # names of the roles that have an owner
        self._identity = system_entropy(16).hex()
        self._changed = Condition()

    @property
    def file_identity(self) -> str:
        return ""

    def mark(self, name: str) -> bytes:
        return b""

    def close(self) -> None:
        pass

    def name(self, topic: str) -> str:
        return topic

    def create(self, topics: Mapping[str, int]) -> None:
        with self._changed:
            for name, count in topics.items():
                self._topics.setdefault(name, [[] for _ in range(count)])

    def faults(self, topics: Mapping[str, int]) -> list[str]:
        counts = {name: len(self._topics.get(name, [])) for name in topics}
        return [
            f"memory: topic '{name}' has {counts[name]} partitions, not {count}"
            for name, count in topics.items()
            if counts[name] != count
        ]

    def hazards(self, topics: Iterable[str]) -> list[str]:
        return []

    def describe(self, topic: str) -> TopicInfo:
        count = len(self._partitions(topic))
        return TopicInfo(self._identity, count, dict.fromkeys(range(count), 0))

    def describe_all(self, topics: Iterable[str]) -> dict[str, TopicInfo]:
        return {topic: self.describe(topic) for topic in topics if topic in self._topics}

    def stable(self, topic: str) -> Positions:
        return self.cut(topic, NEVER)

    def cut(self, topic: str, time: float) -> Positions:
        start = round(time * 1000)
        with self._changed:
            return {
                partition: next((r.offset for r in records if r.time >= start), len(records))
                for partition, records in enumerate(self._partitions(topic))
            }

    def now(self, topic: str) -> float:
        return self._clock()

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        with self._changed:
            partitions = self._partitions(topic)
            for partition, position in positions.items():
                if partition >= len(partitions) or position > len(partitions[partition]):
                    raise OutOfRange(
                        f"memory: topic '{topic}' ends before position {position} of "
                        f"partition {partition}"
                    )
            self._changed.wait_for(
                lambda: any(
                    len(partitions[partition]) > start for partition, start in positions.items()
                ),
                timeout,
            )
            return _batch(partitions, positions, limit)

    def append(self, records: Iterable[Record]) -> None:
        arrivals = list(records)
        with self._changed:
            partitions = [
                self._partition(record) for record in arrivals
            ]  # raises before anything is stored
            append_time = round(self._clock() * 1000)
            for record, partition in zip(arrivals, partitions, strict=True):
                self._store(record, partition, append_time)
            self._changed.notify_all()

    @contextmanager
    def own(self, name: str, topic: str | None = None) -> Iterator[_Owner]:
        with self._changed:
            if name in self._owners:
                raise Busy(f"memory: another process is its {name}; stop that one first")
            self._owners.add(name)
        owner = _Owner(self)
        try:
            yield owner
        finally:
            owner.over = True
            self._owners.remove(name)

    def _partitions(self, topic: str) -> list[list[Stored]]:
        if topic not in self._topics:
            raise Missing(f"memory: no topic '{topic}'")
        return self._topics[topic]

    def _partition(self, record: Record) -> int:
        """Chooses the partition of a record. Raises LogError for a record that cannot be stored."""
        if too_large(record):
            length = payload_bytes(record)
            raise LogError(f"memory: a record of {length} bytes is over {MAX_RECORD}")
        count = len(self._partitions(record.topic))
        if record.partition is None:
            return zlib.crc32(record.key) % count if record.key is not None else 0
        if not 0 <= record.partition < count:
            raise LogError(f"memory: '{record.topic}' has {count} partitions")
        return record.partition

    def _store(self, record: Record, partition: int, append_time: int) -> None:
        """Adds a record; append times never decrease inside a partition."""
        records = self._topics[record.topic][partition]
        time = record.time
        if time is None or record.topic in self._timed:
            time = max(append_time, records[-1].time if records else 0)
        headers = tuple([(name, value or b"") for name, value in record.headers])
        records.append(
            Stored(
                partition=partition,
                offset=len(records),
                time=time,
                key=record.key,
                value=record.value,
                headers=headers,
            )
        )


class _Owner:
    """The owner of a role; commits until its context ends."""

    def __init__(self, log: MemoryLog) -> None:
        self._log, self.over = log, False

    def commit(self, records: Iterable[Record]) -> None:
        if self.over:
            raise Fenced("this writer's ownership is over: another process may have its role")
        self._log.append(records)

    def mark(self, content: bytes) -> None:
        pass


def _batch(partitions: list[list[Stored]], positions: Positions, limit: int) -> Batch:
    """Returns at most `limit` records from the offsets on, until they exceed MAX_BATCH bytes."""
    batch, next_offsets, room = list[Stored](), dict(positions), MAX_BATCH
    for partition in sorted(positions):
        for record in partitions[partition][positions[partition] :]:
            if len(batch) == limit or room <= 0:
                break
            batch.append(record)
            room -= memory_bytes(record.key, record.value, record.headers)
            next_offsets[partition] = record.offset + 1
    at_end = all(
        position == len(partitions[partition]) for partition, position in next_offsets.items()
    )
    return Batch(batch, next_offsets, at_end)
