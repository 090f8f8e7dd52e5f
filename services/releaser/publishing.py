"""Publishing: decided records are copied to the public log, at their scheduled time or later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from stream_dp.log.base import Writer
from stream_dp.log.message import iso
from stream_dp.study import Study

from .facts import Facts
from .journal import Entry


@dataclass
class Publisher:
    """The owner of the public log.

    meanwhile: called every `poll` seconds while it waits for a scheduled time.
    """

    study: Study
    writer: Writer
    facts: Facts
    clock: Callable[[], float]
    tell: Callable[[str], None]
    at: Callable[[str], None]
    stop: threading.Event
    poll: float
    meanwhile: Callable[[], None] = lambda: None

    def seen(self, done: Sequence[Entry]) -> None:
        """Let the public metrics follow what is published already."""
        shown = -1
        for entry in done:
            shown += len(entry.published)
            if shown > self.facts.published.index:
                self._show(entry)

    def _show(self, entry: Entry) -> None:
        """Let the public metrics follow what is published: each release with its own cost."""
        time = self.study.periods.release_time(entry.number) if entry.number else None
        batches = {batch.name: batch for batch in self.study.batches or ()}
        rho = sum((c.rho for c in entry.charges if c.release not in batches), Fraction(0))
        if entry.result_of is not None:
            rho = next(b.rho for b in batches.values() if entry.of(b.name))
        self.facts.publish(len(entry.published), rho, time)

    def publish(self, entry: Entry, until_idle: bool) -> bool:
        """Copy an entry's records to the public log, at the scheduled time or later."""
        if not entry.published:
            return True
        periods = self.study.periods
        if entry.number and periods.close != "marker":
            due = periods.release_time(entry.number)
            assert due is not None
            if not self._wait(due, until_idle, f"{periods.labels[entry.number - 1]} goes out"):
                return False
        self.at("publish")
        self.writer.commit(entry.public_records())
        self._show(entry)
        self.at("published")
        if entry.result_of is not None:
            self.tell(f"published the result of job {entry.result_of}")
        elif entry.number:
            self.tell(f"published {periods.labels[entry.number - 1]}")
        return True

    def _wait(self, time: float, until_idle: bool, what: str) -> bool:
        """Wait for a scheduled time; False if asked to stop, or not to wait, before it comes."""
        if self.clock() < time:
            self.tell(f"{what} at {iso(time)}")
        while self.clock() < time:
            self.meanwhile()
            if until_idle or self.stop.wait(self.poll):
                return False
        return True
