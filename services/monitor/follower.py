"""Follows a public log: begins to serve each new state of it, or says why there is none."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from contextlib import closing
from threading import Event, Thread
from typing import Protocol

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.base import Damaged, Log, LogError, Missing

from .forks import Work
from .log_end import End

_BETWEEN = 1.0  # seconds between two looks at the log
_LONGEST = 10.0  # seconds until the next look at a log that does not answer


class Fault(Exception):
    """Why a log cannot be read. refused: whether what was read before counts no more."""

    def __init__(self, lines: Sequence[str], *, refused: bool) -> None:
        self.lines, self.refused = lines, refused


def fault_of(error: Exception) -> Fault:
    """What a failure to read a log means."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, Missing):
        words = "nothing is published yet; this page shows the first release once it is public"
        return Fault([words, str(error)], refused=True)
    if isinstance(error, Inconsistent | Damaged):
        return Fault(error.lines if isinstance(error, UserError) else [str(error)], refused=True)
    if isinstance(error, UserError):
        return Fault(error.lines, refused=False)
    if isinstance(error, LogError):
        return Fault([str(error)], refused=False)
    if isinstance(error, OSError):
        return Fault(["the public log: no answer"], refused=False)
    traceback.print_exception(error)
    return Fault(["the monitor failed on this public log; its operator can say why"], refused=True)


class Served(Protocol):
    """A state of a public log that answers questions."""

    end: End
    head: str
    releases: int

    @property
    def alive(self) -> bool: ...

    async def ask(self, question: Work, seconds: float) -> Work:
        """Raises Gone, Failed."""
        ...

    def retire(self) -> None:
        """Answers what was asked, and no more."""


class Follower:
    """The newest checked state of a public log, or why there is none.

    open_log: opens the log; called for every look, so that a replaced file is seen.
    begin: reads the log, checks it and begins to serve its state. Raises Fault.
    """

    def __init__(self, open_log: Callable[[], Log], begin: Callable[[], Served]) -> None:
        self._open, self._begin = open_log, begin
        self._stop = Event()
        self.served: Served | None = None
        self.fault: Sequence[str] = ("the public log is being read; look again in a moment",)

    def look(self) -> None:
        """Reads the log where it has changed; keeps the fault in words where it cannot be used."""
        try:
            if self._has_changed():
                self._serve(self._begin())
            fault: Sequence[str] = ()
        except Exception as error:  # whatever a log does to this program, the thread goes on
            found = fault_of(error)
            if found.refused:
                self._serve(None)
            fault = found.lines
        self.fault = fault

    def _has_changed(self) -> bool:
        """Whether anything follows the last record, or stands in its place."""
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

    def start(self) -> Thread:
        thread = Thread(target=self._follow, daemon=True, name="public-log")
        thread.start()
        return thread

    def stop(self) -> None:
        self._stop.set()
        self._serve(None)

    def _follow(self) -> None:
        pause = _BETWEEN
        while not self._stop.is_set():
            self.look()
            pause = _BETWEEN if not self.fault else min(2 * pause, _LONGEST)
            self._stop.wait(pause)
