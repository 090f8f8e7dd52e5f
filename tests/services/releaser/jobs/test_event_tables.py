"""People with their trips: from a file with a row for each trip to two tables, by the commands."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit.commands import json_output, refusal
from kit.small_groups import Never
from kit.studies import MARKER, attribute, study_toml
from kit.verifiers import verdicts

import stream_dp
from stream_dp.batch.synthesizer import FitContext, MemoryTranscript
from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.published_tables import coded_people, column_values, read_tables
from stream_dp.services.commands import cli
from stream_dp.services.releaser import event_jobs
from stream_dp.study import Study
from stream_dp.studyfile import load_study

pytest.importorskip("jax")
AGES, MODES, PURPOSES = ["young", "old"], ["walk", "car", "bus"], ["work", "shop"]
SIZE, MOST = 120, 3
DECLARED: dict[str, Any] = {
    "name": "diary",
    "unit": "person",
    "neighbours": "replace_one",
    "rho": 2,
    "periods": {"first": "2026-01", "every": "month", "count": 1, **MARKER},
    "size": SIZE,
    "attributes": {
        "age": attribute(AGES, missing="absent"),
        "mode": {**attribute(MODES, missing="absent"), "slots": MOST},
        "purpose": {**attribute(PURPOSES, missing="absent"), "slots": MOST},
    },
    "releases": [
        {
            **{"name": "trips", "kind": "hpd-events", "rows": 10, "rounds": 2, "ways": 2},
            **{"attributes": ["age"], "every": 1, "rho": 2},
            "events": {"unit": "trip", "columns": ["mode", "purpose"], "most": MOST},
        }
    ],
    "run": {"log": "sqlite:diary.db", "public": "sqlite:diary-public.db"},
}
BAD_ROWS = "p1,2026-01,4,car,work\np2,2026-01,x,car,work\np3,2026-01,,car,work\n"


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    """A study file with its files of people and of trips."""
    rng = random.Random(1)
    people, trips = ["person,period,age"], ["person,period,trip,mode,purpose"]
    for i in range(SIZE - 20):
        people.append(f"p{i},2026-01,{rng.choice(AGES)}")
        for number in range(1, 1 + rng.randrange(MOST + 1)):
            place = rng.choice((f"{number}", f"0{number}", f"{number}.0"))
            purpose = rng.choice([*PURPOSES, ""])
            trips.append(f"p{i},2026-01,{place},{rng.choice(MODES)},{purpose}")
    file = tmp_path / "diary.toml"
    file.write_text(study_toml(**DECLARED))
    (tmp_path / "people.csv").write_text("\n".join(people) + "\n")
    (tmp_path / "trips.csv").write_text("\n".join(trips) + "\n" + BAD_ROWS)
    return file


def run(*arguments: object) -> None:
    assert cli.main([*map(str, arguments)]) == 0


def test_trips_become_two_valid_tables(
    diary: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(diary.parent)
    run("check", diary, "--long")
    assert "of people and events" in capsys.readouterr().out
    run("send", diary, "people.csv")
    capsys.readouterr()
    run("send", diary, "trips.csv", "--event", "trip")
    told = capsys.readouterr()
    assert "3 of" in told.out + told.err
    assert "no number from 1 to" in told.out + told.err
    run("close", diary, "2026-01")
    run("run", diary, "--until-idle")
    capsys.readouterr()
    data = json_output(capsys, "export", diary, "trips", "out")
    people, events = (pq.read_table(f"out/{name}.parquet") for name in ("people", "events"))
    assert (people.num_rows, events.num_rows) == (SIZE, data["events"])
    assert people.column_names == ["person", "age", "size"]
    assert events.column_names == ["person", "mode", "purpose"]
    counts = Counter(events["person"].to_pylist())
    sizes = people["size"].to_pylist()
    assert sizes == [counts[person] for person in people["person"].to_pylist()]
    assert max(sizes) <= MOST
    assert 0 in sizes
    assert {*events["mode"].to_pylist()} <= {*MODES}
    assert {*events["purpose"].to_pylist()} <= {*PURPOSES, "absent"}

    run("rejected", diary)
    assert "3 cells  unreadable" in capsys.readouterr().out
    for query, unit in (
        ("trips: mode=bus & age=old", "trips"),
        ("events: mode=bus", "trips"),
        ("mode=bus", "trips"),
        ("age=old", "people"),
        ("people: mode=bus", "people"),
        ("people: size=0", "people"),
    ):
        answer = json_output(capsys, "estimate", diary, "trips", query)
        assert answer["unit"] == unit
        if query in ("mode=bus", "age=old", "people: size=0"):  # always measured
            assert answer["standard_error"] > 0
    assert "trips or people" in refusal(capsys, 2, "estimate", diary, "trips", "cars: mode=bus")

    run("verify", diary)
    public = diary.parent / "diary-public.db"
    (verdict,) = verdicts([(public, {})])
    assert verdict[0] == 0
    run("page", diary, "page.html")
    assert "synthetic trips" in Path("page.html").read_text("utf-8")
    capsys.readouterr()
    wide = json_output(
        capsys, "evaluate", diary, "trips.csv", "--event", "trip", "--repetitions", 1
    )
    (report,) = wide.get("releases", (wide,))
    assert {"people", "events"} <= {row["queries"] for row in report["quality"]}


def test_a_row_without_the_number_needs_its_column(
    diary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trips = diary.parent / "trips.csv"
    assert "no column 'leg'; name the numbers of events with --event" in refusal(
        capsys, 2, "send", diary, trips, "--event", "leg"
    )
    both = diary.parent / "both.csv"
    both.write_text("person,period,trip,mode,mode_2\np1,2026-01,1,car,bus\n")
    assert "columns 'mode' and 'mode_2' both have mode_2; leave one out" in refusal(
        capsys, 2, "send", diary, both, "--event", "trip"
    )
    no_event = diary.parent / "no_event.csv"
    no_event.write_text("person,period,trip,age\np1,2026-01,1,old\n")
    (line,) = refusal(capsys, 2, "send", diary, no_event, "--event", "trip").splitlines()
    assert "no_event.csv: no column of events (mode, purpose); leave --event out" in line
    wide = "--event", "trip", "--attribute", "age"
    assert "goes with a row for each event" in refusal(capsys, 2, "send", diary, trips, *wide)


def snapshot(study: Study, seed: int) -> dict[str, Any]:
    """The input of a job: random people with random trips."""
    release = study.batch("trips")
    assert release is not None
    rng = np.random.default_rng(seed)
    names = {name: study.attributes[name].symbols for name in release.names}
    codes = [rng.integers(0, len(values), SIZE) for values in names.values()]
    return {"people": coded_people(names, np.stack(codes, axis=1))}


def test_what_is_published_follows_from_the_noisy_answers_alone(diary: Path) -> None:
    """Everything about everybody may differ, the number of all events too."""
    study, _ = load_study(diary)
    release, transcript = study.batch("trips"), MemoryTranscript()
    assert release is not None
    first = event_jobs.fitted_parts(
        study, release, snapshot(study, 1), FitContext(SeededNoise(1), transcript)
    )
    rounds = MemoryTranscript(list(transcript.rounds()))
    again = event_jobs.fitted_parts(study, release, snapshot(study, 2), FitContext(Never(), rounds))
    assert replace(again[0], simulated=True) == replace(first[0], simulated=True)
    assert again[1] == first[1]


def test_a_table_whose_sizes_are_others_is_refused(diary: Path) -> None:
    study, _ = load_study(diary)
    release = study.batch("trips")
    assert release is not None
    _, parts = event_jobs.fitted_parts(
        study, release, snapshot(study, 1), FitContext(SeededNoise(1))
    )
    columns = column_values(study, release)
    tables, _ = read_tables(columns, parts)
    assert {*tables} == {"people", "events"}
    shifted = {**columns, "people": {**columns["people"], "size": tuple(range(1, MOST + 2))}}
    with pytest.raises(UserError, match="not what its release declares"):
        read_tables(shifted, parts)


def test_a_public_log_alone_has_the_tables(diary: Path) -> None:
    """In a script, with a column for each slot."""
    study, _ = load_study(diary)
    rng = np.random.default_rng(3)
    columns: dict[str, Any] = {"person": [f"p{i}" for i in range(50)], "period": ["2026-01"] * 50}
    columns["age"] = rng.choice(AGES, 50).tolist()
    for number in range(1, MOST + 1):
        columns[f"mode_{number}"] = rng.choice([*MODES, None], 50).tolist()
    public = stream_dp.run_study(study, pa.table(columns), simulation_seed=1)
    assert isinstance(public, PublicLog)
    people, events = public.data_set("trips").tables
    assert people["size"].to_numpy().sum() == events.num_rows
