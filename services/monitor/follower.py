"""Follows a public log: starts serving each new state, or keeps the fault of the log."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from threading import Event, Thread
from typing import Protocol

from stream_dp.errors import Inconsistent, UserError
from stream_dp.json_object import Json
from stream_dp.log.log import Damaged, Log, LogError, Missing
from stream_dp.study.topics import RELEASES

from .forks import Work

FAILED = "the monitor failed on this public log; its operator can say why"
_READING = ("the public log is being read; look again in a moment",)
_INTERVAL = 1.0  # seconds between two looks at the log
_LONGEST_INTERVAL = 10.0  # seconds until the next look at a log that does not answer


@dataclass(frozen=True)
class End:
    """The last record read from a public log.

    identity: the identity of the topic.
    position: the offset after the record.
    last: the SHA-256 of the record's value.
    """

    identity: str
    position: int
    last: str

    def is_of(self, log: Log) -> bool:
        """Whether the log still ends with the same record. Raises LogError."""
        if log.describe(RELEASES).identity != self.identity:
            return False
        batch = log.read(RELEASES, {0: self.position - 1}, 2, 0)
        return [sha256(record.value) for record in batch.records] == [self.last]


def sha256(value: bytes | None) -> str:
    """The SHA-256 of a record's value, in hexadecimal."""
    return hashlib.sha256(value or b"").hexdigest()


class Fault(Exception):
    """The reason why a log cannot be read. refused: whether earlier states become invalid, too."""

    def __init__(self, lines: Sequence[str], *, refused: bool) -> None:
        self.lines, self.refused = lines, refused


def fault_of(error: Exception) -> Fault:
    """The Fault for an error during reading of a log."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, Missing):
        message = "nothing is published yet; this page shows the first release once it is public"
        return Fault([message, str(error)], refused=True)
    if isinstance(error, Inconsistent | Damaged):
        return Fault(error.lines if isinstance(error, UserError) else [str(error)], refused=True)
    if isinstance(error, UserError):
        return Fault(error.lines, refused=False)
    if isinstance(error, LogError):
        return Fault([str(error)], refused=False)
    if isinstance(error, OSError):
        return Fault(["the public log: no answer"], refused=False)
    traceback.print_exception(error)
    return Fault([FAILED], refused=True)


class Served(Protocol):
    """A served state of a public log."""

    end: End
    head: str
    releases: int
    about: Json

    @property
    def alive(self) -> bool: ...

    async def ask(self, question: Work, seconds: float) -> Work:
        """Answers a question within `seconds`. Raises Gone, Failed."""
        ...

    def retire(self) -> None:
        """Refuses new questions; finishes open answers."""


class Follower:
    """The newest checked state of a public log, or the fault of the log.

    open_log: opens the log; called at every look, so that a replaced file is noticed.
    begin: reads and checks the log and starts serving the state. Raises Fault.
    """

    def __init__(self, open_log: Callable[[], Log], begin: Callable[[], Served]) -> None:
        self._open, self._begin = open_log, begin
        self._stop = Event()
        self.served: Served | None = None
        self.fault: Sequence[str] = _READING

    def look(self) -> None:
        """Reads the log after a change; keeps the fault of an unusable log."""
        try:
            if self._has_changed():
                self._serve(self._begin())
            fault: Sequence[str] = ()
        except Exception as error:  # no fault of a log ends the thread
            read_fault = fault_of(error)
            if read_fault.refused:
                self._serve(None)
            fault = read_fault.lines
        self.fault = fault

    def _has_changed(self) -> bool:
        """Whether records were appended or replaced after the last read."""
        with closing(self._open()) as log:
            served = self.served
            return served is None or not served.alive or not served.end.is_of(log)

    def _serve(self, new: Served | None) -> None:
        old, self.served = self.served, new
        if old is not None:
            old.retire()

    @property
    def head(self) -> str | None:
        served = self.served
        return None if served is None else served.head

    @property
    def has_looked(self) -> bool:
        """Whether the log was read or refused once."""
        return self.fault is not _READING

    def start(self) -> Thread:
        thread = Thread(target=self._follow, daemon=True, name="public-log")
        thread.start()
        return thread

    def stop(self) -> None:
        self._stop.set()
        self._serve(None)

    def _follow(self) -> None:
        pause = _INTERVAL
        while not self._stop.is_set():
            self.look()
            pause = _INTERVAL if not self.fault else min(2 * pause, _LONGEST_INTERVAL)
            self._stop.wait(pause)
