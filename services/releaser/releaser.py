"""The releaser: one loop that closes a period, draws, decides once, and then publishes.

The order of a period: close the population at its cut, snapshot, charge, draw the noise, count,
step the mechanisms, commit everything to the journal in one transaction, publish a copy. A crash
before the commit leaves nothing decided; after it, the same bytes go out. Between the draw and
the commit there is only arithmetic on what the plan has bounded.
"""

from __future__ import annotations

import threading
import time as time_module
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.base import Log, OutOfRange, Positions, Writer
from stream_dp.log.message import iso, messages
from stream_dp.plan import Plan
from stream_dp.population import Population
from stream_dp.privacy.noise import Source, System, secret
from stream_dp.release import TOPIC
from stream_dp.report import Decoder

from . import decision, journal
from .facts import Facts
from .inputs import Inputs
from .journal import DEAD_LETTERS, JOURNAL, REPORTS, Entry
from .snapshots import Snapshots

_POLL = 0.5
# Kafka forgets a role that was idle for some days: before noise is drawn it is taken anew.
_FRESH = 86_400.0


def topics(partitions: int) -> tuple[dict[str, int], dict[str, int]]:
    """The confidential topics and the public ones, with their numbers of partitions."""
    return {REPORTS: partitions, DEAD_LETTERS: 1, JOURNAL: 1}, {TOPIC: 1}


