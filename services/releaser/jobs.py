"""The releaser's side of batch jobs: snapshots, sending, the worker beside it, results.

Nothing here waits: a job that is slow or fails holds back nothing else.
"""

from __future__ import annotations

import time as time_module
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet

from stream_dp.batch import kinds
from stream_dp.errors import UserError
from stream_dp.log.base import Log
from stream_dp.population import ClosedPeriod
from stream_dp.release.data_sets import coded_tables, column_values
from stream_dp.study import Study

from ..groups.members import Members
from ..jobs.board import JobBoard
from ..jobs.records import Job, Result, SnapshotFile, failure_record, job_id, job_record
from ..journal import Entry, outstanding
from ..output import AGAIN
from ..snapshots import Snapshots
from .child import Child
from .decision import ChainEnd
from .facts import Facts

_EVERY = 0.5  # seconds between two looks at the topics
_SHARE = 20  # at most one part in so many of the time goes into looking
_PAUSE = 30.0


@dataclass
class Jobs:
    """The jobs of one journal. simulated: whether its noise is seeded."""

    study: Study
    log: Log
    snapshots: Snapshots
    members: Members
    genesis: str
    simulated: bool
    file: str
    facts: Facts
    tell: Callable[[str], None]
    at: Callable[[str], None]
    child: Child | None
    open: dict[str, Job] = field(default_factory=dict)
    _board: JobBoard = field(init=False)
    _next: float = field(default=0.0)
    _asked: set[str] = field(default_factory=set)
    _not_before: float = field(default=0.0)
    _again: str = field(default="", init=False)
    _failures_told: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._board = JobBoard(self.log, keep_parts=True)

    def begin(self, entries: Sequence[Entry]) -> None:
        """Take up what the journal holds: jobs that were not sent are, files not needed go."""
        waiting = outstanding(entries)
        begun = {job.id for entry in entries for job in entry.jobs}
        for job in begun - {job.id for job in waiting}:
            self._board.settle(job)
        self._board.refresh()
        self.open = {job.id: job for job in waiting}
        self._send([job for job in waiting if job.id not in self._board.jobs])
        self._drop_abandoned()
        self._clean()

    def snapshot(self, number: int, closed: ClosedPeriod) -> tuple[Job, ...]:
        """The jobs that a period's close begins, their snapshots written; no ids in them."""
        made = []
        for release in self.study.due(number):
            label = self.study.periods.labels[number - 1]
            name = job_id(self.genesis, release.name, label)
            held = coded_tables(
                column_values(self.study, release),
                self.members.groups,
                self.members.people([closed.symbols[a] for a in release.attributes]),
                self.members.group_of,
            )
            files = [
                SnapshotFile(
                    *self.snapshots.store(f"job-{name}-{part}", ".parquet", _writer(table))
                )
                for part, table in zip(("groups", "people"), held, strict=True)
            ]
            made.append(Job(name, release.name, number, str(release.rho), *files))
            self.at("job-snapshot")
        return tuple(made)

    def opened(self, jobs: Sequence[Job]) -> None:
        """Send jobs that the journal holds from now on."""
        self.open |= {job.id: job for job in jobs}
        self._send(jobs)

    def _send(self, jobs: Sequence[Job]) -> None:
        if jobs:
            self.log.append(job_record(job, self.study, self.simulated) for job in jobs)
            self.at("job-sent")
            for job in jobs:
                self.tell(f"job {job.id} is due")

    def look(self) -> None:
        """Read what workers and the operator wrote; start or bury the worker beside this."""
        now = time_module.monotonic()
        if not self.open or now < self._next:
            return
        self._board.refresh(rounds=True)
        # Where looking takes long, as on Kafka, reading reports goes before it.
        took = time_module.monotonic() - now
        self._next = now + max(_EVERY, _SHARE * took)
        self._drop_abandoned()
        self._beside(now)
        self._say()

    def _say(self) -> None:
        """How each job is, for the metrics; why one failed, once."""
        for job in self.open:
            state, reason = self._board.state(job), self._board.failure(job)
            self.facts.job(job, state, self._board.rounds[job], self._board.progress.get(job))
            if state != "failed":
                self._failures_told.pop(job, None)
            elif job not in self._board.results and self._failures_told.get(job) != reason:
                self._failures_told[job] = reason or ""
                self.tell(
                    f"job {job} failed: {reason}; stream-dp jobs {self.file} --retry {job}, or"
                    f" --abandon {job}"
                )

    def _beside(self, now: float) -> None:
        if self.child is None:
            return
        todo = [job for job in self.open if self._board.open(job)]
        code = self.child.ended()
        if code == AGAIN or (code == 0 and self._asked & set(todo)):
            # It found no log, or not what it was started for: later, and not over and over.
            self._not_before = now + _PAUSE
            if code and self._again != self.child.reason:
                self._again = self.child.reason
                self.tell(f"{self._again}; it is started again, every {_PAUSE:.0f} s")
        elif code and todo:
            self._fail(todo.pop(0), self.child.reason)
        if todo and not self.child.running and now >= self._not_before:
            self._asked = set(todo)
            try:
                self.child.start()
            except OSError as error:
                self._fail(todo[0], f"no worker can be started: {error.strerror}")
                return
            self.at("worker-started")

    def _fail(self, job: str, reason: str) -> None:
        self.log.append([failure_record(job, self._board.attempt(job), reason)])
        self._board.refresh()

    def _drop_abandoned(self) -> None:
        for job in [job for job in self.open if self._board.abandoned(job)]:
            del self.open[job]
            self.facts.job(job, "abandoned")
            self.tell(f"job {job} is abandoned; its charge stands")
            self._clean()

    def next_finished(
        self, decide: Callable[[Job, Result], ChainEnd]
    ) -> tuple[Job, ChainEnd] | None:
        """The first job with a result that `decide` accepts; what it refuses is a failure."""
        for job in list(self.open.values()):
            for result in self._board.results.pop(job.id, ()):
                try:
                    return job, decide(job, result)
                except UserError as error:
                    self._fail(job.id, error.lines[0])
                    self._say()
        return None

    def close(self, job: Job) -> None:
        """Ends a job whose result is in the journal, and removes its snapshots."""
        del self.open[job.id]
        self._board.settle(job.id)
        self.facts.job(job.id, "done")
        self._clean()

    @property
    def busy(self) -> bool:
        """Whether the worker beside this has something to do, or a result is to be taken."""
        if any(job in self._board.results for job in self.open):
            return True
        return self.child is not None and any(self._board.open(job) for job in self.open)

    def left(self) -> str:
        """What is outstanding, in words; empty where nothing is."""
        return ", ".join(f"{job} ({self._board.state(job)})" for job in self.open)

    def _clean(self) -> None:
        files = {f.name for job in self.open.values() for f in (job.groups, job.people)}
        self.snapshots.keep(files, "job")


def _writer(table: pa.Table) -> Callable[[BinaryIO], None]:
    return lambda file: pyarrow.parquet.write_table(table, file)


def check_kinds(study: Study) -> None:
    """Raises UserError where this installation cannot fit what the study declares."""
    try:
        kinds.require_available(batch.kind for batch in study.batches or ())
    except UserError as error:
        raise UserError(f"run.worker: {line}" for line in error.lines) from None
