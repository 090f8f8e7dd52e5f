"""A two-phase table of people, from the declaration to the file exported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from kit.commands import json_output, refusal, written
from kit.studies import attribute
from kit.workers_study import workers_toml

PEOPLE = 600
ROUNDS = 4  # the seed, the number of people, single columns, marginals
CITIES = [f"city-{i}" for i in range(60)]
STUDY = workers_toml(
    rho=9,
    attributes={
        "sex": attribute(["f", "m"], missing="f"),
        "state": attribute(["north", "south"], missing="north"),
        "city": attribute(CITIES, missing=CITIES[0]),
        "income": {
            "number": {"least": 0, "most": 9900, "step": 100},
            "bins": [1000, 2000, 5000],
            "missing": "absent",
        },
    },
    releases=[
        {
            **{"name": "people", "kind": "match", "attributes": ["sex", "state", "city", "income"]},
            **{"at": ["2021-01"], "rho": 8, "composites": {"place": ["state", "city"]}},
            **{"coarser": {"income": [2000]}, "exempt": ["sex"]},
            "derived": {"pronoun": {"of": "sex", "values": {"f": "she", "m": "he"}}},
        },
    ],
)


def write_reports(folder: Path) -> None:
    """Men earn over 2,000 in two southern cities, women less in a northern one."""
    rng, rows = np.random.default_rng(2), ["person,period,sex,state,city,income"]
    for i in range(PEOPLE):
        state, city = ("south", f"city-{1 + i % 4 // 2}") if i % 2 else ("north", "city-0")
        income = rng.integers(20, 100) if i % 2 else rng.integers(0, 10)
        city = f"city-{i % 60}" if i % 30 == 7 else city
        rows.append(f"p{i},2021-01,{'m' if i % 2 else 'f'},{state},{city},{100 * income}")
    (folder / "reports.csv").write_text("\n".join(rows))


@pytest.mark.parametrize("log", ["sqlite", pytest.param("kafka", marks=pytest.mark.slow)])
def test_from_reports_to_a_table(
    log: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    pytest.importorskip("jax")
    file, out = written(STUDY, tmp_path, log, request, capsys), tmp_path / "out"
    write_reports(tmp_path)
    (planned,) = json_output(capsys, "check", file)["data_sets"]
    # Pairs, or with triples, or few people's pairs in rounds.
    assert [phase["candidates"] for phase in planned["phases"]] == [1, 3, 3, 4, 3]
    assert [phase["queries"] for phase in planned["phases"]][:3] == [1, 2 + 120 + 5, 240 + 6 + 360]
    assert all(0 < phase["least"] <= phase["most"] for phase in planned["phases"])
    json_output(capsys, "send", file, tmp_path / "reports.csv")
    json_output(capsys, "close", file, "2021-01", "--yes")
    assert json_output(capsys, "run", file, "--until-idle") == {"horizon_reached": False}
    json_output(capsys, "worker", file, "--until-idle")
    (job,) = json_output(capsys, "jobs", file)["jobs"]
    assert job["rounds_decided"] == ROUNDS
    assert json_output(capsys, "run", file, "--until-idle") == {"horizon_reached": True}
    exported = json_output(capsys, "export", file, "people", out)
    assert sorted(path.name for path in out.glob("*.parquet")) == [
        "covariance.parquet",
        "measurements.parquet",
        "people.parquet",
    ]
    json_output(capsys, "verify", file)
    table = pyarrow.parquet.read_table(out / "people.parquet")
    assert exported["people"] == table.num_rows
    assert table.column_names == ["sex", "state", "city", "income", "pronoun"]
    sex, state, city = (np.array(table[n].to_pylist()) for n in ("sex", "state", "city"))
    income = table["income"].to_numpy()
    assert ((sex == "m") == (state == "south")).mean() > 0.95
    assert (city[sex == "f"] == "city-0").mean() > 0.9
    assert (np.isin(city[sex == "m"], ["city-1", "city-2"])).mean() > 0.85
    # Within a coarser bin incomes have the shares of the number's own bins.
    assert (income[sex == "f"] < 1000).mean() > 0.85
    assert len(np.unique(income)) > 50
    answer = json_output(capsys, "estimate", file, "people", "sex=m")
    assert abs(answer["value"] - 0.5) < 8 * answer["standard_error"] < 0.14


def test_a_mistake_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "workers.toml"
    for old, new, words in (
        ('["state", "city"]', '["state", "town"]', "composites.place: 'town' is none of the"),
        ("[2000]", "[2500]", "coarser.income: 2500 is no edge of the number's own bins"),
        ('exempt = ["sex"]', 'exempt = ["city"]', "'city' is measured as a part of 'place'"),
        ('kind = "match"', 'kind = "rap"', "unknown key"),
    ):
        assert old in STUDY
        file.write_text(STUDY.replace(old, new))
        error = refusal(capsys, 2, "check", file)
        assert words in error
        assert "Traceback" not in error
