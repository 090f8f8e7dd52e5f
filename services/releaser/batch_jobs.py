"""Batch jobs in the releaser: their snapshots and records, the worker beside it, their results.

No function here waits, so that a slow or failed job does not delay other releases.
"""

from __future__ import annotations

import time as time_module
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stream_dp.batch import kinds
from stream_dp.errors import UserError
from stream_dp.log.log import Log
from stream_dp.population.population import Population
from stream_dp.study import Study

from ..intake.place_table import PlacesTable
from ..intake.roster import Members
from ..process.command_output import BAD_INPUT, FENCED, INCONSISTENT, UNAVAILABLE
from ..process.events import Event
from ..storage import journal
from ..storage.job_records import (
    Job,
    Result,
    SnapshotFile,
    failure_record,
    interruption_record,
    job_id,
    job_record,
)
from ..storage.journal import Entry
from ..storage.snapshots import Snapshots
from .child_process import Child
from .decision import ChainEnd
from .job_board import JobBoard
from .job_families import everybodys_tables
from .people_jobs import known_records, panels_of
from .releaser_facts import Context
from .table_results import write_inputs

_EVERY = 0.5  # seconds between two reads of the topics
_SHARE = 20  # a read is followed by at least so many times its duration without one
_PAUSE = 30.0  # seconds until a worker that could not work is started again
_LASTING = {BAD_INPUT, FENCED, INCONSISTENT}  # exit codes of a worker that another would repeat
_BACK_OFF = 2.0  # seconds until a worker that failed is started again; then four times as long


