"""The guarantee of a study as values: the one source of labels, metadata and registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from stream_dp.privacy.zcdp import epsilon
from stream_dp.study import Study

from .certificate import (
    SEEDED_NOISE,
    SYSTEM_NOISE,
    Certificate,
    invariants_words,
    relation_words,
)


@dataclass(frozen=True)
class PrivacyFacts:
    """What is protected, against what, how strongly, by what, and what is not.

    relation: the key of the neighbouring relation. guarantee: the relation in words.
    rho_spent, epsilon_spent: of all that is published, and of what it descends from.
    rho_total, epsilon_total: at most, in the end. Every epsilon is at `delta`.
    mechanisms: the titles in the certificates, each once, in the order of publication.
    noise: where the noise comes from, in words.
    invariants: what is published exactly, in words.
    not_protected: the limits of the guarantee, a text each.
    simulated: whether the noise is seeded, so that nothing is private.
    """

    unit: str
    relation: str
    guarantee: str
    rho_spent: Fraction
    rho_total: Fraction
    epsilon_spent: str
    epsilon_total: str
    delta: Fraction
    mechanisms: tuple[str, ...]
    noise: str
    invariants: str
    not_protected: tuple[str, ...]
    simulated: bool


def privacy_facts(study: Study, certificates: Sequence[Certificate]) -> PrivacyFacts:
    """The guarantee of a study with these certificates, in the order of publication."""
    last = certificates[-1] if certificates else None
    simulated = any(certificate.noise == SEEDED_NOISE for certificate in certificates)
    return PrivacyFacts(
        unit=study.unit,
        relation=study.neighbours,
        guarantee=relation_words(study),
        rho_spent=Fraction(0) if last is None else last.rho_spent,
        rho_total=study.rho,
        epsilon_spent="0" if last is None else last.epsilon_spent,
        epsilon_total=str(epsilon(study.rho, study.delta)),
        delta=study.delta,
        mechanisms=tuple(dict.fromkeys(one.mechanism for one in certificates)),
        noise=SEEDED_NOISE if simulated else SYSTEM_NOISE,
        invariants=invariants_words(study),
        not_protected=_limits(study.unit),
        simulated=simulated,
    )


def _limits(unit: str) -> tuple[str, ...]:
    return (
        f"Several {unit}s that act as one are protected less: g of them cost g² times rho. So is "
        f"a {unit} that reports under several ids, and one that is in other studies too.",
        "What is true of the whole population can be learnt, and may say something about its "
        "members. That is what the study is for.",
        "The moment of publication, the operator's choices and the machine's use of resources are "
        "outside the guarantee.",
        f"The intervals cover the privacy noise alone, not the sampling of {unit}s, nor answers "
        "that are missing or wrong.",
    )
