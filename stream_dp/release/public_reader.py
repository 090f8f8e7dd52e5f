"""Reading a public log of an untrusted writer.

The chain of hashes shows that no message was changed later, not that its writer was honest. So
every message is read in full, and refused unless it is a release of the declared study as this
code would write it. A message in memory is never larger than its records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ValidationError

from stream_dp.errors import Inconsistent, NotThere, UserError
from stream_dp.log.message import Message, is_part
from stream_dp.panel import Panel
from stream_dp.study import Family, Release, SizesRelease, Study, TableRelease
from stream_dp.study.families import PANEL_FAMILIES, TABLE_FAMILIES, Registry
from stream_dp.study.field_types import ABSENT
from stream_dp.study.noisy_gate import noisy_gate
from stream_dp.study.period_texts import period_label
from stream_dp.study.section_faults import contradictions

from .arrow_parts import read_measurements
from .certificate import GateStatement, Published, refusal
from .published_panels import RELEASE_TYPE, STUDY_TYPE, PanelCertificate, read_estimates, read_panel
from .published_sizes import ALL, SIZES_TYPE, PublishedSizes, SizesCertificate
from .published_tables import (
    BATCH_TYPE,
    BatchCertificate,
    DataSet,
    column_values,
    has_declared_roles,
    keeps_rules,
)
from .study_plan import PLAN

FORMAT = 1  # of public messages; a head without `format` has this one
_FAR = 1e15  # larger than any count of people and any error of one
_M = TypeVar("_M", bound=BaseModel)
_P = TypeVar("_P", DataSet, PublishedSizes)

AnyCertificate = PanelCertificate | BatchCertificate | SizesCertificate
Statement = dict[str, object]  # fields of a certificate
TableFilter = Callable[[Study, AnyCertificate, str], bool]


@dataclass(frozen=True)
class PublishedRelease(Published):
    """A published release of a panel. certificate: its statement, checked."""

    certificate: PanelCertificate

    @property
    def new_columns(self) -> tuple[str, ...]:
        """The labels of the columns that this release adds to the panel."""
        return self.certificate.columns

    @property
    def measurements(self) -> pa.Table:
        """Noisy answers: query, value, variance, standard_error."""
        return read_measurements(self.message.parts)

    @property
    def estimates(self) -> pa.Table:
        """Unbiased answers: query, value, standard_error."""
        return read_estimates(self.message.parts)


AnyPublished = PublishedRelease | DataSet | PublishedSizes


def keep_all(study: Study, certificate: AnyCertificate, table: str) -> bool:
    """Keep all tables of all releases."""
    return True


def keep_none(study: Study, certificate: AnyCertificate, table: str) -> bool:
    """Keep no table of any release, only the certificates."""
    return False


def nothing_published(study: Study, name: str) -> NotThere:
    """The error for a release of which nothing is published yet, with its first period."""
    declared, every = study.declared(name), study.periods.every
    first = ""
    if declared is not None:
        unit = "period" if every == "step" else every
        first = f"; it has its first answer for {study.first_answer(declared)}, when that {unit}"
        first += " is published"
    return NotThere(f"release '{name}': nothing is published of it yet{first}")


def at_period(study: Study, published: Sequence[_P], name: str, period: str | None) -> _P:
    """The data set or sizes of a release at a period, or the latest. Raises UserError.

    published: the publications of all releases.
    """
    by_period = {p.certificate.period: p for p in published if p.certificate.release == name}
    if not by_period:
        raise nothing_published(study, name)
    period = None if period is None else period_label(study.periods, period)
    if period is not None and period not in by_period:
        periods = ", ".join(by_period)
        raise NotThere(f"release '{name}': none at period '{period}'; it has {periods}")
    # A result may be late: the last is that of the latest period.
    numbers = study.periods.numbers
    return by_period[period or max(by_period, key=lambda label: numbers[label])]


def declared_study(first: Message) -> Study:
    """The study at the beginning of a public log. Raises Inconsistent."""
    head = first.head
    _known_format(first)
    try:
        if head.get("type") != STUDY_TYPE or any(not is_part(n, PLAN) for n, _ in first.parts):
            raise ValueError
        study = Study.model_validate(head["study"])
        if contradictions(study):
            raise ValueError
        # Compute what later code relies on, so that a declaration out of bounds fails here.
        study.canonical(), study.periods.labels
    except (ValueError, KeyError, TypeError, ArithmeticError, UserError):
        why = (
            "it does not begin with a study's declaration that this version can read; a mechanism"
            " of another package needs that package"
        )
        raise refusal(first, why) from None
    return study


def checked_release(study: Study, message: Message, keep: TableFilter) -> AnyPublished:
    """The release in a message, with the tables selected by `keep`. Raises Inconsistent."""
    _known_format(message)
    try:
        reader = next(
            (r for r in READERS.values() if r.message_type == message.head.get("type")), None
        )
        if reader is None:
            raise Inconsistent("a certificate cannot be read: its type is unknown")
        stated: AnyCertificate = _certificate(reader.certificate, message.head)
        declared = study.declared(stated.release)
        if declared is None or READERS[declared.family] is not reader:
            raise Inconsistent("of a release that the study does not declare")
        _require_stated(study, stated, kind=declared.kind, **reader.stated(study, declared))
    except Inconsistent as error:
        raise refusal(message, error.lines[0]) from None
    release = reader.published(stated, message)
    try:
        reader.check(study, declared, release)
    except Inconsistent as error:
        raise release.refusal(error.lines[0]) from None
    kept_parts = tuple(
        (name, data) for name, data in message.parts if keep(study, stated, name.partition("/")[0])
    )
    return replace(release, message=replace(message, head={}, parts=kept_parts, manifest=b""))


def _known_format(message: Message) -> None:
    if message.head.get("format", FORMAT) != FORMAT:
        raise refusal(
            message,
            "is of a later format than this version reads; use a newer one",
        )


def _certificate(model: type[_M], head: dict[str, object]) -> _M:
    try:
        return model.model_validate(head)
    except ValidationError as error:
        # Name the field alone: what stands below it was written by somebody else.
        fault = error.errors(include_input=False, include_url=False, include_context=False)[0]
        raise Inconsistent(f"a certificate cannot be read: {fault['loc'][0]}") from None


def _require_stated(study: Study, certificate: AnyCertificate, **expected: object) -> None:
    """Raises Inconsistent for a certificate that contradicts the study."""
    expected |= {
        "study": study.name,
        "horizon": study.periods.count,
        "unit": study.unit,
        "neighbours": study.neighbours,
        "rho_total": study.rho,
        "delta": study.delta,
        "number": study.periods.numbers.get(certificate.period),
        "gate": _gate(study, certificate),
    }
    for name, value in expected.items():
        if getattr(certificate, name) != value:
            raise Inconsistent(f"its certificate's {name} is not what the study declares")


def _gate(study: Study, certificate: AnyCertificate) -> GateStatement | None:
    """The gate of a certificate's period, with the certificate's own noisy count."""
    gate, stated = noisy_gate(study), certificate.gate
    if gate is None:
        return None
    return GateStatement.of(gate, 0 if stated is None else stated.people)


def _panel_statement(study: Study, declared: Release) -> Statement:
    return {"attribute": study.alphabet(declared).name}


def _check_panel(study: Study, declared: Release, release: PublishedRelease) -> None:
    """Raises Inconsistent unless a panel's tables are those of its certificate and the study."""
    certificate, parts = release.certificate, release.message.parts
    # The panel of a cumulative release has the event as its symbols, not the attribute's values.
    event = [(0, 1), (0, 1, ABSENT)]
    values = event if declared.patterns is None else [study.alphabet(declared).values]
    if certificate.values not in values:
        raise Inconsistent("its certificate's values are not what the study declares")
    if study.time(declared, certificate.number) is None:
        raise Inconsistent("at a period that its release does not have")
    if not {name.partition("/")[0] for name, _ in parts} <= {*_PANEL_READER.tables}:
        raise Inconsistent("has parts that no release has")
    try:
        panel, answers = read_panel(parts), (read_measurements(parts), read_estimates(parts))
    except ValueError as error:
        raise Inconsistent(str(error)) from None
    names = tuple(panel.column_names)
    if (panel.num_rows, names) != (certificate.rows, certificate.columns) or len(set(names)) < len(
        names
    ):
        raise Inconsistent("not the columns of its certificate")
    if panel.num_rows and max(map(_largest, panel.columns)) >= len(certificate.values):
        raise Inconsistent("a row has a value that is not declared")
    if not all(map(_is_plausible, answers)):
        raise Inconsistent("a measurement or an estimate is no number of people")


