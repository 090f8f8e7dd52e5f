"""A privacy label in plain words, with the headings of NIST SP 800-226 (2025).

The headings are the unit of privacy, the parameters, the protection and its limits, and trust.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from stream_dp.client import PublicLog
from stream_dp.release.certificate import (
    SEEDED_NOISE,
    guess_words,
    invariants_words,
    relation_words,
)
from stream_dp.study import Study

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


def privacy_label(public: PublicLog) -> Label:
    """The label of all releases of a study, published and planned."""
    study = public.study
    certificates = [release.certificate for release in public.published]
    spent = certificates[-1].rho_spent if certificates else Fraction(0)
    epsilon = certificates[-1].epsilon_spent if certificates else "0"
    total = certificates[-1].epsilon_total if certificates else None
    plan = f"rho {float(study.rho):.6g}" + (f", eps {float(total):.3f}" if total else "")
    delta = power(study.delta)
    rows = (
        (
            "Who is protected",
            f"One {study.unit} at a time, with everything it reports in all periods.",
        ),
        ("Against what", relation_words(study)),
        (
            "How much, so far",
            f"rho {float(spent):.6g} of zero-concentrated differential privacy, which is eps "
            f"{float(epsilon):.3f} at delta {delta}.",
        ),
        (
            "How much, in the end",
            f"At most {plan} at delta {delta}, fixed before the first report.",
        ),
        ("What that means for one " + study.unit, guess_words(study, spent)),
        ("Invariants, not protected", f"{invariants_words(study)}."),
        (
            "Whom to trust",
            "Those who hold the reports see all of them; the noise is added there, before anything "
            "is published. Whoever has only what is published, whatever else they know and however "
            "they compute, is inside the guarantee.",
        ),
    )
    return Label(any(c.noise == SEEDED_NOISE for c in certificates), rows, not_protected(study))


def not_protected(study: Study) -> tuple[str, ...]:
    """The limits of the guarantee, a text each."""
    unit = study.unit
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
