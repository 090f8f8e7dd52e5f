"""`stream-dp releases` and `stream-dp export`: lists what is published, and writes its tables.

The tables of a release lie in a folder with their descriptions.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.json_object import Json
from stream_dp.panel import Panel
from stream_dp.release.public_reader import AnyCertificate, AnyPublished, keep_none
from stream_dp.release.published_panels import ADVICE, long_tables
from stream_dp.study import Family, Study
from stream_dp.study.families import PANEL_FAMILIES, TABLE_FAMILIES, Registry
from stream_dp.study.period_texts import period_label

from ..portals.description import DescribedFile, describe
from ..portals.documents import DOCUMENTS, described_covariances, described_series, described_tables
from ..portals.release_tables import (
    COVARIANCE,
    PANEL,
    SERIES,
    SERIES_MEDIA,
    TABLE_MEDIA,
    CsvForm,
    covariance_table,
    has_series,
    release_table,
    series_table,
    tables_of,
    write_tables,
)
from ..process.command_output import Output
from ..storage.atomic_files import atomic_file, atomic_folder
from ..storage.deployment import open_pinned


def run(options: argparse.Namespace) -> Output:
    out: Path = options.out
    is_folder = not out.suffix

    def keep(study: Study, certificate: AnyCertificate, table: str) -> bool:
        is_selected = certificate.release == options.release
        if is_folder:  # answers of all periods need the measurements of all releases
            return is_selected or table == "measurements"
        label = period_label(study.periods, options.period or "")
        last = study.periods.numbers.get(label, study.periods.count)
        exported_table = "measurements" if options.measurements else PANEL
        is_exported = table == exported_table or study.batch(certificate.release) is not None
        return is_selected and certificate.number <= last and is_exported

    public, _ = open_pinned(options, keep)
    if options.period is not None:
        options.period = period_label(public.study.periods, options.period)
    declared = public.study.batch(options.release) or public.study.release(options.release)
    is_data_set = public.study.batch(options.release) is not None
    _check(options, is_data_set)
    if is_folder:
        return _export_folder(public, options, declared.family)
    if is_data_set:
        names = tables_of(public, options.release)
        tables = {n: release_table(public, options.release, n, options.period) for n in names}
        with atomic_file(out, public=True) as draft:
            write_tables(draft, {name: iter([table]) for name, table in tables.items()})
        rows = {name: table.num_rows for name, table in tables.items()}
        counted = ", ".join(f"{count} rows of {name}" for name, count in rows.items())
        return Output({"out": str(out), "rows": rows, "hash": public.head}, f"{out}: {counted}")
    return _export_file(public, options)


def _check(options: argparse.Namespace, is_data_set: bool) -> None:
    """Raises UserError for options that do not go together."""
    out: Path = options.out
    for option in ("long", "measurements"):
        if getattr(options, option) and (is_data_set or not out.suffix):
            kind = "a data set" if is_data_set else "written to a folder with all its tables"
            raise UserError(
                f"--{option}: goes with a file of a panel; '{options.release}' is {kind}"
            )
    for option in ("separator", "bom"):
        if getattr(options, option) and out.suffix != ".csv":
            raise UserError(f"--{option}: goes with a .csv file, not with {out}")
    if options.format and out.suffix:
        raise UserError(f"--format: goes with a folder; the file {out} has its form in its name")
    if out.suffix and is_data_set and out.suffix != ".xlsx":
        raise UserError(
            f"{out}: this release is a data set: name a folder for its tables, or a .xlsx file"
        )
    if out.suffix and out.suffix not in TABLE_MEDIA:
        raise UserError(f"{out}: write it as .parquet, .csv or .xlsx, or name a folder")
    if not out.suffix and options.period and not is_data_set:
        raise UserError("--period: of a panel goes with a file; a folder has all periods")


def _export_file(public: PublicLog, options: argparse.Namespace) -> Output:
    """Writes a panel or its measurements to a file."""
    out: Path = options.out
    form = CsvForm("\t" if options.separator == "tab" else options.separator or ",", options.bom)
    if options.measurements:
        table = public.measurements(options.release, options.period)
        _write(out, {"measurements": iter([table])}, form)
        text = f"{out}: {table.num_rows} noisy answers of {options.release}, with their variances"
        return Output({"out": str(out), "rows": table.num_rows, "hash": public.head}, text)
    bias = public.release_at(options.release, options.period).certificate.panel_bias
    panel = public.panel(options.release, options.period)
    day = pa.timestamp("ms") if out.suffix == ".parquet" else pa.date32()
    long = long_tables(public.study.periods, panel, day) if options.long else None
    rows = panel.tables() if long is None else long
    _write(out, {PANEL: rows}, form)
    data, text = _panel_facts(panel, bias)
    return Output({"out": str(out), **data}, f"{out}: {text}")


def _write(out: Path, tables: Mapping[str, Iterator[pa.Table]], form: CsvForm) -> None:
    with atomic_file(out, public=True) as draft:
        write_tables(draft, tables, form)


def _panel_facts(panel: Panel, bias: str) -> tuple[dict[str, object], str]:
    first, last = panel.periods[0], panel.periods[-1]
    data = {"rows": panel.rows, "periods": list(panel.periods), "panel_bias": bias}
    return data, f"{panel.rows} synthetic rows, {first} to {last}\n{ADVICE}"


def _export_folder(public: PublicLog, options: argparse.Namespace, family: Family) -> Output:
    """Writes all tables of a release, their time series and the documents that describe them."""
    out, name, period = options.out, options.release, options.period
    suffix = f".{options.format or 'parquet'}"
    published, data, text = _FACTS[family](public, name, period, out, suffix)
    about = {b"stream-dp-release": published[-1].message.hash.encode()}
    tables = tables_of(public, name)
    with atomic_folder(out, public=True) as draft:
        for table in tables:
            rows = _rows(public, name, table, period)
            write_tables(draft / f"{table}{suffix}", {table: rows}, about=about)
        described = described_tables(
            public,
            name,
            period,
            lambda table: [_described_file(draft / f"{table}{suffix}", TABLE_MEDIA[suffix])],
        )
        if has_series(public, name):
            # A data set is of one period; a panel has answers of periods before its first release.
            only = None if PANEL in tables else published[-1].certificate.period
            file = draft / f"{SERIES}.csv"
            series = series_table(public, name, only)
            write_tables(file, {SERIES: iter([series])})
            described.append(described_series(public, _described_file(file, SERIES_MEDIA)))
            covariances = covariance_table(public, series)
            if covariances.num_rows:
                file = draft / f"{COVARIANCE}{suffix}"
                write_tables(file, {COVARIANCE: iter([covariances])})
                described.append(described_covariances(_described_file(file, TABLE_MEDIA[suffix])))
        description = describe(public, described, published, release=name)
        for file_name, document in DOCUMENTS.items():
            (draft / file_name).write_bytes(document.write(description))
    data |= {
        "out": [str(out / f"{table}{suffix}") for table in tables],
        "documents": [str(out / file_name) for file_name in DOCUMENTS],
        "hash": published[-1].message.hash,
    }
    return Output(data, f"{text}\n{out}: described in {', '.join(DOCUMENTS)}")


def _rows(public: PublicLog, name: str, table: str, period: str | None) -> Iterator[pa.Table]:
    if table == PANEL:
        return public.panel(name).tables()
    return iter([release_table(public, name, table, period)])


def _described_file(path: Path, media: str) -> DescribedFile:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return DescribedFile(path.name, media, path.stat().st_size, digest)


_Facts = tuple[Sequence[AnyPublished], dict[str, Any], str]


def _facts_of_panel(
    public: PublicLog, name: str, period: str | None, out: Path, suffix: str
) -> _Facts:
    bias = public.release_at(name, None).certificate.panel_bias
    data, text = _panel_facts(public.panel(name), bias)
    return public.releases_of(name), data, f"{out / f'{PANEL}{suffix}'}: {text}"


def _facts_of_tables(
    public: PublicLog, name: str, period: str | None, out: Path, suffix: str
) -> _Facts:
    """The data set of a folder, its numbers of rows, and these in words."""
    data_set = public.data_set(name, period)
    certificate, groups = data_set.certificate, public.study.groups
    data = {
        "groups": certificate.groups,
        "people": certificate.people,
        "period": certificate.period,
    }
    members = f"{out / f'people{suffix}'}: {certificate.people} synthetic "
    if not certificate.groups:
        text = f"{members}{public.study.unit}s, of {certificate.period}"
        declared = public.study.batch(name)
        for table, unit in {} if declared is None else declared.row_units.items():
            data[table] = number = data_set.named_tables[table].num_rows
            text += f"\n{out / f'{table}{suffix}'}: their {number} {unit}s"
        return [data_set], data, text
    unit = groups.unit if groups is not None else "group"
    text = (
        f"{out / f'groups{suffix}'}: {certificate.groups} synthetic {unit}s\n"
        f"{members}members, of {certificate.period}"
    )
    return [data_set], data, text


def _facts_of_sizes(
    public: PublicLog, name: str, period: str | None, out: Path, suffix: str
) -> _Facts:
    """The sizes of a folder, their numbers of rows, and these in words."""
    sizes = public.sizes(name, period)
    certificate = sizes.certificate
    data = {
        "rows": certificate.rows,
        "measured": certificate.measured,
        "period": certificate.period,
    }
    text = (
        f"{out / f'sizes{suffix}'}: {certificate.groups} groups by region and size, of"
        f" {certificate.period}\n"
        f"{out / f'measurements{suffix}'}: {certificate.measured} noisy values"
    )
    return [sizes], data, text


# Of what is exported: the releases, and the facts that the command prints.
_FACTS: Registry[Family, Callable[[PublicLog, str, str | None, Path, str], _Facts]] = Registry(
    "facts of exported folders",
    Family,
    {
        **dict.fromkeys(PANEL_FAMILIES, _facts_of_panel),
        **dict.fromkeys(TABLE_FAMILIES, _facts_of_tables),
        Family.SIZES: _facts_of_sizes,
    },
)


def list_releases(options: argparse.Namespace) -> Output:
    public, _ = open_pinned(options, keep_none)
    study = public.study
    listed: list[Json] = [
        {
            "release": certificate.release,
            "period": certificate.period,
            "kind": certificate.kind,
            "rows": certificate.published_rows,
            "rho": str(certificate.rho),
            "rho_spent": str(certificate.rho_spent),
            "epsilon_spent": certificate.epsilon_spent,
            "hash": release.message.hash,
        }
        for release in public.published
        for certificate in [release.certificate]
    ]
    data = {"study": study.name, "study_hash": study.hash, "releases": listed, "head": public.head}
    lines = [f"{'release':<20} {'period':<10} {'rows':>9} {'rho':>12} {'eps so far':>10}  hash"]
    lines += [
        f"{x['release']:<20} {x['period']:<10} {x['rows']:>9} {float(r.certificate.rho):>12.6g} "
        f"{float(x['epsilon_spent']):>10.3f}  {x['hash'][:16]}"
        for x, r in zip(listed, public.published, strict=True)
    ]
    description = " ".join(study.description.split())
    heading = f"study {study.name}" + (f": {description}" if description else "")
    return Output(data, "\n".join([heading, *lines, f"head {public.head}"]))
