"""Published sizes: the certificate, the tables of regions, sizes and noisy values.

A release is a message (log/message.py): its manifest is the certificate, its parts are Arrow IPC
streams: `regions/i` with a row for each region, level by level from the top; `sizes/i` with how
many groups of a region have each size; `measurements/i` with the noisy values. The last two name a
region by its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from stream_dp.errors import Inconsistent, UserError
from stream_dp.privacy.noise import exact_variance, geometric_variance
from stream_dp.study import SizesRelease, Study
from stream_dp.study.place_releases import SizesMethod

from .answer import Answer, MeasuredRegion
from .arrow_parts import NamedParts, read_table, sliced
from .certificate import (
    SEEDED_NOISE,
    SYSTEM_NOISE,
    Certificate,
    Charged,
    Details,
    Exact,
    Published,
    Text,
    WholeNumber,
    base_certificate,
)

SIZES_TYPE = "stream-dp.sizes"


class LevelCertificate(BaseModel):
    """The statement about a level.

    name: `all`, or the column of its regions.
    regions: the number of regions.
    method: the measurement, declared or chosen.
    rho: the cost, with that of a choice; with double-geometric noise at most 1e-12 too large.
    noise: the distribution of the noise.
    parameter: the variance of discrete Gaussian noise, or the decay of double-geometric noise.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    name: Text
    regions: WholeNumber
    method: SizesMethod
    rho: Exact
    noise: Literal["discrete Gaussian", "double-geometric"]
    parameter: Exact

    @property
    def variance(self) -> float:
        """The variance of the noise in an entry."""
        if self.noise == "discrete Gaussian":
            return exact_variance(self.parameter)
        return geometric_variance(self.parameter)


class SizesCertificate(Certificate):
    """The certificate of sizes.

    type: `stream-dp.sizes`.
    regions: the columns of regions, from the top level down.
    largest: the public cap of sizes.
    groups: the public number of groups.
    rows: the number of rows of the table of sizes.
    measured: the number of noisy values that are published.
    levels: an entry for each level, from the top down.
    notes: public numbers about the fit.
    """

    type: Literal["stream-dp.sizes"] = "stream-dp.sizes"
    regions: tuple[Text, ...]
    largest: WholeNumber
    groups: WholeNumber
    rows: WholeNumber
    measured: WholeNumber
    levels: tuple[LevelCertificate, ...] = Field(min_length=1, max_length=9)
    notes: Details

    @property
    def published_rows(self) -> int:
        """The rows of the table that is published."""
        return self.rows

    @property
    def synthetic_rows(self) -> tuple[int | None, int | None]:
        """No people, and the groups."""
        return None, self.groups


ALL = "all"  # the name of the top level
_GEOMETRIC = (
    "exact double-geometric from the operating system's entropy, drawn by the table sampler of"
    " stream-dp"
)
_SIZES = pa.schema({"region": pa.int32(), "size": pa.int32(), "groups": pa.int64()})
_MEASUREMENTS = pa.schema({"region": pa.int32(), "entry": pa.int32(), "value": pa.int64()})
_FAR = 1 << 50  # larger than any noisy value
Int64Array = NDArray[np.int64]


