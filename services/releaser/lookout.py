"""The search for missing processes: work waits for the process, but no heartbeat comes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from stream_dp.log.log import Log

from ..process.heartbeats import HEARTBEAT_INTERVAL, Heartbeats, Process, ReceivedHeartbeat
from .releaser_facts import Facts

_MISSED = 60.0  # seconds of this process's clock without a heartbeat
_OPEN = {"waiting", "running"}  # states of a job that a worker is to fit


@dataclass
class Lookout:
    """Follows the heartbeats of the processes that have work, and sets `Facts.missing`."""

    log: Log
    facts: Facts
    _heartbeats: Heartbeats = field(init=False)
    _heard: dict[Process, ReceivedHeartbeat | None] = field(default_factory=dict, init=False)
    _alive: dict[Process, float] = field(default_factory=dict, init=False)  # monotonic seconds
    _next: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._heartbeats = Heartbeats(self.log)

    def look(self) -> None:
        """Reads the heartbeats now and then while there is work. Raises LogError."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + HEARTBEAT_INTERVAL
        needed = self._needed()
        if needed:
            self._heartbeats.refresh()
        for process in needed:
            heard = self._heartbeats.last.get(process)
            if process not in self._alive or heard != self._heard.get(process):
                self._alive[process] = now
            self._heard[process] = heard
        self._alive = {p: t for p, t in self._alive.items() if p in needed}
        self.facts.missing = {p: now - self._alive[p] > _MISSED for p in needed}

    def _needed(self) -> list[Process]:
        """The processes for which work waits."""
        waiting, needed = self.facts.waiting, list[Process]()
        if waiting is not None and waiting.event == "aggregator-awaited":
            needed.append("aggregator")
        if any(job.state in _OPEN for job in self.facts.jobs.values()):
            needed.append("worker")
        return needed
