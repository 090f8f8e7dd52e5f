"""The charges that certificates state after the publication of a journal entry."""

from __future__ import annotations

from collections.abc import Iterable

from stream_dp.errors import UserError
from stream_dp.privacy.ledger import Charge
from stream_dp.release.certified_ledger import CertifiedLedger
from stream_dp.study import Study

from .journal import Entry
from .journal_heads import CloseHead, GateHead, ResultHead


def certified(ledger: CertifiedLedger, entry: Entry) -> CertifiedLedger:
    """The ledger of certificates after the entry's publication.

    A certificate counts the gates of all periods up to its own.
    """
    study, head = ledger.study, entry.head
    certifies = isinstance(head, CloseHead | ResultHead) and bool(entry.published)
    return ledger.with_charges(
        *certified_charges(entry, study),
        ancestors=data_set_charges(study, head.release, head.fused_with)
        if isinstance(head, ResultHead)
        else (),
        gates=entry.number if certifies else 0,
    )


def certified_charges(entry: Entry, study: Study) -> tuple[Charge, ...]:
    """The charges of releases that certificates count after the entry's publication.

    The charge of a data set is in the close that begins its job, but counts only with the job's
    result, or with a result that descends from it.
    """
    if isinstance(entry.head, GateHead):
        return ()
    if not isinstance(entry.head, ResultHead):
        return tuple(c for c in entry.charges if study.batch(c.release) is None)
    return data_set_charges(study, entry.head.release, [entry.number])


def data_set_charges(study: Study, release: str, periods: Iterable[int]) -> tuple[Charge, ...]:
    """The charges of the data sets of a release at these periods.

    Raises UserError for a period without one.
    """
    batch = study.batch(release)
    assert batch is not None
    schedule = study.schedule(batch)
    try:
        return tuple(Charge(release, number, schedule[number].rho) for number in sorted({*periods}))
    except KeyError:
        raise UserError("a result is fused with a table that is not declared") from None
