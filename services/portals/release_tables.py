"""The tables of a release that can be taken away: by family, and as a series of answers.

A row of the series, which is SDMX-CSV 2.0, is an observation at a period. Answers share their
noise, so the series has a table of covariances. Tables are written to Parquet, Arrow, JSON, CSV for
programs or for spreadsheets, and .xlsx.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from stream_dp.client import PublicLog
from stream_dp.errors import UserError, missing_extra
from stream_dp.panel import Panel
from stream_dp.release.answer import ReleaseQuery
from stream_dp.study import Family, Study
from stream_dp.study.families import PANEL_FAMILIES, Registry

from .description import DescribedColumn

PANEL = "panel"


def tables_of(public: PublicLog, name: str) -> tuple[str, ...]:
    """The names of a release's tables. Raises UserError."""
    return _TABLES[_family(public, name)][0]


def release_table(public: PublicLog, name: str, table: str, period: str | None) -> pa.Table:
    """The rows of a table of `tables_of`, but for the panel. Raises UserError.

    period: of a panel's other tables None for all periods; otherwise None is the latest.
    """
    return _TABLES[_family(public, name)][1](public, name, table, period)


def table_sample(public: PublicLog, name: str, table: str, period: str | None = None) -> pa.Table:
    """A table with the columns of `release_table`; the rows of a panel have each value once."""
    if table != PANEL:
        return release_table(public, name, table, period)
    certificates = [release.certificate for release in public.releases_of(name)]
    columns = tuple(column for certificate in certificates for column in certificate.columns)
    values = certificates[-1].values
    codes = np.repeat(np.arange(len(values), dtype=np.uint8)[:, None], len(columns), axis=1)
    return Panel(codes, columns, values).table()


def listed_values(
    public: PublicLog, name: str, table: str, sample: pa.Table, period: str | None = None
) -> dict[str, tuple[int | str, ...]]:
    """By column, its possible values if they are listed. sample: of `table_sample`."""
    if table == PANEL:
        names = sample.column_names[1:]
        return {column: tuple(dict.fromkeys(sample[column].to_pylist())) for column in names}
    if table not in {"people", "groups", "events"}:
        return {}
    columns = public.data_set(name, period).certificate.columns[table]
    return {
        column: tuple(str(v) if pa.types.is_string(sample[column].type) else v for v in values)
        for column, values in columns.items()
        if isinstance(values, tuple)
    }


def _family(public: PublicLog, name: str) -> Family:
    return (public.study.declared(name) or public.study.release(name)).family


def _table_of_sizes(public: PublicLog, name: str, table: str, period: str | None) -> pa.Table:
    sizes = public.sizes(name, period)
    return sizes.table if table == "sizes" else sizes.measurements


def _table_of_data_set(public: PublicLog, name: str, table: str, period: str | None) -> pa.Table:
    data_set = public.data_set(name, period)
    if table == "measurements":
        return data_set.measurements
    return data_set.named_tables[table]


def _table_of_panel(public: PublicLog, name: str, table: str, period: str | None) -> pa.Table:
    if period is not None:
        release = public.release_at(name, period)
        return release.measurements if table == "measurements" else release.estimates
    return public.measurements(name) if table == "measurements" else public.estimates(name)


# By family: the names of the tables, and a reader of all but the panel.
_TABLES: Registry[
    Family, tuple[tuple[str, ...], Callable[[PublicLog, str, str, str | None], pa.Table]]
] = Registry(
    "tables of releases",
    Family,
    {
        **dict.fromkeys(PANEL_FAMILIES, ((PANEL, "measurements", "estimates"), _table_of_panel)),
        Family.PEOPLE: (("people", "measurements"), _table_of_data_set),
        Family.HOUSEHOLDS: (("groups", "people", "measurements"), _table_of_data_set),
        Family.EVENTS: (("people", "events", "measurements"), _table_of_data_set),
        Family.SIZES: (("sizes", "measurements"), _table_of_sizes),
    },
)


COVARIANCE = "covariance"
MOST = 500  # answers of a measure
COVARIANCE_COLUMNS = (
    DescribedColumn("first", "integer", "an answer: its row in the time series, from 1"),
    DescribedColumn("second", "integer", "another answer, or the same; not before the first"),
    DescribedColumn("covariance", "number", "the covariance of the privacy noise of both answers"),
)


