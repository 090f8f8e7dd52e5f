"""The tables of codes that a data set looks at, at the close that begins it. Confidential.

People come in the order of the keyed hashes of their ids, then the places that nobody has; members
in the order of their table; sizes by region. So the same people give the same bytes, whether they
are one population or many parts. A table holds no ids.

Each part gives a table of its own (`part_table`), and `joined_tables` makes the inputs from those
of all parts; a population of everybody is one part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from stream_dp.batch.people.table import present_rows
from stream_dp.errors import Inconsistent
from stream_dp.population import Population
from stream_dp.population.people import slots_by_hash, symbols_of
from stream_dp.release.data_sets import coded_people, coded_tables, column_values
from stream_dp.study import BatchRelease, DataSetRelease, PeopleRelease, SizesRelease, Study

from ..groups.members import Members
from ..groups.places import PlacesTable
from ..snapshots import Snapshots
from .records import SnapshotFile

GROUP_OF_ROWS = 1 << 20  # rows of a row group
_ROW, _PLACE, _PEOPLE = "row", "place", "people"  # columns of the tables of parts

Tables = Mapping[str, Iterable[pa.Table]]  # by name, tables that follow one another


def table_names(release: DataSetRelease) -> tuple[str, ...]:
    """The names of the tables that a data set looks at."""
    if isinstance(release, SizesRelease):
        return ("sizes",)
    return ("people",) if isinstance(release, PeopleRelease) else ("groups", "people")


def asks_people(release: DataSetRelease) -> bool:
    """Whether a data set looks at what people have said; sizes may come from a table of counts."""
    return not isinstance(release, SizesRelease) or release.attribute is not None


def part_table(
    study: Study,
    release: DataSetRelease,
    population: Population,
    members: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
) -> pa.Table:
    """What a part gives to a data set that asks people.

    members: for a release of groups, slots of members in this part and their rows in the table of
        all members.

    Of people alone: the coded rows of those who are present, by hash. Of groups: the column `row`,
    increasing, and the members' codes. Of sizes: the places (`place`) with `people` in them.
    """
    if isinstance(release, BatchRelease):
        assert members is not None
        slots, row = members
        order = np.argsort(row)
        codes = symbols_of(population)
        columns = {name: pa.array(codes[name][slots[order]]) for name in release.names}
        return pa.table({_ROW: pa.array(row[order]), **columns})
    return _of_slots(study, release, population, slots_by_hash(population))


def nobody_table(study: Study, release: DataSetRelease, population: Population) -> pa.Table | None:
    """What a place that nobody has gives to it; None where a part has no such place.

    To groups it gives nothing: all members are somebody.
    """
    if not population.nobodies or isinstance(release, BatchRelease):
        return None
    return _of_slots(study, release, population, np.zeros(1, np.int64))


def _of_slots(
    study: Study, release: DataSetRelease, population: Population, slots: NDArray[np.int64]
) -> pa.Table:
    symbols = symbols_of(population)
    if isinstance(release, SizesRelease):
        assert release.attribute is not None
        places, people = np.unique(symbols[release.attribute][slots], return_counts=True)
        return pa.table({_PLACE: places.astype(np.uint32), _PEOPLE: people})
    assert isinstance(release, PeopleRelease)
    rows = present_rows(study, release, {name: symbols[name][slots] for name in release.names})
    names = column_values(study, release)["people"]
    return coded_people({name: names[name] for name in release.names}, rows)


def joined_tables(
    study: Study,
    release: DataSetRelease,
    parts: Iterable[pa.Table],
    table: Members | PlacesTable | None,
    nobody: pa.Table | None = None,
    unclaimed: int = 0,
) -> Tables:
    """The inputs of a data set by name, each as tables that follow one another.

    parts: what `part_table` gives of every part, in their order; read once. Empty for a data set
        that does not ask people.
    table: of groups and their members, or of places, where the release is about these.
    nobody: what `nobody_table` gives; None where each part holds all of its places.
    unclaimed: how many places nobody has.

    Raises Inconsistent where a member of a group is in no part.
    """
    if isinstance(release, SizesRelease):
        assert isinstance(table, PlacesTable)
        if release.attribute is None:
            return {"sizes": [table.sizes(None, release.largest)]}
        assert table.keys is not None
        people = np.zeros(len(table.keys) + 1, np.int64)  # the last for those in no place
        for times, one in [*((1, part) for part in parts), (unclaimed, nobody)]:
            if one is not None:
                people[one[_PLACE].to_numpy()] += times * one[_PEOPLE].to_numpy()
        return {"sizes": [table.sizes_of(people[:-1], release.largest)]}
    if isinstance(release, PeopleRelease):
        return {"people": _with_nobodies(parts, nobody, unclaimed)}
    assert isinstance(release, BatchRelease)
    assert isinstance(table, Members)
    names = column_values(study, release)
    codes = _by_row(parts, len(table.group_of), release.names)
    joined = coded_tables(names, table.groups, table.with_roles(codes), table.group_of)
    return {name: [one] for name, one in joined.items()}


def everybodys_tables(
    study: Study,
    release: DataSetRelease,
    population: Population,
    table: Members | PlacesTable | None,
) -> Tables:
    """The inputs of a data set from a population of everybody. table: as in `joined_tables`."""
    members = None
    if isinstance(table, Members):
        members = table.slots, np.arange(len(table.slots))
    parts = [part_table(study, release, population, members)] if asks_people(release) else []
    return joined_tables(study, release, parts, table)


def _with_nobodies(
    parts: Iterable[pa.Table], nobody: pa.Table | None, unclaimed: int
) -> Iterator[pa.Table]:
    yield from parts
    if nobody is not None and nobody.num_rows:
        for start in range(0, unclaimed, GROUP_OF_ROWS):
            count = min(GROUP_OF_ROWS, unclaimed - start)
            yield nobody.take(pa.array(np.zeros(count, np.int64)))


def _by_row(
    parts: Iterable[pa.Table], members: int, names: Iterable[str]
) -> NDArray[np.unsignedinteger]:
    """The members' codes in the order of their table, (members, columns).

    This is where symbols that went out by part come together by group.
    """
    columns = {name: np.zeros(members, np.uint32) for name in names}
    seen = 0
    for part in parts:
        row = part[_ROW].to_numpy()
        seen += len(row)
        for name, column in columns.items():
            column[row] = part[name].to_numpy()
    if seen != members:
        raise Inconsistent("snapshot: a member of a group has no place; remove it to replay")
    return np.stack(list(columns.values()), axis=1)


def save_tables(tables: Iterable[pa.Table], file: BinaryIO) -> None:
    """Writes tables that follow one another as one Parquet file.

    Its bytes depend on the rows alone, not on how they are divided among the tables, and no more
    than a row group of them is kept in memory. tables: at least one.
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


def write_inputs(snapshots: Snapshots, job: str, tables: Tables) -> dict[str, SnapshotFile]:
    """Writes the inputs of a job, which are durable when this returns; their files by table."""
    return {
        name: SnapshotFile(
            *snapshots.store(f"job-{job}-{name}", ".parquet", partial(save_tables, several))
        )
        for name, several in tables.items()
    }
