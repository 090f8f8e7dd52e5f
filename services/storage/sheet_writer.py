"""Writes a table as the only sheet of an .xlsx file."""

from __future__ import annotations

from typing import IO, Any

import pyarrow as pa

from stream_dp.errors import UserError

MOST_ROWS = (1 << 20) - 1  # of a sheet, below its header


class SheetWriter:
    """Writes rows of a schema; no text is a formula. Raises UserError.

    file: of the .xlsx, which is written at the end of the context.
    """

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        try:
            from openpyxl import Workbook
            from openpyxl.cell import WriteOnlyCell
        except ImportError:
            raise UserError(
                "export: .xlsx needs openpyxl: pip install 'stream-dp[tables]'"
            ) from None
        self._file, self._book, self._cell = file, Workbook(write_only=True), WriteOnlyCell
        self._sheet = self._book.create_sheet()
        self._rows = 0
        self._append(schema.names)

    def __enter__(self) -> SheetWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._sheet.close()
        if kind is None:
            self._book.save(self._file)

    def write_table(self, table: pa.Table) -> None:
        """Appends the rows of a table. Raises UserError for more than a sheet holds."""
        self._rows += table.num_rows
        if self._rows > MOST_ROWS:
            raise UserError(
                f"export: a sheet holds {MOST_ROWS} rows, and this table has more; write it as"
                " .parquet or .csv"
            )
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            self._append(row)

    def _append(self, values: Any) -> None:
        cells = [self._cell(self._sheet, value) for value in values]
        for cell in cells:
            if isinstance(cell.value, str):
                cell.data_type = "s"
        self._sheet.append(cells)
