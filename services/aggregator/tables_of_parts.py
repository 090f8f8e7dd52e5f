"""Joins the tables of all parts to the inputs of the data sets that a close begins.

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
from stream_dp.study import DataSetRelease, Family

from ..groups.place_table import PlacesTable
from ..groups.roster import Members
from ..jobs.job_families import JOB_FAMILIES
from ..jobs.job_inputs import write_inputs
from ..jobs.job_records import SnapshotFile, job_id
from ..storage.snapshots import Snapshots
from .close_tasks import MembersOfPart, Workplace, Written
from .orders import Order

NO_SLOTS = np.zeros(0, np.int64)


def due(workplace: Workplace, order: Order) -> tuple[DataSetRelease, ...]:
    """The data sets that a close begins; none for a repeated close."""
    return workplace.study.due(order.number) if order.letters else ()


def members_by_part(workplace: Workplace, order: Order) -> Sequence[MembersOfPart | None]:
    """Divides the members of groups by part, if a close needs them.

    The first close admits the members, and closes that begin a data set of groups use them. For
    other closes the list has None for every part.
    """
    needed = order.before is None or any(
        release.family is Family.HOUSEHOLDS for release in due(workplace, order)
    )
    if workplace.study.groups is None or not needed:
        return [None] * order.parts
    hashes = workplace.members
    part_indices = part_of(hashes[:, 0], order.parts)
    by_part = np.argsort(part_indices, kind="stable")
    ends = np.cumsum(np.bincount(part_indices, minlength=order.parts)).tolist()
    return [
        MembersOfPart(hashes[rows, 0], hashes[rows, 1], rows)
        for rows in (by_part[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True))
    ]


def write_all_inputs(
    workplace: Workplace, order: Order, written: Sequence[Written]
) -> Iterator[tuple[str, dict[str, SnapshotFile]]]:
    """Writes the inputs of every data set that a close begins. Yields names, and files by table.

    written: all parts, in their order.

    Raises Inconsistent if the table of a part is gone.
    """
    size = workplace.study.size
    unclaimed = 0 if size is None else size - sum(closed.closed.people for closed in written)
    for release in due(workplace, order):
        name, family = release.name, JOB_FAMILIES[release.family]
        asks = family.asks_people(release)
        part_tables = (
            _read(workplace.snapshots, closed.tables[name]) for closed in written if asks
        )
        empty = written[0].nobody[name] if asks else b""
        nobody = pa.ipc.open_stream(empty).read_all() if empty else None
        tables = family.joined(
            workplace.study, release, part_tables, _table(workplace), nobody, unclaimed
        )
        label = workplace.study.periods.labels[order.number - 1]
        job = job_id(order.genesis, name, label)
        yield name, write_inputs(workplace.snapshots, job, tables)


def _table(workplace: Workplace) -> Members | PlacesTable | None:
    roster = workplace.roster
    if roster is None:
        return workplace.places
    codes, roles = roster.codes(workplace.study), roster.role_codes(workplace.study)
    return Members(codes, NO_SLOTS, roster.group_of, roles)


def _read(snapshots: Snapshots, file: SnapshotFile) -> pa.Table:
    with snapshots.opened(file.name, file.sha256) as opened:
        if opened is None:
            raise Inconsistent(
                f"snapshot {file.name}: the table of a part is gone while a data set is written;"
                " start the aggregator again"
            )
        return pyarrow.parquet.read_table(opened)
