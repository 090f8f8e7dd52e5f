"""Checks the statements of certificates against the plan of their study.

The texts of a certificate are its guarantee in words. They are those of the plan in message 0,
which is computed again from the study, so that an untrusted writer of a log can state no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from stream_dp.privacy.ledger import BudgetExceeded, Charge, Ledger
from stream_dp.privacy.zcdp import epsilon
from stream_dp.study import Study
from stream_dp.study.period_gate import gate_charges

from .certificate import SEEDED_NOISE, GateStatement
from .public_reader import AnyPublished
from .study_plan import StudyPlan


def checked_certificates(
    study: Study, plan: StudyPlan, published: Sequence[AnyPublished]
) -> Fraction:
    """The rho of all releases together.

    plan: of the study, checked.

    Raises Inconsistent where a certificate states another sum, or what is not in the plan.
    """
    spent = checked_spending(study, published)
    simulated: bool | None = None
    for release in published:
        certificate = release.certificate
        seeded = certificate.noise == SEEDED_NOISE
        if simulated not in {None, seeded}:
            raise release.refusal("seeded noise and other noise do not mix")
        simulated = seeded
        planned = plan[certificate.release]
        if certificate.rho != planned.charges.get(certificate.period, 0):
            raise release.refusal("its certificate's rho is not the charge of the plan")
        stated = certificate.model_dump(mode="json")
        expected = {
            **planned.states,
            **({"noise": SEEDED_NOISE} if seeded else {}),
            "epsilon_spent": str(epsilon(certificate.rho_spent, study.delta)),
        }
        faults = [name for name, value in expected.items() if stated.get(name) != value]
        if certificate.mechanism not in planned.mechanisms:
            faults.append("mechanism")
        if faults:
            raise release.refusal(
                f"its certificate's {min(faults)} is not what follows from the study"
            )
    return spent


def checked_spending(study: Study, published: Iterable[AnyPublished]) -> Fraction:
    """The rho of all releases together, as the certificates state it.

    Raises Inconsistent for a release of another study, over the budget, or with another sum.
    """
    ledger, gates = Ledger(study.rho, study.strata), dict[int, GateStatement | None]()
    for release in published:
        certificate = release.certificate
        if gates.setdefault(certificate.number, certificate.gate) != certificate.gate:
            raise release.refusal("its gate is not that of another certificate of its period")
        charge = Charge(certificate.release, certificate.number, certificate.rho)
        try:
            ledger = ledger.charge(*gate_charges(study, ledger, certificate.number), charge)
        except (BudgetExceeded, ValueError):
            raise release.refusal("over the budget") from None
        if certificate.study_hash != study.hash:
            raise release.refusal("of another study")
        if ledger.spent != certificate.rho_spent:
            raise release.refusal("its budget does not add up")
    return ledger.spent
