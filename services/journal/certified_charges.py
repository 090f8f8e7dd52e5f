"""The charges that certificates state after the publication of a journal entry."""

from __future__ import annotations

from stream_dp.privacy.ledger import Charge, Ledger
from stream_dp.study import Study
from stream_dp.study.period_gate import gate_charges

from .journal import Entry
from .journal_heads import CloseHead, GateHead, ResultHead


def certified(ledger: Ledger, entry: Entry, study: Study) -> Ledger:
    """The ledger of certificates after the entry's publication.

    A certificate counts the gates of all periods up to its own.
    """
    certifies = isinstance(entry.head, CloseHead | ResultHead) and bool(entry.published)
    drawn = gate_charges(study, ledger, entry.number) if certifies else ()
    return ledger.charge(*drawn, *certified_charges(entry, study))


def certified_charges(entry: Entry, study: Study) -> tuple[Charge, ...]:
    """The charges of releases that certificates count after the entry's publication.

    The charge of a data set is in the close that begins its job, but counts only with the job's
    result: an abandoned job publishes nothing.
    """
    if isinstance(entry.head, GateHead):
        return ()
    if not isinstance(entry.head, ResultHead):
        return tuple(c for c in entry.charges if study.batch(c.release) is None)
    batch = study.batch(entry.head.release)
    assert batch is not None
    return (Charge(batch.name, entry.number, study.schedule(batch)[entry.number].rho),)
