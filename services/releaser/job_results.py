"""Decides the release of a finished batch job, as one journal entry. Does no input or output."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from stream_dp.errors import UserError
from stream_dp.log.message import MAX_PART, build_message, message_records
from stream_dp.log.signing import SigningKey
from stream_dp.study import Study
from stream_dp.study.topics import RELEASES

from ..jobs.job_families import JOB_FAMILIES
from ..jobs.job_records import Job, Result
from ..journal import journal
from ..journal.journal import Entry
from .decision import ChainEnd

_ROOM = 65_536  # bytes of a journal record, beside those of the public record in it


def result_entry(
    study: Study,
    job: Job,
    result: Result,
    end: ChainEnd,
    *,
    simulated: bool,
    signer: SigningKey | None = None,
) -> ChainEnd:
    """The end of the chain after the entry that publishes a result.

    Raises UserError where the data are not a result of this job. Nothing is decided then, and the
    same data are refused each time.
    """
    declared = study.batch(job.release)
    assert declared is not None
    if any(len(data) > MAX_PART - _ROOM // 2 for _, data in result.parts):
        raise UserError("a part of a result is too large for a record")
    provenance = result.provenance
    if provenance is None:
        raise UserError("a result does not say how it was fitted")
    if provenance.simulated != simulated:
        raise UserError("a result with seeded noise in a study without, or the other way round")
    ledger = end.certified.charge(job.charge)
    try:
        certificate = JOB_FAMILIES[declared.family].certificate(
            study,
            declared,
            result.parts,
            provenance,
            number=job.period,
            rho=Fraction(job.rho),
            spent=ledger.spent,
        )
        message = build_message(
            end.index + 1, end.hash, certificate.model_dump(mode="json"), result.parts
        )
    except (ValueError, TypeError, RecursionError):
        raise UserError("a result says in what is no JSON how it was fitted") from None
    public = [
        replace(r, key=(r.key or b"") + f"/{declared.name}".encode())
        for r in message_records(
            message,
            RELEASES,
            kind=certificate.type,
            source=f"stream-dp/{study.name}",
            content="application/vnd.apache.arrow.stream",
            time=study.periods.release_time(job.period),
            signer=signer,
        )
    ]
    entry = journal.result(
        end.entry.message, job, digest=result.hash, public=public, hashes=[message.hash]
    )
    return ChainEnd(Entry(entry), message.index, message.hash, ledger)