def _largest(column: pa.ChunkedArray) -> int:
    return int(column.to_numpy().max())


def _is_plausible(table: pa.Table) -> bool:
    """Whether all values and errors are finite numbers of people, and no error is below 0."""
    values, errors = (table[name].to_numpy().astype(float) for name in ("value", "standard_error"))
    return bool((np.abs(values) < _FAR).all() and ((errors >= 0) & (errors < _FAR)).all())


def _table_statement(study: Study, declared: TableRelease) -> Statement:
    return {"columns": column_values(study, declared)}


def _check_data_set(study: Study, declared: TableRelease, data_set: DataSet) -> None:
    """Raises Inconsistent unless the tables keep what the study declares of roles and rules."""
    tables = data_set.check()
    if not _is_plausible(data_set.measurements):
        raise Inconsistent("a measurement is no number of people")
    if not has_declared_roles(study, tables):
        raise Inconsistent("a group has not the roles that the study declares")
    if not keeps_rules(study, declared, tables):
        raise Inconsistent("a row or a group breaks a rule that the study declares")


def _sizes_statement(study: Study, declared: SizesRelease) -> Statement:
    assert study.places is not None  # a study with sizes and without places contradicts itself
    return {"regions": study.places.regions, "largest": declared.largest}


def _check_sizes(study: Study, declared: SizesRelease, sizes: PublishedSizes) -> None:
    """Raises Inconsistent unless levels and sizes are those of the certificate."""
    certificate = sizes.certificate
    if [level.name for level in certificate.levels] != [ALL, *certificate.regions]:
        raise Inconsistent("its certificate's levels are not what the study declares")
    if sum(level.rho for level in certificate.levels) != certificate.rho:
        raise Inconsistent("the levels of its certificate do not add up to its cost")
    sizes.check()


