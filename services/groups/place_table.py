"""The operator's table of places and regions. The sizes of places are confidential.

It is a message in the topic `groups`: the places of each smallest region, by their keys or only how
many there are; of a study with a table of counts, also how many places have each size. The last
table that is sent before the study begins is used; the journal's first entry has its hash.
"""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.log import Log, LogError, Missing
from stream_dp.log.message import split_part
from stream_dp.release.arrow import ipc_stream
from stream_dp.study import Study

from ..deployment import Deployment
from .table_topic import NONE_SENT, checked_table, commit_table, last_table

_TYPE = "stream-dp.places"


@dataclass(frozen=True)
class PlacesTable:
    """P places in R smallest regions.

    columns: the names of the levels of regions, from the top down.
    regions: the path of each smallest region, in increasing order.
    place_counts: the number of places in each region, int64 (R,).
    keys: the keys of the places, in increasing order, (P,); None with a table of counts.
    region_of: the region of each place, int64 (P,), beside `keys`.
    counts: the table of counts (region, size, places), int64 (n, 3), or None. Confidential.
    """

    columns: tuple[str, ...]
    regions: tuple[tuple[str, ...], ...]
    place_counts: NDArray[np.int64]
    keys: tuple[str, ...] | None = None
    region_of: NDArray[np.int64] | None = None
    counts: NDArray[np.int64] | None = None

    @cached_property
    def hash(self) -> str:
        """SHA-256 of all fields, in hexadecimal."""
        arrays = (self.place_counts, self.region_of, self.counts)
        packed = [None if a is None else a.astype("<i8").tobytes() for a in arrays]
        fields = [self.columns, self.regions, self.keys, *packed]
        return hashlib.sha256(msgspec.msgpack.encode(fields)).hexdigest()

    def of_study(self, study: Study) -> Study:
        """The study with the keys of the places as values of place attributes. Raises UserError."""
        self.check(study)
        return study if self.keys is None else study.of_places(self.keys)

    def check(self, study: Study) -> None:
        """Raises UserError unless the table fits the study's declaration."""
        declared = study.places
        if (
            declared is None
            or declared.regions != self.columns
            or bool(declared.counted) != (self.counts is not None)
        ):
            raise UserError("places: the table is not as the study declares it; send it again")

    def sizes(self, codes: NDArray[np.unsignedinteger] | None, largest: int) -> pa.Table:
        """Counts the places of every smallest region by size. Confidential.

        codes: every person's place, `P` for nowhere; None with a table of counts.
        largest: the cap of sizes.
        """
        if codes is None:
            return self.sizes_of(None, largest)
        assert self.keys is not None
        people = np.bincount(codes, minlength=len(self.keys) + 1)[: len(self.keys)]
        return self.sizes_of(people, largest)

    def sizes_of(self, people: NDArray[np.int64] | None, largest: int) -> pa.Table:
        """Counts the places of every smallest region by size, from the people in every place.

        people: the number of people by place, (P,); None with a table of counts.

        Returns columns of the regions, `size` and `groups`, in increasing order, with a row of no
        groups for a region without places. The result has neither ids nor keys.
        """
        if people is None:
            assert self.counts is not None
            region, size, groups = self.counts.T
        else:
            assert self.region_of is not None
            size, region, groups = people, self.region_of, np.ones(len(people), np.int64)
        region = np.concatenate([region, np.arange(len(self.regions))])
        size = np.concatenate([np.minimum(size, largest), np.zeros(len(self.regions), np.int64)])
        groups = np.concatenate([groups, np.zeros(len(self.regions), np.int64)])
        runs, run_of = np.unique(region * (largest + 1) + size, return_inverse=True)
        total = np.zeros(len(runs), np.int64)
        np.add.at(total, run_of, groups)
        region, size = np.divmod(runs, largest + 1)
        is_kept = (total > 0) | ((self.place_counts[region] == 0) & (size == 0))
        paths = np.array(self.regions, object).reshape(len(self.regions), len(self.columns))
        columns = {
            name: pa.array(paths[region[is_kept], i], pa.string())
            for i, name in enumerate(self.columns)
        }
        return pa.table({**columns, "size": size[is_kept], "groups": total[is_kept]})


def send_places(deployment: Deployment, table: PlacesTable) -> bool:
    """Sends the table to a deployment's log; see `commit_places`."""
    with closing(deployment.log()) as log:
        return commit_places(log, deployment.study, table)


def commit_places(log: Log, study: Study, table: PlacesTable) -> bool:
    """Writes the table unless the topic ends with the same table; returns whether it was written.

    Raises UserError if the study has begun with another table.
    """
    return commit_table(log, study, kind=_TYPE, digest=table.hash, message_parts=_parts(table))


def _parts(table: PlacesTable) -> list[tuple[str, bytes]]:
    paths = zip(*table.regions, strict=True)
    regions = dict(zip(table.columns, map(list, paths), strict=True))
    tables = {"regions": pa.table({**regions, "places": table.place_counts})}
    if table.keys is not None:
        tables["places"] = pa.table({"place": list(table.keys), "region": table.region_of})
    if table.counts is not None:
        names = ("region", "size", "groups")
        tables["counts"] = pa.table(dict(zip(names, table.counts.T, strict=True)))
    return list(chain(*(split_part(name, ipc_stream(columns)) for name, columns in tables.items())))


def read_places(log: Log) -> PlacesTable | None:
    """The last table in the topic, or None. Raises Inconsistent for a wrong hash."""
    last = last_table(log)
    if last is None or last.head["type"] != _TYPE:
        return None
    names = {name.rpartition("/")[0] or name for name, _ in last.parts}
    tables = {n: pa.ipc.open_stream(last.part(n)).read_all() for n in names}
    regions, place_rows, counts = tables["regions"], tables.get("places"), tables.get("counts")
    columns = tuple(regions.column_names[:-1])
    table = PlacesTable(
        columns,
        tuple(zip(*(regions[name].to_pylist() for name in columns), strict=True)),
        regions["places"].to_numpy(),
        None if place_rows is None else tuple(place_rows["place"].to_pylist()),
        None if place_rows is None else place_rows["region"].to_numpy(),
        None if counts is None else np.stack([c.to_numpy() for c in counts.columns], axis=1),
    )
    if table.hash != last.head["hash"]:
        raise Inconsistent("places: the table does not have its hash; send it again")
    return table


def bound_places(log: Log, study: Study, bound: str | None) -> PlacesTable | None:
    """The table of places; None for a study without places.

    bound: the hash of the table in the journal's first entry; None before the first entry.

    Raises UserError if no table was sent or the table does not fit the study, Inconsistent if the
    table has another hash than the journal's.
    """
    if study.places is None:
        return None
    table = checked_table("places", read_places(log), bound)
    table.check(study)
    return table


def study_with_places(deployment: Deployment) -> Study:
    """The study with the keys of places, for judging reports.

    Returns the declared study if reports name no places, or if the log cannot be read from here.
    Raises UserError if no table was sent.
    """
    study = deployment.study
    if study.places is None or study.places.counted:
        return study
    try:
        with closing(deployment.log(readonly=True)) as log:
            table = read_places(log)
    except Missing:
        table = None
    except LogError:
        return study
    if table is None:
        raise UserError(NONE_SENT["places"])
    return table.of_study(study)