@dataclass(frozen=True)
class SizesTables:
    """The tables of a release, see the module.

    regions: level (int8), a column of text for each level below the top (empty below the region's
        own), and places (int64).
    sizes: region, size, groups.
    measurements: region, entry, value; of levels with too many values there are none.
    """

    regions: pa.Table
    sizes: pa.Table
    measurements: pa.Table

    def parts(self) -> list[tuple[str, bytes]]:
        """The tables as named Arrow streams, all within a record."""
        wide = 32 + sum(
            max((len(t.encode()) for t in self.regions[name].to_pylist()), default=0) + 8
            for name in self.regions.column_names[1:-1]
        )
        return [
            *sliced("regions", self.regions.num_rows, wide, self.regions.slice),
            *sliced("sizes", self.sizes.num_rows, 16, self.sizes.slice),
            *sliced("measurements", self.measurements.num_rows, 16, self.measurements.slice),
        ]

    @classmethod
    def of(
        cls,
        columns: Sequence[str],
        regions: Sequence[tuple[int, tuple[str, ...], int]],
        sizes: Sequence[tuple[Int64Array, Int64Array]],
        values: Sequence[Int64Array],
    ) -> SizesTables:
        """The tables of regions in the order of levels.

        columns: of regions.
        regions: the level, path and number of places of each.
        sizes: of each, the sizes that occur and how many groups have them.
        values: of each, the noisy values, empty where they are not published.
        """
        paths = [[*path, *[""] * (len(columns) - len(path))] for _, path, _ in regions]
        text = {
            name: pa.array([p[i] for p in paths], pa.string()) for i, name in enumerate(columns)
        }
        return cls(
            pa.table(
                {
                    "level": pa.array([level for level, _, _ in regions], pa.int8()),
                    **text,
                    "places": pa.array([places for _, _, places in regions], pa.int64()),
                }
            ),
            _indexed(
                _SIZES,
                [len(size) for size, _ in sizes],
                [size for size, _ in sizes],
                [groups for _, groups in sizes],
            ),
            _indexed(
                _MEASUREMENTS, [len(v) for v in values], [np.arange(len(v)) for v in values], values
            ),
        )


