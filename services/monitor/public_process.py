"""One state of a public log, served by a process that has read it."""

from __future__ import annotations

from .follower import Fault
from .log_end import End
from .workers import Workers

_PROGRAM = "stream_dp.services.monitor.public_program"
_FAILED = "the monitor failed on this public log; its operator can say why"


class PublicProcess:
    """A running process with one state of a public log.

    Raises Fault where there is no state.
    """

    def __init__(self, source: str) -> None:
        self._workers = Workers("-m", _PROGRAM, source)
        said = self._workers.begun()
        if said is None:
            self._workers.stop()
            raise Fault([_FAILED], refused=True)
        if "fault" in said:
            self._workers.stop()
            raise Fault(said["fault"], refused=said["refused"])
        self.end = End(**said["end"])
        self.head: str = said["head"]
        self.releases: int = said["releases"]
        self.ask = self._workers.ask
        self.retire = self._workers.retire

    @property
    def alive(self) -> bool:
        return self._workers.alive
