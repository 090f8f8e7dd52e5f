"""The log: topics of records in partitions. The smallest interface that SQLite and Kafka share.

A log stores bytes and knows nothing of studies. Messages of several records, markers and dead
letters are built on it by other modules. `tests/log/contract.py` tests what every log must do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

Positions = dict[int, int]
Headers = tuple[tuple[str, bytes], ...]

# A record stays under the megabyte that brokers accept by default; see message.py.
MAX_RECORD = 1_000_000
# The one header of a record that is encrypted (sealing.py), which makes it a little larger.
SEALED: Headers = (("stream-dp-sealed", b"1"),)
_SEAL_BYTES = 20_000
# A read ends when its records take more than this many bytes in memory, whatever its `limit`.
MAX_BATCH = 64_000_000
# The bytes of memory that a header takes besides its name and its value.
HEADER_BYTES = 100
NEVER = 2.0**40  # Unix seconds; later than the time of every record
UNKNOWN_TIME = 1 << 62  # milliseconds; later than every time of a record


class LogError(Exception):
    """The log cannot be used; the text says why."""


class Missing(LogError):
    """There is no such log or topic (yet)."""


class Unavailable(LogError):
    """The log does not answer now. Waiting or starting the process again may help."""


class Damaged(LogError):
    """The log's file is not what was written: emptied, cut short or overwritten."""


class Busy(LogError):
    """Another process owns this role."""


class Fenced(LogError):
    """This writer's ownership is over. Nothing was committed."""


class UnknownCommit(LogError):
    """Whether a commit took place is not known: end the process, start again, read the log."""


class OutOfRange(LogError):
    """A position beyond a topic's end: records that were in the topic are lost."""


@dataclass(frozen=True)
class Record:
    """A record to be written.

    partition: if None, the log chooses one by the key
    time: Unix milliseconds (a log may store 0 as 1); if None, the time of appending
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    time: int | None = None


class Stored(NamedTuple):
    """A record as read.

    time: Unix milliseconds; UNKNOWN_TIME if nothing of the record can be read
    headers: None if they cannot be read, as when a name is not UTF-8; an absent value is b""
    """

    partition: int
    offset: int
    time: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None

    def header(self, name: str) -> bytes:
        """The last value under that name, or b"" if there is none."""
        return next((v for n, v in reversed(self.headers or ()) if n == name), None) or b""

    @classmethod
    def unreadable(cls, partition: int, offset: int) -> Stored:
        """A record of which only the partition and the offset are known."""
        return cls(
            partition=partition,
            offset=offset,
            time=UNKNOWN_TIME,
            key=None,
            value=None,
            headers=None,
        )


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


def too_large(record: Record) -> bool:
    """Whether a record to be written takes more than MAX_RECORD, before it was sealed."""
    room = _SEAL_BYTES if record.headers == SEALED else 0
    return payload_bytes(record) > MAX_RECORD + room


@dataclass(frozen=True)
class Batch:
    """What a read returns.

    records: in the order of their offsets within each partition
    next: the positions from which to read on
    at_end: whether these positions were the ends of their partitions
    """

    records: Sequence[Stored]
    next: Positions
    at_end: bool


@dataclass(frozen=True)
class TopicInfo:
    """A topic as it is now.

    identity: of the topic, or of the log that contains it; never used again
    first: the first position of each partition that can be read
    """

    identity: str
    partitions: int
    first: Positions


class Writer(Protocol):
    """The owner of a role. Threads of a process may share it."""

    def commit(self, records: Iterable[Record]) -> None:
        """Write all of the records or none; they are durable on return.

        Raises Fenced or UnknownCommit.
        """

    def mark(self, content: bytes) -> None:
        """Notes what was committed last beside the log (mark.py); durable on return.

        A cluster's log notes nothing.
        """


class Log(Protocol):
    @property
    def place(self) -> str:
        """Identifies the log's file, so that a copy of it differs (place.py).

        Empty for a cluster: its topics have identities.
        """

    def mark(self, name: str) -> bytes:
        """What an owner of the role `name` marked last; empty for nothing, and for a cluster."""

    def create(self, topics: Mapping[str, int]) -> None:
        """Create the topics that do not exist. topics: the number of partitions by name."""

    def faults(self, topics: Mapping[str, int]) -> list[str]:
        """How the topics differ from those that `create` would make, a line for each fault."""

    def name(self, topic: str) -> str:
        """The name under which other programs see a topic."""

    def describe(self, topic: str) -> TopicInfo:
        """Raises LogError where the topic does not exist."""

    def cut(self, topic: str, time: float) -> Positions:
        """By partition, the position of the first record appended at or after `time`.

        The end of a partition that has no such record. time: Unix seconds.
        """

    def stable(self, topic: str) -> Positions:
        """By partition, the position up to which records can be read: no transaction is open below.

        On Kafka a read from a position beyond it has no answer.
        """

    def now(self, topic: str) -> float:
        """The log's clock, by which it dates what is appended, in Unix seconds.

        topic: to which a cluster's log appends a record in order to read the clock.
        """

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        """At most `limit` records from these positions of these partitions on.

        Ends before `limit` when the records take more than MAX_BATCH bytes, decompressed. Waits up
        to `timeout` seconds for the first record. Every record is returned, whatever its bytes:
        fields that cannot be read are None. Raises OutOfRange.
        """

    def append(self, records: Iterable[Record]) -> None:
        """Write the records; they are durable on return. Needs no role."""

    def own(self, name: str, topic: str | None = None) -> AbstractContextManager[Writer]:
        """Own the role `name` until the context ends. At most one owner of a role can commit.

        Either the former owner is fenced, or Busy is raised, as with SQLite.

        topic: one that exists and that the owner may read. With it, a commit that a broker refused
            because it took too long raises UnknownCommit, unless another owner has taken the role.
        """

    def close(self) -> None: ...
