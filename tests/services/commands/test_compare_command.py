"""`stream-dp evaluate --compare`: a table of every form, for people and for machines."""

import json

import pytest
from kit.studies import STEPS, study_toml, window

from stream_dp.services import cli

STUDY = study_toml(
    name="poverty",
    unit="household",
    periods=STEPS,
    size=60,
    releases=[window("pairs", "poverty", width=2, rho=0.5)],
)


@pytest.fixture
def words(tmp_path, monkeypatch):
    (tmp_path / "study.toml").write_text(STUDY)
    lines = [f"{i},{i % 2},{i % 3 // 2},{i % 5 // 4}" for i in range(60)]
    (tmp_path / "truth.csv").write_text("\n".join(["person,1,2,3", *lines]) + "\n")
    monkeypatch.setattr("stream_dp.evaluation.panels.repetitions.cores", lambda: 1)
    words = ["evaluate", tmp_path / "study.toml", tmp_path / "truth.csv"]
    return [str(word) for word in (*words, "--attribute", "poverty", "--repetitions", "3")]


def test_a_table_of_forms(words, capsys):
    assert cli.main([*words, "--compare", "--simulated"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("CONFIDENTIAL")
    assert "truth.csv: 60 SIMULATED people" in out
    assert "paper: histogram, padded" in out
    assert "* residuals, projected" in out


def test_for_machines_and_into_a_folder(words, tmp_path, capsys):
    assert cli.main([*words, "--compare", "--json", "--out", str(tmp_path / "out")]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["confidential"] is True
    assert output["simulated"] is False
    assert json.loads((tmp_path / "out" / "comparison.json").read_text()) == output
    assert (tmp_path / "out" / "comparison.txt").read_text().startswith("CONFIDENTIAL")


@pytest.mark.parametrize("more", [["--simulated"], ["--compare", "--scales", "1,2"]])
def test_options_that_go_with_another(words, more, capsys):
    assert cli.main([*words, *more]) == 2
    assert "goes with" in capsys.readouterr().err
