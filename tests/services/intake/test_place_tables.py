"""Tables of places: read from files, written to a log and read again, and counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.studies import small_study

import stream_dp
from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.memory import MemoryLog
from stream_dp.services.intake.group_files import read_places
from stream_dp.services.intake.group_tables import (
    PlacesTable,
    Roster,
    bound_table_of,
    commit_table,
    read_table,
)
from stream_dp.study import Study


def study(*, counted: bool = False, neighbours: str = "add_remove", rho: str = "3") -> Study:
    places = {"unit": "block", "regions": ["state", "county"], "counted": counted}
    release = {"name": "sizes", "kind": "sizes", "largest": 6, "every": 1, "rho": rho}
    return small_study(
        neighbours=neighbours,
        size=None if neighbours == "add_remove" else 90,
        rho=int(rho) if counted else 3 * int(rho),
        periods={"first": 1, "every": "step", "count": 1 if counted else 3},
        attributes={} if counted else {"home": {"place": True, "missing": "absent"}},
        places=places,
        releases=[release if counted else {**release, "attribute": "home"}],
    )


def from_text(tmp_path: Path, text: str, **how: bool) -> PlacesTable:
    path = tmp_path / "places.csv"
    path.write_text(text)
    return read_places(study(**how), path)


def test_places_by_key_by_number_and_by_size(tmp_path: Path) -> None:
    keyed = from_text(tmp_path, "county,place,state\n2,b,n\n1,a,n\n2,0012,n\n1,c,s\n")
    assert keyed.regions == (("n", "1"), ("n", "2"), ("s", "1"))
    assert keyed.keys == ("0012", "a", "b", "c")
    assert keyed.place_counts.tolist() == [1, 2, 1]
    numbered = from_text(tmp_path, "state,county,places\nn,2,2\nn,1,0\n")
    assert numbered.keys == ("n/2/1", "n/2/2")
    assert numbered.place_counts.tolist() == [0, 2]
    counted = from_text(
        tmp_path, "state,county,size,count\nn,1,0,5\nn,1,9,2\ns,1,1,0\n", counted=True
    )
    assert counted.place_counts.tolist() == [7, 0]
    sizes = counted.sizes(None, 6).to_pylist()
    assert [(r["state"], r["size"], r["groups"]) for r in sizes] == [
        ("n", 0, 5),
        ("n", 6, 2),
        ("s", 0, 0),
    ]


FAULTS = {
    "state,county,place\nn,1,a\nn,2,a\n": "'place' stands there twice",
    "state,county,place\nn,1,a\n,2,b\n": "1 rows without 'state'",
    "state,county,place\nn/m,1,a\n": "a value of 'state' has a '/'",
    "state,county,place\n@n,1,a\n": "a value of 'state' must not begin with",
    "state,county,place\nn,1,+a\n": "a value of 'place' must not begin with",
    "state,county,place\nn,1,absent\n": "'absent' is reserved",
    "state,county,place\n": "no rows",
    "state,county\nn,1\n": "needs the columns state, county, and 'place' of keys or 'places'",
    "state,place\nn,1\n": "needs the columns",
    "state,county,places\nn,1,x\n": "'places' must be whole numbers",
    "state,county,places\nn,1,-1\n": "must not be negative",
    "state,county,places\nn,1,1\nn,1,2\n": "a region stands there twice",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_of_a_file_is_a_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match=FAULTS[text].replace("/", ".")):
        from_text(tmp_path, text)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("cd")), min_size=1, max_size=8),
    st.data(),
)
@settings(max_examples=40, deadline=None)
def test_sizes_are_those_of_counting_people_one_by_one(
    regions: list[tuple[str, str]], data: st.DataObject
) -> None:
    paths = tuple(sorted({*regions}))
    region_of = np.array([paths.index(r) for r in regions])
    keys = tuple(f"k{i}" for i in range(len(regions)))
    places = np.bincount(region_of, minlength=len(paths))
    table = PlacesTable(("state", "county"), paths, places, keys, region_of)
    people = data.draw(st.lists(st.integers(0, len(keys)), max_size=30))
    largest = data.draw(st.integers(1, 5))
    by_hand: Counter[tuple[str, str, int]] = Counter()
    for place, region in enumerate(regions):
        by_hand[*region, min(people.count(place), largest)] += 1
    rows = table.sizes(np.array(people, np.uint32), largest).to_pylist()
    assert {(r["state"], r["county"], r["size"]): r["groups"] for r in rows} == by_hand
    log = MemoryLog()
    assert commit_table(log, study(), table)
    assert not commit_table(log, study(), table)
    again = read_table(PlacesTable, log)
    assert again is not None
    assert again.hash == table.hash
    assert read_table(Roster, log) is None
    assert bound_table_of(PlacesTable, log, study(), table.hash) is not None
    with pytest.raises(Inconsistent, match="not the table that the journal was begun with"):
        bound_table_of(PlacesTable, log, study(), "0" * 64)
    with pytest.raises(UserError, match="not as the study declares"):
        table.of_study(study(counted=True))


COUNTS = pa.table(
    {
        "state": ["n", "n", "n", "s", "s"],
        "county": ["1", "1", "2", "1", "2"],
        "size": [0, 2, 3, 1, 9],
        "count": [300, 200, 1, 0, 40],
    }
)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_a_table_of_counts_is_a_study_of_one_period(neighbours: str) -> None:
    declared = study(counted=True, neighbours=neighbours)
    public = stream_dp.run_study(declared, pa.table({}), places=COUNTS, simulation_seed=1)
    public.verify()
    sizes = public.sizes("sizes")
    assert sizes.regions[:3] == ((), ("n",), ("s",))
    # The noise of an entry has the variance 1 / 2 or 1.
    assert abs(sizes.answer("at-least 2", "n").value - 201) < 8
    assert abs(sizes.answer("mean", "s", "2").value - 6) < 0.5
    assert sizes.answer("size 1").standard_error is not None
    assert sizes.answer("at-least 0", "s", "1").reason == "the region has no groups"
    with pytest.raises(UserError, match="no such region"):
        sizes.answer("mean", "x")
    with pytest.raises(UserError, match="none at period"):
        public.sizes("sizes", "7")


def test_a_script_says_which_table_is_missing() -> None:
    reports = pa.table({"person": ["a"], "period": ["1"], "home": ["x"]})
    with pytest.raises(UserError, match="give the table places"):
        stream_dp.run_study(study(), reports)
    places = pa.table({"place": ["y"], "state": ["n"], "county": ["1"]})
    with pytest.raises(UserError, match="value"):
        stream_dp.run_study(study(), reports, places=places)
    broken = places.set_column(1, "state", pa.array([None], pa.string()))
    with pytest.raises(UserError, match="places: 1 rows without 'state'"):
        stream_dp.run_study(study(), reports, places=broken)
