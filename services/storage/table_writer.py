"""Writes tables to files: Parquet, CSV for programs or for spreadsheets, and sheets of .xlsx.

Writes tables to the sheets of an .xlsx file.
"""

from __future__ import annotations

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
