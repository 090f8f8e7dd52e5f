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
from functools import partial

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.base import Log, Positions, Writer
from stream_dp.plan import Plan
from stream_dp.privacy.noise import NoiseSource, SystemNoise, system_entropy
from stream_dp.release.panels import TOPIC

from .. import journal, place
from ..groups.members import Members
from ..groups.roster import Roster
from ..journal import Entry
from ..snapshots import Snapshots
from ..topics import CLOCK, JOURNAL, REPORTS, topics_of
from . import decision, recovery
from .child import Child
from .clocks import Clocks, steady
from .facts import Facts
from .inputs import Inputs
from .jobs import Jobs
from .live import Live, StaleRole
from .publishing import Publisher

_POLL, _SOON = 0.5, 0.1


def _meanwhile(inputs: Inputs, live: Live) -> None:
    """What goes on while a release waits for its time."""
    inputs.ask()
    if live.jobs is not None:
        live.jobs.look()


@dataclass
class Releaser:
    """Runs a study on two logs.

    file: the study's, for what it tells. worker: the command, after the interpreter's own name, of
    the worker that it starts beside itself when a batch job is due; None: others work. moved: the
    operator's word that the logs' files were moved or restored and no other copy goes on. tell: a
    line for the operator, never a count. at: called with every step's name, for tests that stop
    there. clock, steady: see Clocks. stop: set it to end at the next safe point.
    """

    plan: Plan
    log: Log
    public: Log
    snapshots: Snapshots
    partitions: int = 1
    file: str = "STUDY.toml"
    worker: list[str] | None = None
    moved: bool = False
    source: NoiseSource = field(default_factory=SystemNoise)
    clock: Callable[[], float] = time_module.time
    steady: Callable[[], float] = steady
    tell: Callable[[str], None] = lambda line: None
    at: Callable[[str], None] = lambda name: None
    stop: threading.Event = field(default_factory=threading.Event)
    facts: Facts = field(init=False)
    _clocks: Clocks = field(init=False)

    def __post_init__(self) -> None:
        self.facts = Facts(self.plan.study)

    def run(self, *, until_idle: bool = False) -> bool:
        """Work until the horizon, a stop, or (until_idle) until nothing more can be done.

        Returns True at the end of the horizon. Raises Inconsistent, Busy, Fenced, UnknownCommit.
        """
        self._clocks = Clocks(self.clock, self.steady)
        while True:
            try:
                return self._run(until_idle)
            except StaleRole:
                self.at("renewed")

    def _run(self, until_idle: bool) -> bool:
        """What `run` does; raises StaleRole where the roles may be forgotten meanwhile."""
        self.facts.recovered = False
        with ExitStack() as stack:
            self._topics()
            writer = stack.enter_context(self.log.own("releaser", JOURNAL))
            public = stack.enter_context(self.public.own("publisher", TOPIC))
            self.at("owned")
            entries, groups = self._begin(writer)
            self._keep_description(entries)
            study, periods = self.plan.study, self.plan.study.periods
            publisher = self._publisher(public)
            ledger = journal.check_journal(entries, self.plan, self.log.describe(REPORTS))
            done, waiting = recovery.split_published(self.public, entries)
            self._place(writer, entries, bool(done))
            publisher.seen(done)
            for entry in waiting:
                if not publisher.publish(entry, until_idle):
                    return False
            closes = journal.closes(entries)
            held = decision.release_states(study, closes)
            snapshots = self.snapshots.of(entries[0].message.hash[:12])
            snapshots.prepare()
            inputs, members = recovery.recovered_inputs(
                study, self.log, snapshots, closes, groups, self.facts, self.at
            )
            live = Live(
                study,
                self.source.simulated,
                writer,
                publisher,
                decision.ChainEnd.of(self.plan, entries),
                self.at,
            )
            kept = [e.snapshot[0] for e in closes[-2:] if e.number]
            snapshots.keep(set(kept))
            if members is not None:
                live.jobs = self._begun(entries, snapshots, members, stack)
            publisher.meanwhile = partial(_meanwhile, inputs, live)
            first = closes[-1].number + 1
            del entries, closes, done, waiting
            self.facts.recovered = True
            self.at("recovered")
            for number in range(first, periods.count + 1):
                self.facts.open_period = number
                cut = self._cut(number, inputs, until_idle, live)
                if cut is None:
                    return False
                self.at("cut")
                live.check()
                taken = self._take(inputs, cut, snapshots, live.jobs)
                charged = ledger.charge(*self.plan.charges(number))
                draws = decision.draw_noise(study, self.source, held, number)
                self.at("drawn")
                tail, held = decision.decide(
                    self.plan, number, live.tail, held, draws, taken, self.source.simulated
                )
                ledger = charged
                self.at("commit")
                live.commit(tail)
                self.at("committed")
                self.tell(f"closed {periods.labels[number - 1]}")
                if live.jobs is not None:
                    live.jobs.opened(taken.jobs)
                if not publisher.publish(tail.entry, until_idle):
                    return False
                kept = [*kept, tail.entry.snapshot[0]][-2:]
                snapshots.keep(set(kept))
                self.at("cleaned")
                live.fresh()
            if not self._wait_for_jobs(until_idle, live):
                return False
            self.tell("the horizon is reached: every period is released")
            return True

    def _keep_description(self, entries: list[Entry]) -> None:
        """What is published goes on under the study's first description, and so its hash."""
        plan = journal.first_declared_plan(entries, self.plan)
        if plan.study.description != self.plan.study.description:
            self.tell("study.description has changed; the first one stays the published one")
            self.plan, self.facts.study = plan, plan.study

    def _begun(
        self, entries: list[Entry], snapshots: Snapshots, members: Members, stack: ExitStack
    ) -> Jobs:
        """The batch jobs, and the end of the worker beside this process when it ends."""
        child = None if self.worker is None else Child(self.worker)
        if child is not None:
            stack.callback(child.stop)
        genesis = entries[0].message.hash
        jobs = Jobs(
            self.plan.study,
            self.log,
            snapshots,
            members,
            genesis,
            self.source.simulated,
            self.file,
            self.facts,
            self.tell,
            self.at,
            child,
        )
        jobs.begin(entries)
        return jobs

    def _wait_for_jobs(self, until_idle: bool, live: Live) -> bool:
        """At the end of the horizon; False if asked to stop, or not to wait, before they end."""
        told = ""
        while live.jobs is not None:
            live.settle()
            left = live.jobs.left()
            if not left:
                break
            if left != told:
                self.tell(f"every period is released; waits for batch jobs: {left}")
                told = left
            live.publisher.meanwhile()
            idle = until_idle and not live.jobs.busy
            if idle or self.stop.wait(_SOON if until_idle else _POLL):
                return False
        return True

    def _publisher(self, writer: Writer) -> Publisher:
        return Publisher(
            self.plan.study,
            writer,
            self.facts,
            self._clocks,
            self.tell,
            self.at,
            self.stop,
            _POLL,
            self.plan.ledger(),
        )

    def _topics(self) -> None:
        """Make the topics that are missing, and refuse to run on wrong ones."""
        private, public = topics_of(self.plan.study, self.partitions)
        self.log.create(private)
        self.public.create(public)
        problems = self.log.faults(private) + self.public.faults(public)
        if problems:
            raise UserError(problems)

    def _begin(self, writer: Writer) -> tuple[list[Entry], Roster | None]:
        """The journal, begun if it is new and nothing is published; the table of groups."""
        entries = journal.read(self.log)
        bound = entries[0].message.head.get("groups") if entries else None
        groups = recovery.bound_roster(self.log, self.plan.study, bound)
        if not entries:
            journal.check_unpublished(self.public)
            info = self.log.describe(REPORTS)
            bound = None if groups is None else groups.hash
            simulated, places = self.source.simulated, place.log_places(self.log, self.public)
            first = journal.genesis(
                self.plan.study, info, system_entropy(32), simulated, bound, places
            )
            writer.commit(journal.journal_records(first, self.plan.study))
            entries = [Entry(first)]
            self.at("begun")
        if entries[0].message.head["simulated"] != self.source.simulated:
            raise Inconsistent("journal: a study with seeded noise and one without do not mix")
        return entries, groups

    def _place(self, writer: Writer, entries: list[Entry], published: bool) -> None:
        """Let the journal note in which files it goes on; refuse a copy that nobody spoke for."""
        given = (self.log, self.public, published, self.moved, self.file)
        if (noted := place.placed_entry(entries, *given)) is None:
            return
        writer.commit(journal.journal_records(noted, self.plan.study))
        entries.append(Entry(noted))
        self.at("placed")
        if self.moved:
            self.tell(
                "moved: the journal goes on in these files; never start another copy of them, for"
                " both would draw noise for the same periods"
            )

    def _cut(self, number: int, inputs: Inputs, until_idle: bool, live: Live) -> Positions | None:
        """Read until period `number` can close; its cut, or None to stop before."""
        periods = self.plan.study.periods
        label, told = periods.labels[number - 1], ""
        time, cut = periods.close_time(number), None
        while not self.stop.is_set():
            live.settle()
            if time is None:
                if min(inputs.marks.values()) >= number:
                    return dict(inputs.positions)
                idle = inputs.fold_to_marker(number, 0 if until_idle or not told else _POLL)
                reason = f"{label} waits for: stream-dp close {self.file} {label}"
                if inputs.obstructed:
                    reason = (
                        f"{label} waits for a sender's open transaction: what was sent after it"
                        " began, a stream-dp close among it, is read when it ends"
                    )
                ready = min(inputs.marks.values()) >= number
            else:
                wait = 0 if until_idle or not told else _POLL
                if cut is None and not (when := self._clocks.before(time, self._log_time)):
                    cut = self.log.cut(REPORTS, time)
                if cut is None:
                    idle, reason = inputs.fold_before(time, wait), f"{label} closes {when}"
                elif inputs.fold_to(cut, wait):
                    return cut
                else:
                    idle, reason = True, f"{label} waits for transactions that senders hold open"
                ready = False
            if idle and not ready:
                if told != reason:
                    self.tell(reason)
                    told = reason
                if until_idle and live.jobs is not None and live.jobs.busy:
                    self.stop.wait(_SOON)
                elif until_idle:
                    if live.jobs is not None and (left := live.jobs.left()):
                        self.tell(f"batch jobs that are outstanding: {left}")
                    return None
        return None

    def _log_time(self) -> float:
        return self.log.now(CLOCK)

    def _take(
        self, inputs: Inputs, cut: Positions, snapshots: Snapshots, batches: Jobs | None
    ) -> decision.ClosedInput:
        """Close the population at the cut and keep a snapshot of it."""
        before = inputs.population.accounting.accepted
        closed = inputs.population.close()
        self.at("closed")
        for reason, cells in closed.refused.items():
            inputs.refuse(cells, reason)
        self.at("refused")
        snapshot = snapshots.write(inputs.population)
        self.at("snapshot")
        jobs = () if batches is None else batches.snapshot(inputs.population.period, closed)
        accounting = inputs.population.accounting.as_dict()
        self.facts.count(0, accounting)
        self.facts.closed_accepted = accounting["accepted"] - before
        inputs.ask()
        marks, marked = dict(inputs.marks), dict(inputs.marked)
        return decision.ClosedInput(cut, marks, closed, accounting, snapshot, jobs, marked)
