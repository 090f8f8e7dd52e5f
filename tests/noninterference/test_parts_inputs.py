"""Closed in parts, one person changes the files of their own part, and one row of a data set."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest
from kit.households import report
from kit.panels import fix_secrets
from kit.parts_of_tables import TablesFolder, TablesInParts, lived

PARTS = 16
NAMES = {"sized": 1, "open": 1, "groups": 1, "places": 1, "sized, too small": 2}


@pytest.fixture(autouse=True)
def _fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_secrets(monkeypatch)


def closed(place: TablesInParts, change: str) -> TablesInParts:
    """Two periods are closed in files; in the reports of the second one says something else."""
    place.begin()
    people = {"groups": "p07", "places": json.loads(lived(2)[0].value or b"")["person"]}
    person = people.get(place.name, "p7")
    for number in (1, 2):
        records = place.period(number)
        if change and number == 2:
            said = {"work": 1, "income": "low"} if place.name == "groups" else {"work": "some"}
            said = {"home": "b3"} if place.name == "places" else said
            if place.name not in ("groups", "places"):
                said["income"] = 399_995
            for i, record in enumerate(records):
                if f'"{person}"'.encode() in (record.value or b""):
                    other = report(person, number, **said).value
                    records[i] = replace(record, value=b"?" if change == "silent" else other)
        place.send(records)
        TablesFolder.run(place)
        place.aggregate()
        if number == 1:
            TablesFolder.run(place)
    return place


def files(place: TablesInParts) -> dict[str, set[str]]:
    """By part of the second close, its files, which are named by their content."""
    by_part: dict[str, set[str]] = {}
    for path in place.snapshot_folder.glob("*-part-00002-*"):
        part, _, name = path.name.split("-part-00002-")[1].partition("-")
        by_part.setdefault(part, set()).add(name)
    return by_part


def rows(place: TablesInParts) -> dict[str, Counter[str]]:
    """By data set and table, the rows that the second close has for its job."""
    tables = {}
    for path in place.snapshot_folder.glob("*-job-*2021-02*"):
        table = pyarrow.parquet.read_table(path)
        release, ids = path.name.split("-job-")[1].split("-2021-02-")
        tables[f"{release} {ids.split('-')[1]}"] = Counter(map(str, table.to_pylist()))
    return tables


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("groups", "other"),
        ("sized, too small", "other"),
        *(pytest.param(n, "silent", marks=pytest.mark.slow) for n in NAMES),
        *(pytest.param(n, "other", marks=pytest.mark.slow) for n in ("sized", "open", "places")),
    ],
)
def test_one_person_changes_one_part_and_one_row(name: str, change: str, folder: Path) -> None:
    one, other = (
        closed(TablesInParts(folder / (how or "as it is"), name=name, parts=PARTS), how)
        for how in ("", change)
    )
    first, second = files(one), files(other)
    assert len(first) == len(second) == PARTS
    changed = {part for part, own in first.items() if second[part] != own}
    assert 1 <= len(changed) <= NAMES[name]
    assert rows(one).keys() == rows(other).keys() != set()
    for key, before in rows(one).items():
        after = rows(other)[key]
        gone, new = before - after, after - before
        # Rows of sizes are (region, size, places): two places change by one person each.
        most = 4 if name == "places" else NAMES[name]
        assert gone.total() <= most
        assert new.total() <= most
