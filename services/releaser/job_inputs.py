"""Writes the tables of codes for a data set when its period closes. Confidential."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet

from ..storage.snapshots import Snapshots
from .job_records import SnapshotFile

GROUP_OF_ROWS = 1 << 20  # rows of a row group
Tables = Mapping[str, pa.Table]  # by name


def save_tables(tables: Iterable[pa.Table], file: BinaryIO) -> None:
    """Writes tables of the same schema, at least one, to a Parquet file.

    The bytes depend on the rows alone, not on their division among the tables. At most a row group
    is kept in memory.
    """
    waiting, count = list[pa.Table](), 0
    writer: pyarrow.parquet.ParquetWriter | None = None
    for table in tables:
        if writer is None:
            writer = pyarrow.parquet.ParquetWriter(file, table.schema)
        waiting, count = [*waiting, table], count + table.num_rows
        if count < GROUP_OF_ROWS:
            continue
        rows = pa.concat_tables(waiting)
        full = count - count % GROUP_OF_ROWS
        for start in range(0, full, GROUP_OF_ROWS):
            group = rows.slice(start, GROUP_OF_ROWS).combine_chunks()
            writer.write_table(group, row_group_size=GROUP_OF_ROWS)
        waiting, count = [rows.slice(full)], count - full
    assert writer is not None
    if count:
        writer.write_table(pa.concat_tables(waiting).combine_chunks(), row_group_size=GROUP_OF_ROWS)
    writer.close()


def write_inputs(
    snapshots: Snapshots, job: str, tables: Mapping[str, Iterable[pa.Table]]
) -> dict[str, SnapshotFile]:
    """Writes the inputs of a job, durable on return; returns the files by table."""
    return {
        name: SnapshotFile(
            *snapshots.store(f"job-{job}-{name}", ".parquet", partial(save_tables, several))
        )
        for name, several in tables.items()
    }
