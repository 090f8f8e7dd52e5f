"""Published records as rows of a page: facts, certificates, the budget and its chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stream_dp.client import PublicLog, PublishedRelease
from stream_dp.release.data_sets import DataSet
from stream_dp.release.published import AnyPublished
from stream_dp.release.sizes import PublishedSizes

from .charts import budget, twice
from .marks import Chart
from .render import power

_PARAMETERS = {"failure": "the stated error bound fails with probability at most"}
HASHES = ("Its hash", "The one before")


def facts(public: PublicLog) -> tuple[tuple[str, str], ...]:
    """Four numbers that say how large a study is and what it has cost, each with its words."""
    study = public.study
    every, delta = study.periods.every, power(study.delta)
    epsilon = public.published[-1].certificate.epsilon_spent if public.published else "0"
    closed = len({release.certificate.period for release in public.published})
    return (
        (f"{study.unit}s, a number that is public", f"{study.size:,}")
        if study.size is not None
        else (f"{study.unit}s: their number is private", "noisy"),
        (f"of {study.periods.count} {every}s released", str(closed)),
        ("releases, each with noise drawn once", str(len(public.published))),
        (f"eps at delta {delta}, for a {study.unit}'s whole history", f"{float(epsilon):.3f}"),
    )


def certificate_rows(public: PublicLog, release: AnyPublished) -> tuple[tuple[str, str], ...]:
    """A certificate as rows of a table, in words."""
    certificate, study = release.certificate, public.study
    words = (f"{_PARAMETERS.get(k, k)} {_plain(v)}" for k, v in certificate.parameters.items())
    parameters = "".join(f"; {word}" for word in words)
    notes = "; ".join(f"{k.replace('_', ' ')}: {_plain(v)}" for k, v in certificate.notes.items())
    unit, delta = certificate.unit, power(certificate.delta)
    about = " ".join(study.description.split())
    if isinstance(release, DataSet):
        noise = certificate.noise
        groups, people = release.certificate.groups, f"{release.certificate.people:,}"
        size = f"{groups:,} groups, {people} members" if groups else f"{people} people"
    elif isinstance(release, PublishedSizes):
        noise = "; ".join(
            [
                certificate.noise,
                *(
                    f"{level.name}: {level.method}, standard deviation {level.variance**0.5:.2f}"
                    for level in release.certificate.levels
                ),
            ]
        )
        size = f"none: {release.certificate.groups:,} groups by size and region"
    else:
        spread = math.sqrt(release.certificate.noise_variance)
        noise = f"{certificate.noise}; standard deviation {spread:.1f} {unit}s at most"
        padding = release.certificate.padding
        size = f"{release.certificate.rows:,}, "
        size += f"with {padding} of padding in every pattern" if padding else "no padding"
    return (
        ("Study", f"{certificate.study}: {about}" if about else certificate.study),
        (
            "Release",
            f"{certificate.release}, {certificate.period}"
            f" ({certificate.number} of {certificate.horizon} {study.periods.every}s)",
        ),
        ("Mechanism", f"{certificate.mechanism}{parameters}"),
        ("Unit of privacy", f"one {unit}, with its whole history"),
        ("Neighbours", f"{certificate.neighbours}. {certificate.guarantee}"),
        ("Not protected", certificate.invariants),
        ("rho of this release", f"{float(certificate.rho):.6g}"),
        ("rho so far", f"{float(certificate.rho_spent):g} of {float(certificate.rho_total):g}"),
        (
            "eps so far",
            f"{certificate.epsilon_spent} of {certificate.epsilon_total}, at delta {delta}",
        ),
        ("Noise", noise),
        ("Synthetic rows", size),
        ("Repairs" if isinstance(release, PublishedRelease) else "Notes", notes or "none"),
        ("Code", f"stream-dp {certificate.code_version}"),
        ("Its hash", release.message.hash),
        ("The one before", release.message.previous),
    )


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def budget_words(public: PublicLog) -> str:
    """The whole budget as rho and (eps, delta)."""
    study = public.study
    words = f"total budget: rho {float(study.rho):g}"
    if public.published:
        total = float(public.published[-1].certificate.epsilon_total)
        words += f", eps {total:.3f} at delta {power(study.delta)}"
    return words


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
    epsilons = [""] * len(labels)
    for release in public.published:
        certificate = release.certificate
        epsilons[numbers[certificate.period] - 1] = f"{float(certificate.epsilon_spent):.2f}"
    return twice(
        lambda size: budget(
            spent,
            epsilons,
            labels=labels,
            total=float(public.study.rho),
            words=budget_words(public),
            size=size,
        ),
        300,
    )


def budget_table(public: PublicLog) -> tuple[tuple[str, ...], ...]:
    """period, release, rho, rho so far, eps so far: a row for each release."""
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


def citation(public: PublicLog) -> str:
    """A sentence that names the study and the exact state of what was published."""
    study, last = public.study, public.published[-1].certificate if public.published else None
    about = f" ({' '.join(study.description.split())})" if study.description.strip() else ""
    state = f", releases up to {last.period}" if last is not None else ""
    return (
        f"{study.name}{about}{state}; published with stream-dp under differential privacy;"
        f" head of the public log {public.head}"
    )
