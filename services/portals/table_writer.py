"""Writes tables to files: Parquet, Arrow, JSON, CSV for programs or for spreadsheets, and .xlsx."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from stream_dp.errors import UserError, missing_extra

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
