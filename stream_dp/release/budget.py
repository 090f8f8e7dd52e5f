"""The sum of what the certificates of a public log state as spent."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from stream_dp.privacy.ledger import BudgetExceeded, Charge, Ledger
from stream_dp.study import Study

from .public_reader import AnyPublished, refusal


def checked_spending(study: Study, published: Iterable[AnyPublished]) -> Fraction:
    """The rho that all releases spent together.

    Raises Inconsistent where one is of another study, over the budget, or states another sum.
    """
    ledger = Ledger(study.rho, study.strata)
    for release in published:
        certificate = release.certificate
        where = f"{certificate.release} at {certificate.period}"
        try:
            ledger = ledger.charge(Charge(certificate.release, certificate.number, certificate.rho))
        except (BudgetExceeded, ValueError):
            raise refusal(release.message, f"{where}: over the budget") from None
        if certificate.study_hash != study.hash:
            raise refusal(release.message, f"{where}: of another study")
        if ledger.spent != certificate.rho_spent:
            raise refusal(release.message, f"{where}: its budget does not add up")
    return ledger.spent
