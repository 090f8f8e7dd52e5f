"""The description of a public log: the values for all catalogue formats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from stream_dp import __version__
from stream_dp.client import PublicLog
from stream_dp.json_object import Json
from stream_dp.release.privacy_facts import PrivacyFacts, privacy_facts
from stream_dp.release.public_reader import AnyPublished
from stream_dp.study import Study

from .described_columns import DescribedColumn


@dataclass(frozen=True)
class DescribedFile:
    """A file with all rows of a table.

    path: an address, or a path relative to the description.
    size, sha256: bytes and hash; None for a file that is written when it is asked for.
    """

    path: str
    media: str
    size: int | None = None
    sha256: str | None = None

    @property
    def form(self) -> str:
        """The ending of the path: csv, parquet, arrow or json."""
        return self.path.rpartition(".")[2]


@dataclass(frozen=True)
class DescribedTable:
    """A table. name: unique in the description. files: the same rows in several forms."""

    name: str
    title: str
    columns: tuple[DescribedColumn, ...]
    files: tuple[DescribedFile, ...]

    @property
    def main(self) -> DescribedFile:
        """The file that fields are described of."""
        return self.files[0]


@dataclass(frozen=True)
class Description:
    """What catalogues say about published tables.

    periods: the labels of the first and the last published period; days: their first and last day,
    None for steps.
    address: of a page about the tables; empty if there is none.
    is_live: whether the tables grow with new releases.
    """

    name: str
    title: str
    text: str
    study: Study
    periods: tuple[str, str] | None
    days: tuple[date, date] | None
    published: date | None
    version: str
    citation: str
    head: str
    privacy: PrivacyFacts
    tables: tuple[DescribedTable, ...]
    address: str = ""
    is_live: bool = False

    @property
    def keywords(self) -> tuple[str, ...]:
        attributes = tuple(self.study.attributes)
        return ("synthetic data", "differential privacy", *attributes)

    @property
    def licence_address(self) -> str | None:
        """The address of the licence's text; an SPDX id has its address at spdx.org."""
        curator = self.study.curator
        if curator is None or curator.licence is None:
            return None
        if curator.licence.startswith(("http://", "https://")):
            return curator.licence
        return f"https://spdx.org/licenses/{curator.licence}"

    @property
    def contact_address(self) -> str | None:
        """The contact as an address: mailto: or https:."""
        curator = self.study.curator
        if curator is None or curator.contact is None:
            return None
        if curator.contact.startswith(("http://", "https://")):
            return curator.contact
        return f"mailto:{curator.contact}"


def describe(
    public: PublicLog,
    tables: Sequence[DescribedTable],
    published: Sequence[AnyPublished],
    *,
    release: str | None = None,
    address: str = "",
    is_live: bool = False,
) -> Description:
    """The description of tables.

    published: what the tables have. release: the only release that they are of, or None.
    """
    study, facts = public.study, published_facts(public)
    numbers = [one.certificate.number for one in published]
    for one in published:
        # A panel's first columns are of earlier periods, too.
        numbers += [study.periods.numbers[label] for label in one.new_columns]
    first, last = (min(numbers), max(numbers)) if numbers else (None, None)
    about = " ".join(study.description.split())
    kinds = "Synthetic data and estimates" if release is None else f"Release {release}: tables"
    summary = f"{kinds} of the study {study.name}, published under differential privacy."
    warning = f"{facts.noise}. " if facts.simulated else ""
    days = None
    periods = None
    if first is not None and last is not None:
        periods = study.periods.labels[first - 1], study.periods.labels[last - 1]
        start, end = study.periods.days(first), study.periods.days(last)
        days = None if start is None or end is None else (start[0], end[1])
    time = None if last is None else study.periods.release_time(last)
    return Description(
        name=study.name if release is None else f"{study.name}-{release}",
        title=(about or study.name) + ("" if release is None else f": {release}"),
        text=f"{warning}{f'{about}. ' if about else ''}{summary}",
        study=study,
        periods=periods,
        days=days,
        published=None if time is None else date_of(time),
        version=f"1.{len(published)}.0",
        citation=citation(public),
        head=public.head,
        privacy=facts,
        tables=tuple(tables),
        address=address,
        is_live=is_live,
    )


def date_of(time: float) -> date:
    """The day of a Unix time in UTC."""
    return datetime.fromtimestamp(time, UTC).date()


def privacy_rows(facts: PrivacyFacts) -> tuple[tuple[str, str], ...]:
    """The guarantee as names and texts, for formats without fields for it."""
    return (
        ("unit of privacy", f"one {facts.unit}, with its whole history"),
        ("neighbouring relation", facts.relation),
        ("guarantee", facts.guarantee),
        ("epsilon, so far", facts.epsilon_spent),
        ("epsilon, in the end at most", facts.epsilon_total),
        ("delta", str(facts.delta)),
        ("rho (zCDP), so far", str(facts.rho_spent)),
        ("rho (zCDP), in the end at most", str(facts.rho_total)),
        ("mechanism", "; ".join(facts.mechanisms) or "none yet"),
        ("noise", facts.noise),
        ("published exactly, not protected", facts.invariants),
        *(("not protected", text) for text in facts.not_protected),
    )


def privacy_fields(facts: PrivacyFacts) -> dict[str, object]:
    """The guarantee as a JSON object."""
    return {
        "unit": facts.unit,
        "relation": facts.relation,
        "guarantee": facts.guarantee,
        "epsilon": float(facts.epsilon_spent),
        "epsilon_total": float(facts.epsilon_total),
        "delta": float(facts.delta),
        "rho": str(facts.rho_spent),
        "rho_total": str(facts.rho_total),
        "mechanisms": list(facts.mechanisms),
        "noise": facts.noise,
        "invariants": facts.invariants,
        "not_protected": list(facts.not_protected),
        "simulated": facts.simulated,
    }


def json_bytes(document: Json) -> bytes:
    """A document as UTF-8; half of a surrogate pair, which UTF-8 lacks, becomes a question mark."""
    return json.dumps(document, indent=1, ensure_ascii=False).encode("utf-8", "replace")


SOFTWARE = f"stream-dp {__version__}"


def published_facts(public: PublicLog) -> PrivacyFacts:
    """The guarantee of a public log as values."""
    return privacy_facts(public.study, [release.certificate for release in public.published])


def citation(public: PublicLog) -> str:
    """A sentence to cite the study, with the head of the public log."""
    study, last = public.study, public.published[-1].certificate if public.published else None
    about = f" ({' '.join(study.description.split())})" if study.description.strip() else ""
    state = f", releases up to {last.period}" if last is not None else ""
    return (
        f"{study.name}{about}{state}; published with stream-dp under differential privacy;"
        f" head of the public log {public.head}"
    )
