"""Reads the needed columns of a file, CSV as text or Parquet; no type is inferred from the data."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from stream_dp.errors import UserError

from .hierarchy_tables import missing_columns


def read_table(path: Path, columns: Sequence[str]) -> pa.Table:
    """Reads columns of a .csv file, as text, or of a .parquet file. Raises UserError."""
    columns = list(dict.fromkeys(columns))
    lines = missing_columns(str(path), column_names(path), columns)
    if lines:
        raise UserError(lines)
    try:
        if path.suffix == ".parquet":
            return pyarrow.parquet.read_table(path, columns=columns)
        as_text = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.string()),
            include_columns=columns,
            strings_can_be_null=True,
            null_values=[""],
        )
        # Without it a quoted cell that spans two blocks would be cut in two.
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
        return pyarrow.csv.read_csv(path, parse_options=parse, convert_options=as_text)
    except (pa.ArrowException, OSError):
        raise _unreadable(path) from None


def column_names(path: Path) -> list[str]:
    """The column names of a file. Raises UserError for an unreadable file."""
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    try:
        if path.suffix == ".parquet":
            return list(pyarrow.parquet.read_schema(path).names)
        if path.suffix == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as lines:
                return next(csv.reader(lines), [])
    except (pa.ArrowException, UnicodeDecodeError, csv.Error, OSError):
        raise _unreadable(path) from None
    raise UserError(f"{path}: tables are .csv or .parquet")


def _unreadable(path: Path) -> UserError:
    return UserError(f"{path}: cannot be read: check its header, its rows and that it is UTF-8")
