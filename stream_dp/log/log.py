"""The log: topics of records in partitions. The smallest interface that SQLite and Kafka share.

A log stores bytes and knows nothing of studies. Other modules build messages of several records,
markers and dead letters on it. `tests/log/contract.py` tests what every log must do.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

Positions = dict[int, int]
Headers = tuple[tuple[str, bytes], ...]

# A record stays under the megabyte that brokers accept by default; see message.py.
MAX_RECORD = 1_000_000
# The only header of an encrypted record (sealing.py). Encryption adds at most _SEAL_BYTES.
SEALED: Headers = (("stream-dp-sealed", b"1"),)
_SEAL_BYTES = 20_000
# A read ends when its records take more than this many bytes in memory, whatever its `limit`.
MAX_BATCH = 16_000_000
# The bytes of memory that a header takes besides its name and its value.
HEADER_BYTES = 100
NEVER = 2.0**40  # Unix seconds; later than the time of every record
UNKNOWN_TIME = 1 << 62  # milliseconds; later than every time of a record


class LogError(Exception):
    """The log cannot be used; the text gives the reason."""


class Missing(LogError):
    """The log or topic does not exist (yet)."""


class Forbidden(LogError):
    """This user has no right to it; the text names the right to grant."""


class Unavailable(LogError):
    """The log does not answer now. Waiting or starting the process again may help."""


class Untrusted(Unavailable):
    """The log and this process trusted each other before: a new process may be trusted."""


class TopicLost(Unavailable):
    """A topic without decisions was deleted, so only a new process can use it."""


class Damaged(LogError):
    """The log's file is not what was written: emptied, cut short or overwritten."""


class Busy(LogError):
    """Another process owns the role."""


class Fenced(LogError):
    """This writer's ownership is over. Nothing was committed."""


class UnknownCommit(LogError):
    """The result of a commit is unknown: end the process, start again, read the log."""


class OutOfRange(LogError):
    """An offset is beyond a topic's end: records that were in the topic are lost."""


@dataclass(frozen=True)
class Record:
    """A record to be written.

    partition: if None, the log chooses a partition by the key.
    time: Unix milliseconds (a log may store 0 as 1); if None, the time of appending.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    time: int | None = None


class Stored(NamedTuple):
    """A record after reading.

    time: Unix milliseconds; UNKNOWN_TIME if nothing of the record can be read.
    headers: None if they cannot be read, as when a name is not UTF-8; an absent value is b"".
    """

    partition: int
    offset: int
    time: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None

    def header(self, name: str) -> bytes:
        """Returns the last value of the header `name`, or b"" if the record has no such header."""
        return next((v for n, v in reversed(self.headers or ()) if n == name), None) or b""

    @classmethod
    def unreadable(cls, partition: int, offset: int) -> Stored:
        """Makes a record with nothing but its partition and offset."""
        return cls(
            partition=partition,
            offset=offset,
            time=UNKNOWN_TIME,
            key=None,
            value=None,
            headers=None,
        )


def memory_bytes(key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
    """Counts a record's bytes in memory: key, value, headers, and HEADER_BYTES a header."""
    total = len(key or b"") + len(value or b"")
    for name, content in headers or ():
        total += len(name) + len(content or b"") + HEADER_BYTES
    return total


def payload_bytes(record: Record) -> int:
    """Returns the bytes of a record to be written: its key, its value and its headers' values."""
    contents = (record.key, record.value, *(value for _, value in record.headers))
    return sum(len(content or b"") for content in contents)


def too_large(record: Record) -> bool:
    """Tells whether a record takes more than MAX_RECORD; a sealed record gets room for its seal."""
    room = _SEAL_BYTES if record.headers == SEALED else 0
    return payload_bytes(record) > MAX_RECORD + room


@dataclass(frozen=True)
class Batch:
    """The result of a read.

    records: in the order of their offsets within each partition.
    next: the offsets from which to read on.
    at_end: whether these offsets were the ends of their partitions.
    """

    records: Sequence[Stored]
    next: Positions
    at_end: bool


