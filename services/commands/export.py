"""`stream-dp export`: writes a synthetic panel, or the tables of a data set."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from stream_dp.client import PublicLog
from stream_dp.errors import UserError, write_error
from stream_dp.panel import Panel
from stream_dp.release.public_reader import AnyCertificate
from stream_dp.study import Family, Study
from stream_dp.study.families import DATA_SET_FAMILIES, Registry

from ..deployment import open_pinned
from ..options import public_source
from ..process.output import Output
from ..storage.atomic_files import atomic_file
from ..storage.sheet_writer import SheetWriter


def options(parser: argparse.ArgumentParser) -> None:
    public_source(parser)
    parser.add_argument("release", metavar="RELEASE")
    help_text = (
        "a panel: a .parquet, .csv or .xlsx file; a data set: a folder for its Parquet files"
    )
    parser.add_argument("out", type=Path, metavar="OUT", help=help_text)
    parser.add_argument("--period", help="up to this period; the last one by default")
    form = parser.add_mutually_exclusive_group()
    help_text = "a row for each synthetic person and period, with the dates of the period"
    form.add_argument("--long", action="store_true", help=help_text)
    help_text = "the noisy answers of every period, with their variances, instead of a panel"
    form.add_argument("--measurements", action="store_true", help=help_text)


def run(options: argparse.Namespace) -> Output:
    out: Path = options.out

    def keep(study: Study, certificate: AnyCertificate, table: str) -> bool:
        last = study.periods.numbers.get(options.period, study.periods.count)
        is_selected = certificate.release == options.release and certificate.number <= last
        exported_table = "measurements" if options.measurements else "panel"
        return is_selected and (
            table == exported_table or study.batch(certificate.release) is not None
        )

    public, _ = open_pinned(options, keep)
    data_set = public.study.batch(options.release)
    if data_set is not None:
        if options.long or options.measurements:
            option = "--long" if options.long else "--measurements"
            raise UserError(f"{option}: goes with panels; '{options.release}' is a data set")
        if out.suffix:
            raise UserError(f"{out}: this release is a data set: name a folder for its tables")
        return _EXPORTS[data_set.family](public, options.release, options.period, out)
    public.study.release(options.release)
    if out.suffix not in _WRITERS:
        raise UserError(f"{out}: write it as .parquet, .csv or .xlsx")
    if options.measurements:
        table = public.measurements(options.release, options.period)
        _write(out, iter([table]))
        text = f"{out}: {table.num_rows} noisy answers of {options.release}, with their variances"
        return Output({"out": str(out), "rows": table.num_rows, "hash": public.head}, text)
    bias = public.release_at(options.release, options.period).certificate.panel_bias
    panel = public.panel(options.release, options.period)
    _write(out, _long(public.study, panel) if options.long else panel.tables())
    first, last = panel.periods[0], panel.periods[-1]
    periods = list(panel.periods)
    data = {"out": str(out), "rows": panel.rows, "periods": periods, "panel_bias": bias}
    text = f"{out}: {panel.rows} synthetic rows, {first} to {last}\npanel bias: {bias}"
    return Output(data, text)


_WRITERS = {
    ".parquet": pa.parquet.ParquetWriter,
    ".csv": pa.csv.CSVWriter,
    ".xlsx": SheetWriter,
}


def _write(out: Path, tables: Iterator[pa.Table]) -> None:
    first_rows = next(tables)
    with atomic_file(out) as draft, _WRITERS[out.suffix](draft, first_rows.schema) as file:
        for table in chain([first_rows], tables):
            file.write_table(table)


def _long(study: Study, panel: Panel) -> Iterator[pa.Table]:
    """The panel in long form: row, period, first and last day, and a column for each attribute.

    The days are null if periods are steps without dates.
    """
    periods = study.periods
    for index, label in enumerate(panel.periods):
        column = Panel(panel.symbols[:, index : index + 1], (label,), panel.values)
        days = periods.days(periods.numbers[label]) or (None, None)
        for table in column.tables():
            rows = table.num_rows
            names = [name.removeprefix(label).strip() or "value" for name in table.column_names[1:]]
            date_columns = [pa.array([label] * rows, pa.string())]
            date_columns += [pa.array([day] * rows, pa.date32()) for day in days]
            yield pa.table(
                [table.column(0), *date_columns, *table.columns[1:]],
                names=["row", "period", "first_day", "last_day", *names],
            )


def _export_tables(public: PublicLog, name: str, period: str | None, out: Path) -> Output:
    """Writes the tables of a data set: people, and groups of a study with groups."""
    data_set = public.data_set(name, period)
    certificate = data_set.certificate
    tables = dict(zip(sorted(certificate.columns), data_set.tables, strict=True))
    paths = _write_tables(tables, out, data_set.message.hash)
    data = {
        "out": [str(path) for path in paths],
        "groups": certificate.groups,
        "people": certificate.people,
        "period": certificate.period,
        "hash": data_set.message.hash,
    }
    members = f"{paths[-1]}: {certificate.people} synthetic "
    if not certificate.groups:
        return Output(data, f"{members}{public.study.unit}s, of {certificate.period}")
    unit = public.study.groups.unit if public.study.groups is not None else "group"
    text = (
        f"{paths[0]}: {certificate.groups} synthetic {unit}s\n"
        f"{members}members, of {certificate.period}"
    )
    return Output(data, text)


def _export_sizes(public: PublicLog, name: str, period: str | None, out: Path) -> Output:
    """Writes `sizes.parquet` and `measurements.parquet`."""
    sizes = public.sizes(name, period)
    tables = {"sizes": sizes.table, "measurements": sizes.measurements}
    paths = _write_tables(tables, out, sizes.message.hash)
    certificate = sizes.certificate
    data = {
        "out": [str(path) for path in paths],
        "rows": certificate.rows,
        "measured": certificate.measured,
        "period": certificate.period,
        "hash": sizes.message.hash,
    }
    text = (
        f"{paths[0]}: {certificate.groups} groups by region and size, of {certificate.period}\n"
        f"{paths[1]}: {certificate.measured} noisy values"
    )
    return Output(data, text)


_EXPORTS: Registry[Family, Callable[[PublicLog, str, str | None, Path], Output]] = Registry(
    "exports of data sets",
    DATA_SET_FAMILIES,
    {
        Family.PEOPLE: _export_tables,
        Family.HOUSEHOLDS: _export_tables,
        Family.SIZES: _export_sizes,
    },
)


def _write_tables(tables: Mapping[str, pa.Table], out: Path, release: str) -> list[Path]:
    """Writes tables to a folder as Parquet files, with the hash of their release."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(out, error) from None
    paths = []
    for name, table in tables.items():
        paths.append(out / f"{name}.parquet")
        with atomic_file(paths[-1]) as draft:
            about = {b"stream-dp-release": release.encode()}
            pa.parquet.write_table(table.replace_schema_metadata(about), draft)
    return paths
