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
MOST_BYTES = 1_000_000


class LogError(Exception):
    """The log cannot be used; the text says what was found."""


class Missing(LogError):
    """There is no such log or topic (yet)."""


class Unavailable(LogError):
    """The log does not answer now; nothing is wrong that waiting or starting again may not cure."""


class Busy(LogError):
    """Another process owns this role."""


class Fenced(LogError):
    """This writer's ownership is over. Nothing was committed."""


class Unknown(LogError):
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
    """A record as read. time: milliseconds."""

    partition: int
    offset: int
    time: int
    key: bytes | None
    value: bytes | None
    headers: Headers


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
        """All of the records or none, durable on return. Raises Fenced or Unknown."""


class Log(Protocol):
    def create(self, topics: Mapping[str, int]) -> None:
        """Make the topics that do not exist, with that many partitions. Harmless to repeat."""

    def faults(self, topics: Mapping[str, int]) -> list[str]:
        """What is wrong with the topics, compared with what `create` would make; a line each."""

    def describe(self, topic: str) -> TopicInfo:
        """Raises LogError where the topic does not exist."""

    def cut(self, topic: str, time: float) -> Positions:
        """The first position of each partition whose append time is at or after `time` (Unix
        seconds); the end where there is none."""

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        """At most `limit` records of these partitions from these positions on.

        Waits up to `timeout` seconds for the first. Raises OutOfRange.
        """

    def append(self, records: Iterable[Record]) -> None:
        """Durable on return; needs no ownership."""

    def own(self, name: str) -> AbstractContextManager[Writer]:
        """Take a role. At most one owner can commit; raises Busy where the other one stays."""

    def close(self) -> None: ...
