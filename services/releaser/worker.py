"""The worker: fits the first open job and appends its result, job after job.

It may run on another machine than the releaser: it needs the study file, the topics of jobs and
the folder of snapshots. Rounds are recorded in the transcript before they are used. So a worker may
be killed at any moment. Of several workers one has a job's lease, and the others wait.

A fit may learn from the earlier tables of its release, from their transcripts. A table is among
them once its job has handed in a result: then its transcript is complete, and
nothing adds to it. Jobs are fitted in their order, so these are usually all tables before. A fit
states in round 0 which of them it uses (`stream_dp/batch/synthesizer.py`).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow.parquet

from stream_dp.batch import kinds
from stream_dp.batch.synthesizer import EarlierTable, FitContext, Known
from stream_dp.errors import UserError
from stream_dp.log.log import Log, LogError, Missing
from stream_dp.privacy.noise import NoiseSource, SystemNoise, system_entropy
from stream_dp.study import DataSetRelease, Study

from ..process.events import Event, Tell, ignore
from ..process.heartbeats import Heartbeat, new_heartbeat
from ..storage.job_records import (
    Job,
    Progress,
    SnapshotFile,
    failure_record,
    hold_record,
    progress_record,
    result_records,
)
from ..storage.snapshots import Snapshots
from .fit_transcript import LeaseLost, LeaseWatch, LogTranscript, recorded_rounds
from .job_board import JobBoard
from .job_families import JOB_FAMILIES


def number_in_schedule(study: Study, job: Job) -> int:
    """The number of a job's data set among those of its release, from 1."""
    release = study.batch(job.release)
    assert release is not None
    return 1 + study.due_periods(release).index(job.period)


def known_to(board: JobBoard, job: Job) -> tuple[Known, ...]:
    """What panels have published of a job's people and columns."""
    return tuple(
        Known(
            tuple(record["columns"]), np.asarray(record["values"], np.float64), record["variance"]
        )
        for record in board.known(job.id)
    )


def earlier_tables(study: Study, log: Log, board: JobBoard, job: Job) -> tuple[EarlierTable, ...]:
    """The tables before a job's table, in order. Empty for a release without fusion."""
    release = study.batch(job.release)
    if release is None or not release.fused:
        return ()
    origin = board.studies[job.id]  # jobs of an earlier study may be there, too
    jobs = [
        earlier
        for earlier in board.jobs.values()
        if earlier.release == job.release
        and earlier.period < job.period
        and board.handed_in(earlier.id)
        and board.studies[earlier.id] == origin
    ]
    if not jobs:
        return ()
    rounds = recorded_rounds(log, [earlier.id for earlier in jobs])
    schedule = study.schedule(release)
    tables = []
    for earlier in sorted(jobs, key=lambda earlier: earlier.period):
        declared = schedule[earlier.period]
        number, transcript = number_in_schedule(study, earlier), known_to(board, earlier)
        tables.append(EarlierTable(number, declared, tuple(rounds[earlier.id]), transcript))
    return tuple(tables)


_POLL = 1.0
_LOOK = 2.0  # seconds between two checks whether a job is still open, and two progress records


class _Dropped(Exception):
    """The job is abandoned, finished elsewhere, or the worker is to stop."""


