"""Copies decided records to the public log, at their scheduled time or later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stream_dp.log.log import Writer
from stream_dp.log.message import Message
from stream_dp.release.certificate import CertifiedLedger
from stream_dp.study import Study

from ..process.events import KEY_CHANGED, Event
from ..storage.journal import Entry
from ..storage.journal_heads import WeightsHead
from ..storage.log_guard import LogGuard
from .answer_topic import AnswerTopic
from .decision import certified, certified_charges
from .releaser_facts import Context, delayed_release_time


@dataclass
class Publisher:
    """Publishes journal entries in their order.

    writer: the one writer of the public log.
    context: as in `Releaser`.
    poll: seconds between two checks of the clock.
    certified: the charges that certificates state.
    guard: of both logs, asked before every publication.
    meanwhile: called every `poll` seconds during a wait for a scheduled time.
    answers: the topic of answers, where the service fills one.
    """

    study: Study
    writer: Writer
    context: Context
    poll: float
    certified: CertifiedLedger
    guard: LogGuard
    meanwhile: Callable[[], None]
    answers: AnswerTopic | None = None

    def follow(self, published: Sequence[Entry], chain: Sequence[Message]) -> None:
        """Sets the public facts to those of published entries, and writes missing answers.

        chain: the messages of the entries.
        """
        if self.answers is not None:
            self.answers.catch_up(chain)
        index = -1
        for entry in published:
            index += len(entry.published)
            self._show(entry, index)

    def _show(self, entry: Entry, index: int) -> None:
        """Sets the public facts to the facts of an entry. index: of the entry's last message."""
        self.certified = certified(self.certified, entry)
        self.context.facts.released = max(entry.number, self.context.facts.released or 0)
        self.context.facts.marked = {}
        if index > self.context.facts.published.index:
            time = self.study.periods.release_time(entry.number) if entry.number else None
            messages = index - self.context.facts.published.index
            self.context.facts.publish(messages, self.certified.spent, time)

    def publish(self, entry: Entry, until_idle: bool) -> bool:
        """Copies an entry's records to the public log, at the scheduled time or later.

        False if the releaser is to stop, or until_idle not to wait, before that time.
        """
        if not entry.published:
            self._show(entry, self.context.facts.published.index)
            return True
        self.context.facts.marked = entry.input.marked if entry.closes else {}
        due = self._due(entry)
        label = self.study.periods.labels[max(0, entry.number - 1)]
        if due is not None:
            self.context.facts.paused = True
            try:
                if not self._wait(due, until_idle, label):
                    return False
            finally:
                self.context.facts.paused = False
        self.context.at("publish")
        self.guard.require()
        records = entry.public_records()
        self.writer.commit(records)
        self.guard.published(entry.published)
        self._show(entry, self.context.facts.published.index + len(entry.published))
        self.context.at("published")
        if self.answers is not None:
            self.answers.add(records)
            self.context.at("answered")
        if (job := entry.result_of) is not None:
            (charge,) = certified_charges(entry, self.study)
            message = f"published the result of job {job}"
            self.context.tell(
                Event("job-published", message, label, release=charge.release, job=job)
            )
        elif isinstance(entry.head, WeightsHead):
            message = f"published the weights of answers about {label}"
            self.context.tell(Event("weights-published", message, label))
        elif not entry.closes:
            self.context.tell(KEY_CHANGED)
        elif entry.number:
            self.context.tell(Event("period-published", f"published {label}", label))
        return True

    def _due(self, entry: Entry) -> float | None:
        """The time of publication in Unix seconds, independent of reports; None: at once.

        That is a declared delay after the scheduled close, or after the last marker of the period.
        """
        periods = self.study.periods
        if entry.number and periods.close != "marker":
            return periods.release_time(entry.number)
        return delayed_release_time(periods, entry.input.marked if entry.closes else {})

    def _wait(self, moment: float, until_idle: bool, label: str) -> bool:
        """Waits for a period's release. False if asked to stop, or not to wait, before that."""
        reported = ""
        while reason := self.context.clocks.before(moment):
            if reason != reported:
                event = Event("release-awaited", f"{label} goes out {reason}", period=label)
                self.context.tell(event)
                self.context.facts.wait(event)
                reported = reason
            self.meanwhile()
            if until_idle or self.context.stop.wait(self.poll):
                return False
        return True
