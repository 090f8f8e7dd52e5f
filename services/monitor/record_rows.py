"""Published records as rows of a page: facts, certificates, the budget and its chart, the label.

The privacy label in plain words has the headings of NIST SP 800-226 (2025): the unit of privacy,
the parameters, the protection and its limits, and trust.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from stream_dp.client import PublicLog
from stream_dp.figures.marks import Chart
from stream_dp.privacy.zcdp import best_guess
from stream_dp.release.certificate import Certificate, guess_words
from stream_dp.release.public_reader import AnyPublished
from stream_dp.release.published_panels import PanelCertificate
from stream_dp.release.published_sizes import SizesCertificate
from stream_dp.release.published_tables import BatchCertificate
from stream_dp.release.signatures import AuditStatement
from stream_dp.study import Family
from stream_dp.study.families import PANEL_FAMILIES, TABLE_FAMILIES, Registry
from stream_dp.study.noisy_gate import GATE, noisy_gate

from ..portals.description import published_facts
from .charts import budget, wide_and_narrow
from .default_questions import counted
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


_PARAMETERS = {"failure": "the stated error bound fails with probability at most"}
HASHES = ("Its hash", "The one before")


def held_and_absent(verified: Sequence[str]) -> tuple[list[str], list[str]]:
    """The lines of checked properties, and of what a log does not have."""
    absent = [line for line in verified if line.startswith("signatures: none")]
    return [line for line in verified if line not in absent], absent


def facts(public: PublicLog) -> tuple[tuple[str, str], ...]:
    """Four numbers with labels: the people, the periods, the releases and the budget spent."""
    study = public.study
    delta = power(study.delta)
    closed = len({release.certificate.period for release in public.published})
    releases = counted(len(public.published), "release").partition(" ")
    return (
        (f"{study.unit}s, a number that is public", f"{study.size:,}")
        if study.size is not None
        else (f"{study.unit}s: their number is private", "noisy"),
        (f"of {study.periods.horizon} released", str(closed)),
        (f"{releases[2]}, each with noise drawn once", releases[0]),
        (f"eps at delta {delta}, for a {study.unit}'s whole history", price(public)),
    )


def price_words(public: PublicLog) -> str:
    """A sentence on the information about one unit in all published records."""
    unit, facts = public.study.unit, published_facts(public)
    if facts.simulated:
        return "The noise is SIMULATED: it protects nobody, and has no price."
    return (
        "The price of everything that is published so far: who knows all of it, and guesses which"
        f" of two equally likely histories a {unit} has, is right at most"
        f" {best_guess(float(facts.rho_spent)):.1f} times in 100, and a tossed coin 50 times"
        f" (eps {price(public)} at delta {power(public.study.delta)})."
    )


def price(public: PublicLog) -> str:
    """The epsilon of all releases so far, in three decimals."""
    spent = public.published[-1].certificate.epsilon_spent if public.published else "0"
    return f"{float(spent):.3f}"


def certificate_rows(public: PublicLog, release: AnyPublished) -> tuple[tuple[str, str], ...]:
    """The rows of a certificate's table: a heading and a text."""
    certificate, study = release.certificate, public.study
    parameter_texts = (
        f"{_PARAMETERS.get(k, k)} {_plain(v)}" for k, v in certificate.parameters.items()
    )
    parameters = "".join(f"; {text}" for text in parameter_texts)
    notes = "; ".join(f"{k.replace('_', ' ')}: {_plain(v)}" for k, v in certificate.notes.items())
    unit, delta = certificate.unit, power(certificate.delta)
    about = " ".join(study.description.split())
    declared = study.declared(certificate.release)
    assert declared is not None  # the reader refuses others
    noise, size, notes_heading = FAMILY_ROWS[declared.family](certificate)
    return (
        ("Study", f"{certificate.study}: {about}" if about else certificate.study),
        (
            "Release",
            f"{certificate.release}, {certificate.period}"
            f" ({certificate.number} of {study.periods.horizon})",
        ),
        ("Mechanism", f"{certificate.mechanism}{parameters}"),
        ("Unit of privacy", f"one {unit}, with its whole history"),
        ("Neighbours", f"{certificate.neighbours}. {certificate.guarantee}"),
        ("Not protected", certificate.invariants),
        ("Possible values", certificate.domain),
        ("rho of this release", f"{float(certificate.rho):.6g}"),
        ("rho so far", f"{float(certificate.rho_spent):g} of {float(certificate.rho_total):g}"),
        (
            "eps so far",
            f"{certificate.epsilon_spent} of {certificate.epsilon_total}, at delta {delta}",
        ),
        *_further_rows(certificate),
        ("Noise", noise),
        ("Synthetic rows", size),
        (notes_heading, notes or "none"),
        ("Code", f"stream-dp {certificate.code_version}"),
        ("Its hash", release.message.hash),
        ("The one before", release.message.previous),
    )