@dataclass(frozen=True)
class TopicInfo:
    """The present state of a topic.

    identity: of the topic, or of the log that contains it; never used again.
    first: by partition, the first offset that can be read.
    """

    identity: str
    partitions: int
    first: Positions


class Writer(Protocol):
    """The owner of a role. Threads of a process may share it."""

    def commit(self, records: Iterable[Record]) -> None:
        """Writes all of the records or no record. They are durable on return.

        Raises Fenced or UnknownCommit.
        """

    def mark(self, content: bytes) -> None:
        """Notes the last commit beside the log (file_mark.py); durable on return.

        A cluster's log notes nothing.
        """


class Log(Protocol):
    @property
    def file_identity(self) -> str:
        """The identity of the log's file, different for a copy (owned_files.py).

        Empty for a cluster: its topics have identities.
        """

    def mark(self, name: str) -> bytes:
        """Returns the last mark of the role `name`; empty without a mark, and for a cluster."""

    def create(self, topics: Mapping[str, int]) -> None:
        """Creates the topics that do not exist. topics: the number of partitions by name."""

    def faults(self, topics: Mapping[str, int]) -> list[str]:
        """Describes how topics differ from the result of `create`, a line per fault."""

    def hazards(self, topics: Iterable[str]) -> list[str]:
        """Describes settings with which topics lose or refuse records, a line per fault.

        A single request. Other faults, such as too few replicas, may pass by themselves.
        """

    def name(self, topic: str) -> str:
        """Returns a topic's name outside of the library, for example on the cluster."""

    def describe(self, topic: str) -> TopicInfo:
        """Describes a topic. Raises Missing if the topic does not exist."""

    def describe_all(self, topics: Iterable[str]) -> dict[str, TopicInfo]:
        """Describes the existing topics with the number of requests for a single topic."""

    def cut(self, topic: str, time: float) -> Positions:
        """Returns, by partition, the offset of the first record appended at or after `time`.

        If a partition has no such record, its end is returned. time: Unix seconds.
        """

    def stable(self, topic: str) -> Positions:
        """Returns, by partition, the offset below which no transaction is open.

        Records below it can be read. On Kafka a read from an offset beyond it has no answer.
        """

    def now(self, topic: str) -> float:
        """Returns the time of the log's clock, which dates appended records, in Unix seconds.

        topic: a cluster's log appends a record to this topic in order to read the clock.
        """

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        """Reads at most `limit` records from the given offsets on.

        Ends before `limit` when the records take more than MAX_BATCH bytes, decompressed. Waits up
        to `timeout` seconds for the first record. Every record is returned, whatever its bytes:
        fields that cannot be read are None. Raises OutOfRange.
        """

    def append(self, records: Iterable[Record]) -> None:
        """Writes records, durable on return. Needs no role.

        records: may be `RecordColumns`, which an embedded log writes several times as fast.
        """

    def own(self, name: str, topic: str | None = None) -> AbstractContextManager[Writer]:
        """Takes the role `name` until the context ends. Only a single owner can commit.

        Either the former owner is fenced, or Busy is raised, as with SQLite.

        topic: an existing topic that the owner may read. With it, a commit that a broker refused
            because it took too long raises UnknownCommit, unless another owner has taken the role.
        """

    def close(self) -> None: ...


READ_AT_ONCE = 20_000  # records of one read, for records as small as reports


def following(log: Log, topic: str, positions: Positions, at_once: int = 500) -> Iterator[Stored]:
    """The records from the positions to the end of the topic; moves the positions there.

    at_once: records of one read.
    """
    while True:
        batch = log.read(topic, positions, at_once, 0)
        yield from batch.records
        positions.update(batch.next)
        if batch.at_end:
            return


def stop_following(log: Log, topic: str) -> None:
    """Ends prefetching by the log after the last read, because the next read may be days away."""
    log.read(topic, {}, 0, 0)


@contextmanager
def collector_paused() -> Iterator[None]:
    """While a batch is read: the cyclic garbage collector, which finds no cycle in records, would
    go through all of them several times.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