@dataclass
class Jobs:
    """The batch jobs of a journal.

    study: the declared study.
    log: the confidential log.
    snapshots: the folder of snapshots.
    members: the members of groups, or the places, if the study declares any.
    genesis: the hash of the journal's first entry.
    simulated: whether the journal's noise is seeded.
    context: as in `Releaser`.
    child: the worker beside the releaser; None for workers started elsewhere.
    retries: the number of kills of its worker after which a job still resumes by itself.
    open: by id, the jobs without a result that are not abandoned.
    """

    study: Study
    log: Log
    snapshots: Snapshots
    members: Members | PlacesTable | None
    genesis: str
    simulated: bool
    context: Context
    child: Child | None
    retries: int
    open: dict[str, Job] = field(default_factory=dict)
    _later: set[str] = field(default_factory=set, init=False)  # jobs that no close has begun
    _board: JobBoard = field(init=False)
    _next_read: float = field(default=0.0, init=False)  # monotonic seconds
    _worker_jobs: set[str] = field(default_factory=set, init=False)  # open at the worker's start
    _not_before: float = field(default=0.0, init=False)  # of the worker's start, monotonic seconds
    _restart_reason: str = field(default="", init=False)  # as the operator was informed last
    _failures: dict[str, str] = field(default_factory=dict, init=False)  # those announced, by job

    def __post_init__(self) -> None:
        self._board = JobBoard(self.log, keep_parts=True)

    def begin(self, entries: Sequence[Entry]) -> None:
        """Recovers and sends the open jobs, and removes the files of closed jobs."""
        waiting = journal.outstanding(entries)
        begun = {job.id for entry in entries for job in entry.jobs}
        closed = journal.closes(entries)[-1].number
        self._later = {
            job_id(self.genesis, release.name, label)
            for number, label in enumerate(self.study.periods.labels, 1)
            for release in self.study.due(number)
            if number > closed
        }
        for job in begun - {job.id for job in waiting}:
            self._board.settle(job)
        self._board.refresh()
        self.open = {job.id: job for job in waiting}
        self._send([job for job in waiting if job.id not in self._board.jobs])
        self._drop_abandoned()
        self._clean()

    def snapshot(self, number: int, population: Population) -> tuple[Job, ...]:
        """The jobs of a period's close; writes their snapshots, which hold no ids.

        population: of everybody, at the close.
        """
        files = dict[str, Mapping[str, SnapshotFile]]()
        for release in self.study.due(number):
            files[release.name] = write_inputs(
                self.snapshots,
                job_id(self.genesis, release.name, self.study.periods.labels[number - 1]),
                everybodys_tables(self.study, release, population, self.members),
            )
            self.context.at("job-snapshot")
        return self.due(number, files)

    def due(self, number: int, files: Mapping[str, Mapping[str, SnapshotFile]]) -> tuple[Job, ...]:
        """The jobs of a period's close. files: by release and table, the snapshots."""
        return tuple(
            Job(
                id=job_id(self.genesis, release.name, self.study.periods.labels[number - 1]),
                release=release.name,
                period=number,
                rho=str(self.study.schedule(release)[number].rho),
                groups=files[release.name].get("groups"),
                people=files[release.name].get("people"),
                sizes=files[release.name].get("sizes"),
            )
            for release in self.study.due(number)
        )

    def add(self, jobs: Sequence[Job]) -> None:
        """Sends jobs after the commit of their close to the journal."""
        self.open |= {job.id: job for job in jobs}
        self._later -= self.open.keys()
        self._send(jobs)

    def _send(self, jobs: Sequence[Job]) -> None:
        """Appends jobs for workers, after the published interactions that their fits may use."""
        if jobs:
            closes = list[Entry]()
            if any(panels_of(self.study, self.study.batch(job.release)) for job in jobs):
                closes = journal.closes(journal.read_heads(self.log))
            for job in jobs:
                self.log.append(known_records(self.study, job, closes))
            self.log.append(job_record(job, self.study, self.simulated) for job in jobs)
            self.context.at("job-sent")
            for job in jobs:
                self.context.tell(self._event("job-due", job, f"job {job.id} is due"))

    def _event(self, name: str, job: Job, message: str) -> Event:
        label = self.study.periods.labels[job.period - 1]
        return Event(name, message, period=label, release=job.release, job=job.id)

    def look(self) -> None:
        """Reads the records of workers and of the operator; starts the worker beside this."""
        begun = time_module.monotonic()
        if not self.open or begun < self._next_read:
            return
        self._board.refresh(rounds=True)
        # Reads may take long, as on Kafka; they must not delay the reports.
        duration = time_module.monotonic() - begun
        self._next_read = begun + max(_EVERY, _SHARE * duration)
        self._drop_abandoned()
        self._run_worker(begun)
        self._report()

    def _report(self) -> None:
        """Sets the facts of every job; tells the operator of every failure once."""
        for job, declared in self.open.items():
            state, reason = self._board.state(job), self._board.failure(job)
            reported = self._board.progress.get(job)
            self.context.facts.job(
                job,
                state,
                self._board.since.get(job),
                self._board.rounds[job],
                None if reported is None else reported.progress,
            )
            if state != "failed":
                self._failures.pop(job, None)
            elif job not in self._board.results and self._failures.get(job) != reason:
                self._failures[job] = reason or ""
                advice = f"stream-dp jobs {self.context.file} --retry {job}, or --abandon {job}"
                message = f"job {job} failed: {reason}; {advice}"
                self.context.tell(self._event("job-failed", declared, message))

    def _run_worker(self, moment: float) -> None:
        """Records the end of the worker, and starts it for an open job."""
        if self.child is None:
            return
        if code := self.child.ended():
            self._board.refresh()  # its last job may have ended before it
        todo = [job for job in self.open if self._board.open(job)]
        if code == UNAVAILABLE or (code == 0 and self._worker_jobs & set(todo)):
            # The log did not answer, or the worker saw no open job: it is started again later.
            self._not_before = moment + _PAUSE
            if code and self._restart_reason != self.child.reason:
                self._restart_reason = self.child.reason
                message = f"{self._restart_reason}; it is started again, every {_PAUSE:.0f} s"
                self.context.tell(Event("worker-restarted", message))
        elif code in _LASTING and todo:
            self._fail(todo[0], self.child.reason)
        elif code and todo:
            self._interrupted(todo[0], self.child.reason, moment)
        todo = [job for job in todo if self._board.open(job)]
        if todo and not self.child.running and moment >= self._not_before:
            self._worker_jobs = set(todo)
            try:
                self.child.start()
            except OSError as error:
                reason = f"no worker can be started: {error.strerror}"
                self._interrupted(todo[0], reason, moment)
                return
            self.context.at("worker-started")

    def _interrupted(self, job: str, reason: str, moment: float) -> None:
        """Resumes a job from its transcript after a pause; after `retries` times it fails."""
        done = self._board.interruptions(job)
        if done == self.retries:
            self._fail(job, reason + f"; {done} retries did not help" * (done > 0))
            return
        self.log.append([interruption_record(job, self._board.attempt(job), reason)])
        self._board.refresh()
        pause = _BACK_OFF * 4**done
        self._not_before = moment + pause
        message = f"job {job}: {reason}; it goes on from its transcript in {pause:.0f} s"
        message += f" ({done + 1} of {self.retries} retries)"
        self.context.tell(self._event("worker-restarted", self.open[job], message))

    def _fail(self, job: str, reason: str) -> None:
        self.log.append([failure_record(job, self._board.attempt(job), reason)])
        self._board.refresh()

    def _drop_abandoned(self) -> None:
        """Closes the jobs that the operator has abandoned."""
        for job in [job for job in self.open if self._board.abandoned(job)]:
            abandoned = self.open.pop(job)
            self.context.facts.job(job, "abandoned")
            message = f"job {job} is abandoned; its charge stands"
            self.context.tell(self._event("job-abandoned", abandoned, message))
            self._clean()

    def next_finished(
        self, decide: Callable[[Job, Result], ChainEnd]
    ) -> tuple[Job, ChainEnd] | None:
        """The first job with an accepted result, and the decision.

        decide: raises UserError for a refused result, which fails the job's attempt.
        """
        for job in list(self.open.values()):
            for result in self._board.results.pop(job.id, ()):
                try:
                    return job, decide(job, result)
                except UserError as error:
                    self._fail(job.id, error.lines[0])
                    self._report()
        return None

    def close(self, job: Job) -> None:
        """Ends a job with a result in the journal, and removes its snapshots."""
        del self.open[job.id]
        self._board.settle(job.id)
        self.context.facts.job(job.id, "done")
        self._clean()

    @property
    def busy(self) -> bool:
        """Whether the worker beside this has an open job, or a result is to be published."""
        if any(job in self._board.results for job in self.open):
            return True
        return self.child is not None and any(self._board.open(job) for job in self.open)

    def left(self) -> str:
        """The open jobs and their states as text; empty without open jobs."""
        return ", ".join(f"{job} ({self._board.state(job)})" for job in self.open)

    def _clean(self) -> None:
        """Removes the snapshots of closed jobs.

        Snapshots of a later close are kept: an aggregator may be writing them.
        """
        files = {f.name for job in self.open.values() for f in job.files.values()}
        self.snapshots.keep(files, "job", spare=self._later)


def check_kinds(study: Study) -> None:
    """Raises UserError if this installation cannot fit the declared data sets."""
    try:
        kinds.require_available(batch.kind for batch in study.batches or ())
    except UserError as error:
        raise UserError(f"run.worker: {line}" for line in error.lines) from None
