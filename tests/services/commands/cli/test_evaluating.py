"""`evaluate` on the command line."""

import json
from pathlib import Path

import pytest
from trial import STUDY


@pytest.fixture
def _one_process(monkeypatch):
    monkeypatch.setattr("stream_dp.services.evaluate.repeated_panels.cores", lambda: 1)


@pytest.mark.usefixtures("_one_process")
def test_evaluate(study, stream_dp, as_json):
    table = study.parent / "reports.csv"
    output = as_json("evaluate", study, table, "--repetitions", "3")
    assert output["confidential"] is True
    assert "CONFIDENTIAL" in stream_dp("evaluate", study, table, "--repetitions", "2").upper()


@pytest.mark.usefixtures("_one_process")
def test_evaluate_asks_products_of_open_attributes_by_their_names(tmp_path, stream_dp, as_json):
    text = STUDY.replace("missing = 0", 'missing = "absent"')
    text = text.replace('attribute = "poverty"', 'attribute = ["poverty", "work"]')
    study, table = tmp_path / "open.toml", tmp_path / "long.csv"
    study.write_text(text)
    work = ["no", "half day"]
    rows = [f"p{i},2021-0{t},{i % 2},{work[i * t % 3 % 2]}" for i in range(40) for t in (1, 2, 3)]
    table.write_text("\n".join(["person,period,poverty,work", *rows]) + "\n")
    output = as_json("evaluate", study, table, "--repetitions", "2")
    assert "at-least 1 of last 2 'poverty=" in json.dumps(output)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reports.csv", "--repetitions", "1"], "--repetitions: give at least 2"),
        (["reports.csv", "--seed", "-1"], "seed"),
        (["none.csv"], "no such file"),
        (["reports.csv", "--person", "id"], "no column 'id'"),
        (["bad.csv"], "bad.csv: holds no values"),
    ],
)
def test_wrong_words_of_evaluate(study, monkeypatch, stream_dp, words, message):
    monkeypatch.chdir(study.parent)
    Path("bad.csv").write_text("person,period,poverty\n")
    assert message in stream_dp("evaluate", study, *words, code=2)


def test_a_truth_whose_people_all_come_too_late_is_refused(tmp_path, stream_dp):
    """In a closed cohort nobody enters after the first period: sound cells that do not count."""
    study, table = tmp_path / "closed.toml", tmp_path / "late.csv"
    study.write_text(
        """
[study]
name = "closed"
unit = "person"
neighbours = "add_remove"
rho = 1
delta = 0.000001
[study.periods]
first = "2021-01"
every = "month"
count = 3
[study.population]
closed = true
[attributes.poor]
values = ["no", "yes"]
missing = "absent"
[[releases]]
name = "now"
kind = "window"
attribute = "poor"
width = 1
share = 1
"""
    )
    table.write_text("person,period,poor\n" + "".join(f"p{i},2021-03,yes\n" for i in range(5)))
    line = "late.csv: no value of it fits the study"
    assert line in stream_dp("evaluate", study, table, "--repetitions", "2", code=2)
