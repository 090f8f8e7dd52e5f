"""The log: topics of records in partitions. The smallest interface that SQLite and Kafka share.

A log knows bytes, not studies. What is built on it (messages of several records, markers, dead
letters) lives above. `tests/log/contract.py` says what every implementation must do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

Positions = dict[int, int]
Headers = tuple[tuple[str, bytes], ...]

# A record stays under the megabyte that brokers accept by default; see message.py.
MAX_RECORD = 1_000_000
# A read stops when its records take more than this in memory, whatever number was asked for.
MAX_BATCH = 64_000_000
# What a header takes beside its name and its value.
HEADER_BYTES = 100
UNKNOWN_TIME = 1 << 62  # after every other


class LogError(Exception):
    """The log cannot be used; the text says what was found."""


class Missing(LogError):
    """There is no such log or topic (yet)."""


class Unavailable(LogError):
    """The log does not answer now; nothing is wrong that waiting or starting again may not cure."""


class Damaged(LogError):
    """The log's file is not what was written: emptied, cut short or overwritten."""


class Busy(LogError):
    """Another process owns this role."""


class Fenced(LogError):
    """This writer's ownership is over. Nothing was committed."""


class UnknownCommit(LogError):
    """Whether a commit took place is not known: end the process, start again, read the log."""


class OutOfRange(LogError):
    """A position beyond a topic's end: records that once existed are gone."""


@dataclass(frozen=True)
class Record:
    """A record to be written.

    partition: chosen from the key where None. time: milliseconds, of which a log may store 0 as
    1; the time of appending where None.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    time: int | None = None


class Stored(NamedTuple):
    """A record as read.

    time: milliseconds; UNKNOWN_TIME where nothing of the record can be read. headers: None where
    they cannot be read, as with a name that is not UTF-8; an absent value of one is empty.
    """

    partition: int
    offset: int
    time: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None

    def header(self, name: str) -> bytes:
        """The last value under that name; empty where there is none."""
        return next((v for n, v in reversed(self.headers or ()) if n == name), None) or b""

    @classmethod
    def unreadable(cls, partition: int, offset: int) -> Stored:
        """A record of which only its place is known."""
        return cls(partition, offset, UNKNOWN_TIME, None, None, None)


def memory_bytes(key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
    """Bytes of a record: its key, its value, and its headers with HEADER_BYTES more for each."""
    total = len(key or b"") + len(value or b"")
    for name, content in headers or ():
        total += len(name) + len(content or b"") + HEADER_BYTES
    return total


def payload_bytes(record: Record) -> int:
    """Bytes of a record to be written: its key, its value and its headers' values."""
    contents = (record.key, record.value, *(value for _, value in record.headers))
    return sum(len(content or b"") for content in contents)


@dataclass(frozen=True)
class Batch:
    """records: in offset order inside a partition; next: where to read on; at_end: no more now."""

    records: list[Stored]
    next: Positions
    at_end: bool


@dataclass(frozen=True)
class TopicInfo:
    """identity: of the topic or of the log that holds it, never reused; first: first positions."""

    identity: str
    partitions: int
    first: Positions


class Writer(Protocol):
    """The owner of a role."""

    def commit(self, records: Iterable[Record]) -> None:
        """All of the records or none, durable on return. Raises Fenced or UnknownCommit."""


class Log(Protocol):
    @property
    def place(self) -> str:
        """What a copy of the log's file does not share (place.py); empty for a cluster, whose
        topics have an identity of their own."""

    def create(self, topics: Mapping[str, int]) -> None:
        """Make the topics that do not exist, with that many partitions. Harmless to repeat."""

    def faults(self, topics: Mapping[str, int]) -> list[str]:
        """What is wrong with the topics, compared with what `create` would make; a line each."""

    def name(self, topic: str) -> str:
        """What a topic is called where other programs see it."""

    def describe(self, topic: str) -> TopicInfo:
        """Raises LogError where the topic does not exist."""

    def cut(self, topic: str, time: float) -> Positions:
        """The first position of each partition whose append time is at or after `time` (Unix
        seconds); the end where there is none."""

    def now(self, topic: str) -> float:
        """The time by which records are appended now, in Unix seconds.

        topic: where a cluster can be asked for it: appends a record there.
        """

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        """At most `limit` records of these partitions from these positions on, and no more when
        they have reached MAX_BATCH, by their sizes once they are decompressed.

        Waits up to `timeout` seconds for the first. Whatever a record holds, it is read: what
        cannot be is None. Raises OutOfRange.
        """

    def append(self, records: Iterable[Record]) -> None:
        """Durable on return; needs no ownership."""

    def own(self, name: str, topic: str | None = None) -> AbstractContextManager[Writer]:
        """Take a role. At most one owner can commit; raises Busy where the other one stays.

        topic: one that exists and that the owner may read. With it, a commit that a broker refused
        because it took too long raises UnknownCommit, not Fenced, where nobody else took the role.
        """

    def close(self) -> None: ...