@dataclass
class Releaser:
    """Runs a study on two logs.

    file: the study's, for what it tells. tell: a line for the operator, never a count. at: called
    with every step's name, for tests that stop there. stop: set it to end at the next safe point.
    """

    plan: Plan
    log: Log
    public: Log
    snapshots: Snapshots
    partitions: int = 1
    file: str = "STUDY.toml"
    source: Source = field(default_factory=System)
    clock: Callable[[], float] = time_module.time
    tell: Callable[[str], None] = lambda line: None
    at: Callable[[str], None] = lambda name: None
    stop: threading.Event = field(default_factory=threading.Event)
    facts: Facts = field(init=False)

    def __post_init__(self) -> None:
        self.facts = Facts(self.plan.study)

    def run(self, *, until_idle: bool = False) -> bool:
        """Work until the horizon, a stop, or (until_idle) until nothing more can be done.

        Returns True at the end of the horizon. Raises Inconsistent, Busy, Fenced, Unknown.
        """
        while (done := self._run(until_idle)) is None:
            self.at("renewed")
        return done

    def _run(self, until_idle: bool) -> bool | None:
        """What `run` does, or None where a period took so long that the roles may be forgotten."""
        periods, began = self.plan.study.periods, time_module.monotonic()
        with ExitStack() as stack:
            self._topics()
            writer = stack.enter_context(self.log.own("releaser"))
            publisher = stack.enter_context(self.public.own("publisher"))
            self.at("owned")
            entries = self._begin(writer)
            ledger = journal.check(entries, self.plan, self.log.describe(REPORTS))
            for entry in self._unpublished(entries):
                if not self._publish(entry, publisher, until_idle):
                    return False
            held = decision.lines(self.plan.study, entries)
            snapshots = self.snapshots.of(entries[0].message.hash[:12])
            snapshots.prepare()
            inputs = self._inputs(entries, snapshots)
            hashes = [digest for e in entries for digest in e.published]
            last, kept = entries[-1], [e.snapshot[0] for e in entries[-2:] if e.number]
            snapshots.keep(set(kept))
            del entries
            self.facts.ready = True
            self.at("recovered")
            for number in range(last.number + 1, periods.count + 1):
                self.facts.open_period = number
                cut = self._cut(number, inputs, until_idle)
                if cut is None:
                    return False
                self.at("cut")
                if time_module.monotonic() - began > _FRESH:
                    return None
                taken = self._take(inputs, cut, snapshots)
                charged = ledger.charge(*self.plan.charges(number))
                draws = decision.draw(self.plan.study, self.source, held, number)
                self.at("drawn")
                last, held = decision.decide(
                    self.plan,
                    number,
                    last,
                    (len(hashes) - 1, hashes[-1]),
                    ledger,
                    held,
                    draws,
                    taken,
                    self.source.simulated,
                )
                ledger = charged
                hashes += last.published
                self.at("commit")
                writer.commit(journal.journal_records(last.message, self.plan.study))
                self.at("committed")
                self.tell(f"closed {periods.labels[number - 1]}")
                if not self._publish(last, publisher, until_idle):
                    return False
                kept = [*kept, last.snapshot[0]][-2:]
                snapshots.keep(set(kept))
                self.at("cleaned")
                began = time_module.monotonic()
            self.tell("the horizon is reached: every period is released")
            return True

    def _topics(self) -> None:
        """Make the topics that are missing, and refuse to run on wrong ones."""
        private, public = topics(self.partitions)
        self.log.create(private)
        self.public.create(public)
        problems = self.log.faults(private) + self.public.faults(public)
        if problems:
            raise UserError(problems)

    def _begin(self, writer: Writer) -> list[Entry]:
        """The journal, begun if it is new and nothing is published."""
        entries = journal.read(self.log)
        if not entries:
            if next(messages(self.public, TOPIC, "public log"), None) is not None:
                raise Inconsistent(
                    "journal: it is empty, but the public log is not: the confidential log is"
                    " lost or not the right one; restore it, or begin a new study with new logs"
                )
            info = self.log.describe(REPORTS)
            first = journal.genesis(self.plan.study, info, secret(32), self.source.simulated)
            writer.commit(journal.journal_records(first, self.plan.study))
            entries = [Entry(first)]
            self.at("begun")
        if entries[0].message.head["simulated"] != self.source.simulated:
            raise Inconsistent("journal: a study with seeded noise and one without do not mix")
        return entries

    def _unpublished(self, entries: list[Entry]) -> list[Entry]:
        """Entries that the public log does not hold; what it holds is checked."""
        done = [m.hash for m in messages(self.public, TOPIC, "public log")]
        journal.check_public(entries, done)
        left, shown = len(done), -1
        for place, entry in enumerate(entries):
            if left == 0:
                return entries[place:]
            if left < len(entry.published):
                raise Inconsistent("public log: it ends in the middle of a period's releases")
            left -= len(entry.published)
            shown += len(entry.published)
            if shown > self.facts.published.index:
                self._show(entry)
        return []

    def _show(self, entry: Entry) -> None:
        """Let the public metrics follow what is published."""
        time = self.plan.study.periods.release_time(entry.number) if entry.number else None
        rho = sum((c.rho for c in entry.charges), Fraction(0))
        self.facts.publish(len(entry.published), rho, time)

    def _publish(self, entry: Entry, publisher: Writer, until_idle: bool) -> bool:
        """Copy an entry's records to the public log, at the scheduled time or later."""
        if not entry.published:
            return True
        periods = self.plan.study.periods
        if entry.number and periods.close != "marker":
            due = periods.release_time(entry.number)
            assert due is not None
            if not self._wait(due, until_idle, f"{periods.labels[entry.number - 1]} goes out"):
                return False
        self.at("publish")
        publisher.commit(entry.public_records())
        self._show(entry)
        self.at("published")
        if entry.number:
            self.tell(f"published {periods.labels[entry.number - 1]}")
        return True

    def _wait(self, time: float, until_idle: bool, what: str) -> bool:
        """Wait for a scheduled time; False if asked to stop, or not to wait, before it comes."""
        if self.clock() < time:
            self.tell(f"{what} at {iso(time)}")
        while self.clock() < time:
            if until_idle or self.stop.wait(_POLL):
                return False
        return True

    def _inputs(self, entries: list[Entry], snapshots: Snapshots) -> Inputs:
        """The population at the last cut: from a snapshot, and the input after it replayed."""
        study, last = self.plan.study, entries[-1]
        start, population = self._latest_snapshot(entries, snapshots)
        key = bytes.fromhex(entries[0].message.head["key"])
        inputs = Inputs(
            self.log, Decoder(study, key), population, start.cut, last.marks, self.facts, self.at
        )
        first = self.log.describe(REPORTS).first
        if any(first[p] > position for p, position in start.cut.items()):
            raise Inconsistent(
                f"reports: no snapshot is left and the topic no longer reaches back to period"
                f" {start.number + 1}; restore a snapshot named in the journal"
            )
        for entry in entries[start.number + 1 :]:
            inputs.fold_to(entry.cut, replay=True)
            population.close()
        try:
            self.log.read(REPORTS, inputs.positions, 1, 0)
        except OutOfRange:
            raise Inconsistent(
                "reports: the topic ends before the last cut of the journal: an older confidential"
                " log was restored; bring back the newer one"
            ) from None
        if last.number and population.accounting.as_dict() != last.message.head["accounting"]:
            raise Inconsistent(
                "reports: what is below the last cut is not what the journal counted; the topic"
                " was changed"
            )
        return inputs

    def _latest_snapshot(
        self, entries: list[Entry], snapshots: Snapshots
    ) -> tuple[Entry, Population]:
        study = self.plan.study
        for entry in reversed(entries[1:]):
            data = snapshots.read(*entry.snapshot)
            if data is not None:
                return entry, Population.load(study, data)
        return entries[0], Population(study)

    def _cut(self, number: int, inputs: Inputs, until_idle: bool) -> Positions | None:
        """Read until period `number` can close; its cut, or None to stop before."""
        periods = self.plan.study.periods
        label, told = periods.labels[number - 1], ""
        time, cut = periods.close_time(number), None
        while not self.stop.is_set():
            if time is None:
                if min(inputs.marks.values()) >= number:
                    return dict(inputs.positions)
                idle = inputs.fold_to_marker(number, 0 if until_idle or not told else _POLL)
                reason = f"{label} waits for: stream-dp close {self.file} {label}"
                ready = min(inputs.marks.values()) >= number
            else:
                wait = 0 if until_idle or not told else _POLL
                if self.clock() >= time:
                    cut = cut or self.log.cut(REPORTS, time)
                    if inputs.fold_to(cut, wait):
                        return cut
                    idle, reason = True, f"{label} waits for transactions that senders hold open"
                else:
                    idle = inputs.fold_before(time, wait)
                    reason = f"{label} closes at {iso(time)}"
                ready = False
            if idle and not ready:
                if told != reason:
                    self.tell(reason)
                    told = reason
                if until_idle:
                    return None
        return None

    def _take(self, inputs: Inputs, cut: Positions, snapshots: Snapshots) -> decision.Taken:
        """Close the population at the cut and keep a snapshot of it."""
        closed = inputs.population.close()
        self.at("closed")
        for reason, cells in closed.refused.items():
            inputs.refuse(cells, reason)
        self.at("refused")
        snapshot = snapshots.write(inputs.population)
        self.at("snapshot")
        accounting = inputs.population.accounting.as_dict()
        return decision.Taken(cut, dict(inputs.marks), closed, accounting, snapshot)