@dataclass
class Worker:
    """Fits jobs.

    study: the declared study.
    log: the confidential log.
    snapshots: the folder with the data of jobs.
    retries: how often a worker may end in silence at a round of a job and the next one goes on;
        after that the job fails. None for a worker whose releaser counts its ends.
    source: draws the privacy noise.
    beat: the heartbeat that names this worker in leases; whoever runs it writes it to the log.
    tell: called with events for the operator.
    on_progress: called after every round.
    at: called with the name of every step, for tests.
    stop: ends the work when set.
    failed: whether a job failed.
    """

    study: Study
    log: Log
    snapshots: Snapshots
    retries: int | None = None
    source: NoiseSource = field(default_factory=SystemNoise)
    beat: Heartbeat = field(default_factory=lambda: new_heartbeat("worker", service=False))
    tell: Tell = ignore
    on_progress: Callable[[Progress], None] = lambda progress: None
    at: Callable[[str], None] = lambda name: None
    stop: threading.Event = field(default_factory=threading.Event)
    failed: bool = field(default=False, init=False)

    def run(self, *, until_idle: bool = False) -> None:
        """Works until `stop` is set or, if until_idle, until no job is open.

        Raises UserError if this installation cannot fit what the study declares.
        """
        kinds.require_available(batch.kind for batch in self.study.batches or ())
        board, watch, announced = JobBoard(self.log), LeaseWatch(self.log), ""
        while not self.stop.is_set():
            with suppress(Missing):  # before the releaser's first start
                board.refresh()
            job = next((job for name, job in board.jobs.items() if board.open(name)), None)
            if job is not None and self._work(board, watch, job):
                announced = ""
                continue
            if job is None and until_idle:
                return
            waits = "waits for a job" if job is None else f"another worker fits job {job.id}"
            if announced != waits:
                self.tell(Event("worker-idle", waits))
                announced = waits
            self.stop.wait(_POLL)

    def _work(self, board: JobBoard, watch: LeaseWatch, job: Job) -> bool:
        """Fits a job if no other worker has its lease; returns whether it does."""
        self.at("job")
        transcript = LogTranscript(self.log, job.id, self.at)
        transcript.rounds()
        if not (watch.lapsed(transcript.lease) and transcript.take_lease(self.beat)):
            return False
        try:
            self._fit_or_fail(board, job, transcript)
        finally:
            with suppress(LogError):
                transcript.release()
        return True

    def _fit_or_fail(self, board: JobBoard, job: Job, transcript: LogTranscript) -> None:
        """Fits a job, or records why it failed; only an operator has a failed job retried."""
        board.refresh()
        if not board.open(job.id):  # another worker ended it, and its lease, meanwhile
            return
        self._tell("job-begun", job, "begun")
        attempt = board.attempt(job.id)
        rounds = self._begin(board, job, attempt, transcript)
        if rounds is None:
            return
        try:
            self._fit(board, job, attempt, transcript)
            self._tell("job-handed-in", job, "the result is handed in")
        except (_Dropped, LeaseLost):
            if self.retries is not None:
                self.log.append([hold_record("released", job.id, attempt, rounds)])
            self._tell(
                "job-dropped",
                job,
                "given up, for it is abandoned, done elsewhere, stopped or another worker's",
            )
        except LogError:
            raise  # the state of the job is unknown, so the process ends
        except UserError as error:
            self._failed(job, attempt, error.lines[0])
        except Exception as error:  # its text may contain values
            self._failed(job, attempt, type(error).__name__)

    def _begin(
        self, board: JobBoard, job: Job, attempt: int, transcript: LogTranscript
    ) -> int | None:
        """The number of decided rounds; None if the job fails for every worker."""
        if self.retries is None:
            return 0
        rounds = len(transcript.rounds())
        ends = board.held(job.id, rounds)
        if ends > self.retries:
            self._failed(
                job,
                attempt,
                f"{ends} workers ended in silence after {rounds} rounds, as where memory runs out;"
                " look after the worker's machine before a retry",
            )
            return None
        self.log.append([hold_record("begun", job.id, attempt, rounds)])
        return rounds

    def _failed(self, job: Job, attempt: int, reason: str) -> None:
        self.failed = True
        self.log.append([failure_record(job.id, attempt, reason)])
        self._tell("job-failed", job, f"failed: {reason}")

    def _tell(self, name: str, job: Job, text: str) -> None:
        # A job of another study may lie in the topic; its period need not be one of this one's.
        labels = self.study.periods.labels
        label = labels[job.period - 1] if 0 < job.period <= len(labels) else None
        message = f"job {job.id}: {text}"
        self.tell(Event(name, message, period=label, release=job.release, job=job.id))

    def _fit(self, board: JobBoard, job: Job, attempt: int, transcript: LogTranscript) -> None:
        """Fits a job, samples a data set and appends the result."""
        origin = board.studies[job.id]
        release = self._declared(job)
        if not origin.admits(self.study) or release is None:
            raise UserError("the worker's study file is not the one that the job is of")
        if origin.simulated != self.source.simulated:
            raise UserError("a study with seeded noise and one without do not mix")
        tables = {n: self._table(f) for n, f in job.files.items()}
        context = FitContext(
            self.source,
            transcript,
            self._progress(board, job),
            known_to(board, job),
            number_in_schedule(self.study, job),
            earlier_tables(self.study, self.log, board, job),
        )
        family = JOB_FAMILIES[release.family]
        provenance, parts = family.fitted(self.study, release, tables, context)
        self.at("fitted")
        records = result_records(
            job=job.id,
            attempt=attempt,
            writer=system_entropy(8).hex(),
            provenance=provenance,
            parts=parts,
        )
        self.at("result")
        # Appended one by one, as they may be large; the manifest at the end completes the result.
        for record in records:
            self.log.append([record])
            self.at("result-part")

    def _declared(self, job: Job) -> DataSetRelease | None:
        """The data set of a job with the job's rho. None if the study has no such data set."""
        release = self.study.batch(job.release)
        return release and self.study.schedule(release).get(job.period)

    def _table(self, file: SnapshotFile) -> pyarrow.Table:
        with self.snapshots.opened(file.name, file.sha256) as opened:
            if opened is None:
                raise UserError("the job's snapshot is not in the folder of snapshots")
            return pyarrow.parquet.ParquetFile(opened).read()  # `read_table` imports pandas

    def _progress(self, board: JobBoard, job: Job) -> Callable[[int, int, float], None]:
        """A function of done rounds, all rounds and the error, which a fit calls after each round.

        It reports the progress, and raises _Dropped if the fit is to end without a result.
        """
        began = checked = time.monotonic()
        first: int | None = None
        written = -math.inf

        def progress(done: int, rounds: int, error: float) -> None:
            nonlocal checked, first, written
            moment = time.monotonic()
            if first is None:
                first = done
            duration = (moment - began) / (done - first) if done > first else math.nan
            state = Progress(job.id, done, rounds, error, left=duration * (rounds - done))
            self.on_progress(state)
            if moment - written > _LOOK or done == rounds:
                self.log.append([progress_record(state)])
                written = time.monotonic()
            self.at("progress")
            if self.stop.is_set():
                raise _Dropped
            if moment - checked > _LOOK:
                board.refresh()
                checked = time.monotonic()
                if not board.open(job.id):
                    raise _Dropped

        return progress
