"""The operator's table of places and regions. The sizes of places are confidential.

The table is a message in the topic `groups`, see `table_topic`: the places of each smallest region,
by their keys or as a number; with a table of counts, also the number of places of each size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import ClassVar

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.log.message import split_part
from stream_dp.release.arrow_parts import ipc_stream
from stream_dp.study import Study


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

    name: ClassVar = "places"
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

    def message_parts(self) -> list[tuple[str, bytes]]:
        """Names and contents of the parts of the table's message."""
        paths = map(list, zip(*self.regions, strict=True))
        regions = dict(zip(self.columns, paths, strict=True))
        tables = {"regions": pa.table({**regions, "places": self.place_counts})}
        if self.keys is not None:
            tables["places"] = pa.table({"place": list(self.keys), "region": self.region_of})
        if self.counts is not None:
            names = ("region", "size", "groups")
            tables["counts"] = pa.table(dict(zip(names, self.counts.T, strict=True)))
        return list(chain(*(split_part(name, ipc_stream(rows)) for name, rows in tables.items())))

    @classmethod
    def of_tables(cls, table: Callable[[str], pa.Table]) -> PlacesTable:
        """The table of places from the tables of `message_parts`. table: reads a table by name."""
        regions, place_rows, counts = (table(name) for name in ("regions", "places", "counts"))
        columns = tuple(regions.column_names[:-1])
        return cls(
            columns,
            tuple(zip(*(regions[name].to_pylist() for name in columns), strict=True)),
            regions["places"].to_numpy(),
            None if place_rows is None else tuple(place_rows["place"].to_pylist()),
            None if place_rows is None else place_rows["region"].to_numpy(),
            None if counts is None else np.stack([c.to_numpy() for c in counts.columns], axis=1),
        )

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
