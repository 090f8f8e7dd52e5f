"""The state of every batch job, from the records in the confidential topics."""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stream_dp.log.base import Log, Stored

from ..topics import JOBS, RESULTS, TRANSCRIPTS
from .progress import Progress
from .records import FAILURE, MANIFEST, PART, PROGRESS, WRITER, Job, Result, following, json_object


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
        """Reads on. rounds: whether to read the transcripts too."""
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
        if record.key is None and any(name == PROGRESS for name, _ in record.headers or ()):
            # A record that nobody of ours wrote says nothing.
            with suppress(ValueError, KeyError, TypeError, OverflowError):
                progress = Progress.of(json_object(record.value))
                self.progress[progress.job] = progress, record.time
        elif record.key is not None and record.key not in self._round_keys:
            self._round_keys.add(record.key)
            self.rounds[record.key.decode("utf-8", "replace").rpartition("/")[0]] += 1

    def _job(self, record: Stored) -> None:
        try:
            fields = json_object(record.value)
            kind, job = fields["type"], str(fields["id"])
            if kind == "job" and job not in self.jobs:
                self.jobs[job] = msgspec.convert(fields, Job)
                self.facts[job] = fields
        except (ValueError, KeyError, msgspec.ValidationError):
            return  # a record that nobody of ours wrote decides nothing
        if kind == "retry":
            self._retries[job] += 1
        elif kind == "abandon":
            self._abandoned.add(job)

    def _result(self, record: Stored) -> None:
        job = (record.key or b"").decode("utf-8", "replace")
        name = record.header(PART).decode("utf-8", "replace")
        place = job, record.header(WRITER).decode("utf-8", "replace")
        if name not in {MANIFEST, FAILURE}:
            if self.keep_parts and job not in self.settled:
                self._parts.setdefault(place, []).append((name, record.value or b""))
            return
        try:
            fields = json_object(record.value)
            attempt = int(fields["attempt"])
        except (ValueError, KeyError, TypeError, OverflowError):
            return  # a record that nobody of ours wrote decides nothing
        if name == FAILURE:
            self._failures.setdefault((job, attempt), str(fields.get("reason", "")))
            return
        self._with_result.add((job, attempt))
        parts = tuple(self._parts.pop(place, ()))
        listed = [{"name": n, "sha256": hashlib.sha256(data).hexdigest()} for n, data in parts]
        if self.keep_parts and job not in self.settled and listed == fields.get("parts"):
            digest = hashlib.sha256(record.value or b"").hexdigest()
            self.results.setdefault(job, []).append(Result(job, fields, parts, digest))

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
