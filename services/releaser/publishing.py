"""Publishing: decided records are copied to the public log, at their scheduled time or later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stream_dp.log.base import Writer
from stream_dp.log.message import iso
from stream_dp.privacy.ledger import Ledger
from stream_dp.study import Study

from .facts import Facts
from .journal import Entry, shown


@dataclass
class Publisher:
    """The owner of the public log.

    shown: what is spent on all that is public, as certificates state it.
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
    shown: Ledger
    meanwhile: Callable[[], None] = lambda: None

    def seen(self, done: Sequence[Entry]) -> None:
        """Let the public metrics follow what is published already."""
        index = -1
        for entry in done:
            index += len(entry.published)
            self._show(entry, index)

    def _show(self, entry: Entry, index: int) -> None:
        """Let the public metrics follow what is published up to the message at `index`."""
        self.shown = self.shown.charge(*shown(entry, self.study))
        if index > self.facts.published.index:
            time = self.study.periods.release_time(entry.number) if entry.number else None
            more = index - self.facts.published.index
            self.facts.publish(more, self.shown.spent, time)

    def publish(self, entry: Entry, until_idle: bool) -> bool:
        """Copy an entry's records to the public log, at the scheduled time or later."""
        if not entry.published:
            self._show(entry, self.facts.published.index)
            return True
        periods = self.study.periods
        if entry.number and periods.close != "marker":
            due = periods.release_time(entry.number)
            assert due is not None
            if not self._wait(due, until_idle, f"{periods.labels[entry.number - 1]} goes out"):
                return False
        self.at("publish")
        self.writer.commit(entry.public_records())
        self._show(entry, self.facts.published.index + len(entry.published))
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
