"""Tables of jobs: the codes written at a close, and results from the fit to the certificate.

The tables of codes are confidential.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from hashlib import sha256
from typing import BinaryIO, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from stream_dp.batch.synthesizer import FitContext, Synthesizer, chained_tables
from stream_dp.errors import UserError
from stream_dp.release.arrow_parts import NamedParts, measurement_table
from stream_dp.release.published_tables import (
    BatchCertificate,
    Provenance,
    Tables,
    batch_certificate,
    column_values,
    data_set_parts,
    has_declared_roles,
    keeps_rules,
    read_tables,
)
from stream_dp.study import Study, TableRelease

from ..storage.job_records import SnapshotFile
from ..storage.snapshots import Snapshots

GROUP_OF_ROWS = 1 << 20  # rows of a row group


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


OTHER_RELEASE = "the job's snapshot is not of what its release declares"
D = TypeVar("D")
R = TypeVar("R", bound=TableRelease)


def codes_of(table: pa.Table, columns: tuple[str, ...]) -> NDArray[np.integer]:
    """Columns of codes side by side, (rows, columns)."""
    return np.stack([table[name].to_numpy() for name in columns], axis=1)


def fitted_table_parts(
    fit: Synthesizer[D, R],
    data: D,
    release: R,
    context: FitContext,
    coded: Callable[[D], Tables],
) -> tuple[Provenance, list[tuple[str, bytes]]]:
    """Fits a job: provenance and published parts.

    data: confidential.
    coded: gives the tables of a sample as codes.
    """
    model = fit(data, release, context)
    tables = coded(model.sample(seed_of(context.transcript.rounds())))
    parts = data_set_parts(tables, measurement_table(model.measurements))
    return Provenance(model.title, dict(model.notes), context.source.simulated), parts


CORRELATED = "correlated with those of the data sets that it is fused with"


def with_ancestors(
    provenance: Provenance, study: Study, release: TableRelease, context: FitContext
) -> Provenance:
    """The provenance with the periods of the earlier data sets that the fit used."""
    chain = chained_tables(context, context.transcript.rounds())
    if not chain:
        return provenance
    declared = study.batch(release.name)
    assert declared is not None
    due = study.due_periods(declared)
    fused_with = tuple(due[table.number - 1] for table in chain)
    notes = {**provenance.notes, "errors": CORRELATED}
    return replace(provenance, notes=notes, fused_with=fused_with)


def seed_of(rounds: Sequence[bytes]) -> int:
    """The seed of the sample: derived from the seed in round 0, and different from it."""
    return int.from_bytes(sha256(b"sample" + rounds[0]).digest(), "big")


def table_certificate(
    study: Study,
    release: TableRelease,
    parts: NamedParts,
    provenance: Provenance,
    *,
    number: int,
    rho: Fraction,
    spent: Fraction,
) -> BatchCertificate:
    """The certificate of a result. Raises UserError for parts of another release."""
    tables, measured = read_tables(column_values(study, release), parts)
    if not has_declared_roles(study, tables):
        raise UserError("a result has groups whose roles are not as the study declares")
    if not keeps_rules(study, release, tables):
        raise UserError("a result has rows or groups that break a rule of the study")
    return batch_certificate(
        study,
        release,
        number=number,
        tables=tables,
        measured=measured.num_rows,
        provenance=provenance,
        rho=rho,
        spent=spent,
    )
