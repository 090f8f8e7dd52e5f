"""The releaser: one loop that closes a period, draws, decides once, and then publishes.

The steps of a period, by the numbers of docs/index.md:

1. Read the input up to the period's cut.
2. Close the population at the cut.
3. Write a snapshot of it, and one for each batch job that the close begins.
4. Charge the ledger.
5. Draw the noise.
6. Count, and step the mechanisms.
7. Commit everything to the journal in one transaction.
8. Publish a copy of what was committed.

A crash before the commit leaves nothing decided; after it, the same bytes go out. Between the
draw and the commit there is only arithmetic on what the plan has bounded.
"""

from __future__ import annotations

import threading
import time as time_module
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.base import Log, Positions, Writer
from stream_dp.plan import Plan
from stream_dp.privacy.noise import NoiseSource, SystemNoise, system_entropy
from stream_dp.release.panels import TOPIC

from .. import journal, place
from ..groups.members import Members
from ..groups.roster import Roster
from ..jobs.records import Job, Result
from ..journal import Entry
from ..snapshots import Snapshots
from ..topics import CLOCK, JOURNAL, REPORTS, topics_of
from . import decision, recovery, results
from .child import Child
from .clocks import Clocks, steady
from .decision import ChainEnd, ClosedInput
from .facts import Facts
from .jobs import Jobs
from .ownership import OwnedJournal, StaleRole
from .publishing import Publisher
from .recovered import Recovered

_POLL, _SOON = 0.5, 0.1