def _further_rows(certificate: Certificate) -> Iterator[tuple[str, str]]:
    """The rows that not every certificate has: the proved eps, the gate, and earlier tables."""
    if certificate.least_epsilon_spent is not None:
        proved = f"{certificate.least_epsilon_spent} of {certificate.least_epsilon_total}"
        yield "eps so far, proved for this noise", proved
    if (gate := certificate.gate) is not None:
        decision = "held, and closed by an operator" if gate.held else "closed by itself"
        count = f"{gate.people:,} {certificate.unit}s of earlier periods answer, by a noisy count"
        yield "Gate", f"{decision}: {count}; at least {gate.least:,} close a period"
    if certificate.ancestors:
        tables = (f"{n} (rho {float(rho):.6g})" for n, rho in certificate.ancestors.items())
        yield "Fused with", f"{', '.join(tables)}; rho so far counts each of them"


def _panel_rows(certificate: PanelCertificate) -> tuple[str, str, str]:
    deviation = math.sqrt(certificate.noise_variance)
    padding = certificate.padding
    added = f"with {padding} of padding in every pattern" if padding else "no padding"
    return (
        f"{certificate.noise}; standard deviation {deviation:.1f} {certificate.unit}s at most",
        f"{certificate.rows:,}, {added}",
        "Repairs",
    )


def _table_rows(certificate: BatchCertificate) -> tuple[str, str, str]:
    groups, people = certificate.groups, f"{certificate.people:,}"
    size = f"{groups:,} groups, {people} members" if groups else f"{people} people"
    return certificate.noise, size, "Notes"


def _sizes_rows(certificate: SizesCertificate) -> tuple[str, str, str]:
    levels = (
        f"{level.name}: {level.method}, standard deviation {level.variance**0.5:.2f}"
        for level in certificate.levels
    )
    size = f"none: {certificate.groups:,} groups by size and region"
    return "; ".join([certificate.noise, *levels]), size, "Notes"


# Of a certificate: the noise, the number of synthetic rows, and the heading of its notes.
FAMILY_ROWS: Registry[Family, Callable[..., tuple[str, str, str]]] = Registry(
    "rows of certificates",
    Family,
    {
        **dict.fromkeys(PANEL_FAMILIES, _panel_rows),
        **dict.fromkeys(TABLE_FAMILIES, _table_rows),
        Family.SIZES: _sizes_rows,
    },
)


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def budget_text(public: PublicLog) -> str:
    """The whole budget as rho and (eps, delta)."""
    study = public.study
    text = f"total budget: rho {float(study.rho):g}"
    if public.published:
        total = float(public.published[-1].certificate.epsilon_total)
        text += f", eps {total:.3f} at delta {power(study.delta)}"
    return text


def budget_charts(public: PublicLog) -> tuple[Chart, ...]:
    """The charges by period and release, from the certificates."""
    labels = public.study.periods.labels
    numbers = public.study.periods.numbers
    names = dict.fromkeys(release.certificate.release for release in public.published)
    spent: dict[str, Sequence[float]] = {}
    for name in names:
        charges = [0.0] * len(labels)
        for release in public.published:
            if release.certificate.release == name:
                charges[numbers[release.certificate.period] - 1] += float(release.certificate.rho)
        spent[name] = charges
    if (gate := noisy_gate(public.study)) is not None:
        last = max((release.certificate.number for release in public.published), default=0)
        spent[GATE] = [float(gate.rho) * (n <= last) for n in range(1, len(labels) + 1)]
    epsilons = [""] * len(labels)
    for release in public.published:
        certificate = release.certificate
        epsilons[numbers[certificate.period] - 1] = f"{float(certificate.epsilon_spent):.2f}"
    return wide_and_narrow(
        lambda size: budget(
            spent,
            epsilons,
            labels=labels,
            total=float(public.study.rho),
            total_text=budget_text(public),
            size=size,
        ),
        300,
    )


def budget_table(public: PublicLog) -> tuple[tuple[str, ...], ...]:
    """The rows of the budget's table: period, release, rho, rho so far, eps so far."""
    return tuple(
        (
            certificate.period,
            certificate.release,
            f"{float(certificate.rho):.6g}",
            f"{float(certificate.rho_spent):.6g}",
            f"{float(certificate.epsilon_spent):.3f}",
        )
        for certificate in (release.certificate for release in public.published)
    )