def covariance_table(public: PublicLog, series: pa.Table) -> pa.Table:
    """The covariances of all pairs of answers of the same measure; no rows without any error.

    series: of `series_table`, of one release. Of each measure the table has the first `MOST`
    answers with a standard error, in the order of `_by_length`. Raises UserError.
    """
    columns: list[list[np.ndarray]] = [[], [], []]
    time, queries = time_column(public.study), series["QUERY"].to_pylist()
    releases, periods = series["RELEASE"].to_pylist(), series[time].to_pylist()
    for measure in ("share", "count"):
        rows = np.sort(_by_length(series, measure)[:MOST])
        if not rows.size:
            continue
        release_queries = [ReleaseQuery(releases[row], queries[row], periods[row]) for row in rows]
        joint = public.answers(release_queries, count=measure == "count")
        first, second = np.triu_indices(rows.size)
        cells = rows[first] + 1, rows[second] + 1, joint.covariance[first, second]
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
    kinds = pa.int64(), pa.int64(), pa.float64()
    arrays = [
        pa.array(np.concatenate(column) if column else [], kind)
        for column, kind in zip(columns, kinds, strict=True)
    ]
    return pa.table(arrays, names=[column.name for column in COVARIANCE_COLUMNS])


def _by_length(series: pa.Table, measure: str) -> list[int]:
    """The rows of a measure with a standard error, from 0.

    Queries of the fewest words come first, and of each query the latest periods.
    """
    queries = series["QUERY"].to_pylist()
    order = {query: position for position, query in enumerate(dict.fromkeys(queries))}
    measures, errors = series["MEASURE"].to_pylist(), series["STANDARD_ERROR"].to_pylist()
    rows = (row for row, error in enumerate(errors) if error is not None)
    return sorted(
        (row for row in rows if measures[row] == measure),
        key=lambda row: (len(queries[row].split()), order[queries[row]], -row),
    )


SERIES = "series"
SERIES_MEDIA = "application/vnd.sdmx.data+csv;version=2.0.0"
_LABELS = {
    "STRUCTURE": "the kind of structure that describes the row",
    "STRUCTURE_ID": "the agency, the id and the version of the structure",
    "ACTION": "I: the row is information",
    "RELEASE": "the release that answers",
    "STRATUM": "the stratum of the release; empty for all people",
    "QUERY": "the question that is answered",
    "MEASURE": "share or count",
    "PEOPLE": "of whom a share is; empty for a count",
    "TIME_PERIOD": "the period of the answer",
    "STEP": "the number of the period, which has no date",
    "OBS_VALUE": "the answer: of least error, or of records; unbiased where UNBIASED is empty",
    "STANDARD_ERROR": "the root mean square error by the privacy noise",
    "LOW": "the lower end of an interval of 95 % for the privacy noise",
    "HIGH": "the upper end of an interval of 95 % for the privacy noise",
    "UNBIASED": "the unbiased answer beside another",
    "UNBIASED_ERROR": "the standard error of the unbiased answer",
    "UNBIASED_LOW": "the lower end of the interval of the unbiased answer",
    "UNBIASED_HIGH": "the upper end of the interval of the unbiased answer",
    "HEAD": "the head of the public log that the answer was computed from",
}


def has_series(public: PublicLog, release: str | None = None) -> bool:
    """Whether a release, or any, has answers of its own in a table: sizes have none."""
    names = {r.certificate.release for r in public.published}
    declared = [public.study.declared(name) for name in names if release in (None, name)]
    return any(one is not None and one.counts_people for one in declared)


def time_column(study: Study) -> str:
    """The name of the column with the periods: those of steps have no dates."""
    return "STEP" if study.periods.every == "step" else "TIME_PERIOD"


def series_columns(study: Study) -> tuple[DescribedColumn, ...]:
    """The columns of `series_table`, dimensions before the observation and its attributes."""
    time = time_column(study)
    numbers = {"OBS_VALUE", "STANDARD_ERROR", "LOW", "HIGH"}
    numbers |= {name for name in _LABELS if name.startswith("UNBIASED")}
    names = [name for name in _LABELS if name not in {"STEP", "TIME_PERIOD"} - {time}]
    return tuple(
        DescribedColumn(name, "number" if name in numbers else "string", _LABELS[name])
        for name in names
    )


