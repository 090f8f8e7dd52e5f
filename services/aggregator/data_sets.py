"""The inputs of the data sets that a close begins, from the tables of all parts.

The tables of a part are written by the task that closes it. Here they are read one by one and
joined to the files that a worker reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from stream_dp.errors import Inconsistent
from stream_dp.population.split import part_of
from stream_dp.study import BatchRelease, DataSetRelease

from ..groups.members import Members
from ..groups.places import PlacesTable
from ..jobs.inputs import asks_people, joined_tables, write_inputs
from ..jobs.records import SnapshotFile, job_id
from ..parts.orders import Order
from ..snapshots import Snapshots
from .tasks import MembersOfPart, Workplace, Written

NO_SLOTS = np.zeros(0, np.int64)


def due(here: Workplace, order: Order) -> tuple[DataSetRelease, ...]:
    """The data sets that a close begins; none where the period was closed before."""
    return here.study.due(order.number) if order.letters else ()


def members_by_part(here: Workplace, order: Order) -> Sequence[MembersOfPart | None]:
    """By part, the members of groups who are in it.

    None where they are not needed: they are admitted by the first close, and looked at by those
    that begin a data set of groups.
    """
    wanted = order.before is None or any(isinstance(r, BatchRelease) for r in due(here, order))
    if here.study.groups is None or not wanted:
        return [None] * order.parts
    hashes = here.members
    part = part_of(hashes[:, 0], order.parts)
    by_part = np.argsort(part, kind="stable")
    ends = np.cumsum(np.bincount(part, minlength=order.parts)).tolist()
    return [
        MembersOfPart(hashes[rows, 0], hashes[rows, 1], rows)
        for rows in (by_part[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True))
    ]


def write_all_inputs(
    here: Workplace, order: Order, written: Sequence[Written]
) -> Iterator[tuple[str, dict[str, SnapshotFile]]]:
    """Writes the inputs of every data set that a close begins; its name, and its files by table.

    written: all parts, in their order.

    Raises Inconsistent where the table of a part is gone.
    """
    size = here.study.size
    unclaimed = 0 if size is None else size - sum(part.closed.people for part in written)
    for release in due(here, order):
        name = release.name
        asks = asks_people(release)
        parts = (_read(here.snapshots, part.tables[name]) for part in written if asks)
        empty = written[0].nobody[name] if asks else b""
        nobody = pa.ipc.open_stream(empty).read_all() if empty else None
        tables = joined_tables(here.study, release, parts, _table(here), nobody, unclaimed)
        label = here.study.periods.labels[order.number - 1]
        job = job_id(order.genesis, name, label)
        yield name, write_inputs(here.snapshots, job, tables)


def _table(here: Workplace) -> Members | PlacesTable | None:
    roster = here.roster
    if roster is None:
        return here.places
    codes, roles = roster.codes(here.study), roster.role_codes(here.study)
    return Members(codes, NO_SLOTS, roster.group_of, roles)


def _read(snapshots: Snapshots, file: SnapshotFile) -> pa.Table:
    with snapshots.opened(file.name, file.sha256) as opened:
        if opened is None:
            raise Inconsistent(
                f"snapshot {file.name}: the table of a part is gone while a data set is written;"
                " start the aggregator again"
            )
        return pyarrow.parquet.read_table(opened)