@dataclass(frozen=True)
class Reader:
    """The functions for reading a release of a family.

    name: of the messages in a contract.
    message_type: of the messages.
    certificate: the model of the messages' heads.
    tables: the names of the possible tables in a message.
    published: makes the release of a certificate and a message.
    stated: the fields of the certificate that follow from the study.
    check: raises Inconsistent for a release that contradicts the study or the certificate.
    """

    name: str
    message_type: str
    certificate: type[PanelCertificate] | type[BatchCertificate] | type[SizesCertificate]
    tables: tuple[str, ...]
    published: Callable[..., AnyPublished]
    stated: Callable[..., Statement]
    check: Callable[..., None]


_PANEL_READER = Reader(
    "panel",
    RELEASE_TYPE,
    PanelCertificate,
    ("panel", "measurements", "estimates"),
    PublishedRelease,
    _panel_statement,
    _check_panel,
)
_TABLE_READER = Reader(
    "dataSet",
    BATCH_TYPE,
    BatchCertificate,
    ("groups", "people", "events", "measurements"),
    DataSet,
    _table_statement,
    _check_data_set,
)
_SIZES_READER = Reader(
    "sizes",
    SIZES_TYPE,
    SizesCertificate,
    ("regions", "sizes", "measurements"),
    PublishedSizes,
    _sizes_statement,
    _check_sizes,
)
READERS: Registry[Family, Reader] = Registry(
    "readers of published releases",
    Family,
    {
        **dict.fromkeys(PANEL_FAMILIES, _PANEL_READER),
        **dict.fromkeys(TABLE_FAMILIES, _TABLE_READER),
        Family.SIZES: _SIZES_READER,
    },
)


def checked_growth(study: Study, releases: list[PublishedRelease]) -> list[PublishedRelease]:
    """The releases with the same name, after a check that the panel only grows.

    Raises Inconsistent unless every release adds the columns of its next periods, and nothing else,
    to the rows of the release before it.
    """
    name = releases[0].certificate.release
    first, _ = study.span(study.release(name))
    labels, end = study.periods.labels, first - 1
    for release in releases:
        certificate = release.certificate
        start, end = end, end + len(certificate.columns)
        if certificate.rows != releases[0].certificate.rows:
            raise release.refusal("not the rows of the panel before it")
        if set(labels[first - 1 : start]) & set(certificate.columns):
            raise release.refusal("a period of the panel cannot be released again")
        if (certificate.columns, certificate.number) != (labels[start:end], end):
            raise release.refusal("not the columns of its periods")
    return releases


def joined_panel(releases: Sequence[PublishedRelease]) -> Panel:
    """The columns of all releases side by side."""
    periods = [label for r in releases for label in r.certificate.columns]
    certificate = releases[-1].certificate
    # Column by column, as they are read and written.
    symbols = np.empty((certificate.rows, len(periods)), np.uint8, order="F")
    columns = (column for r in releases for column in read_panel(r.message.parts).columns)
    for i, column in enumerate(columns):
        start = 0
        for chunk in column.chunks:
            symbols[start : start + len(chunk), i] = chunk
            start += len(chunk)
    return Panel(symbols, tuple(periods), certificate.values)
