"""The records of batch jobs in the confidential topics.

`jobs`: a record for each job, appended by the releaser once the job is in the journal, a record for
each kill of a worker beside the releaser, and the operator's requests to retry or abandon a job.
`transcripts`: the rounds of each job, written by the worker, and progress records, which have no
key and decide nothing. `results`: the parts and the manifest of a data set, or the reason of a
failure; and a record for each time that a worker by itself begins a job or lets go of it.

All records may be appended more than once. For each key the first complete record counts; the last
progress record counts.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from stream_dp.json_object import Json
from stream_dp.log.log import Record
from stream_dp.log.message import canonical
from stream_dp.privacy.ledger import Charge
from stream_dp.study import Study
from stream_dp.study.topics import JOBS, RESULTS, TRANSCRIPTS

if TYPE_CHECKING:
    from stream_dp.release.published_tables import Provenance

_NULLABLE = ("error", "left")  # nan here is null in JSON


@dataclass(frozen=True)
class Progress:
    """A worker's progress with a job."""

    job: str
    done: int  # rounds
    rounds: int  # of which there will be so many
    error: float  # of the model on the noisy answers, in standard errors squared; nan: unknown
    left: float  # seconds; nan: unknown

    def as_dict(self) -> Json:
        """The fields for JSON, with null for nan."""
        fields = asdict(self)
        for name in _NULLABLE:
            fields[name] = float(fields[name]) if math.isfinite(fields[name]) else None
        return fields

    @classmethod
    def of(cls, fields: Json) -> Progress:
        """Reads the fields of `as_dict`. Raises KeyError, TypeError, ValueError for others."""
        numbers = (math.nan if fields[name] is None else float(fields[name]) for name in _NULLABLE)
        return cls(str(fields["job"]), int(fields["done"]), int(fields["rounds"]), *numbers)

    @property
    def words(self) -> str:
        """The round, the error and the time left, on one line."""
        text = f"round {self.done} of {self.rounds}"
        if math.isfinite(self.error):
            text += f", error {self.error:.3g}"
        if math.isfinite(self.left):
            text += f", {duration(self.left)} left"
        return text


@dataclass(frozen=True)
class ReportedProgress:
    """The last reported progress of a job."""

    progress: Progress
    time: int  # milliseconds, when the record was appended