@dataclass
class Releaser:
    """Runs a study on two logs.

    partitions: of the reports.
    file: the study's, for messages to the operator.
    worker: the command, after the interpreter's own name, of the worker that it starts beside
        itself when a batch job is due; None where others work.
    moved: the operator's word that the logs' files were moved or restored and no other copy
        goes on.
    clock, steady: see Clocks.
    tell: called with a line for the operator, never a count.
    at: called with every step's name, for tests that stop there.
    stop: set it to end at the next safe point.
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
            run = self._recover(stack, until_idle)
            if run is None:
                return False
            self.facts.recovered = True
            self.at("recovered")
            plan, periods = self.plan, self.plan.study.periods
            for number in range(run.number, periods.count + 1):
                self.facts.open_period = number
                # 1. Read the input up to the period's cut.
                cut = self._read_to_cut(number, run, until_idle)
                if cut is None:
                    return False
                self.at("cut")
                run.journal.require_fresh()
                # 2 and 3. Close the population; write the snapshots.
                closed_input = self._close(run, cut)
                # 4. Charge the ledger.
                run.ledger = run.ledger.charge(*plan.charges(number))
                # 5. Draw the noise.
                draws = decision.draw_noise(plan.study, self.source, run.states, number)
                self.at("drawn")
                # 6. Count, and step the mechanisms.
                end, run.states = decision.decide(
                    plan,
                    number,
                    run.journal.end,
                    run.states,
                    draws=draws,
                    closed_input=closed_input,
                    simulated=self.source.simulated,
                )
                # 7. Commit everything in one transaction.
                self.at("commit")
                run.journal.commit(end)
                self.at("committed")
                self.tell(f"closed {periods.labels[number - 1]}")
                if run.jobs is not None:
                    run.jobs.opened(closed_input.jobs)
                # 8. Publish a copy.
                if not run.publisher.publish(end.entry, until_idle):
                    return False
                run.keep_snapshots(end.entry.snapshot[0])
                self.at("cleaned")
                run.journal.renew()
            if not self._wait_for_jobs(run, until_idle):
                return False
            self.tell("the horizon is reached: every period is released")
            return True

    def _recover(self, stack: ExitStack, until_idle: bool) -> Recovered | None:
        """Owns both logs and takes up what they hold; None if asked to stop meanwhile.

        What is decided and not published goes out first.
        """
        self._topics()
        writer = stack.enter_context(self.log.own("releaser", JOURNAL))
        public = stack.enter_context(self.public.own("publisher", TOPIC))
        self.at("owned")
        entries, groups = self._begin(writer)
        self._keep_description(entries)
        study = self.plan.study
        publisher = self._publisher(public)
        ledger = journal.check_journal(entries, self.plan, self.log.describe(REPORTS))
        published, waiting = recovery.split_published(self.public, entries)
        self._note_place(writer, entries, bool(published))
        publisher.follow(published)
        for entry in waiting:
            if not publisher.publish(entry, until_idle):
                return None
        closes = journal.closes(entries)
        states = decision.release_states(study, closes)
        snapshots = self.snapshots.of(entries[0].message.hash[:12])
        snapshots.prepare()
        inputs, members = recovery.recovered_inputs(
            study, self.log, snapshots, closes, groups, self.facts, self.at
        )
        run = Recovered(
            number=closes[-1].number + 1,
            journal=OwnedJournal(study, writer, ChainEnd.of(self.plan, entries)),
            publisher=publisher,
            ledger=ledger,
            states=states,
            inputs=inputs,
            snapshots=snapshots,
            kept=[],
            jobs=None,
        )
        run.keep_snapshots(*(e.snapshot[0] for e in closes[-2:] if e.number))
        if members is not None:
            run.jobs = self._begin_jobs(entries, snapshots, members, stack)
        publisher.meanwhile = run.keep_working
        return run

    def _keep_description(self, entries: list[Entry]) -> None:
        """What is published goes on under the study's first description, and so its hash."""
        plan = journal.first_declared_plan(entries, self.plan)
        if plan.study.description != self.plan.study.description:
            self.tell("study.description has changed; the first one stays the published one")
            self.plan, self.facts.study = plan, plan.study

    def _begin_jobs(
        self, entries: list[Entry], snapshots: Snapshots, members: Members, stack: ExitStack
    ) -> Jobs:
        """The batch jobs, and the end of the worker beside this process when it ends."""
        child = None if self.worker is None else Child(self.worker)
        if child is not None:
            stack.callback(child.stop)
        jobs = Jobs(
            study=self.plan.study,
            log=self.log,
            snapshots=snapshots,
            members=members,
            genesis=entries[0].message.hash,
            simulated=self.source.simulated,
            file=self.file,
            facts=self.facts,
            tell=self.tell,
            at=self.at,
            child=child,
        )
        jobs.begin(entries)
        return jobs

    def _publish_results(self, run: Recovered) -> None:
        """Takes the results of batch jobs that are there: decides each, then publishes it.

        Everything before it is published, so its period's own time is past.
        """
        if run.jobs is None:
            return
        run.jobs.look()
        study, simulated = self.plan.study, self.source.simulated

        def decide(job: Job, result: Result) -> ChainEnd:
            return results.result_entry(study, job, result, run.journal.end, simulated)

        while (finished := run.jobs.next_finished(decide)) is not None:
            job, end = finished
            run.journal.require_fresh()
            self.at("result-commit")
            run.journal.commit(end)
            self.at("result-committed")
            run.publisher.publish(end.entry, until_idle=False)
            run.journal.renew()
            run.jobs.close(job)
            self.at("result-cleaned")

    def _wait_for_jobs(self, run: Recovered, until_idle: bool) -> bool:
        """Waits, after the last period, until every batch job has ended.

        False if asked to stop, or not to wait, before that.
        """
        reported = ""
        while run.jobs is not None:
            self._publish_results(run)
            left = run.jobs.left()
            if not left:
                break
            if left != reported:
                self.tell(f"every period is released; waits for batch jobs: {left}")
                reported = left
            run.keep_working()
            idle = until_idle and not run.jobs.busy
            if idle or self.stop.wait(_SOON if until_idle else _POLL):
                return False
        return True

    def _publisher(self, writer: Writer) -> Publisher:
        return Publisher(
            study=self.plan.study,
            writer=writer,
            facts=self.facts,
            clocks=self._clocks,
            tell=self.tell,
            at=self.at,
            stop=self.stop,
            poll=_POLL,
            certified=self.plan.ledger(),
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
        bound = entries[0].groups if entries else None
        groups = recovery.bound_roster(self.log, self.plan.study, bound)
        if not entries:
            journal.check_unpublished(self.public)
            first = journal.genesis(
                self.plan.study,
                self.log.describe(REPORTS),
                system_entropy(32),
                self.source.simulated,
                None if groups is None else groups.hash,
                place.log_places(self.log, self.public),
            )
            writer.commit(journal.journal_records(first, self.plan.study))
            entries = [Entry(first)]
            self.at("begun")
        if entries[0].simulated != self.source.simulated:
            raise Inconsistent("journal: a study with seeded noise and one without do not mix")
        return entries, groups

    def _note_place(self, writer: Writer, entries: list[Entry], published: bool) -> None:
        """Notes in the journal in which files it goes on; refuses a copy without `moved`."""
        entry = place.placed_entry(
            entries, self.log, self.public, published=published, moved=self.moved, file=self.file
        )
        if entry is None:
            return
        writer.commit(journal.journal_records(entry, self.plan.study))
        entries.append(Entry(entry))
        self.at("placed")
        if self.moved:
            self.tell(
                "moved: the journal goes on in these files; never start another copy of them, for"
                " both would draw noise for the same periods"
            )

    def _read_to_cut(self, number: int, run: Recovered, until_idle: bool) -> Positions | None:
        """Reads until period `number` can close; its cut, or None to stop before."""
        periods, inputs = self.plan.study.periods, run.inputs
        label, reported = periods.labels[number - 1], ""
        time, cut = periods.close_time(number), None
        while not self.stop.is_set():
            self._publish_results(run)
            wait = 0 if until_idle or not reported else _POLL
            if time is None:
                if min(inputs.marks.values()) >= number:
                    return dict(inputs.positions)
                idle = inputs.fold_to_marker(number, wait)
                reason = f"{label} waits for: stream-dp close {self.file} {label}"
                if inputs.obstructed:
                    reason = (
                        f"{label} waits for a sender's open transaction: what was sent after it"
                        " began, a stream-dp close among it, is read when it ends"
                    )
                ready = min(inputs.marks.values()) >= number
            else:
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
                if reported != reason:
                    self.tell(reason)
                    reported = reason
                if until_idle and run.jobs is not None and run.jobs.busy:
                    self.stop.wait(_SOON)
                elif until_idle:
                    if run.jobs is not None and (left := run.jobs.left()):
                        self.tell(f"batch jobs that are outstanding: {left}")
                    return None
        return None

    def _log_time(self) -> float:
        return self.log.now(CLOCK)

    def _close(self, run: Recovered, cut: Positions) -> ClosedInput:
        """Steps 2 and 3: closes the population at the cut, and writes the snapshots."""
        inputs = run.inputs
        accepted = inputs.population.accounting.accepted
        closed = inputs.population.close()
        self.at("closed")
        for reason, cells in closed.refused.items():
            inputs.refuse(cells, reason)
        self.at("refused")
        snapshot = run.snapshots.write(inputs.population)
        self.at("snapshot")
        jobs = () if run.jobs is None else run.jobs.snapshot(inputs.population.period, closed)
        accounting = inputs.population.accounting.as_dict()
        self.facts.count(0, accounting)
        self.facts.closed_accepted = accounting["accepted"] - accepted
        inputs.ask()
        return ClosedInput(
            cut=cut,
            marks=dict(inputs.marks),
            closed=closed,
            accounting=accounting,
            snapshot=snapshot,
            jobs=jobs,
            marked=dict(inputs.marked),
        )
