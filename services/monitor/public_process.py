"""Serving of one state of a public log by a process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stream_dp.json_object import Json

from .follower import FAILED, End, Fault
from .forked_workers import Workers
from .zygote import Lost, Zygote


def public_zygote() -> Zygote:
    """The process of which every process with a state of a public log is a fork."""
    return Zygote("-m", "stream_dp.services.monitor.public_program")


class PublicProcess(Workers):
    """A process with one state of a public log.

    key, head: what the log must have, kept elsewhere.
    url: where the study's pages are public.
    outlines: a file with the outlines of regions.
    statements: files of signed statements of audits.

    Raises Fault for an unusable log.
    """

    def __init__(
        self,
        zygote: Zygote,
        source: str,
        *,
        key: str | None = None,
        head: str | None = None,
        url: str = "",
        outlines: Path | None = None,
        statements: Sequence[Path] = (),
    ) -> None:
        try:
            files = map(str, (outlines or "", *statements))
            super().__init__(zygote, source, key or "", head or "", url, *files)
        except Lost:
            raise Fault([FAILED], refused=True) from None
        message = self.first_line() or {"fault": [FAILED], "refused": True}
        if "fault" in message:
            self.stop()
            raise Fault(message["fault"], refused=message["refused"])
        self.end = End(**message["end"])
        self.head: str = message["head"]
        self.releases: int = message["releases"]
        self.about: Json = message["about"]
