"""Writes tables to files: Parquet, CSV for programs or for spreadsheets, and sheets of .xlsx."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from .sheet_writer import write_sheets

TABLE_MEDIA = {
    ".parquet": "application/vnd.apache.parquet",
    ".csv": "text/csv",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
_MARK = "\ufeff".encode()


@dataclass(frozen=True)
class CsvForm:
    """The form of a CSV file. mark: whether it begins with a byte order mark."""

    separator: str = ","
    mark: bool = False


def write_tables(
    draft: Path,
    tables: Mapping[str, Iterator[pa.Table]],
    form: CsvForm | None = None,
    about: Mapping[bytes, bytes] | None = None,
) -> None:
    """Writes tables as the ending of the file's name says; several only to .xlsx.

    form: of CSV. about: metadata of a Parquet file. Raises UserError, OSError.
    """
    if draft.suffix == ".xlsx":
        with draft.open("wb") as file:
            write_sheets(file, tables)
        return
    (rows,) = tables.values()
    first = next(rows)
    with draft.open("wb") as file, _writer(file, draft.suffix, first, form, about) as writer:
        for table in chain([first], rows):
            writer.write_table(table.replace_schema_metadata(about))


def _writer(
    file: Any,
    suffix: str,
    first: pa.Table,
    form: CsvForm | None,
    about: Mapping[bytes, bytes] | None,
) -> Any:
    schema = first.replace_schema_metadata(about).schema
    if suffix == ".parquet":
        return pa.parquet.ParquetWriter(file, schema)
    form = form or CsvForm()
    if form.mark:
        file.write(_MARK)
    options = pa.csv.WriteOptions(delimiter=form.separator)
    return pa.csv.CSVWriter(file, schema, write_options=options)
