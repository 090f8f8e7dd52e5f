"""Writes tables to the sheets of an .xlsx file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import IO, Any

import pyarrow as pa

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
