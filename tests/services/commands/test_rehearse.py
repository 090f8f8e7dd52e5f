"""`rehearse`: the whole study in memory; what it shows, and that it leaves no trace."""

import csv
import sys

import pytest
from kit.commands import json_output, refusal
from kit.studies import SCHEDULE, attribute, study_toml, window

from stream_dp.services.commands.cli import main

RELEASES = [window("now", "work", width=1, rho=1)]
STUDY = {
    "name": "homes",
    "size": 40,
    "attributes": {"work": attribute(["no", "yes"], missing="no")},
    "releases": RELEASES,
}
GROUPS = {
    "unit": "household",
    "most": 2,
    "attributes": {"region": {"values": ["north", "south"]}},
}


@pytest.fixture
def reports(tmp_path):
    path = tmp_path / "reports.csv"
    rows = [f"p{i},2021-0{m},{'yes' if i % 2 else 'no'}" for m in (1, 2, 3) for i in range(40)]
    path.write_text("\n".join(["person,period,work", *rows, "p1,2021-07,yes", "p2,2021-01,?\n"]))
    return path


def written(folder, **changes):
    path = folder / "study.toml"
    path.write_text(study_toml(**{**STUDY, **changes}))
    return path


def test_what_would_be_rejected_and_how_the_panel_would_look(tmp_path, capsys, reports):
    study, out = written(tmp_path), tmp_path / "out"
    before = sorted(tmp_path.iterdir())
    assert main(["rehearse", str(study), str(reports), "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("CONFIDENTIAL: a rehearsal on real reports with simulated noise")
    assert "column period: 1 cells, period, first in row 121" in text
    assert "column work: 1 cells, value, first in row 122" in text
    assert "1 cells  value:" in text
    assert "period: the period is not one of the study's: they name others than 2021-01" in text
    assert "say which text of the file is which: --map 'work:TEXT=no,TEXT=yes'" in text
    assert "now at 2021-03: 40 synthetic rows; estimates with 95% intervals:" in text
    assert "verified: budget: 1 of 1 spent" in text
    assert "s  closing, deciding and publishing every period" in text
    assert sorted(tmp_path.iterdir()) == sorted([*before, out])
    assert sorted(file.name for file in out.iterdir()) == [
        "now-rehearsed-estimates.csv",
        "now-rehearsed-panel.csv",
        "rehearsal.html",
        "rehearsal.txt",
    ]
    page = (out / "rehearsal.html").read_text("utf-8")
    assert "CONFIDENTIAL: a rehearsal on real reports with simulated noise" in page
    assert "SIMULATED NOISE, NOT PRIVATE" in page
    assert "<h2>now</h2>" in page
    assert (out / "rehearsal.txt").read_text().startswith("CONFIDENTIAL")
    with (out / "now-rehearsed-panel.csv").open() as file:
        assert len(list(csv.reader(file))) == 41


@pytest.mark.parametrize(
    "periods",
    [
        {"first": "2031-01", "every": "month", "count": 3, **SCHEDULE},
        {"first": "2021-01", "every": "month", "count": 3, "delay": "2d"},
    ],
    ids=["schedule in the future", "delay"],
)
def test_calendars_are_rehearsed_at_once_with_the_same_noise_for_a_seed(
    tmp_path, capsys, reports, periods
):
    study = written(tmp_path, periods=periods)
    reports.write_text(reports.read_text().replace("2021", periods["first"][:4]))
    shown = json_output(capsys, "rehearse", study, reports, "--seed", "3")
    assert shown["confidential"] is True
    assert shown["simulated"] is True
    assert [r["period"][-2:] for r in shown["releases"]] == ["01", "02", "03"]
    assert shown["rejected"] == {"period": 1, "value": 1}
    assert shown["files"][str(reports)]["cells"] == 122
    assert not (tmp_path / "homes.db").exists()


@pytest.fixture
def homes(tmp_path):
    (tmp_path / "groups.csv").write_text("group,region\n1,north\n2,south\n")
    (tmp_path / "members.csv").write_text("person,group\np1,1\np2,1\np3,2\n")
    return ["--groups", tmp_path / "groups.csv", "--members", tmp_path / "members.csv"]


def with_groups(folder, kind):
    sets = {"name": "homes", "kind": kind, "attributes": ["work"], "rho": 1, "at": ["2021-03"]}
    return written(
        folder,
        neighbours="replace_in_place",
        rho=2,
        groups=GROUPS,
        releases=[*RELEASES, sets],
    )


def test_data_sets_are_rehearsed_or_said_to_be_left_out(
    tmp_path, capsys, reports, homes, monkeypatch
):
    study = with_groups(tmp_path, "independent")
    shown = json_output(capsys, "rehearse", study, reports, *homes)
    assert shown["releases"][-1] == {"release": "homes", "period": "2021-03"}
    assert shown["left_out"] is None
    study = with_groups(tmp_path, "hpd-fixed")
    monkeypatch.setitem(sys.modules, "jax", None)
    assert main(["rehearse", str(study), str(reports), *map(str, homes)]) == 0
    (line,) = [x for x in capsys.readouterr().out.splitlines() if "data sets of groups" in x]
    assert "pip install '.[batch]'" in line


def test_a_held_period_is_closed_and_shown(tmp_path, capsys, reports):
    study = written(tmp_path, gate={"rho": 1, "least": 0.5}, rho=3)
    rows = [row for row in reports.read_text().splitlines() if "2021-02" not in row]
    reports.write_text("\n".join(rows) + "\n")
    shown = json_output(capsys, "rehearse", study, reports)
    assert [r["period"] for r in shown["releases"]] == ["2021-01", "2021-02", "2021-03"]
    assert shown["held"] == ["2021-02"]


def test_refusals(tmp_path, capsys, reports, homes):
    study = written(tmp_path)
    assert "no data sets" in refusal(capsys, 2, "rehearse", study, reports, *homes)
    assert "no such file" in refusal(capsys, 2, "rehearse", study, tmp_path / "none.csv")
    assert "--seed" in refusal(capsys, 2, "rehearse", study, reports, "--seed=-1")
    study = with_groups(tmp_path, "independent")
    assert "--groups" in refusal(capsys, 2, "rehearse", study, reports)
    study.write_text(study.read_text() + '\n[run.input]\nformat = "flat"\n')
    assert "run.input" in refusal(capsys, 2, "rehearse", study, reports)
