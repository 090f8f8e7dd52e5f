"""Serving of one state of a public log by a process."""

from __future__ import annotations

from .follower import End, Fault
from .forked_workers import Workers

_PROGRAM = "stream_dp.services.monitor.public_program"
_FAILED = "the monitor failed on this public log; its operator can say why"


class PublicProcess:
    """Starts a process with one state of a public log.

    Raises Fault for an unusable log.
    """

    def __init__(self, source: str) -> None:
        self._workers = Workers("-m", _PROGRAM, source)
        message = self._workers.first_line()
        if message is None:
            self._workers.stop()
            raise Fault([_FAILED], refused=True)
        if "fault" in message:
            self._workers.stop()
            raise Fault(message["fault"], refused=message["refused"])
        self.end = End(**message["end"])
        self.head: str = message["head"]
        self.releases: int = message["releases"]
        self.ask = self._workers.ask
        self.retire = self._workers.retire

    @property
    def alive(self) -> bool:
        return self._workers.alive
