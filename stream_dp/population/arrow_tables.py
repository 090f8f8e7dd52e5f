"""Reads tables of any library with Arrow's PyCapsule interface, and writes those of some."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

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
    frame: Any = table
    if _library(table) == "pandas":
        frame = _named_columns(frame, name)
    try:
        read = pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        faults = _column_faults(frame, name) if _library(table) == "pandas" else []
        raise UserError(
            faults or f"{name}: cannot be read as an Arrow table: {type(error).__name__}"
        ) from None
    return read.drop_columns([c for c in read.column_names if _UNNAMED_INDEX.fullmatch(c)])


def _named_columns(frame: Any, name: str) -> Any:
    """A table of pandas whose names of columns are texts. Raises UserError for a repeated one."""
    names = [str(column) for column in frame.columns]
    repeated = sorted({column for column in names if names.count(column) > 1})
    if repeated:
        raise UserError(
            f"{name}: more than one column '{repeated[0]}'; rename one, or leave it out"
        )
    if all(isinstance(column, str) for column in frame.columns):
        return frame
    renamed = frame.copy(deep=False)
    renamed.columns = names
    return renamed


def _column_faults(frame: Any, name: str) -> list[str]:
    """A line per column of a table of pandas that is no column of Arrow."""
    lines = []
    for column in frame.columns:
        cells = frame[column]
        try:
            pa.Array.from_pandas(cells)
        except (pa.ArrowException, TypeError, ValueError):
            kinds = sorted({type(cell).__name__ for cell in cells.dropna()})
            mixed = cells.dtype == object and len(kinds) > 1
            contents = f"values of several types ({', '.join(kinds[:4])})" if mixed else cells.dtype
            lines.append(
                f"{name}: column '{column}' holds {contents}; write it as text or as numbers, in"
                f" pandas df[{column!r}] = df[{column!r}].astype(str), or leave it out"
            )
    return lines


T = TypeVar("T", bound=ArrowStream)


def table_like(table: pa.Table, pattern: T) -> T:
    """Converts a table of pyarrow to the library of `pattern`, with the types of its columns.

    The columns stand in the order that they have in `pattern`. The columns of pandas have its
    names, which may be no texts. A column keeps its own type where a cell has no value of the
    pattern's type. A pattern of a library other than pandas and polars gives a table of pyarrow.
    """
    like: Any = pattern
    match _library(pattern):
        case "pandas":
            return cast(T, _pandas_like(table, like))
        case "polars":
            return cast(T, _polars_like(table, like))
    if isinstance(like, pa.Table):
        table = table.select([name for name in like.column_names if name in table.column_names])
        for i, name in enumerate(table.column_names):
            with suppress(pa.ArrowException):
                cells = table[name].cast(like.schema.field(name).type)
                table = table.set_column(i, name, cells)
    return cast(T, table)


def _pandas_like(table: pa.Table, like: Any) -> Any:
    columns = {str(column): i for i, column in enumerate(like.columns)}
    frame = table.select([name for name in columns if name in table.column_names]).to_pandas()
    for name in frame.columns:
        kind = like.dtypes.iloc[columns[name]]
        with suppress(TypeError, ValueError):
            typed = frame[name].astype(kind)
            # Texts would all be true; a value that is no category would be lost.
            if kind.kind != "b" and typed.isna().equals(frame[name].isna()):
                frame[name] = typed
    frame.columns = [like.columns[columns[name]] for name in frame.columns]
    return frame


def _polars_like(table: pa.Table, like: Any) -> Any:
    polars = import_module("polars")
    frame = polars.from_arrow(table.select([c for c in like.columns if c in table.column_names]))
    for name in frame.columns:
        with suppress(polars.exceptions.PolarsError):
            frame = frame.with_columns(frame[name].cast(like.schema[name]))
    return frame


def _library(table: object) -> str | None:
    """The library of a table: pandas, polars, or None if unknown."""
    modules = (kind.__module__.partition(".")[0] for kind in type(table).__mro__)
    return next((module for module in modules if module in {"pandas", "polars"}), None)


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
