"""The records of batch jobs in the confidential topics.

`jobs`: a record for each job, by the releaser, once it is journalled; an operator's word to try
a failed one again, or to abandon it. `transcripts`: the rounds of each job (synthesizer/), and how
far its worker is, without a key: that decides nothing, and the last one holds. In `results`: what a
worker made, as parts and a manifest, or why it failed. Records of all three are appended, at least
once: their keys say what they are about, and the first complete one holds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from stream_dp.log.base import Log, Record, Stored
from stream_dp.log.message import canonical
from stream_dp.privacy.ledger import Charge
from stream_dp.study import Study

from ..topics import JOBS, RESULTS, TRANSCRIPTS
from .progress import Progress

PART, WRITER = "stream-dp-part", "stream-dp-writer"
PROGRESS = "stream-dp-progress"
MANIFEST, FAILURE = "manifest", "failure"
_MOST_REASON = 300


@dataclass(frozen=True)
class SnapshotFile:
    """A part of a snapshot: its name in the snapshots' folder and its SHA-256."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Job:
    """A data set that a worker makes. rho: an exact fraction; groups, people: its snapshot."""

    id: str
    release: str
    period: int
    rho: str
    groups: SnapshotFile
    people: SnapshotFile

    @classmethod
    def of(cls, fields: dict[str, Any], period: int) -> Job:
        """From what a journal entry or a record of a job holds."""
        return cls(
            fields["id"],
            fields["release"],
            period,
            fields["rho"],
            SnapshotFile(**fields["groups"]),
            SnapshotFile(**fields["people"]),
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
    fields = {
        "type": "job",
        "period": job.period,
        "study_hash": study.hash,
        "terms_hash": study.terms_hash,
        "simulated": simulated,
        **job.as_dict(),
    }
    return Record(JOBS, canonical(fields), job.id.encode(), (), 0)


def operator_word(kind: str, job: str) -> Record:
    """The operator's word on a job: retry or abandon."""
    return Record(JOBS, canonical({"type": kind, "id": job}), job.encode(), (), 0)


@dataclass(frozen=True)
class Result:
    """A data set that a worker handed in.

    head: public facts about the fit.
    parts: names and bytes, as in `stream_dp.release.data_sets`.
    hash: of the manifest.
    """

    job: str
    head: dict[str, Any]
    parts: tuple[tuple[str, bytes], ...]
    hash: str


def result_records(
    job: str, attempt: int, writer: str, head: dict[str, Any], parts: Sequence[tuple[str, bytes]]
) -> list[Record]:
    """A result: its parts, then the manifest that makes it complete.

    job, attempt: what it is a result of.
    writer: a word that no other writer of parts has.
    head: public facts about the fit.
    parts: names and bytes.
    """
    listed = [{"name": n, "sha256": hashlib.sha256(data).hexdigest()} for n, data in parts]
    manifest = canonical({**head, "attempt": attempt, "parts": listed})
    return [
        Record(
            RESULTS,
            data,
            job.encode(),
            ((PART, name.encode()), (WRITER, writer.encode())),
            0,
        )
        for name, data in [*parts, (MANIFEST, manifest)]
    ]


def failure_record(job: str, attempt: int, reason: str) -> Record:
    value = canonical({"attempt": attempt, "reason": reason[:_MOST_REASON]})
    return Record(RESULTS, value, job.encode(), ((PART, FAILURE.encode()),), 0)


def progress_record(progress: Progress) -> Record:
    return Record(TRANSCRIPTS, canonical(progress.as_dict()), None, ((PROGRESS, b""),), 0)


def json_object(data: bytes | None) -> dict[str, Any]:
    """A JSON object. Raises ValueError for anything else."""
    try:
        value = json.loads(data or b"")
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def following(log: Log, topic: str, position: dict[int, int]) -> Iterator[Stored]:
    """The records from a position to the end of the topic; moves the position along."""
    while True:
        batch = log.read(topic, position, 500, 0)
        yield from batch.records
        position.update(batch.next)
        if batch.at_end:
            return
