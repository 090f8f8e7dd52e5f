"""A privacy label in plain words, with the headings of NIST SP 800-226 (2025).

The headings are the unit of privacy, the parameters, the protection and its limits, and trust.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stream_dp.client import PublicLog
from stream_dp.release.certificate import guess_words
from stream_dp.release.privacy_facts import PrivacyFacts, privacy_facts
from stream_dp.services.audit.audit_statement import AuditStatement

from .render import power


@dataclass(frozen=True)
class Label:
    """The guarantee of a study in plain words.

    rows: headings with a sentence or two each.
    unprotected: the limits of the guarantee.
    """

    simulated: bool
    rows: tuple[tuple[str, str], ...]
    unprotected: tuple[str, ...]


def published_facts(public: PublicLog) -> PrivacyFacts:
    """The guarantee of a public log as values."""
    return privacy_facts(public.study, [release.certificate for release in public.published])


def privacy_label(public: PublicLog, audits: Sequence[AuditStatement] = ()) -> Label:
    """The label of all releases of a study, published and planned.

    audits: signed statements about its releases, checked.
    """
    study, facts = public.study, published_facts(public)
    delta = power(facts.delta)
    rows = (
        (
            "Who is protected",
            f"One {study.unit} at a time, with everything it reports in all periods.",
        ),
        ("Against what", facts.guarantee),
        (
            "How much, so far",
            f"rho {float(facts.rho_spent):.6g} of zero-concentrated differential privacy, which is"
            f" eps {float(facts.epsilon_spent):.3f} at delta {delta}.",
        ),
        (
            "How much, in the end",
            f"At most rho {float(facts.rho_total):.6g}, eps {float(facts.epsilon_total):.3f} at"
            f" delta {delta}, fixed before the first report.",
        ),
        ("What that means for one " + study.unit, guess_words(study, facts.rho_spent)),
        ("Invariants, not protected", f"{facts.invariants}."),
        (
            "Whom to trust",
            "Those who hold the reports see all of them; the noise is added there, before anything "
            "is published. Whoever has only what is published, whatever else they know and however "
            "they compute, is inside the guarantee.",
        ),
        *(("Audited", audit.words) for audit in audits),
    )
    return Label(facts.simulated, rows, facts.not_protected)