def duration(seconds: float) -> str:
    """A time span, for instance 40s, 7m 30s or 2h 05m."""
    minutes, rest = divmod(max(0, math.ceil(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"


PART, WRITER = "stream-dp-part", "stream-dp-writer"
PROGRESS = "stream-dp-progress"
MANIFEST, FAILURE, HOLD = "manifest", "failure", "hold"
_MOST_REASON = 300  # characters of the reason of a failure


@dataclass(frozen=True)
class SnapshotFile:
    """A part of a snapshot: its name in the snapshots' folder and its SHA-256."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Job:
    """A data set to fit."""

    id: str
    release: str
    period: int
    rho: str  # an exact fraction
    groups: SnapshotFile | None  # the table of groups at the close; none of people alone
    people: SnapshotFile | None  # the table of people, or of groups' members, at the close
    sizes: SnapshotFile | None = None  # of a release of sizes: how many places have each size

    @property
    def files(self) -> dict[str, SnapshotFile]:
        """The tables at the close, by name."""
        files = {"groups": self.groups, "people": self.people, "sizes": self.sizes}
        return {name: file for name, file in files.items() if file is not None}

    @property
    def charge(self) -> Charge:
        return Charge(self.release, self.period, Fraction(self.rho))


@dataclass(frozen=True)
class JobStudy:
    """The study of a job's record."""

    study_hash: str  # of everything that the study declares
    simulated: bool  # whether its noise is seeded
    terms_hash: str  # of what it declares but its description and curator

    @classmethod
    def of(cls, study: Study, simulated: bool) -> JobStudy:
        return cls(study.hash, simulated, study.terms_hash)

    def admits(self, study: Study) -> bool:
        """Whether a worker with this study may fit the job, whoever the curator is."""
        return self.terms_hash == study.terms_hash


def job_id(genesis: str, release: str, label: str) -> str:
    """The id of the job of a release and a period, unique to the journal with this genesis."""
    digest = hashlib.sha256(f"{genesis}/{release}/{label}".encode()).hexdigest()
    return f"{release}-{label}-{digest[:12]}"


def job_record(job: Job, study: Study, simulated: bool) -> Record:
    """Builds the record that announces a job to workers."""
    fields = {"type": "job", **asdict(job), **asdict(JobStudy.of(study, simulated))}
    return Record(JOBS, canonical(fields), job.id.encode(), partition=0)


def operator_word(kind: str, job: str) -> Record:
    """An operator's request about a job. kind: retry or abandon."""
    return Record(JOBS, canonical({"type": kind, "id": job}), job.encode(), partition=0)


def interruption_record(job: str, attempt: int, reason: str) -> Record:
    """The record of a worker's kill: the job is resumed from its transcript."""
    fields = {"type": "interrupted", "id": job, "attempt": attempt, "reason": reason[:_MOST_REASON]}
    return Record(JOBS, canonical(fields), job.encode(), partition=0)


def hold_record(kind: str, job: str, attempt: int, rounds: int) -> Record:
    """Builds the record in `results` that a worker begins a job, or releases it unfinished.

    kind: begun or released.
    attempt: the number of the job's attempt.
    rounds: the rounds of measurements in the job's transcript when the worker began.
    """
    value = canonical({"type": kind, "attempt": attempt, "rounds": rounds})
    return Record(RESULTS, value, job.encode(), ((PART, HOLD.encode()),), partition=0)


@dataclass(frozen=True)
class Result:
    """A fitted data set, appended by a worker."""

    job: str
    provenance: Provenance | None  # None where the manifest does not state it
    parts: tuple[tuple[str, bytes], ...]  # names and bytes: release/published_tables.py
    hash: str  # of the manifest


def result_records(
    *,
    job: str,
    attempt: int,
    writer: str,
    provenance: Provenance,
    parts: Sequence[tuple[str, bytes]],
) -> list[Record]:
    """The records of a result: the parts, then the manifest.

    job, attempt: the job's id and the number of the attempt.
    writer: unique to this writer of parts.
    provenance: public facts about the fit.
    parts: names and bytes.
    """
    listed = [{"name": n, "sha256": hashlib.sha256(data).hexdigest()} for n, data in parts]
    manifest = canonical({**vars(provenance), "attempt": attempt, "parts": listed})
    return [
        Record(
            RESULTS,
            data,
            job.encode(),
            ((PART, name.encode()), (WRITER, writer.encode())),
            partition=0,
        )
        for name, data in [*parts, (MANIFEST, manifest)]
    ]


def read_provenance(manifest: Json) -> Provenance | None:
    """The public facts about the fit in a manifest; None for a faulty manifest."""
    from stream_dp.release.published_tables import Provenance  # panels do without it

    try:
        return Provenance(
            mechanism=str(manifest["mechanism"]),
            notes=dict(manifest["notes"]),
            simulated=bool(manifest["simulated"]),
            fused_with=tuple(int(number) for number in manifest["fused_with"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None


def failure_record(job: str, attempt: int, reason: str) -> Record:
    value = canonical({"attempt": attempt, "reason": reason[:_MOST_REASON]})
    return Record(RESULTS, value, job.encode(), ((PART, FAILURE.encode()),), partition=0)


def progress_record(progress: Progress) -> Record:
    value = canonical(progress.as_dict())
    return Record(TRANSCRIPTS, value, headers=((PROGRESS, b""),), partition=0)


def json_object(data: bytes | None) -> Json:
    """A JSON object. Raises ValueError for anything else."""
    try:
        value = json.loads(data or b"")
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value
