"""The releaser: a loop that closes a period, draws, decides once, and publishes.

The steps of a period:

1. Read the input up to the period's cut, past the gate if the study has one.
2. Close the population at the cut.
3. Write a snapshot of it, and one for each batch job that the close begins.
4. Charge the ledger.
5. Draw the noise.
6. Count, and step the mechanisms.
7. Commit everything to the journal in one transaction.
8. Publish a copy of what was committed.

A crash before the commit decides nothing; after a later one, the committed bytes are published.
Between the draw and the commit there is only arithmetic on values that the plan has bounded.

`key_entry` is the journal entry of a new key of signatures.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from stream_dp import __version__
from stream_dp.errors import UserError
from stream_dp.log.log import Fenced, Log, TopicLost, Unavailable, Untrusted, Writer
from stream_dp.log.message import Message, build_message, read_chain
from stream_dp.log.signing import SigningKey
from stream_dp.planning.plan import Plan
from stream_dp.population.report_decoding import Decoder, DecoderMaker
from stream_dp.privacy.noise import NoiseSource, SystemNoise
from stream_dp.release.certificate import CertifiedLedger
from stream_dp.release.signatures import KEY_TYPE
from stream_dp.study import Study
from stream_dp.study.topics import RELEASES, REPORTS, topics_of

from ..intake.group_tables import Members, PlacesTable, Roster
from ..process import events
from ..process.events import Event, outstanding
from ..storage import journal, journal_checks, restored_logs
from ..storage.close_orders import newest_complete_close
from ..storage.job_records import Job, Result
from ..storage.journal import Entry, gates, open_gate
from ..storage.journal_checks import reading_entry
from ..storage.journal_heads import KeyHead, entry_parts, study_records
from ..storage.log_guard import ASK, LogGuard
from ..storage.snapshots import Snapshots
from ..storage.study_register import add_study, read_register
from ..storage.witness import Sight, WitnessLog, owned_witness
from . import decision, recovery
from .answer_topic import AnswerTopic, AnswerWeights, publish_weights
from .batch_jobs import Child, Jobs
from .decision import ChainEnd
from .input_reading import recovered_inputs
from .open_period import POLL, SOON, Ending, OpenPeriod, PeriodReading, Publisher, Recovered
from .ordered_parts import Aggregation, OrderedParts
from .recovery import released_panels
from .releaser_facts import Context
from .releaser_role import Lookout, Outage, OwnedJournal, StaleRole, outlive, owned_journal


def key_entry(
    entries: Sequence[Entry],
    study: Study,
    signer: SigningKey | None,
    replaced: SigningKey | None,
) -> Message | None:
    """The entry that names a new key; None if the journal's last key stays.

    signer: the declared key.
    replaced: the key before `signer`.

    Raises UserError if the journal's key is neither of them.
    """
    named = next((e.signer for e in reversed(entries) if e.signer), None)
    if named is None:
        if signer is None:
            return None
        raise UserError(
            "run.signing: this study began without signatures and goes on without; remove the key,"
            " or begin a new study with new logs"
        )
    if signer is None:
        raise UserError(f"run.signing: this study is signed with {named}; declare where it is")
    if signer.public == named:
        return None
    if replaced is None or replaced.public != named:
        raise UserError(
            f"run.signing: the key is {signer.public}, but this study is signed with {named}; name"
            " that one, or as run.signing_before if the other is to take over"
        )
    hashes = [digest for entry in entries for digest in entry.published]
    manifest = {
        "type": KEY_TYPE,
        "study_hash": study.hash,
        "signer": signer.public,
        "code_version": __version__,
    }
    public = build_message(len(hashes), hashes[-1], manifest, [])
    records = study_records(public, RELEASES, study, KEY_TYPE, signer=replaced)
    head = KeyHead(
        number=entries[-1].number,
        signer=signer.public,
        charges=[],
        public=[public.hash],
        code_version=__version__,
    )
    return journal.next_message(entries[-1].message, head, entry_parts(records, {}))


@dataclass
class Releaser:
    """Runs a study on two logs.

    log, public: the confidential and the public log.
    partitions: how many partitions the reports topic has.
    context: what all parts of the releaser share.
    worker, worker_retries: the interpreter's arguments for a worker that starts when a batch job
        is due, or None, and the number of kills after which a job resumes.
    moved: whether the operator states that the logs' files were moved or restored, and that no
        other copy is in use.
    source: draws the privacy noise.
    signer, signer_before: the key of signatures, and the key before it.
    decoder: makes the decoder of reports from the study and the key of the hash of ids.
    witness, new_witness: the witness's log or None, and whether it is new to a begun study.
    aggregation: how periods are closed in parts; None to close them in this process.
    estimates: whether answers go to a public topic.
    weights: whether the weights of answers of least error are published.
    estimates_schema: the id of their Avro schema in a registry; None for JSON.
    register: the register of studies that has to have the beginning of the study, or None.
    ask: seconds between two questions of the guard to the logs while nothing happens.
    """

    plan: Plan
    log: Log
    public: Log
    snapshots: Snapshots
    context: Context
    partitions: int = 1
    worker: list[str] | None = None
    worker_retries: int = 3
    moved: bool = False
    source: NoiseSource = field(default_factory=SystemNoise)
    decoder: DecoderMaker = Decoder
    signer: SigningKey | None = None
    signer_before: SigningKey | None = None
    aggregation: Aggregation | None = None
    witness: WitnessLog | None = None
    new_witness: bool = False
    estimates: bool = False
    estimates_schema: int | None = None
    weights: bool = False
    register: Path | None = None
    ask: float = ASK

    def run(self, *, until_idle: bool = False) -> bool:
        """Runs until `stop` is set or the horizon ends; returns whether the horizon has ended.

        until_idle: whether to return when there is nothing to do now, instead of waiting.

        A fenced releaser takes the roles again after the end of the other releaser. A service on a
        cluster waits for brokers that do not answer, and then recovers from the logs like a new
        process. Raises Inconsistent, Busy, Fenced, UnknownCommit, Unavailable.
        """
        self.context.clocks.begin()
        outage = Outage(self.context)
        while True:
            try:
                return self._run(until_idle)
            except StaleRole:
                self.context.at("renewed")
            except Unavailable as error:
                embedded = self.log.file_identity and self.public.file_identity
                if until_idle or embedded or isinstance(error, Untrusted | TopicLost):
                    raise
                if not outage.lasts(error):
                    raise
                if self.context.stop.is_set():
                    return False
                self.context.at("renewed")
            except Fenced:
                if until_idle or self.log.file_identity:
                    raise
                if not outlive(self.log, self.context):
                    return False
                self.context.at("renewed")

    def _run(self, until_idle: bool) -> bool:
        """Does the work of `run`. Raises StaleRole if Kafka may have forgotten the roles."""
        self.context.facts.recovered = False
        with ExitStack() as stack:
            run = self._recover(stack, until_idle)
            if run is None:
                return False
            self.context.facts.recovered = True
            self.context.at("recovered")
            plan, periods = self.plan, self.plan.study.periods
            reading = PeriodReading(plan.study, self.source, self.context, self._publish_results)
            for number in range(run.number, periods.count + 1):
                self.context.facts.open_period = number
                # 1. Read the input up to the period's cut, past the gate if the study has one.
                if not reading.to_close(number, run, until_idle):
                    return False
                self.context.facts.marked = dict(run.period.marked)
                self.context.at("cut")
                run.journal.require_decidable()
                # 2 and 3. Close the population; write the snapshots.
                closed = run.period.close(number, run.jobs)
                # 4 and 5. Charge the ledger; draw the noise.
                run.ledger = run.ledger.charge(*plan.charges(number))
                draws = decision.draw_noise(plan.study, self.source, run.states, number)
                self.context.at("drawn")
                # 6. Count, and step the mechanisms.
                end, run.states = decision.decide(
                    plan,
                    run.journal.end,
                    run.states,
                    draws=draws,
                    closed=closed,
                    gate=run.gates.get(number),
                    simulated=self.source.simulated,
                    signer=self.signer,
                )
                # 7. Commit everything in one transaction, and show it to the witness.
                run.journal.commit(end, self.context.at)
                label = periods.labels[number - 1]
                self.context.tell(Event("period-closed", f"closed {label}", label))
                if run.jobs is not None:
                    run.jobs.add(closed.jobs)
                # 8. Publish a copy.
                if not run.publisher.publish(end.entry, until_idle):
                    return False
                run.keep_snapshots(number, end.entry.snapshot[0])
                self.context.at("cleaned")
                run.journal.renew()
            if not self._wait_for_jobs(run, until_idle):
                return False
            self.context.tell(events.HORIZON_REACHED)
            return True

    def _recover(self, stack: ExitStack, until_idle: bool) -> Recovered | None:
        """Takes the roles of both logs' writer and recovers the state from the logs.

        Decided entries are published first. None if the releaser is to stop, or until_idle not to
        wait, before their time.
        """
        parts = self.aggregation is not None
        topics = topics_of(self.plan.study, self.partitions, parts, self.estimates)
        recovery.make_topics(self.log, self.public, topics, self.context.file, moved=self.moved)
        owned = owned_journal(self.log, self.context, service=not until_idle)
        writer, pulse = stack.enter_context(owned)
        public = stack.enter_context(self.public.own("publisher", RELEASES))
        witness = stack.enter_context(
            owned_witness(self.witness, self.log, self.snapshots, new=self.new_witness)
        )
        self.context.at("owned")
        if self.register is not None and not journal.has_begun(self.log):
            read_register(self.register).check_beginning(self.plan.study, None)
        entries, groups = recovery.begun_journal(
            self.plan,
            self.log,
            self.public,
            writer,
            simulated=self.source.simulated,
            signer=self.signer,
            at=self.context.at,
        )
        if self.register is not None:
            # Nothing is drawn or published before.
            add_study(self.register, self.plan.study, entries[0].message.hash)
            self.context.at("registered")
        plan = journal_checks.begun_plan(entries, self.plan.study)
        if plan.study.hash != self.plan.study.hash:
            self.context.tell(events.DESCRIPTION_CHANGED)
        study, self.plan, self.context.facts.study = plan.study, plan, plan.study
        guard = LogGuard(self.log, self.public, topics, self.context.file, self.ask)

        def meanwhile() -> None:
            pulse.require()
            guard.look()

        publisher = Publisher(
            study=study,
            writer=public,
            context=self.context,
            poll=POLL,
            certified=CertifiedLedger.of(study),
            guard=guard,
            meanwhile=meanwhile,
            answers=AnswerTopic(study, self.public, public, self.estimates_schema)
            if self.estimates
            else None,
        )
        snapshots = self.snapshots.of(entries[0].message.hash[:12], self.context.tell)
        self._note_reports(writer, entries, snapshots)
        ledger = journal_checks.check_journal(entries, self.plan, self.log.describe(REPORTS))
        chain = read_chain(self.public, RELEASES, "public log")
        published, waiting = recovery.split_published(chain, entries)
        witness.check(entries, published=bool(published), new=self.new_witness)
        self._note_identities(writer, entries, bool(published))
        key = key_entry(entries, study, self.signer, self.signer_before)
        if key is not None:
            self._note(writer, entries, key, "key-changed")
            waiting.append(entries[-1])
        writer.mark(restored_logs.Mark.of(entries[-1].message).content)
        guard.begin(entries, chain)
        publisher.follow(published, chain)
        witness.advance(Sight.of(entries))
        self.context.at("witnessed")
        for entry in waiting:
            if not publisher.publish(entry, until_idle):
                return None
        closes = journal.closes(entries)
        snapshots.prepare()
        period, members = self._open_period(closes, open_gate(entries), groups, snapshots, stack)
        guard.unread = lambda: period.parts.unread
        panels = released_panels(study, self.public, chain, waiting)
        run = Recovered(
            number=closes[-1].number + 1,
            journal=OwnedJournal(study, writer, ChainEnd.of(self.plan, entries), witness, guard),
            publisher=publisher,
            ledger=ledger,
            states=decision.release_states(self.plan, closes, panels),
            period=period,
            snapshots=snapshots,
            population_files=[e.snapshot[0] for e in closes[-2:] if e.number],
            jobs=None,
            gates={number: entry.gate for number, entry in gates(entries).items()},
            pulse=pulse,
            lookout=Lookout(self.log, self.context.facts),
            weights=AnswerWeights(
                study, self.public, self.context.tell, self.weights, journal.weighted(entries)
            ),
        )
        if newest_complete_close(closes, snapshots) is closes[-1]:
            run.keep_snapshots(closes[-1].number)
        if study.batches:
            run.jobs = self._begin_jobs(entries, snapshots, members, stack)
        publisher.meanwhile = run.keep_working
        return run

    def _begin_jobs(
        self,
        entries: list[Entry],
        snapshots: Snapshots,
        members: Members | PlacesTable | None,
        stack: ExitStack,
    ) -> Jobs:
        """The batch jobs; the worker beside this process is stopped when `stack` is closed."""
        jobs = Jobs(
            study=self.plan.study,
            log=self.log,
            snapshots=snapshots,
            members=members,
            genesis=entries[0].message.hash,
            simulated=self.source.simulated,
            context=self.context,
            child=None if self.worker is None else stack.enter_context(Child(self.worker)),
            retries=self.worker_retries,
        )
        jobs.begin(entries)
        return jobs

    def _publish_results(self, run: Recovered) -> None:
        """Decides and publishes weights of answers and results of batch jobs that have arrived.

        All earlier entries are published, so the scheduled time of the job's period has passed.
        """
        publish_weights(run, self.context, self.signer)
        if run.jobs is None:
            return
        run.jobs.look()

        def decide(job: Job, result: Result) -> ChainEnd:
            return decision.decide_result(
                self.plan,
                job,
                result,
                run.journal.end,
                gate=run.gates.get(job.period),
                simulated=self.source.simulated,
                signer=self.signer,
            )

        while (finished := run.jobs.next_finished(decide)) is not None:
            job, end = finished
            run.journal.require_decidable()
            run.journal.commit(end, self.context.at, "result-")
            run.publisher.publish(end.entry, until_idle=False)
            run.journal.renew()
            run.jobs.close(job)
            self.context.at("result-cleaned")

    def _wait_for_jobs(self, run: Recovered, until_idle: bool) -> bool:
        """Waits for weights and every batch job after the last period. False if stopped before."""
        reported = ""
        run.weights.begin(self.plan.study.periods.count)
        while run.jobs is not None or run.weights.busy:
            self._publish_results(run)
            jobs = "" if run.jobs is None else run.jobs.left()
            if not jobs and not run.weights.busy:
                break
            if jobs and jobs != reported:
                self.context.tell(
                    outstanding(f"every period is released; waits for batch jobs: {jobs}")
                )
                reported = jobs
            run.keep_working()
            busy = run.weights.busy or (run.jobs is not None and run.jobs.busy)
            idle = until_idle and not busy
            if idle or self.context.stop.wait(SOON if until_idle else POLL):
                return False
        return True

    def _open_period(
        self,
        closes: list[Entry],
        gate: Entry | None,
        groups: Roster | PlacesTable | None,
        snapshots: Snapshots,
        stack: ExitStack,
    ) -> tuple[OpenPeriod, Members | PlacesTable | None]:
        """The period at the last cut or its gate's, and the members of groups or the places."""
        study = self.plan.study
        ending = Ending(study, self.log, self.context)
        if self.aggregation is None:
            inputs, members = recovered_inputs(
                study,
                self.log,
                snapshots,
                closes,
                groups=groups,
                context=self.context,
                decoder_of=self.decoder,
            )
            if gate is not None:
                inputs.read_to_gate(study, gate)
            return OpenPeriod(ending, inputs, gate), members
        if isinstance(groups, PlacesTable):
            study = groups.of_study(study)
        parts = OrderedParts(
            study, self.log, closes, gate, snapshots, self.context, self.aggregation, stack
        )
        return OpenPeriod(ending, parts, gate), None

    def _note_reports(self, writer: Writer, entries: list[Entry], snapshots: Snapshots) -> None:
        """Notes added partitions, or another topic of reports, in the journal.

        Raises Inconsistent for another topic without `moved`, or if the study cannot go on with it.
        """

        def kept() -> bool:
            """Whether the last close has its snapshot; otherwise earlier reports are needed."""
            closes = journal.closes(entries)
            return newest_complete_close(closes, snapshots) is closes[-1]

        reports = self.log.describe(REPORTS)
        entry = reading_entry(entries, reports, moved=self.moved, kept=kept)
        if entry is not None:
            self._note(writer, entries, entry, "reading")
            self.context.tell(events.reading(reports.partitions))

    def _note_identities(self, writer: Writer, entries: list[Entry], published: bool) -> None:
        """Notes changed files of both logs in the journal.

        Raises Inconsistent for other files without `moved`, and for an older journal.
        """
        entry = restored_logs.moved_entry(
            entries,
            self.log,
            self.public,
            published=published,
            moved=self.moved,
            file=self.context.file,
        )
        restored_logs.check_snapshots(entries, self.snapshots)
        if entry is not None:
            self._note(writer, entries, entry, "placed")
            if self.moved:
                self.context.tell(events.MOVED)

    def _note(self, writer: Writer, entries: list[Entry], entry: Message, step: str) -> None:
        """Commits an entry that closes nothing. step: for `at`."""
        writer.commit(journal.journal_records(entry, self.plan.study))
        entries.append(Entry(entry))
        self.context.at(step)
