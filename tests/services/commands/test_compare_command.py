"""`stream-dp evaluate --compare`: a table of every form, for people and for machines."""

import json

import pytest

from stream_dp.services import cli

STUDY = """
[study]
name = "poverty"
unit = "household"
neighbours = "replace_one"
rho = 1
delta = 1e-6
[study.periods]
first = 1
every = "step"
count = 3
[study.population]
size = 60
[attributes.poverty]
values = [0, 1]
missing = 0
[[releases]]
name = "pairs"
kind = "window"
attribute = "poverty"
width = 2
rho = 0.5
"""


@pytest.fixture
def words(tmp_path, monkeypatch):
    (tmp_path / "study.toml").write_text(STUDY)
    lines = [f"{i},{i % 2},{i % 3 // 2},{i % 5 // 4}" for i in range(60)]
    (tmp_path / "truth.csv").write_text("\n".join(["person,1,2,3", *lines]) + "\n")
    monkeypatch.setattr("stream_dp.evaluation.panels.compare.cores", lambda: 1)
    given = ["evaluate", tmp_path / "study.toml", tmp_path / "truth.csv"]
    return [str(word) for word in (*given, "--attribute", "poverty", "--repetitions", "3")]


def test_a_table_of_forms(words, capsys):
    assert cli.main([*words, "--compare", "--simulated"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("CONFIDENTIAL")
    assert "truth.csv: 60 SIMULATED people" in out
    assert "paper: histogram, padded" in out
    assert "* contrasts, projected" in out


def test_for_machines_and_into_a_folder(words, tmp_path, capsys):
    assert cli.main([*words, "--compare", "--json", "--out", str(tmp_path / "out")]) == 0
    held = json.loads(capsys.readouterr().out)
    assert held["confidential"] is True
    assert held["simulated"] is False
    assert json.loads((tmp_path / "out" / "comparison.json").read_text()) == held
    assert (tmp_path / "out" / "comparison.txt").read_text().startswith("CONFIDENTIAL")


@pytest.mark.parametrize("more", [["--simulated"], ["--compare", "--scales", "1,2"]])
def test_options_that_go_with_another(words, more, capsys):
    assert cli.main([*words, *more]) == 2
    assert "goes with" in capsys.readouterr().err
