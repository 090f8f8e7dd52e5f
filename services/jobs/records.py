"""What the confidential topics of batch jobs hold, and what state a job is in.

`jobs`: a record for each job, by the releaser, once it is journalled; an operator's word to try
a failed one again, or to abandon it. `transcripts`: the rounds of each job (synthesizer/), and how
far its worker is, without a key: that decides nothing, and the last one holds. In `results`: what a
worker made, as parts and a manifest, or why it failed. Records of all three are appended, at least
once: their keys say what they are about, and the first complete one holds.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

import msgspec

from stream_dp.log.base import Log, Record, Stored
from stream_dp.log.message import canonical
from stream_dp.privacy.ledger import Charge
from stream_dp.study import Study

from ..topics import JOBS, RESULTS, TRANSCRIPTS
from .progress import Progress

_PART, _WRITER = "stream-dp-part", "stream-dp-writer"
_PROGRESS = "stream-dp-progress"
_MANIFEST, _FAILURE = "manifest", "failure"
_MOST_REASON = 300


@dataclass(frozen=True)
class SnapshotFile:
    """A part of a snapshot: its name in the snapshots' folder and its SHA-256."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Job:
    """One data set to be made. rho: an exact fraction; groups, people: its snapshot."""

    id: str
    release: str
    period: int
    rho: str
    groups: SnapshotFile
    people: SnapshotFile

    @classmethod
    def of(cls, held: dict[str, Any], period: int) -> Job:
        """From what a journal entry or a record of a job holds."""
        return cls(
            held["id"],
            held["release"],
            period,
            held["rho"],
            SnapshotFile(**held["groups"]),
            SnapshotFile(**held["people"]),
        )

    @property
    def charge(self) -> Charge:
        return Charge(self.release, self.period, Fraction(self.rho))

    def as_dict(self) -> dict[str, Any]:
        """What the journal entry of its period holds of it."""
        return {k: v for k, v in asdict(self).items() if k != "period"}


def job_id(genesis: str, release: str, label: str) -> str:
    """The same for the same release, period and journal, and no other."""
    digest = hashlib.sha256(f"{genesis}/{release}/{label}".encode()).hexdigest()
    return f"{release}-{label}-{digest[:12]}"


def job_record(job: Job, study: Study, simulated: bool) -> Record:
    held = {
        "type": "job",
        "period": job.period,
        "study_hash": study.hash,
        "terms_hash": study.terms_hash,
        "simulated": simulated,
        **job.as_dict(),
    }
    return Record(JOBS, canonical(held), job.id.encode(), (), 0)


def operator_word(kind: str, job: str) -> Record:
    """The operator's word on a job: retry or abandon."""
    return Record(JOBS, canonical({"type": kind, "id": job}), job.encode(), (), 0)


@dataclass(frozen=True)
class Result:
    """What a worker made of a job. head: public facts about the fit; parts: as in dataset.py."""

    job: str
    head: dict[str, Any]
    parts: tuple[tuple[str, bytes], ...]
    hash: str


def result_records(
    job: str, attempt: int, writer: str, head: dict[str, Any], parts: Sequence[tuple[str, bytes]]
) -> list[Record]:
    """A result: its parts, then the manifest that makes it complete. writer: no other's."""
    listed = [{"name": n, "sha256": hashlib.sha256(data).hexdigest()} for n, data in parts]
    manifest = canonical({**head, "attempt": attempt, "parts": listed})
    return [
        Record(
            RESULTS,
            data,
            job.encode(),
            ((_PART, name.encode()), (_WRITER, writer.encode())),
            0,
        )
        for name, data in [*parts, (_MANIFEST, manifest)]
    ]


def failure_record(job: str, attempt: int, reason: str) -> Record:
    held = canonical({"attempt": attempt, "reason": reason[:_MOST_REASON]})
    return Record(RESULTS, held, job.encode(), ((_PART, _FAILURE.encode()),), 0)


def progress_record(told: Progress) -> Record:
    return Record(TRANSCRIPTS, canonical(told.as_dict()), None, ((_PROGRESS, b""),), 0)


def _object(data: bytes | None) -> dict[str, Any]:
    """A JSON object. Raises ValueError for anything else."""
    try:
        held = json.loads(data or b"")
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(held, dict):
        raise ValueError("not an object")
    return held


def following(log: Log, topic: str, position: dict[int, int]) -> Iterator[Stored]:
    """Everything from a position on that is there now; the position moves along."""
    while True:
        batch = log.read(topic, position, 500, 0)
        yield from batch.records
        position.update(batch.next)
        if batch.at_end:
            return


