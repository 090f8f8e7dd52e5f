"""Sizes of places: equal noisy values give equal public bytes and equal messages."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from kit.events import lines_to
from kit.households import HouseholdFolder
from kit.panels import fix_secrets
from kit.studies import MARKER, study_toml
from noninterference.test_data_sets import write

from stream_dp.batch.sizes.sizes_fit import FORMAT
from stream_dp.log.log import Record
from stream_dp.services.commands.cli import main
from stream_dp.services.intake.group_files import read_places
from stream_dp.services.intake.group_tables import send_table
from stream_dp.services.intake.markers import close_marker
from stream_dp.study.topics import REPORTS

LABELS = ("2021-01", "2021-02")
PLACES = "place,county\n" + "\n".join(f"b{i},{'ns'[i % 2]}" for i in range(8))
PEOPLE = [f"p{i}" for i in range(20)]
TEXT = study_toml(
    name="homes",
    unit="person",
    neighbours="replace_one",
    rho=2,
    periods={"first": LABELS[0], "every": "month", "count": 2, **MARKER},
    size=20,
    attributes={"home": {"place": True, "missing": {"carry": True, "first": "absent"}}},
    places={"unit": "block", "regions": ["county"]},
    releases=[
        {
            **{"name": "sizes", "kind": "sizes", "attribute": "home", "largest": 5, "rho": 1},
            **{"every": 1, "methods": ["cumulative-squares", "sorted"]},
        }
    ],
    run={"log": "sqlite:homes.db", "public": "sqlite:homes-public.db", "worker": False},
)
# Noisy values by level and region, in every run the same.
VALUES = [[[1, 2, 5, 6, 9]], [[0, 1, 3, 4], [2, 1, 2, 6]]]
METHODS = ("cumulative-squares", "sorted")
X = "p07"

CHANGES = {
    "another place": ["b1", "b6"],
    "nowhere": ["absent", None],
    "no such place": ["b99", "north"],
    "silent": [],
    "flood": [f"b{i % 8}" for i in range(300)],
}


def report(person: str, number: int, home: str | None) -> Record:
    said = {"person": person, "period": LABELS[number - 1], "values": {"home": home}}
    return Record(REPORTS, json.dumps(said).encode(), person.encode())


def rounds() -> list[bytes]:
    parts = [[np.array(v, "<i8").tobytes() for v in level] for level in VALUES]
    return [
        msgspec.msgpack.encode((FORMAT, m, True, p)) for m, p in zip(METHODS, parts, strict=True)
    ]


def run(path: Path, own: list[str | None]) -> dict[str, bytes | str]:
    """Everything that an analyst sees, and what the releaser and the worker tell."""
    homes, messages = HouseholdFolder(path, TEXT), list[str]()
    with pytest.MonkeyPatch.context() as patch:
        fix_secrets(patch)
        patch.setattr("stream_dp.log.sqlite.clock_module.time", lambda: 1e9)
        patch.setattr("stream_dp.log.sqlite.identity_of_file", lambda path: "1/0")
        table = path / "places.csv"
        table.write_text(PLACES)
        send_table(homes.setting, read_places(homes.setting.study, table))
        for number in (1, 2):
            others = [
                report(p, number, f"b{(i * number) % 8}") for i, p in enumerate(PEOPLE) if p != X
            ]
            said = own if len(own) > 2 else own[number - 1 : number]
            homes.send([*others, *(report(X, number, home) for home in said)])
            homes.send([close_marker(number, 0)])
        homes.run(tell=lines_to(messages))
        with homes.log() as log:
            jobs = [job for entry in homes.entries() for job in entry.jobs]
            for job in jobs:
                write(log, job.id, rounds())
        homes.work(tell=lines_to(messages))
        assert homes.run(tell=lines_to(messages))
        seen: dict[str, bytes | str] = {"messages": "\n".join(messages)}
        public = path / "homes-public.db"
        seen["file"] = public.read_bytes()
        out = path / "out"
        assert main(["export", f"sqlite:{public}", "sizes", str(out)]) == 0
        assert main(["page", f"sqlite:{public}", str(out / "page.html")]) == 0
    return seen | {file.name: file.read_bytes() for file in out.iterdir()}


@pytest.mark.parametrize("change", CHANGES)
def test_the_public_side_does_not_tell_inputs_apart(folder: Path, change: str) -> None:
    a, b = run(folder / "a", ["b0", "b3"]), run(folder / "b", CHANGES[change])
    assert (folder / "a" / "homes.db").read_bytes() != (folder / "b" / "homes.db").read_bytes()
    assert a == b
    assert {"sizes.parquet", "measurements.parquet", "page.html", "file"} <= set(a)


def test_other_values_are_seen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail."""
    a = run(folder / "a", ["b0", "b3"])
    monkeypatch.setitem(globals(), "VALUES", [VALUES[0], [VALUES[1][0], [2, 1, 2, 7]]])
    b = run(folder / "b", ["b0", "b3"])
    assert a["messages"] == b["messages"]
    assert a["file"] != b["file"]
