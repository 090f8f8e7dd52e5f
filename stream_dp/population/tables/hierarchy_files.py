"""Reads the needed columns of a file, CSV as text or Parquet; no type is inferred from the data."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from stream_dp.errors import UserError

from ..arrow_tables import missing_columns
from ..table_bounds import bounded_lines, parquet_batches, readable


def read_table(path: Path, columns: Sequence[str]) -> pa.Table:
    """Reads columns of a .csv file, as text, or of a .parquet file. Raises UserError."""
    columns = list(dict.fromkeys(columns))
    lines = missing_columns(str(path), column_names(path), columns)
    if lines:
        raise UserError(lines)
    with readable(path):
        if path.suffix == ".parquet":
            header, *batches = parquet_batches(path, columns)
            return pa.Table.from_batches(batches or [header]).select(columns)
        as_text = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.string()),
            include_columns=columns,
            strings_can_be_null=True,
            null_values=[""],
        )
        # Without it a quoted cell that spans two blocks would be cut in two.
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
        return pyarrow.csv.read_csv(path, parse_options=parse, convert_options=as_text)


def column_names(path: Path) -> list[str]:
    """The column names of a file. Raises UserError for an unreadable file."""
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    with readable(path):
        if path.suffix == ".parquet":
            return list(pyarrow.parquet.read_schema(path).names)
        if path.suffix == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as lines:
                return next(csv.reader(bounded_lines(path, lines)), [])
    raise UserError(f"{path}: tables are .csv or .parquet")
