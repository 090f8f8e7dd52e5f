"""Reads tables of any library with Arrow's PyCapsule interface."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import pyarrow as pa

from stream_dp.errors import UserError


@runtime_checkable
class ArrowStream(Protocol):
    """A table with an Arrow stream: of pyarrow, pandas from 2.2 on, polars, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


def arrow_table(table: ArrowStream, name: str) -> pa.Table:
    """Converts a table to pyarrow. An index of pandas is no column.

    name: of the argument, for errors.

    Raises UserError for an object that is no table.
    """
    if not isinstance(table, ArrowStream):
        raise UserError(
            f"{name}: must be a table of pyarrow, pandas (2.2 or newer), polars or another library"
            f" with Arrow's PyCapsule interface (__arrow_c_stream__); {type(table).__name__} has"
            " none"
        )
    try:
        return pa.table(table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UserError(
            f"{name}: cannot be read as an Arrow table: {type(error).__name__}"
        ) from None
