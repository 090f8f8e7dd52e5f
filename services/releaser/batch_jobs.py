"""Batch jobs in the releaser: their snapshots and records, the worker beside it, their results.

No function here waits, so that a slow or failed job does not delay other releases.

A worker or an aggregator beside the releaser is a child process. The child reads its standard
input, a pipe from the parent, and ends when the parent does. The end of its standard error is kept
for the reason of a failure; a terminal shows all of it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time as time_module
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import IO

from stream_dp.batch import kinds
from stream_dp.errors import UserError
from stream_dp.log.log import Log
from stream_dp.population.population import Population
from stream_dp.study import Study

from ..intake.group_tables import Members, PlacesTable
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


_PATIENCE = 5.0  # seconds until a child that does not end is killed
_MOST_STDERR = 65_536  # bytes of its end that are kept
_LONGEST = 200  # characters of a reason
_FRAME = re.compile(r'\s+File "')


class Child:
    """A child process that can be started again after its end.

    command: the arguments of the Python interpreter.
    name: of the child, for messages.
    reason: why the last process ended, on one line.
    """

    def __init__(self, command: list[str], name: str = "the worker") -> None:
        self._command, self._name = command, name
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr = b""
        self._reader: Thread | None = None
        self.reason = ""

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the process, and a thread that keeps the end of its standard error."""
        # Only a terminal shows the worker's output, with its progress bar.
        terminal = sys.stderr is not None and sys.stderr.isatty()
        self._process = subprocess.Popen(
            # -P: modules are never imported from the current folder.
            [sys.executable, "-P", *self._command],
            stdin=subprocess.PIPE,
            stdout=sys.stderr if terminal else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stderr is not None
        self._stderr = b""
        self._reader = Thread(target=self._read, args=(self._process.stderr, terminal), daemon=True)
        self._reader.start()

    def _read(self, pipe: IO[bytes], terminal: bool) -> None:
        """Keeps the last bytes of the standard error. terminal: whether it is shown, too."""
        with pipe:
            while data := os.read(pipe.fileno(), _MOST_STDERR):
                self._stderr = (self._stderr + data)[-_MOST_STDERR:]
                if terminal:
                    with suppress(OSError):
                        os.write(sys.stderr.fileno(), data)

    def ended(self) -> int | None:
        """The exit code of an ended child, once for each end, negative for a signal; or None."""
        if self._process is None or (code := self._process.poll()) is None:
            return None
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        if self._reader is not None:
            self._reader.join(_PATIENCE)
        ending = f"signal {-code}" if code < 0 else f"exit code {code}"
        line = last_line(self._stderr)
        self.reason = f"{self._name} ended with {ending}" + (f": {line}" if line else "")
        self._process = None
        return code

    def stop(self) -> None:
        """Ends the child, by force after a time."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._process = None


def last_line(stderr: bytes) -> str:
    """The last line of a process's standard error, cut to a length.

    For a traceback only the type of the error is given, as its message may contain values. The
    line is empty where the output was cut and may be the end of a traceback.
    """
    lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    if not lines:
        return ""
    last = lines[-1].strip()
    if not last.startswith("stream-dp: "):
        frames = [i for i, line in enumerate(lines) if _FRAME.match(line)]
        if frames:
            messages = (line for line in lines[frames[-1] + 1 :] if not line[0].isspace())
            last = next(messages, "").partition(":")[0]
        elif len(stderr) >= _MOST_STDERR:
            return ""
    last = "".join(c if c.isprintable() else "?" for c in last.removeprefix("stream-dp: "))
    return last if len(last) <= _LONGEST else f"{last[:_LONGEST]}..."
