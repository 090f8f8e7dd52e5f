"""Reads tables of any library with Arrow's PyCapsule interface, and writes those of some."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from stream_dp.errors import UserError

_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")


@runtime_checkable
class ArrowStream(Protocol):
    """A table with an Arrow stream: of pyarrow, pandas from 2.2 on, polars, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


@dataclass(frozen=True, eq=False)
class NamedTable:
    """A table in memory, with its name in errors."""

    name: str
    rows: pa.Table

    def __str__(self) -> str:
        return self.name


TableSource = Path | NamedTable  # a file or a table in memory; both have a `name` for people


def arrow_table(table: ArrowStream, name: str) -> pa.Table:
    """Converts a table to pyarrow. An unnamed index of pandas is no column.

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
        read = pa.table(table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UserError(
            f"{name}: cannot be read as an Arrow table: {type(error).__name__}"
        ) from None
    return read.drop_columns([c for c in read.column_names if _UNNAMED_INDEX.fullmatch(c)])


def table_like(table: pa.Table, pattern: object) -> Any:
    """Converts a table of pyarrow to the library of `pattern`: pandas or polars.

    A pattern of any other library leaves the table as it is.
    """
    for kind in type(pattern).__mro__:
        if (convert := _LIBRARIES.get(kind.__module__.partition(".")[0])) is not None:
            return convert(table)
    return table


_LIBRARIES: Mapping[str, Callable[[pa.Table], Any]] = {
    "pandas": lambda table: table.to_pandas(),
    "polars": lambda table: import_module("polars").from_arrow(table),
}


def missing_columns(table: str, names: Sequence[str], needed: Sequence[str]) -> list[str]:
    """A line for every needed column that is missing in a table or repeated."""
    listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return [
        f"{table}: no column '{n}'; there are {listed}"
        if n not in names
        else f"{table}: more than one column '{n}'"
        for n in needed
        if list(names).count(n) != 1
    ]
