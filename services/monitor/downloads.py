"""Downloads: a table of a release as CSV, Parquet, Arrow or JSON, written to a file and then sent.

A panel is read anew from the public log, for the monitor keeps none. A panel of more cells than fit
is refused with the command that exports it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.log.base import Log
from stream_dp.release.published import AnyCertificate
from stream_dp.study import SizesRelease, Study

from .answers import parts_of
from .state import State

FORMATS = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
    "json": "application/json",
}
MOST_CELLS = 200_000_000  # of a panel, which takes as many bytes of memory
_AT_ONCE = 65_536  # rows of a batch


def write_download(
    state: State,
    open_log: Callable[[], Log],
    *,
    name: str,
    part: str,
    form: str,
    period: str | None,
    out: Path,
) -> None:
    """Writes a table of a release to a file. Raises UserError, LogError.

    part: one of `parts_of`.
    form: one of FORMATS.
    period: up to it (a panel), of it (a data set or measurements); all or the last where None.
    """
    if part not in parts_of(state.public, name) or form not in FORMATS:
        raise UserError(f"release '{name}': has no table '{part}' as '{form}'")
    if part == "panel":
        tables = _panel(state, open_log, name, period)
    else:
        tables = iter([_small(state.public, name, part, period)])
    with out.open("wb") as file:
        _WRITERS[form](file, tables)


def _small(public: PublicLog, name: str, part: str, period: str | None) -> pa.Table:
    """A table that the state holds."""
    if isinstance(public.study.batch(name), SizesRelease):
        sizes = public.sizes(name, period)
        return sizes.table if part == "sizes" else sizes.measurements
    if part in {"groups", "people"}:
        data_set = public.data_set(name, period)
        tables = dict(zip(sorted(data_set.certificate.columns), data_set.tables, strict=True))
        if part not in tables:
            raise UserError(f"release '{name}': has no table of {part}")
        return tables[part]
    if public.study.batch(name) is not None:
        return public.data_set(name, period).measurements
    if period is not None:
        release = public.release_at(name, period)
        return release.measurements if part == "measurements" else release.estimates
    return public.measurements(name) if part == "measurements" else public.estimates(name)


def _panel(
    state: State, open_log: Callable[[], Log], name: str, period: str | None
) -> Iterator[pa.Table]:
    last = state.public.release_at(name, period).certificate
    columns = last.number - state.public.study.span(state.public.study.release(name))[0] + 1
    if last.rows * columns > MOST_CELLS:
        raise UserError(
            f"release '{name}': {last.rows} rows of {columns} periods are too many to download"
            f" here; 'stream-dp export PUBLIC {name} panel.parquet' writes them"
        )

    def keep(study: Study, certificate: AnyCertificate, table: str) -> bool:
        return (
            certificate.release == name and table == "panel" and certificate.number <= last.number
        )

    with closing(open_log()) as log:
        public = PublicLog(log, keep)
    return public.panel(name, last.period).tables()


def _csv(file: IO[bytes], tables: Iterator[pa.Table]) -> None:
    first = next(tables)
    with pa.csv.CSVWriter(file, first.schema) as writer:
        for table in _chained(first, tables):
            writer.write_table(table)


def _parquet(file: IO[bytes], tables: Iterator[pa.Table]) -> None:
    first = next(tables)
    with pa.parquet.ParquetWriter(file, first.schema) as writer:
        for table in _chained(first, tables):
            writer.write_table(table)


def _arrow(file: IO[bytes], tables: Iterator[pa.Table]) -> None:
    first = next(tables)
    with pa.ipc.new_file(file, first.schema) as writer:
        for table in _chained(first, tables):
            writer.write_table(table)


def _json(file: IO[bytes], tables: Iterator[pa.Table]) -> None:
    """An array of an object a row."""
    mark = b"[\n"
    for table in tables:
        for batch in table.to_batches(_AT_ONCE):
            for row in batch.to_pylist():
                file.write(mark + json.dumps(row).encode())
                mark = b",\n"
    file.write(b"\n]\n" if mark != b"[\n" else b"[]\n")


def _chained(first: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield from rest


_WRITERS: dict[str, Callable[[IO[bytes], Iterator[pa.Table]], Any]] = {
    "csv": _csv,
    "parquet": _parquet,
    "arrow": _arrow,
    "json": _json,
}
