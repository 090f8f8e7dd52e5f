"""Reading a public log whose writer is not trusted.

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
import pyarrow.compute
from pydantic import BaseModel, ValidationError

from stream_dp import __version__
from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.message import Message
from stream_dp.study import Family, Release, SizesRelease, Study, TableRelease, has_patterns
from stream_dp.study.alphabet import ABSENT
from stream_dp.study.families import PANEL_FAMILIES, TABLE_FAMILIES, Registry
from stream_dp.study.faults import contradictions

from .arrow import read_measurements
from .published_panels import RELEASE_TYPE, STUDY_TYPE, PanelCertificate, read_estimates, read_panel
from .published_sizes import ALL, PublishedSizes
from .published_tables import (
    BATCH_TYPE,
    BatchCertificate,
    DataSet,
    column_values,
    has_declared_roles,
)
from .sizes_certificate import SIZES_TYPE, SizesCertificate

FORMAT = 1  # of public messages; a head without `format` has this one
_FAR = 1e15  # larger than any count of people and any error of one
_M = TypeVar("_M", bound=BaseModel)
_P = TypeVar("_P", DataSet, PublishedSizes)

AnyCertificate = PanelCertificate | BatchCertificate | SizesCertificate
TableFilter = Callable[[Study, AnyCertificate, str], bool]


@dataclass(frozen=True)
class PublishedRelease:
    """A published release of a panel."""

    certificate: PanelCertificate
    message: Message

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


def at_period(study: Study, every: Sequence[_P], name: str, period: str | None) -> _P:
    """The data set or sizes of a release at a period, or the last ones.

    every: all that are published, of all releases.
    Raises UserError.
    """
    by_period = {d.certificate.period: d for d in every if d.certificate.release == name}
    if not by_period:
        raise UserError(f"release '{name}': nothing is published of it yet")
    if period is not None and period not in by_period:
        there = ", ".join(by_period)
        raise UserError(f"release '{name}': none at period '{period}'; it has {there}")
    # A result may be late: the last is that of the latest period.
    numbers = study.periods.numbers
    return by_period[period or max(by_period, key=lambda label: numbers[label])]


def refusal(message: Message, why: str) -> Inconsistent:
    """The error that refuses a message of a public log."""
    return Inconsistent(f"public log: message {message.index}: {why}")


def declared_study(first: Message) -> Study:
    """The study that a public log begins with. Raises Inconsistent."""
    head = first.head
    _known_format(first)
    try:
        if head.get("type") != STUDY_TYPE or first.parts:
            raise ValueError
        study = Study.model_validate(head["study"])
        if contradictions(study):
            raise ValueError
        # Compute what later code relies on, so that a declaration out of bounds fails here.
        study.canonical(), study.periods.labels
    except (ValueError, KeyError, TypeError, ArithmeticError, UserError):
        why = "it does not begin with a study's declaration"
        raise refusal(first, f"{why} that stream-dp {__version__} can read") from None
    return study


def checked_release(study: Study, message: Message, keep: TableFilter) -> AnyPublished:
    """The release in a message, with the tables that `keep` selects. Raises Inconsistent."""
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
        release = reader.read(study, declared, stated, message)
    except Inconsistent as error:
        raise refusal(message, error.lines[0]) from None
    certificate = release.certificate
    parts = tuple(
        (name, data)
        for name, data in message.parts
        if keep(study, certificate, name.partition("/")[0])
    )
    return replace(release, message=replace(message, head={}, parts=parts, manifest=b""))


def _known_format(message: Message) -> None:
    if message.head.get("format", FORMAT) != FORMAT:
        raise refusal(
            message,
            f"is of a later format than stream-dp {__version__} reads; use a newer version",
        )


def _certificate(model: type[_M], head: dict[str, object]) -> _M:
    try:
        return model.model_validate(head)
    except ValidationError as error:
        # Name the field alone: what stands below it was written by somebody else.
        fault = error.errors(include_input=False, include_url=False, include_context=False)[0]
        raise Inconsistent(f"a certificate cannot be read: {fault['loc'][0]}") from None


def _require_stated(study: Study, certificate: AnyCertificate, **expected: object) -> None:
    """Raises Inconsistent where a certificate does not state what the study declares."""
    expected |= {
        "study": study.name,
        "horizon": study.periods.count,
        "unit": study.unit,
        "neighbours": study.neighbours,
        "rho_total": study.rho,
        "delta": study.delta,
        "number": study.periods.numbers.get(certificate.period),
    }
    for name, value in expected.items():
        if getattr(certificate, name) != value:
            raise Inconsistent(f"its certificate's {name} is not what the study declares")


def _panel(
    study: Study, declared: Release, certificate: PanelCertificate, message: Message
) -> PublishedRelease:
    alphabet = study.alphabet(declared)
    # The panel of a cumulative release has the event as its symbols, not the attribute's values.
    values = [alphabet.values] if has_patterns(declared) else [(0, 1), (0, 1, ABSENT)]
    _require_stated(study, certificate, kind=declared.kind, attribute=alphabet.name)
    if certificate.values not in values:
        raise Inconsistent("its certificate's values are not what the study declares")
    if study.time(declared, certificate.number) is None:
        raise Inconsistent("at a period that its release does not have")
    if not {name.partition("/")[0] for name, _ in message.parts} <= {*_PANEL_READER.tables}:
        raise Inconsistent("has parts that no release has")
    where = f"{certificate.release} at {certificate.period}"
    try:
        panel, measurements = read_panel(message.parts), read_measurements(message.parts)
        estimates = read_estimates(message.parts)
    except ValueError as error:
        raise Inconsistent(f"{where}: {error}") from None
    names = tuple(panel.column_names)
    if (panel.num_rows, names) != (certificate.rows, certificate.columns) or len(set(names)) < len(
        names
    ):
        raise Inconsistent(f"{where}: not the columns of its certificate")
    if panel.num_rows and max(map(_largest, panel.columns)) >= len(certificate.values):
        raise Inconsistent(f"{where}: a row has a value that is not declared")
    if not all(_is_plausible(table) for table in (measurements, estimates)):
        raise Inconsistent(f"{where}: a measurement or an estimate is no number of people")
    return PublishedRelease(certificate, message)


def _largest(column: pa.ChunkedArray) -> int:
    return int(pa.compute.max(column).as_py())


def _is_plausible(table: pa.Table) -> bool:
    """Whether all values and errors are finite numbers of people, and no error is below 0."""
    values, errors = (table[name].to_numpy().astype(float) for name in ("value", "standard_error"))
    return bool((np.abs(values) < _FAR).all() and ((errors >= 0) & (errors < _FAR)).all())


def _data_set(
    study: Study, declared: TableRelease, certificate: BatchCertificate, message: Message
) -> DataSet:
    _require_stated(study, certificate, kind=declared.kind, columns=column_values(study, declared))
    data_set = DataSet(certificate, message)
    where = f"{certificate.release} at {certificate.period}"
    try:
        tables = data_set.check()
    except Inconsistent as error:
        raise Inconsistent(f"{where}: {error}") from None
    if not _is_plausible(data_set.measurements):
        raise Inconsistent(f"{where}: a measurement is no number of people")
    if not has_declared_roles(study, tables):
        raise Inconsistent(f"{where}: a group has not the roles that the study declares")
    return data_set


def _sizes(
    study: Study, declared: SizesRelease, certificate: SizesCertificate, message: Message
) -> PublishedSizes:
    assert study.places is not None  # a study with sizes and without places contradicts itself
    _require_stated(
        study,
        certificate,
        kind=declared.kind,
        regions=study.places.regions,
        largest=declared.largest,
    )
    if [level.name for level in certificate.levels] != [ALL, *study.places.regions]:
        raise Inconsistent("its certificate's levels are not what the study declares")
    if sum(level.rho for level in certificate.levels) != certificate.rho:
        raise Inconsistent("the levels of its certificate do not add up to its cost")
    sizes = PublishedSizes(certificate, message)
    try:
        sizes.check()
    except Inconsistent as error:
        where = f"{certificate.release} at {certificate.period}"
        raise Inconsistent(f"{where}: {error}") from None
    return sizes


@dataclass(frozen=True)
class Reader:
    """How a release of a family is read.

    name: of its messages in a contract.
    message_type: of its messages.
    certificate: the model of their heads.
    tables: the names of the tables that a message may have.
    read: the release in a message with a certificate of a declared release. Raises Inconsistent.
    """

    name: str
    message_type: str
    certificate: type[PanelCertificate] | type[BatchCertificate] | type[SizesCertificate]
    tables: tuple[str, ...]
    read: Callable[..., AnyPublished]


_PANEL_READER = Reader(
    "panel", RELEASE_TYPE, PanelCertificate, ("panel", "measurements", "estimates"), _panel
)
_TABLE_READER = Reader(
    "dataSet", BATCH_TYPE, BatchCertificate, ("groups", "people", "measurements"), _data_set
)
READERS: Registry[Family, Reader] = Registry(
    "readers of published releases",
    Family,
    {
        **dict.fromkeys(PANEL_FAMILIES, _PANEL_READER),
        **dict.fromkeys(TABLE_FAMILIES, _TABLE_READER),
        Family.SIZES: Reader(
            "sizes", SIZES_TYPE, SizesCertificate, ("regions", "sizes", "measurements"), _sizes
        ),
    },
)
