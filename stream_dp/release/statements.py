"""What certificates state, against what follows from the study alone.

The texts of a certificate are its guarantee in words. They are computed again from the study, the
release and the period, so that a log whose writer is not trusted can state no other ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from stream_dp.continual import mechanism
from stream_dp.study import Release, SizesRelease, Study
from stream_dp.study.method_titles import possible_titles

from .budget import checked_spending
from .certificate import SEEDED_NOISE, base_certificate
from .panels import bias_words
from .published import AnyPublished, PublishedRelease, refusal
from .sizes import noise_words

# The factors of a mechanism are computed in floating point, with other last digits elsewhere.
_CLOSE = Fraction(1, 10**6)
_NUMBERS = {"rho", "noise_variance", "padding"}
# Of the writer's version; and what `checked_spending` adds up over all releases.
_OTHERS = {"code_version", "rho_spent", "study_hash"}


def checked_certificates(study: Study, published: Sequence[AnyPublished]) -> Fraction:
    """The rho that all releases spent together.

    Raises Inconsistent where a certificate states another sum, or what does not follow from its
    study.
    """
    spent = checked_spending(study, published)
    simulated: bool | None = None
    of_panel = cache(lambda name: _of_panel(study, study.release(name)))
    for release in published:
        certificate = release.certificate
        where = f"{certificate.release} at {certificate.period}"
        seeded = certificate.noise == SEEDED_NOISE
        if simulated not in {None, seeded}:
            raise refusal(release.message, f"{where}: seeded noise and other noise do not mix")
        simulated = seeded
        if isinstance(release, PublishedRelease):
            declared: Any = study.release(certificate.release)
            stated, charges = of_panel(certificate.release)
            rho = charges.get(certificate.number, Fraction(0))
        else:
            declared = study.batch(certificate.release)
            stated, rho = _of_data_set(declared, certificate.mechanism), declared.rho
        expected = base_certificate(
            study,
            declared,
            certificate.number,
            mechanism=stated["mechanism"],
            rho=rho,
            spent=certificate.rho_spent,
            simulated=seeded,
        )
        fields = {**dict(expected), **stated}
        if isinstance(declared, SizesRelease):
            fields["noise"] = noise_words(declared, simulated=seeded)
        for name, value in fields.items():
            if name not in _OTHERS and not _agrees(name, getattr(certificate, name), value):
                raise refusal(
                    release.message,
                    f"{where}: its certificate's {name} is not what follows from the study",
                )
    return spent


def _of_panel(study: Study, declared: Release) -> tuple[Mapping[str, Any], Mapping[int, Fraction]]:
    """What certificates of a panel state at every period, and the charges by period."""
    chosen = mechanism(study, declared)
    stated = {
        "mechanism": chosen.title,
        "attribute": study.alphabet(declared).name,
        "values": chosen.values,
        "padding": chosen.padding,
        "noise_variance": chosen.worst_variance,
        "panel_bias": bias_words(study, declared, chosen),
    }
    first, _ = study.span(declared)
    return stated, dict(enumerate(chosen.charges, first))


def _of_data_set(declared: Any, mechanism: str) -> Mapping[str, Any]:
    """What certificates of a data set state. mechanism: the one stated, if it is possible."""
    titles = possible_titles(declared)
    return {"mechanism": mechanism if mechanism in titles else titles[0]}


def _agrees(name: str, stated: Any, expected: Any) -> bool:
    if name in _NUMBERS:
        return bool(abs(stated - expected) <= _CLOSE * expected)
    return bool(stated == expected)
