"""Checks the statements of certificates against the study.

The texts of a certificate are its guarantee in words. The texts are computed again from the study,
the release and the period, so that an untrusted writer of a log can state no other texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from stream_dp.continual import mechanism
from stream_dp.privacy.ledger import BudgetExceeded, Charge, Ledger
from stream_dp.study import Family, Release, SizesRelease, Study, TableRelease
from stream_dp.study.families import PANEL_FAMILIES, TABLE_FAMILIES, Registry
from stream_dp.study.method_titles import possible_titles

from .certificate import SEEDED_NOISE, Certificate, base_certificate
from .public_reader import AnyPublished
from .published_panels import bias_words
from .published_sizes import noise_words

# The factors of a mechanism are computed in floating point, with other last digits elsewhere.
_CLOSE = Fraction(1, 10**6)
_NUMBERS = {"rho", "noise_variance", "padding"}
# Of the writer's version; and what `checked_spending` adds up over all releases.
_OTHERS = {"code_version", "rho_spent", "study_hash"}


def checked_certificates(study: Study, published: Sequence[AnyPublished]) -> Fraction:
    """The rho of all releases together.

    Raises Inconsistent where a certificate states another sum, or what does not follow from its
    study.
    """
    spent = checked_spending(study, published)
    simulated: bool | None = None
    panels = _Panels(study)
    for release in published:
        certificate = release.certificate
        seeded = certificate.noise == SEEDED_NOISE
        if simulated not in {None, seeded}:
            raise release.refusal("seeded noise and other noise do not mix")
        simulated = seeded
        declared = study.declared(certificate.release)
        assert declared is not None  # the reader refuses others
        stated, rho = _STATED[declared.family](panels, declared, certificate)
        expected = base_certificate(
            study,
            declared,
            mechanism=stated["mechanism"],
            number=certificate.number,
            rho=rho,
            spent=certificate.rho_spent,
            simulated=seeded,
        )
        fields = {**dict(expected), **stated}
        for name, value in fields.items():
            if name not in _OTHERS and not _agrees(name, getattr(certificate, name), value):
                raise release.refusal(
                    f"its certificate's {name} is not what follows from the study"
                )
    return spent


def checked_spending(study: Study, published: Iterable[AnyPublished]) -> Fraction:
    """The rho of all releases together, as the certificates state it.

    Raises Inconsistent for a release of another study, over the budget, or with another sum.
    """
    ledger = Ledger(study.rho, study.strata)
    for release in published:
        certificate = release.certificate
        try:
            ledger = ledger.charge(Charge(certificate.release, certificate.number, certificate.rho))
        except (BudgetExceeded, ValueError):
            raise release.refusal("over the budget") from None
        if certificate.study_hash != study.hash:
            raise release.refusal("of another study")
        if ledger.spent != certificate.rho_spent:
            raise release.refusal("its budget does not add up")
    return ledger.spent


class _Panels:
    """The statements of certificates of panels at every period, and the charges by period."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._known: dict[str, tuple[Mapping[str, Any], Mapping[int, Fraction]]] = {}

    def of(self, declared: Release) -> tuple[Mapping[str, Any], Mapping[int, Fraction]]:
        if declared.name not in self._known:
            study, chosen = self._study, mechanism(self._study, declared)
            stated = {
                "mechanism": chosen.title,
                "attribute": study.alphabet(declared).name,
                "values": chosen.values,
                "padding": chosen.padding,
                "noise_variance": chosen.worst_variance,
                "panel_bias": bias_words(study, declared, chosen),
            }
            first, _ = study.span(declared)
            self._known[declared.name] = stated, dict(enumerate(chosen.charges, first))
        return self._known[declared.name]


Stated = tuple[Mapping[str, Any], Fraction]  # fields of a certificate, and the cost of the release


def _panel_statement(panels: _Panels, declared: Release, certificate: Certificate) -> Stated:
    stated, charges = panels.of(declared)
    return stated, charges.get(certificate.number, Fraction(0))


def _table_statement(panels: _Panels, declared: TableRelease, certificate: Certificate) -> Stated:
    titles = possible_titles(declared)
    stated = certificate.mechanism if certificate.mechanism in titles else titles[0]
    return {"mechanism": stated}, declared.rho


def _sizes_statement(panels: _Panels, declared: SizesRelease, certificate: Certificate) -> Stated:
    (title,) = possible_titles(declared)
    noise = noise_words(declared, simulated=certificate.noise == SEEDED_NOISE)
    return {"mechanism": title, "noise": noise}, declared.rho


_STATED: Registry[Family, Callable[..., Stated]] = Registry(
    "statements of certificates",
    Family,
    {
        **dict.fromkeys(PANEL_FAMILIES, _panel_statement),
        **dict.fromkeys(TABLE_FAMILIES, _table_statement),
        Family.SIZES: _sizes_statement,
    },
)


def _agrees(name: str, stated: Any, expected: Any) -> bool:
    if name in _NUMBERS:
        return bool(abs(stated - expected) <= _CLOSE * expected)
    return bool(stated == expected)
