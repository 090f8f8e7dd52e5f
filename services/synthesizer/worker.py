"""The worker: takes the first job that is open, fits it, and hands its result in.

It may run on another machine than the releaser: it needs the study file, the topics of jobs and
the folder of snapshots. Rounds are decided in the transcript before they are used, so a worker may
be killed at any moment, and two of them may work on one job: neither changes what is published.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO

import numpy as np
import pyarrow.parquet
from numpy.typing import NDArray

from stream_dp.batch import kinds
from stream_dp.batch.base import release_domain
from stream_dp.batch.data.domain import Hierarchy
from stream_dp.errors import UserError
from stream_dp.log.base import Log, LogError, Missing
from stream_dp.privacy.noise import NoiseSource, SystemNoise, system_entropy
from stream_dp.release.arrow import measurement_table
from stream_dp.release.data_sets import (
    coded_tables,
    column_values,
    data_set_parts,
)
from stream_dp.study import Study
from stream_dp.study.groups import KEY_COLUMN

from ..jobs.board import JobBoard
from ..jobs.progress import Progress
from ..jobs.records import (
    Job,
    SnapshotFile,
    failure_record,
    progress_record,
    result_records,
)
from ..snapshots import Snapshots
from .transcript import LogTranscript

_POLL = 1.0
_LOOK = 2.0  # seconds between two looks at whether a job is still wanted, or two words on it


class _Dropped(Exception):
    """The job is no longer to be done here."""


@dataclass
class Worker:
    """on_progress: called with each. tell, at, stop: as of the releaser. failed: if a job has."""

    study: Study
    log: Log
    snapshots: Snapshots
    source: NoiseSource = field(default_factory=SystemNoise)
    tell: Callable[[str], None] = lambda line: None
    on_progress: Callable[[Progress], None] = lambda progress: None
    at: Callable[[str], None] = lambda name: None
    stop: threading.Event = field(default_factory=threading.Event)
    failed: bool = field(default=False, init=False)

    def run(self, *, until_idle: bool = False) -> None:
        """Work until a stop or (until_idle) until no job is open.

        Raises UserError where this installation cannot fit what the study declares.
        """
        kinds.require_available(batch.kind for batch in self.study.batches or ())
        board, told = JobBoard(self.log), False
        while not self.stop.is_set():
            with suppress(Missing):  # before the releaser's first start
                board.refresh()
            job = next((job for name, job in board.jobs.items() if board.open(name)), None)
            if job is not None:
                self._work(board, job)
                told = False
                continue
            if until_idle:
                return
            if not told:
                self.tell("waits for a job")
                told = True
            self.stop.wait(_POLL)

    def _work(self, board: JobBoard, job: Job) -> None:
        """Do a job, or say why it failed: what failed once is tried again by an operator only."""
        self.at("job")
        self.tell(f"job {job.id}: begun")
        attempt = board.attempt(job.id)
        try:
            self._make(board, job, attempt)
            self.tell(f"job {job.id}: the result is handed in")
        except _Dropped:
            self.tell(f"job {job.id}: given up, for it is abandoned, done elsewhere or stopped")
        except LogError:
            raise  # nothing is known of the job; this process ends
        except UserError as error:
            self._failed(job, attempt, error.lines[0])
        except Exception as error:  # whatever it is, its text may hold values
            self._failed(job, attempt, type(error).__name__)

    def _failed(self, job: Job, attempt: int, reason: str) -> None:
        self.failed = True
        self.log.append([failure_record(job.id, attempt, reason)])
        self.tell(f"job {job.id}: failed: {reason}")

    def _make(self, board: JobBoard, job: Job, attempt: int) -> None:
        facts = board.facts[job.id]
        release = self.study.batch(job.release)
        # Older records have no hash that leaves the description out.
        same = facts.get("terms_hash", facts["study_hash"]) in {
            self.study.terms_hash,
            self.study.hash,
        }
        if not same or release is None:
            raise UserError("the worker's study file is not the one that the job is of")
        if bool(facts["simulated"]) != self.source.simulated:
            raise UserError("a study with seeded noise and one without do not mix")
        fit = kinds.load_synthesizer(release.kind)
        hierarchy = self._hierarchy(job)
        transcript = LogTranscript(self.log, job.id, self.at)
        fitted = fit(hierarchy, release, self.source, transcript, self._progress(board, job))
        self.at("fitted")
        made = fitted.sample(seed_of(transcript.rounds()))
        answers = measurement_table(fitted.measurements)
        names = column_values(self.study, release)
        held = data_set_parts(coded_tables(names, made.groups, made.people, made.group_of), answers)
        head = {
            "mechanism": fitted.title,
            "notes": dict(fitted.notes),
            "simulated": self.source.simulated,
        }
        records = result_records(job.id, attempt, system_entropy(8).hex(), head, held)
        self.at("result")
        # One by one, as they may be many; the manifest at the end makes them a result.
        for record in records:
            self.log.append([record])
            self.at("result-part")

    def _hierarchy(self, job: Job) -> Hierarchy:
        """The snapshot of a job, checked against the hashes that the journal has."""
        release = self.study.batch(job.release)
        assert release is not None
        names = column_values(self.study, release)
        groups, people = self._table(job.groups), self._table(job.people)

        def codes(table: object, which: str) -> NDArray[np.integer]:
            return np.stack([table[c].to_numpy() for c in names[which]], axis=1)  # type: ignore[index]

        group_of = people[KEY_COLUMN].to_numpy().astype(np.int64)
        domain = release_domain(self.study, release)
        try:
            return Hierarchy(domain, codes(groups, "groups"), codes(people, "people"), group_of)
        except (ValueError, KeyError):
            raise UserError("the job's snapshot is not of what its release declares") from None

    def _table(self, file: SnapshotFile) -> pyarrow.Table:
        data = self.snapshots.read(file.name, file.sha256)
        if data is None:
            raise UserError("the job's snapshot is not in the folder of snapshots")
        return pyarrow.parquet.read_table(BytesIO(data))

    def _progress(self, board: JobBoard, job: Job) -> Callable[[int, int, float], None]:
        began = looked = time.monotonic()
        first: int | None = None
        written = -math.inf

        def progress(done: int, rounds: int, error: float) -> None:
            nonlocal looked, first, written
            now = time.monotonic()
            if first is None:
                first = done
            left = math.nan if done <= first else (now - began) / (done - first) * (rounds - done)
            told = Progress(job.id, done, rounds, error, left)
            self.on_progress(told)
            if now - written > _LOOK or done == rounds:
                self.log.append([progress_record(told)])
                written = time.monotonic()
            self.at("progress")
            if self.stop.is_set():
                raise _Dropped
            if now - looked > _LOOK:
                board.refresh()
                looked = time.monotonic()
                if not board.open(job.id):
                    raise _Dropped

        return progress


def seed_of(rounds: list[bytes]) -> int:
    """The seed of what is sampled, from the job's own in round 0, and not the same."""
    return int.from_bytes(sha256(b"sample" + rounds[0]).digest(), "big")
