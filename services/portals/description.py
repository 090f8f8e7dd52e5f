"""The description of a public log and of the columns of its tables, for all catalogue formats.

The guarantee of the study stands in it as values, the one source of labels, metadata and registers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Literal

import pyarrow as pa

from stream_dp import __version__
from stream_dp.answers.query import event_words
from stream_dp.client import PublicLog
from stream_dp.json_object import Json
from stream_dp.privacy.zcdp import epsilon
from stream_dp.release.certificate import (
    SEEDED_NOISE,
    SYSTEM_NOISE,
    Certificate,
    invariants_words,
    relation_words,
)
from stream_dp.release.public_reader import AnyPublished
from stream_dp.study import DataSetRelease, Family, Release, SizesRelease, Study, TableRelease
from stream_dp.study.families import PANEL_FAMILIES, Registry
from stream_dp.study.field_types import ABSENT
from stream_dp.study.group_releases import KEY_COLUMN, PERSON_COLUMN, SIZE_COLUMN, EventsRelease


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


ColumnType = Literal["integer", "number", "string"]
_Answers = dict[str, tuple[str, str]]  # by column, the attribute and the label
_Words = tuple[Mapping[str, str], _Answers]  # labels by column, and the columns of answers

# Of tables of noisy answers, estimates and sizes.
_LABELS = {
    "period": "the period of the answer",
    "query": "the question that is answered",
    "value": "the unbiased noisy answer",
    "variance": "the variance of the noise, an exact fraction",
    "standard_error": "the standard error of the privacy noise",
    "entry": "the entry of the measured list of sizes",
    "level": "the level of regions; all is every region together",
}


@dataclass(frozen=True)
class DescribedColumn:
    """A column.

    values: the possible values with a label each; empty if they are not listed.
    codes: the values of a column of numbers that are no numbers.
    """

    name: str
    type: ColumnType
    label: str
    values: tuple[tuple[int | str, str], ...] = ()
    codes: tuple[int, ...] = ()


def described_columns(
    study: Study,
    release: Release | DataSetRelease,
    table: str,
    schema: pa.Schema,
    values: Mapping[str, tuple[int | str, ...]],
) -> tuple[DescribedColumn, ...]:
    """The columns of a table of a release. values: by column, the listed ones."""
    labels: Mapping[str, str] = {**_LABELS, **_size_labels(study)}
    answers = _Answers()
    if table not in {"measurements", "estimates"}:
        labels, answers = _WORDS[release.family](study, release)
    described = []
    for column in schema:
        attribute, label = answers.get(column.name, ("", labels.get(column.name, column.name)))
        listed = values.get(column.name, ())
        texts = _value_labels(study, release, attribute, listed)
        declared = study.attributes.get(attribute)
        codes = () if declared is None else declared.special or ()
        if codes:
            label += f"; codes that are no numbers: {', '.join(map(str, codes))}"
        values_in_words = tuple(zip(listed, texts, strict=True))
        described.append(
            DescribedColumn(column.name, _type(column.type), label, values_in_words, codes)
        )
    return tuple(described)


def _panel_words(study: Study, release: Release) -> _Words:
    """Columns are named by the period, and of products by the period and the attribute."""
    first, named = release.attributes[0], _Answers()
    for period in study.periods.labels:
        named[period] = first, f"{first} in {period}"
        named |= {f"{period} {a}": (a, f"{a} in {period}") for a in release.attributes}
    return {"row": f"the number of the synthetic {study.unit}"}, named


def _table_words(study: Study, release: TableRelease) -> _Words:
    """Labels of columns, and by column of an answer its attribute and label."""
    answers = _Answers()
    for answer in release.answers:
        ago = f", {answer.ago} periods before" if answer.ago else ""
        answers[answer.column] = answer.attribute, f"{answer.attribute} of the person{ago}"
    for name, source in release.derived_from.items():
        answers[name] = "", f"{name}, derived from {source}"
    return _group_labels(study), answers


def _event_words(study: Study, release: EventsRelease) -> _Words:
    unit = release.events.unit
    labels = {
        PERSON_COLUMN: f"the number of the synthetic {study.unit}",
        SIZE_COLUMN: f"how many {unit}s the {study.unit} has",
        **{name: f"{name} of the {unit}" for name in release.events.columns},
    }
    return labels, {name: (name, f"{name} of the {study.unit}") for name in release.attributes}


def _size_words(study: Study, release: SizesRelease) -> _Words:
    return {**_LABELS, **_size_labels(study)}, _Answers()


_WORDS: Registry[Family, Callable[..., _Words]] = Registry(
    "columns of tables in words",
    Family,
    {
        **dict.fromkeys(PANEL_FAMILIES, _panel_words),
        Family.PEOPLE: _table_words,
        Family.HOUSEHOLDS: _table_words,
        Family.EVENTS: _event_words,
        Family.SIZES: _size_words,
    },
)


def _group_labels(study: Study) -> dict[str, str]:
    """The labels of groups' columns, of the role, and of the added key and size."""
    if study.groups is None:
        return {}
    unit = study.groups.unit
    labels = {name: f"{name} of the {unit}" for name in study.groups.attributes}
    if study.groups.roles is not None:
        labels[study.groups.roles.column] = f"the role in the {unit}"
    numbers = {
        KEY_COLUMN: f"the number of the synthetic {unit}",
        SIZE_COLUMN: f"how many members the {unit} has",
    }
    return {**labels, **numbers}


def _size_labels(study: Study) -> dict[str, str]:
    if study.places is None:
        return {}
    unit = study.places.unit
    return {
        **{name: f"the {name} of the {unit}s" for name in study.places.regions},
        "size": f"how many people a {unit} has; the largest size stands for larger ones, too",
        "groups": f"the published number of {unit}s of this size",
    }


def _value_labels(
    study: Study,
    release: Release | DataSetRelease,
    attribute: str,
    values: Sequence[int | str],
) -> list[str]:
    """The labels of listed values, of which an attribute declares that of its value of interest."""
    if release.patterns is None and release.totals is not None:
        event = event_words(study, release.totals)  # its panels have 1 for the event, and 0
        labels = {"1": event, "0": f"not {event}"}
    else:
        labels = _declared_labels(study, attribute)
    labels[ABSENT] = "no answer, or not among the people"
    return [labels.get(str(value), str(value)) for value in values]


def _declared_labels(study: Study, attribute: str) -> dict[str, str]:
    """The label of the value of interest; the other one of two values is 'not' and the label."""
    declared = study.attributes.get(attribute)
    label = None if declared is None else declared.value_label
    if declared is None or label is None or not declared.listed:
        return {}
    interest = str(declared.listed[-1] if declared.interest is None else declared.interest)
    labels = {interest: label}
    if len(declared.listed) == 2:
        labels |= {str(v): f"not {label}" for v in declared.listed if str(v) != interest}
    return labels


def _type(kind: pa.DataType) -> ColumnType:
    if pa.types.is_integer(kind):
        return "integer"
    return "number" if pa.types.is_floating(kind) else "string"
