"""The checks of a public log against its study, after its hashes were checked on reading.

The statements of certificates are compared with the plan of their study. The texts of a certificate
are its guarantee in words. They are those of the plan in message 0, which is computed again from
the study, so that an untrusted writer of a log can state no others.

A log agrees with its plan if, for every certificate,

- `study_hash` is the hash of the declaration in message 0;
- `rho` is the plan's charge of the release and period, as a fraction;
- `fused_with` has exactly the periods before its own in the charges of a fused release, and is
  absent otherwise. Each rho in it is 0 or the plan's charge. A table that it names brings all
  tables with it that this table itself is fused with;
- `rho_spent` is the cost of all releases so far and of every rho in the lists `fused_with`, each
  table once, published or not, and of the gate up to the largest `number`. Charges without a
  stratum add up. Those of strata add up for each value, and of an attribute the largest sum counts.
  The cost is at most the study's `rho`;
- `epsilon_spent`, `least_epsilon_spent` and `least_epsilon_total` follow from the spent and the
  total rho, rounded up to 6 decimals;
- all certificates of a panel have the same `rows`. Their `columns` together are the periods from
  the release's first on, each once and in order, and the last of each is its `period`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from stream_dp.log.message import Message, canonical
from stream_dp.privacy.gaussian_epsilon import gaussian_epsilon
from stream_dp.privacy.ledger import BudgetExceeded, Charge
from stream_dp.privacy.zcdp import epsilon
from stream_dp.study import Study

from .certificate import SEEDED_NOISE, Certificate, CertifiedLedger, GateStatement, refusal
from .public_reader import AnyPublished
from .signatures import Signatures
from .study_plan import LEAST_VARIANCE, ReleasePlan, StudyPlan, checked_plan


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
        if (fault := _planned_fault(study, certificate, planned)) is not None:
            raise release.refusal(fault)
        stated = certificate.model_dump(mode="json")
        expected = {
            **planned.states,
            **({"noise": SEEDED_NOISE} if seeded else {}),
            "epsilon_spent": str(epsilon(certificate.rho_spent, study.delta)),
            **_proved(study, certificate.rho_spent, planned),
        }
        faults = [name for name, value in expected.items() if stated.get(name) != value]
        if certificate.mechanism not in planned.mechanisms:
            faults.append("mechanism")
        if faults:
            raise release.refusal(
                f"its certificate's {min(faults)} is not what follows from the study"
            )
    return spent


def _proved(study: Study, spent: Fraction, planned: ReleasePlan) -> dict[str, str | None]:
    """The epsilons that follow from the least variance of the plan."""
    names, least = (
        ("least_epsilon_spent", "least_epsilon_total"),
        planned.states.get(LEAST_VARIANCE),
    )
    if least is None:
        return dict.fromkeys((*names, LEAST_VARIANCE))
    stated = (gaussian_epsilon(rho, study.delta, Fraction(least)) for rho in (spent, study.rho))
    return dict(zip(names, map(str, stated), strict=True))


def checked_spending(study: Study, published: Iterable[AnyPublished]) -> Fraction:
    """The rho of all releases together, stated by the certificates.

    Raises Inconsistent for a release of another study, over the budget, with another sum, or
    without an ancestor.
    """
    ledger, gates = CertifiedLedger.of(study), dict[int, GateStatement | None]()
    fused = dict[tuple[str, str], frozenset[str]]()  # by release and period
    for release in published:
        certificate = release.certificate
        if gates.setdefault(certificate.number, certificate.gate) != certificate.gate:
            raise release.refusal("its gate is not that of another certificate of its period")
        if (fault := _fused_fault(study, certificate, fused)) is not None:
            raise release.refusal(fault)
        fused[certificate.release, certificate.period] = frozenset(certificate.ancestors)
        charge = Charge(certificate.release, certificate.number, certificate.rho)
        ancestors = [
            Charge(certificate.release, study.periods.numbers[at], rho)
            for at, rho in certificate.ancestors.items()
        ]
        try:
            ledger = ledger.with_charges(charge, ancestors=ancestors, gates=certificate.number)
        except (BudgetExceeded, ValueError):
            raise release.refusal("over the budget") from None
        if certificate.study_hash != study.hash:
            raise release.refusal("of another study")
        if ledger.spent != certificate.rho_spent:
            raise release.refusal("its budget does not add up")
    return ledger.spent


def _fused_fault(
    study: Study, certificate: Certificate, fused: Mapping[tuple[str, str], frozenset[str]]
) -> str | None:
    """The fault of a certificate's ancestors, or None.

    fused: by release and period, the ancestors of all tables that are published before.
    """
    numbers, is_table = study.periods.numbers, study.batch(certificate.release) is not None
    for period in sorted(certificate.ancestors):
        if not is_table or numbers.get(period, certificate.number) >= certificate.number:
            return "it is fused with a table that does not come before it"
        if not fused.get((certificate.release, period), frozenset()) <= {*certificate.ancestors}:
            return f"it is fused with {period}, and not with all that {period} is fused with"
    return None


def _planned_fault(study: Study, certificate: Certificate, planned: ReleasePlan) -> str | None:
    """The fault of a certificate with an incomplete list of earlier tables and rhos, or None."""
    numbers, stated = study.periods.numbers, certificate.fused_with
    earlier = {at: rho for at, rho in planned.charges.items() if numbers[at] < certificate.number}
    if {*stated} != ({*earlier} if planned.fused else set()):
        return "its certificate's fused_with is not the tables before it"
    if any(rho not in {0, earlier[at]} for at, rho in stated.items()):
        return "its certificate's fused_with is not the charges of the plan"
    return None


def verified_lines(
    study: Study,
    messages: Sequence[Message],
    published: Sequence[AnyPublished],
    signatures: Signatures,
    growths: Iterable[tuple[str, int]],
) -> list[str]:
    """Checks budgets against the study; returns the valid properties in lines.

    growths: each panel with the number of its releases; checks a panel when it is asked for

    Raises Inconsistent.
    """
    head = messages[0].head
    # The declaration as other programs hash it, and as it was read here.
    hashes = {hashlib.sha256(canonical(head["study"])).hexdigest(), study.hash}
    if hashes != {head.get("study_hash")}:
        raise refusal(messages[0], "the study's declaration does not have its hash")
    plan = checked_plan(study, messages[0])
    spent = checked_certificates(study, plan, published)
    lines = [
        f"chain: {len(messages)} messages, every hash and part as its manifest says",
        signatures.line(),
        f"budget: {spent} of {study.rho} spent, as the certificates say",
    ]
    for name, releases in growths:
        noun = "release" if releases == 1 else "releases"
        lines.append(f"{name}: {releases} {noun}, every panel a prefix of the next")
    names = (release.certificate.release for release in published)
    data_sets = Counter(name for name in names if study.batch(name) is not None)
    for name, count in data_sets.items():
        stated = "1 data set, as its" if count == 1 else f"{count} data sets, each as its"
        lines.append(f"{name}: {stated} certificate says")
    return lines