def _indexed(schema: pa.Schema, rows: Sequence[int], *columns: Sequence[Int64Array]) -> pa.Table:
    """A table of the rows of all regions, with the numbers of their regions."""
    none = np.zeros(0, np.int64)
    arrays = [np.repeat(np.arange(len(rows)), rows), *(np.concatenate([none, *c]) for c in columns)]
    return pa.table(
        [pa.array(a).cast(f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema
    )


def read_sizes(columns: Sequence[str], parts: NamedParts) -> SizesTables:
    """The tables in a release's parts. Raises UserError for inconsistent sizes.

    columns: of regions.
    """
    text = {name: pa.string() for name in columns}
    schema = pa.schema({"level": pa.int8(), **text, "places": pa.int64()})
    try:
        tables = SizesTables(
            read_table(parts, "regions", schema.equals),
            read_table(parts, "sizes", _SIZES.equals),
            read_table(parts, "measurements", _MEASUREMENTS.equals),
        )
        if {name.partition("/")[0] for name, _ in parts} != {"regions", "sizes", "measurements"}:
            raise ValueError
        _require_consistent(tables, len(columns) + 1)
    except (ValueError, KeyError):
        raise UserError("a result is not what its release declares") from None
    return tables


def _require_consistent(tables: SizesTables, depth: int) -> None:
    """Raises ValueError unless sizes add up in every region, and to the sizes of the parent."""
    level = tables.regions["level"].to_numpy().astype(np.int64)
    places = tables.regions["places"].to_numpy()
    region, size, groups = (c.to_numpy().astype(np.int64) for c in tables.sizes.columns)
    count = len(level)
    if not count or (np.diff(level) < 0).any() or level[0] or (level == 0).sum() != 1:
        raise ValueError
    if level[-1] != depth - 1 or (places < 0).any() or places[0] > _FAR:
        raise ValueError
    parents = _parents(tables.regions, level)
    for table in (region, tables.measurements["region"].to_numpy().astype(np.int64)):
        if len(table) and not 0 <= table.min() <= table.max() < count:
            raise ValueError
    if len(size) and (size.min() < 0 or groups.min() < 1 or groups.max() > _FAR):
        raise ValueError
    if (np.diff(region * (1 << 32) + size) <= 0).any():  # in the order of regions and sizes
        raise ValueError
    total = np.zeros(count, np.int64)
    np.add.at(total, region, groups)
    if (total != places).any():
        raise ValueError
    for number in range(1, depth):
        child, parent = level[region] == number, level[region] == number - 1
        keys, index = np.unique(parents[region[child]] << 32 | size[child], return_inverse=True)
        summed = np.zeros(len(keys), np.int64)
        np.add.at(summed, index, groups[child])
        if not np.array_equal(keys, region[parent] << 32 | size[parent]):
            raise ValueError
        if not np.array_equal(summed, groups[parent]):
            raise ValueError


def _parents(regions: pa.Table, level: Int64Array) -> Int64Array:
    """(regions,) the row of every region's parent, -1 for the top.

    regions: the level, a column of names for each level below the top, and the number of places. A
        region of level n has n names, and "" after them.
    level: (regions,), 0 for the top.

    Raises ValueError if a region is there twice, has too few or too many names, or has no parent.
    """
    columns = [regions[name].to_pylist() for name in regions.column_names[1:-1]]
    names = list(zip(*columns, strict=True))
    paths = [row[:n] for row, n in zip(names, level.tolist(), strict=True)]
    rows = {path: i for i, path in enumerate(paths)}
    if len(rows) < len(paths) or any(not all(path) for path in paths):
        raise ValueError
    if any(name != "" for row, path in zip(names, paths, strict=True) for name in row[len(path) :]):
        raise ValueError
    try:
        return np.array([rows[path[:-1]] if path else -1 for path in paths], np.int64)
    except KeyError:
        raise ValueError from None


@dataclass(frozen=True)
class PublishedSizes(Published):
    """Published sizes of groups in every region, consistent at every level.

    certificate: their statement, checked

    >>> import pyarrow, stream_dp
    >>> study = stream_dp.parse_study({
    ...     "study": {"name": "blocks", "unit": "person", "neighbours": "add_remove", "rho": 2,
    ...               "delta": "1/1000000",
    ...               "periods": {"first": "2026-01", "every": "month", "count": 1}},
    ...     "places": {"unit": "block", "regions": ["county"]},
    ...     "attributes": {"home": {"place": True, "missing": "absent"}},
    ...     "releases": [{"name": "sizes", "kind": "sizes", "attribute": "home", "largest": 5,
    ...                   "rho": 2, "every": 1}],
    ... })
    >>> places = pyarrow.table({"place": ["a", "b", "c"], "county": ["north", "north", "south"]})
    >>> reports = pyarrow.table({"person": ["p", "q"], "period": ["2026-01"] * 2,
    ...                          "home": ["a", "c"]})
    >>> public = stream_dp.run_study(study, reports, places=places, simulation_seed=1)
    >>> sizes = public.sizes("sizes")
    >>> sizes.table.column_names
    ['level', 'county', 'size', 'groups']
    >>> sizes.answer("at-least 0", "north").value
    2.0
    """

    certificate: SizesCertificate

    @cached_property
    def tables(self) -> SizesTables:
        """The published tables."""
        try:
            return read_sizes(self.certificate.regions, self.message.parts)
        except UserError:
            raise Inconsistent("not the sizes of its certificate") from None

    def check(self) -> SizesTables:
        """The tables. Raises Inconsistent for contradictions to the certificate."""
        certificate, tables = self.certificate, self.tables
        level = tables.regions["level"].to_numpy()
        stated = (certificate.rows, certificate.measured, certificate.groups)
        places = int(tables.regions["places"][0].as_py())
        if stated != (tables.sizes.num_rows, tables.measurements.num_rows, places):
            raise Inconsistent("not the rows of its certificate")
        if [stated.regions for stated in certificate.levels] != np.bincount(level).tolist():
            raise Inconsistent("not the regions of its certificate")
        size = tables.sizes["size"].to_numpy()
        if len(size) and size.max() > certificate.largest:
            raise Inconsistent("a size above the largest of its certificate")
        values = tables.measurements["value"].to_numpy()
        if len(values) and np.abs(values).max() > _FAR:
            raise Inconsistent("a measurement is no number of groups or people")
        return tables

    @property
    def table(self) -> pa.Table:
        """The numbers of groups: level, a column for every level below the top, size, groups.

        Columns of levels below a region's own are null.
        """
        return self._named(self.tables.sizes)

    @property
    def measurements(self) -> pa.Table:
        """The noisy values: level, columns of levels like `table`, entry, value, variance.

        Entries of cumulative counts and of histograms are sizes from 0 on, those of sorted sizes
        are ranks from 0 on.
        """
        named = self._named(self.tables.measurements)
        level = self.tables.regions["level"].to_numpy()
        variances = np.array([stated.variance for stated in self.certificate.levels])
        of_row = variances[level[self.tables.measurements["region"].to_numpy()]]
        return named.append_column("variance", pa.array(of_row))

    def _named(self, table: pa.Table) -> pa.Table:
        """A table with the names of its regions in place of their numbers."""
        regions, row = self.tables.regions, table["region"]
        names = [ALL, *self.certificate.regions]
        level = regions["level"].to_numpy()
        columns = {"level": pa.array(names).take(pa.array(level)).take(row)}
        for depth, name in enumerate(self.certificate.regions, 1):
            text = pa.array(regions[name].to_pylist(), pa.string(), mask=level < depth)
            columns[name] = text.take(row)
        return pa.table({**columns, **{n: table[n] for n in table.column_names[1:]}})

    @property
    def regions(self) -> tuple[tuple[str, ...], ...]:
        """The path of every region, level by level from the top."""
        level = self.tables.regions["level"].to_pylist()
        columns = [self.tables.regions[name].to_pylist() for name in self.certificate.regions]
        return tuple(path[:n] for path, n in zip(zip(*columns, strict=True), level, strict=True))

    def region(self, *path: str) -> MeasuredRegion:
        """The measurements of the region with this path; of all regions by default.

        Raises UserError for an unknown region.
        """
        if path not in self._rows:
            raise UserError(f"region '{'/'.join(path)}': there is no such region")
        row, tables = self._rows[path], self.tables
        level = self.certificate.levels[len(path)]
        first, end = np.searchsorted(tables.sizes["region"].to_numpy(), [row, row + 1])
        sizes = tables.sizes.slice(first, end - first)
        first, end = np.searchsorted(tables.measurements["region"].to_numpy(), [row, row + 1])
        values = tables.measurements["value"].slice(first, end - first).to_numpy()
        return MeasuredRegion(
            size=sizes["size"].to_numpy().astype(np.int64),
            groups=sizes["groups"].to_numpy(),
            largest=self.certificate.largest,
            method=level.method,
            values=values if len(values) else None,
            variance=level.variance,
        )

    @cached_property
    def _rows(self) -> dict[tuple[str, ...], int]:
        return {path: row for row, path in enumerate(self.regions)}

    def answer(self, query: str, *path: str) -> Answer:
        """The answer to a query about a region; all regions together by default.

        Queries: `size 3`, `at-least 3`, `quantile 1/2`, `mean`, `skewness`. Raises UserError.
        """
        certificate = self.certificate
        return self.region(*path).answer(
            query, release=certificate.release, period=certificate.period, region=path
        )


def noise_words(declared: SizesRelease, *, simulated: bool) -> str:
    """The source of the noise of sizes. simulated: whether a seed."""
    if simulated:
        return SEEDED_NOISE
    return SYSTEM_NOISE if declared.epsilon is None else _GEOMETRIC


def sizes_certificate(
    study: Study,
    declared: SizesRelease,
    *,
    tables: SizesTables,
    levels: Sequence[LevelCertificate],
    mechanism: str,
    **charged: Unpack[Charged],
) -> SizesCertificate:
    """The certificate of sizes.

    levels: the worker's measurements.
    mechanism: the title.
    """
    assert study.places is not None
    base = base_certificate(study, declared, mechanism=mechanism, **charged)
    return SizesCertificate(
        **{**dict(base), "noise": noise_words(declared, simulated=charged["simulated"])},
        regions=study.places.regions,
        largest=declared.largest,
        groups=int(tables.regions["places"][0].as_py()),
        rows=tables.sizes.num_rows,
        measured=tables.measurements.num_rows,
        levels=tuple(levels),
        notes={},
    )
