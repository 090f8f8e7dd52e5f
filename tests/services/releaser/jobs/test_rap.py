"""A table of people with numbers, from the declaration to the file exported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from kit.commands import json_output
from kit.studies import attribute
from kit.workers_study import workers_toml

from stream_dp.services.commands import cli

PEOPLE = 500
ROUNDS = 5  # the seed, the number of people, one-ways, pairs, the last phase
STUDY = workers_toml(
    rho=9,
    attributes={
        "sex": attribute(["f", "m"], missing="f"),
        "income": {
            "number": {"least": -9000, "most": 1400000, "step": 100},
            "bins": [0, 1000, 50000, 60000],
            "missing": "absent",
        },
        "code": {"number": {"least": 0, "most": 99999}, "bins": [90000], "missing": 0},
    },
    releases=[
        {
            **{"name": "people", "kind": "rap", "attributes": ["sex", "income", "code"]},
            **{"labels": ["sex"], "at": ["2021-01"], "rho": 8},
            "linear": [{"weights": {"income": 1, "code": -1}, "thresholds": [-43000, -37000]}],
            "derived": {"pronoun": {"of": "sex", "values": {"f": "she", "m": "he"}}},
        },
    ],
)


def write_reports(folder: Path) -> None:
    """Men earn 50,000 to 59,900, with codes about 40,000 above; every fifth woman says nothing."""
    rng, rows = np.random.default_rng(2), ["person,period,sex,income,code"]
    for i in range(PEOPLE):
        if i % 2:
            income = rng.integers(500, 600)
            code = min(max(100 * income + 40000 + rng.integers(-2500, 2500), 90000), 99999)
            rows.append(f"p{i},2021-01,m,{income}00,{code}")
        else:
            income = "" if i % 5 == 0 else f"{rng.integers(10, 500)}00"
            rows.append(f"p{i},2021-01,f,{income},{rng.integers(90000)}")
    (folder / "reports.csv").write_text("\n".join(rows))


def test_from_reports_to_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jax")
    file, out = tmp_path / "workers.toml", tmp_path / "out"
    file.write_text(STUDY)
    write_reports(tmp_path)
    checked = json_output(capsys, "check", file)
    assert checked["releases"][0]["charges"] == {"2021-01": "8"}
    phases = checked["data_sets"][0]["phases"]
    assert phases[1]["title"] == "single columns, sums of numbers among them"
    assert [phase["candidates"] for phase in phases[:3]] == [1, 4, 4]
    json_output(capsys, "send", file, tmp_path / "reports.csv")
    json_output(capsys, "close", file, "2021-01", "--yes")
    assert json_output(capsys, "run", file, "--until-idle") == {"horizon_reached": False}
    assert cli.main(["estimate", str(file)]) == 0
    assert capsys.readouterr().out == "nothing is published yet\n"
    json_output(capsys, "worker", file, "--until-idle")
    (job,) = json_output(capsys, "jobs", file)["jobs"]
    assert job["rounds_decided"] == ROUNDS
    assert json_output(capsys, "run", file, "--until-idle") == {"horizon_reached": True}
    exported = json_output(capsys, "export", file, "people", out)
    json_output(capsys, "verify", file)
    table = pa.parquet.read_table(out / "people.parquet")
    assert exported["people"] == table.num_rows
    assert table.column_names == ["sex", "income", "code", "pronoun"]
    assert table.schema.types == [pa.string(), pa.int64(), pa.int64(), pa.string()]
    pronouns = [{"f": "she", "m": "he"}[sex] for sex in table["sex"].to_pylist()]
    assert table["pronoun"].to_pylist() == pronouns
    sex = np.array(table["sex"].to_pylist())
    income = table["income"].to_numpy()
    code = table["code"].to_numpy()
    assert np.isnan(income[sex == "f"]).mean() == pytest.approx(0.2, abs=0.05)
    known = ~np.isnan(income)
    assert (income[known] % 100 == 0).all()
    assert (income[known].min() >= -9000) & (income[known].max() <= 1400000)
    assert len(np.unique(income[known])) > 100
    men = (sex == "m") & (income >= 50000) & (income < 60000) & (code >= 90000)
    assert men.mean() == pytest.approx(0.5, abs=0.05)
    # Within their two bins alone about half of the men would be as near.
    assert (np.abs((code - income)[men] - 40000) < 3000).mean() > 0.8
    earns = json_output(
        capsys, "estimate", file, "people", "income=50000..59900 & sex=m among everybody"
    )
    assert earns["value"] == pytest.approx(0.5, abs=0.05)
    assert 0 < earns["standard_error"] < 0.02
    near = json_output(capsys, "estimate", file, "people", "code - income < 43000 & sex=m")
    assert near["query"] == "income-code > -43000 & sex=m"
    assert near["value"] == pytest.approx(0.5, abs=0.05)
    assert 0 < near["standard_error"] < 0.02
    assert cli.main(["estimate", str(file), "people", "2*sex-code <= 3"]) == 2
    assert capsys.readouterr().err == (
        "stream-dp: query '2*sex-code <= 3': 'sex' has listed values: write some of them, such as"
        " 'sex=A|B'; numbers are income, code\n"
    )
    page = tmp_path / "page.html"
    json_output(capsys, "page", file, page)
    assert "50000..59900" in page.read_text()
