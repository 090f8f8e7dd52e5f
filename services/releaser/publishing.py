"""Publishing: decided records are copied to the public log, at their scheduled time or later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stream_dp.log.base import Writer
from stream_dp.privacy.ledger import Ledger
from stream_dp.study import Study
from stream_dp.study.periods import duration_seconds

from ..journal import Entry, certified_charges
from .clocks import Clocks
from .facts import Facts


@dataclass
class Publisher:
    """The owner of the public log.

    poll: seconds between two looks at the clock.
    certified: the charges of all that is public, as certificates state them.
    meanwhile: called every `poll` seconds while it waits for a scheduled time.
    """

    study: Study
    writer: Writer
    facts: Facts
    clocks: Clocks
    tell: Callable[[str], None]
    at: Callable[[str], None]
    stop: threading.Event
    poll: float
    certified: Ledger
    meanwhile: Callable[[], None] = lambda: None

    def follow(self, published: Sequence[Entry]) -> None:
        """Sets the public metrics to what is published already."""
        index = -1
        for entry in published:
            index += len(entry.published)
            self._show(entry, index)

    def _show(self, entry: Entry, index: int) -> None:
        """Sets the public metrics to what is published up to the message at `index`."""
        self.certified = self.certified.charge(*certified_charges(entry, self.study))
        self.facts.released = max(entry.number, self.facts.released or 0)
        if index > self.facts.published.index:
            time = self.study.periods.release_time(entry.number) if entry.number else None
            more = index - self.facts.published.index
            self.facts.publish(more, self.certified.spent, time)

    def publish(self, entry: Entry, until_idle: bool) -> bool:
        """Copies an entry's records to the public log, at the scheduled time or later.

        False if asked to stop, or not to wait, before that time.
        """
        if not entry.published:
            self._show(entry, self.facts.published.index)
            return True
        due = self._due(entry)
        label = self.study.periods.labels[max(0, entry.number - 1)]
        if due is not None and not self._wait(due, until_idle, f"{label} goes out"):
            return False
        self.at("publish")
        self.writer.commit(entry.public_records())
        self._show(entry, self.facts.published.index + len(entry.published))
        self.at("published")
        if entry.result_of is not None:
            self.tell(f"published the result of job {entry.result_of}")
        elif entry.number:
            self.tell(f"published {label}")
        return True

    def _due(self, entry: Entry) -> float | None:
        """When an entry may go out, in Unix seconds: a delay after the close, by the calendar or by
        the last of its markers, whatever the reports; None for at once."""
        periods = self.study.periods
        if entry.number and periods.close != "marker":
            return periods.release_time(entry.number)
        if periods.delay is None or not entry.marked:
            return None
        return max(entry.marked.values()) / 1000 + duration_seconds(periods.delay)

    def _wait(self, moment: float, until_idle: bool, what: str) -> bool:
        """Waits for a moment; False if asked to stop, or not to wait, before it comes."""
        reported = ""
        while when := self.clocks.before(moment):
            if when != reported:
                self.tell(f"{what} {when}")
                reported = when
            self.meanwhile()
            if until_idle or self.stop.wait(self.poll):
                return False
        return True
