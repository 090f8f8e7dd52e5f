"""Serving of one state of a public log by a process."""

from __future__ import annotations

from .follower import FAILED, End, Fault
from .forked_workers import Workers

_PROGRAM = "stream_dp.services.monitor.public_program"


class PublicProcess(Workers):
    """A process with one state of a public log.

    key, head: what the log must have, kept elsewhere.
    url: where the monitor is public.

    Raises Fault for an unusable log.
    """

    def __init__(
        self, source: str, *, key: str | None = None, head: str | None = None, url: str = ""
    ) -> None:
        super().__init__("-m", _PROGRAM, source, key or "", head or "", url)
        message = self.first_line() or {"fault": [FAILED], "refused": True}
        if "fault" in message:
            self.stop()
            raise Fault(message["fault"], refused=message["refused"])
        self.end = End(**message["end"])
        self.head: str = message["head"]
        self.releases: int = message["releases"]