def series_table(
    public: PublicLog, release: str | None = None, period: str | None = None
) -> pa.Table:
    """All answers of a release, or of all releases that have some. Raises UserError.

    period: of the answers; None for all.

    Names that SDMX does not allow, with a dot, have an underscore there.
    """
    answers, study = public.answer_table(release), public.study
    if period is not None:
        answers = answers.filter(pc.equal(answers["period"], period))
    rows = answers.num_rows
    structure = f"STREAM_DP:{study.name.replace('.', '_')}(1.0)"
    constant = [pa.array([text] * rows, pa.string()) for text in ("dataflow", structure, "I")]
    order = ["release", "stratum", "query", "measure", "people", "period", "value"]
    order += ["standard_error", "low", "high", "unbiased", "unbiased_error", "unbiased_low"]
    order += ["unbiased_high", "head"]
    names = [column.name for column in series_columns(study)]
    return pa.table([*constant, *(answers[name] for name in order)], names=names)


MOST_ROWS = (1 << 20) - 1  # of a sheet, below its header


def write_sheets(file: IO[bytes], sheets: Mapping[str, Iterator[pa.Table]]) -> None:
    """Writes a sheet for each name, with a header; no text is a formula.

    Raises UserError for more rows than a sheet holds.
    """
    try:
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell
    except ImportError:
        raise missing_extra("export: .xlsx needs openpyxl", "tables") from None
    book = Workbook(write_only=True)

    def append(sheet: Any, values: Any) -> None:
        cells = [WriteOnlyCell(sheet, value) for value in values]
        for cell in cells:
            if isinstance(cell.value, str):
                cell.data_type = "s"
        sheet.append(cells)

    try:
        for name, tables in sheets.items():
            sheet = book.create_sheet(name)
            first, rows = next(tables), 0
            append(sheet, first.column_names)
            for table in chain([first], tables):
                rows += table.num_rows
                if rows > MOST_ROWS:
                    raise UserError(
                        f"export: a sheet holds {MOST_ROWS} rows, and '{name}' has more; write it"
                        " as .parquet or .csv"
                    )
                for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                    append(sheet, row)
    except BaseException:
        for sheet in book.worksheets:  # ends the writers of its temporary files
            sheet.close()
        raise
    book.save(file)


TABLE_MEDIA = {
    ".parquet": "application/vnd.apache.parquet",
    ".csv": "text/csv",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
_MARK = "\ufeff".encode()
_AT_ONCE = 65_536  # rows of a batch
_OPENING = b"[\n"  # of a JSON array


@dataclass(frozen=True)
class CsvForm:
    """The form of a CSV file. mark: whether it begins with a byte order mark."""

    separator: str = ","
    mark: bool = False


def write_tables(
    out: Path,
    tables: Mapping[str, Iterator[pa.Table]],
    csv_form: CsvForm | None = None,
    about: Mapping[bytes, bytes] | None = None,
    *,
    suffix: str | None = None,
) -> None:
    """Writes tables to a file; several only to .xlsx.

    about: metadata of a Parquet file.
    suffix: .parquet, .arrow, .csv, .json or .xlsx; by default that of the file's name.

    Raises UserError, OSError.
    """
    suffix = suffix or out.suffix
    with out.open("wb") as file:
        if suffix == ".xlsx":
            write_sheets(file, tables)
            return
        (rows,) = tables.values()
        first = next(rows)
        schema = first.replace_schema_metadata(about).schema
        with _writer(file, suffix, schema, csv_form or CsvForm()) as writer:
            for table in chain([first], rows):
                writer.write_table(table.replace_schema_metadata(about))


def _writer(file: IO[bytes], suffix: str, schema: pa.Schema, form: CsvForm) -> Any:
    """A context with a method `write_table`."""
    if suffix == ".parquet":
        return pa.parquet.ParquetWriter(file, schema)
    if suffix == ".arrow":
        return pa.ipc.new_file(file, schema)
    if suffix == ".json":
        return _JsonWriter(file)
    if form.mark:
        file.write(_MARK)
    options = pa.csv.WriteOptions(delimiter=form.separator)
    return pa.csv.CSVWriter(file, schema, write_options=options)


class _JsonWriter:
    """Writes an array with an object for each row."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._separator = file, _OPENING

    def __enter__(self) -> _JsonWriter:
        return self

    def write_table(self, table: pa.Table) -> None:
        """Writes the rows after the opening bracket, with commas between."""
        for batch in table.to_batches(_AT_ONCE):
            for row in batch.to_pylist():
                self._file.write(self._separator + json.dumps(row).encode())
                self._separator = b",\n"

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._file.write(b"\n]\n" if self._separator != _OPENING else b"[]\n")