@dataclass
class JobBoard:
    """The state of every job, from the topics as far as they have been read.

    keep_parts: whether to keep the results themselves, or only that there are some.
    jobs: those that were sent, in order.
    facts: by job, all that its record holds.
    results: by job, its complete results; empty without `keep_parts`.
    rounds: by job, how many rounds are decided.
    progress: by job, the last progress of its worker, and its append time in milliseconds.
    settled: jobs whose result is in the journal.
    """

    log: Log
    keep_parts: bool = False
    jobs: dict[str, Job] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: dict[str, list[Result]] = field(default_factory=dict)
    rounds: Counter[str] = field(default_factory=Counter)
    progress: dict[str, tuple[Progress, int]] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    _retries: Counter[str] = field(default_factory=Counter)
    _abandoned: set[str] = field(default_factory=set)
    _with_result: set[tuple[str, int]] = field(default_factory=set)
    _failures: dict[tuple[str, int], str] = field(default_factory=dict)
    _parts: dict[tuple[str, str], list[tuple[str, bytes]]] = field(default_factory=dict)
    _round_keys: set[bytes] = field(default_factory=set)
    _at: dict[str, dict[int, int]] = field(default_factory=dict)

    def refresh(self, *, rounds: bool = False) -> None:
        """Read on. rounds: the transcripts too."""
        for topic in (JOBS, RESULTS, *([TRANSCRIPTS] if rounds else [])):
            if topic not in self._at:
                self._at[topic] = dict(self.log.describe(topic).first)
        for record in following(self.log, JOBS, self._at[JOBS]):
            self._job(record)
        for record in following(self.log, RESULTS, self._at[RESULTS]):
            self._result(record)
        if rounds:
            for record in following(self.log, TRANSCRIPTS, self._at[TRANSCRIPTS]):
                self._round(record)

    def _round(self, record: Stored) -> None:
        if record.key is None and any(name == _PROGRESS for name, _ in record.headers or ()):
            # A record that nobody of ours wrote says nothing.
            with suppress(ValueError, KeyError, TypeError, OverflowError):
                told = Progress.of(_object(record.value))
                self.progress[told.job] = told, record.time
        elif record.key is not None and record.key not in self._round_keys:
            self._round_keys.add(record.key)
            self.rounds[record.key.decode("utf-8", "replace").rpartition("/")[0]] += 1

    def _job(self, record: Stored) -> None:
        try:
            held = _object(record.value)
            kind, job = held["type"], str(held["id"])
            if kind == "job" and job not in self.jobs:
                self.jobs[job] = msgspec.convert(held, Job)
                self.facts[job] = held
        except (ValueError, KeyError, msgspec.ValidationError):
            return  # a record that nobody of ours wrote decides nothing
        if kind == "retry":
            self._retries[job] += 1
        elif kind == "abandon":
            self._abandoned.add(job)

    def _result(self, record: Stored) -> None:
        job = (record.key or b"").decode("utf-8", "replace")
        name = record.header(_PART).decode("utf-8", "replace")
        place = job, record.header(_WRITER).decode("utf-8", "replace")
        if name not in {_MANIFEST, _FAILURE}:
            if self.keep_parts and job not in self.settled:
                self._parts.setdefault(place, []).append((name, record.value or b""))
            return
        try:
            held = _object(record.value)
            attempt = int(held["attempt"])
        except (ValueError, KeyError, TypeError, OverflowError):
            return  # a record that nobody of ours wrote decides nothing
        if name == _FAILURE:
            self._failures.setdefault((job, attempt), str(held.get("reason", "")))
            return
        self._with_result.add((job, attempt))
        parts = tuple(self._parts.pop(place, ()))
        found = [{"name": n, "sha256": hashlib.sha256(data).hexdigest()} for n, data in parts]
        if self.keep_parts and job not in self.settled and found == held.get("parts"):
            digest = hashlib.sha256(record.value or b"").hexdigest()
            self.results.setdefault(job, []).append(Result(job, held, parts, digest))

    def settle(self, job: str) -> None:
        """Marks a job as finished and drops its parts."""
        self.settled.add(job)
        self.results.pop(job, None)
        for place in [p for p in self._parts if p[0] == job]:
            del self._parts[place]

    def attempt(self, job: str) -> int:
        return 1 + self._retries[job]

    def abandoned(self, job: str) -> bool:
        return job in self._abandoned

    def failure(self, job: str) -> str | None:
        """Why the present attempt failed; None where it has not."""
        return self._failures.get((job, self.attempt(job)))

    def has_result(self, job: str) -> bool:
        """Whether the present attempt has a result, which the releaser takes or refuses."""
        return (job, self.attempt(job)) in self._with_result

    def open(self, job: str) -> bool:
        """Whether there is something for a worker to do."""
        return not (
            job in self.settled or self.abandoned(job) or self.has_result(job) or self.failure(job)
        )

    def state(self, job: str) -> str:
        if job in self.settled:
            return "done"
        if self.abandoned(job):
            return "abandoned"
        if self.failure(job) is not None:
            return "failed"
        return "running" if self.rounds[job] or self.has_result(job) else "waiting"
