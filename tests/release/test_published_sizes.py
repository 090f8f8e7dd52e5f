"""Published sizes from anybody: what contradicts itself is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_dp.errors import UserError
from stream_dp.release.published_sizes import SizesTables, read_sizes

COLUMNS = ("state", "county")


def runs(*pairs: tuple[int, int]) -> tuple[Any, Any]:
    return np.array([s for s, _ in pairs]), np.array([g for _, g in pairs])


REGIONS = [
    (0, (), 5),
    (1, ("n",), 3),
    (1, ("s",), 2),
    (2, ("n", "1"), 1),
    (2, ("n", "2"), 2),
    (2, ("s", "1"), 2),
]
SIZES = [
    runs((0, 2), (3, 3)),
    runs((0, 1), (3, 2)),
    runs((0, 1), (3, 1)),
    runs((3, 1)),
    runs((0, 1), (3, 1)),
    runs((0, 1), (3, 1)),
]
TABLES = SizesTables.of(COLUMNS, REGIONS, SIZES, [np.arange(3)] + [np.zeros(0, np.int64)] * 5)


def changed(table: str, column: str, row: int, value: Any) -> SizesTables:
    old = getattr(TABLES, table)
    values = old[column].to_pylist()
    values[row] = value
    place = old.column_names.index(column)
    new = old.set_column(place, old.schema.field(place), pa.array(values, old.schema.types[place]))
    return replace(TABLES, **{table: new})


def test_tables_are_read_as_they_were_written() -> None:
    again = read_sizes(COLUMNS, TABLES.parts())
    for name in ("regions", "sizes", "measurements"):
        assert getattr(again, name).equals(getattr(TABLES, name))


WRONG = {
    "a parent that is no sum": changed("sizes", "size", 0, 1),
    "not all of its places": changed("sizes", "groups", 0, 1),
    "nothing": changed("sizes", "groups", 0, 0),
    "negative": changed("sizes", "size", 0, -1),
    "out of order": changed("sizes", "region", 0, 3),
    "no such region": changed("sizes", "region", 9, 6),
    "another number of places": changed("regions", "places", 0, 6),
    "no parent": changed("regions", "state", 3, "x"),
    "a region twice": changed("regions", "county", 3, "2"),
    "a name of no level": changed("regions", "county", 1, "2"),
    "an empty name": changed("regions", "state", 1, ""),
    "two tops": changed("regions", "level", 1, 0),
    "a level too deep": changed("regions", "level", 5, 3),
    "measured nowhere": changed("measurements", "region", 0, -1),
}


@pytest.mark.parametrize("case", WRONG)
def test_tables_that_contradict_themselves_are_refused(case: str) -> None:
    with pytest.raises(UserError, match="not what its release declares"):
        read_sizes(COLUMNS, WRONG[case].parts())


@pytest.mark.parametrize("columns", [("state",), ("county", "state"), ("state", "county", "town")])
def test_other_columns_are_refused(columns: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match="not what its release declares"):
        read_sizes(columns, TABLES.parts())


def test_other_parts_are_refused() -> None:
    parts = TABLES.parts()
    for wrong in (parts[:-1], parts[1:], [*parts, ("more/0", parts[0][1])], []):
        with pytest.raises(UserError, match="not what its release declares"):
            read_sizes(COLUMNS, wrong)
