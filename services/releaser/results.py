"""A finished batch job as a release: checked, certified, one journal entry. No input or output."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from stream_dp.errors import UserError
from stream_dp.log.message import MAX_PART, build_message, message_records
from stream_dp.release.data_sets import (
    BATCH_TYPE,
    Provenance,
    batch_certificate,
    column_values,
    has_declared_roles,
    read_tables,
)
from stream_dp.release.panels import TOPIC
from stream_dp.study import Study

from .. import journal
from ..jobs.records import Job, Result
from ..journal import Entry
from .decision import ChainEnd

_ROOM = 65_536  # of a journal record, beside the public record that it holds


def result_entry(
    study: Study, job: Job, result: Result, end: ChainEnd, simulated: bool
) -> ChainEnd:
    """The entry that takes a result, as the new end.

    Raises UserError for what is not a result of this job: it decides nothing, and is the same
    every time that it is looked at.
    """
    declared = study.batch(job.release)
    assert declared is not None
    tables, measured = read_tables(column_values(study, declared), result.parts)
    if not has_declared_roles(study, tables):
        raise UserError("a result has groups whose roles are not as the study declares")
    if any(len(data) > MAX_PART - _ROOM // 2 for _, data in result.parts):
        raise UserError("a part of a result is too large for a record")
    try:
        provenance = Provenance(
            mechanism=str(result.head["mechanism"]),
            notes=dict(result.head["notes"]),
            simulated=bool(result.head["simulated"]),
        )
    except (KeyError, TypeError, ValueError):
        raise UserError("a result does not say how it was made") from None
    if provenance.simulated != simulated:
        raise UserError("a result with seeded noise in a study without, or the other way round")
    ledger = end.certified.charge(job.charge)
    try:
        words = batch_certificate(
            study,
            declared,
            job.period,
            tables,
            measured.num_rows,
            provenance,
            rho=Fraction(job.rho),
            spent=ledger.spent,
        )
        sent = build_message(end.index + 1, end.hash, words.model_dump(mode="json"), result.parts)
    except (ValueError, TypeError, RecursionError):
        raise UserError("a result says how it was made in what is no JSON") from None
    public = [
        replace(r, key=(r.key or b"") + f"/{declared.name}".encode())
        for r in message_records(
            sent,
            TOPIC,
            kind=BATCH_TYPE,
            source=f"stream-dp/{study.name}",
            content="application/vnd.apache.arrow.stream",
            time=study.periods.release_time(job.period),
        )
    ]
    entry = journal.result(end.entry.message, job, result.hash, public, [sent.hash])
    return ChainEnd(Entry(entry), sent.index, sent.hash, ledger)
