"""The state of every batch job, from the records in the confidential topics, and in words."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field

import msgspec

from stream_dp.json_object import Json
from stream_dp.log.log import Log, Positions, Stored, following
from stream_dp.study.topics import JOBS, RESULTS, TRANSCRIPTS

from ..storage.deployment import Deployment
from ..storage.job_records import (
    FAILURE,
    HOLD,
    MANIFEST,
    PART,
    PROGRESS,
    WRITER,
    Job,
    JobStudy,
    Progress,
    ReportedProgress,
    Result,
    duration,
    json_object,
    read_provenance,
)
from ..storage.journal import Entry

KNOWN = "known"  # the type of a record of what panels have published of a job's people


@dataclass(frozen=True)
class JobState:
    """The state of a job, for the operator."""

    id: str
    release: str
    period: str  # its label
    state: str  # waiting, running, failed, abandoned or done
    rounds_decided: int
    progress: Progress | None  # as its worker last reported it
    reason: str | None  # why it failed
    words: str  # the state with its reason or progress

    def as_dict(self) -> dict[str, object]:
        """The fields for JSON, with null for nan."""
        progress = None if self.progress is None else self.progress.as_dict()
        return {**vars(self), "progress": progress}


def job_states(deployment: Deployment, entries: Sequence[Entry]) -> list[JobState]:
    """The state of every job of a journal, in the journal's order."""
    begun = [job for entry in entries for job in entry.jobs]
    if not begun:
        return []
    with closing(deployment.log(readonly=True)) as log:
        board = JobBoard(log)
        board.refresh(rounds=True)
        for job in {entry.result_of for entry in entries} - {None}:
            board.settle(str(job))
    return [_state(deployment.study.periods.labels[job.period - 1], job, board) for job in begun]


def _state(label: str, job: Job, board: JobBoard) -> JobState:
    """The state of a job, with words for the operator. label: of its period."""
    text = state = board.state(job.id)
    reason = board.failure(job.id) if state == "failed" else None
    if state == "running":
        text += f", {_running_words(board, job.id)}"
    elif state == "failed":
        text += f": {reason}"
    if (killed := board.interruptions(job.id)) and state in {"running", "waiting"}:
        times = "once" if killed == 1 else f"{killed} times"
        text += f"; its worker was killed {times} and goes on from the transcript"
    reported = board.progress.get(job.id)
    return JobState(
        id=job.id,
        release=job.release,
        period=label,
        state=state,
        rounds_decided=board.rounds[job.id],
        progress=None if reported is None else reported.progress,
        reason=reason,
        words=text,
    )


def _running_words(board: JobBoard, job: str) -> str:
    """The last progress of a running job and the age of the report."""
    if board.has_result(job):
        return "its result is handed in"
    reported = board.progress.get(job)
    if reported is None:
        return f"{board.rounds[job]} rounds decided"
    age = time.time() - reported.time / 1000
    return f"{reported.progress.words}, reported {duration(age)} ago"


_HOLDS = {"begun": 1, "released": -1}


@dataclass
class JobBoard:
    """The state of every job after the last `refresh`.

    Records of another format than `job_records` are skipped.

    keep_parts: whether to keep the results, or only the number of their attempt.
    jobs: the sent jobs, in order.
    since: by job, the time of the record or of the last retry, in Unix seconds.
    studies: by job, the study of the record.
    results: by job, the complete results; empty without `keep_parts`.
    rounds: by job, the number of decided rounds.
    progress: by job, the worker's last report.
    settled: jobs with a result in the journal.
    """

    log: Log
    keep_parts: bool = False
    jobs: dict[str, Job] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)
    studies: dict[str, JobStudy] = field(default_factory=dict)
    results: dict[str, list[Result]] = field(default_factory=dict)
    rounds: Counter[str] = field(default_factory=Counter)
    progress: dict[str, ReportedProgress] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    _retries: Counter[str] = field(default_factory=Counter)
    _abandoned: set[str] = field(default_factory=set)
    _interruptions: Counter[tuple[str, int]] = field(default_factory=Counter)  # by job and attempt
    # Workers by themselves that began and did not let go, by job, attempt and decided rounds.
    _held: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    _with_result: set[tuple[str, int]] = field(default_factory=set)  # job and attempt
    _failures: dict[tuple[str, int], str] = field(default_factory=dict)  # by job and attempt
    # Names and bytes of the parts of incomplete results, by job and writer.
    _parts: dict[tuple[str, str], list[tuple[str, bytes]]] = field(default_factory=dict)
    _known: dict[str, dict[int, Json]] = field(default_factory=dict)  # by job and number
    _round_keys: set[bytes] = field(default_factory=set)
    _positions: dict[str, Positions] = field(default_factory=dict)  # by topic

    def refresh(self, *, rounds: bool = False) -> None:
        """Reads the new records. rounds: whether to read the transcripts, too."""
        for topic in (JOBS, RESULTS, *([TRANSCRIPTS] if rounds else [])):
            if topic not in self._positions:
                self._positions[topic] = dict(self.log.describe(topic).first)
        for record in following(self.log, JOBS, self._positions[JOBS]):
            self._read_job(record)
        for record in following(self.log, RESULTS, self._positions[RESULTS]):
            self._read_result(record)
        if rounds:
            for record in following(self.log, TRANSCRIPTS, self._positions[TRANSCRIPTS]):
                self._read_round(record)

    def _read_round(self, record: Stored) -> None:
        """Counts a round of a transcript once, or takes a worker's progress."""
        if record.key is None and any(name == PROGRESS for name, _ in record.headers or ()):
            with suppress(ValueError, KeyError, TypeError, OverflowError):
                progress = Progress.of(json_object(record.value))
                self.progress[progress.job] = ReportedProgress(progress, record.time)
        elif record.key is not None and record.key not in self._round_keys:
            self._round_keys.add(record.key)
            self.rounds[record.key.decode("utf-8", "replace").rpartition("/")[0]] += 1

    def _read_job(self, record: Stored) -> None:
        """Takes a job, or what happened to one: a retry, an interruption or its abandonment."""
        try:
            fields = json_object(record.value)
            kind, job = fields["type"], str(fields["id"])
            if kind == "job" and job not in self.jobs:
                sent, study = msgspec.convert(fields, Job), msgspec.convert(fields, JobStudy)
                self.jobs[job], self.studies[job] = sent, study
                self.since[job] = record.time / 1000
        except (ValueError, KeyError, msgspec.ValidationError):
            return
        if kind == "retry":
            self._retries[job] += 1
            self.since[job] = record.time / 1000
        elif kind == "interrupted":
            with suppress(KeyError, TypeError, ValueError, OverflowError):
                self._interruptions[job, int(fields["attempt"])] += 1
        elif kind == KNOWN:
            with suppress(KeyError, TypeError):
                self._known.setdefault(job, {}).setdefault(fields["number"], fields)
        elif kind == "abandon":
            self._abandoned.add(job)

    def _read_result(self, record: Stored) -> None:
        """Takes a part of a result, a manifest that completes it, a failure, or a worker's hold."""
        job = (record.key or b"").decode("utf-8", "replace")
        name = record.header(PART).decode("utf-8", "replace")
        source = job, record.header(WRITER).decode("utf-8", "replace")
        if name not in {MANIFEST, FAILURE, HOLD}:
            if self.keep_parts and job not in self.settled:
                self._parts.setdefault(source, []).append((name, record.value or b""))
            return
        try:
            manifest = json_object(record.value)
            attempt = int(manifest["attempt"])
        except (ValueError, KeyError, TypeError, OverflowError):
            return
        if name == HOLD:
            with suppress(KeyError, TypeError, ValueError, OverflowError):
                self._held[job, attempt, int(manifest["rounds"])] += _HOLDS[manifest["type"]]
            return
        if name == FAILURE:
            self._failures.setdefault((job, attempt), str(manifest.get("reason", "")))
            return
        self._with_result.add((job, attempt))
        parts = tuple(self._parts.pop(source, ()))
        listed = [{"name": n, "sha256": hashlib.sha256(data).hexdigest()} for n, data in parts]
        if self.keep_parts and job not in self.settled and listed == manifest.get("parts"):
            digest = hashlib.sha256(record.value or b"").hexdigest()
            result = Result(job, read_provenance(manifest), parts, digest)
            self.results.setdefault(job, []).append(result)

    def settle(self, job: str) -> None:
        """Marks a job as finished and drops the job's parts."""
        self.settled.add(job)
        self.results.pop(job, None)
        for source in [source for source in self._parts if source[0] == job]:
            del self._parts[source]

    def attempt(self, job: str) -> int:
        """The number of the present attempt, from 1."""
        return 1 + self._retries[job]

    def interruptions(self, job: str) -> int:
        """The number of a worker's kills in the present attempt."""
        return self._interruptions[job, self.attempt(job)]

    def held(self, job: str, rounds: int) -> int:
        """How many workers by themselves began the attempt at this round, and ended in silence."""
        return self._held[job, self.attempt(job), rounds]

    def known(self, job: str) -> list[Json]:
        """What panels have published of a job's people: records of `known_interactions`."""
        return list(self._known.get(job, {}).values())

    def abandoned(self, job: str) -> bool:
        return job in self._abandoned

    def failure(self, job: str) -> str | None:
        """The reason of the present attempt's failure, or None."""
        return self._failures.get((job, self.attempt(job)))

    def has_result(self, job: str) -> bool:
        """Whether the present attempt has a result for the releaser to publish or refuse."""
        return (job, self.attempt(job)) in self._with_result

    def handed_in(self, job: str) -> bool:
        """Whether some attempt has a result: the job's transcript is complete."""
        return any(name == job for name, _ in self._with_result)

    def open(self, job: str) -> bool:
        """Whether the job waits for a worker."""
        return not (
            job in self.settled or self.abandoned(job) or self.has_result(job) or self.failure(job)
        )

    def state(self, job: str) -> str:
        """done, abandoned, failed, running or waiting."""
        if job in self.settled:
            return "done"
        if self.abandoned(job):
            return "abandoned"
        if self.failure(job) is not None:
            return "failed"
        return "running" if self.rounds[job] or self.has_result(job) else "waiting"
