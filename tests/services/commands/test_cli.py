"""The command line: what each command does and says, and every mistake in a clear line."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet
import pytest

from stream_dp.services import cli
from stream_dp.study import Run

STUDY = """
[study]
name = "poverty"
description = "A small trial"
unit = "household"
neighbours = "replace_one"
rho = 1
delta = 1e-6

[study.periods]
first = "2021-01"
every = "month"
count = 3

[study.population]
size = 60

[attributes.poverty]
values = [0, 1]
missing = 0

[attributes.work]
values = ["no", "half day"]
missing = "absent"

[[releases]]
name = "pairs"
kind = "window"
attribute = "poverty"
width = 2
rho = 0.5

[[releases]]
name = "months"
kind = "cumulative"
attribute = "work"
event = ["half day"]
rho = 0.25

[run]
log = "sqlite:poverty.db"
public = "sqlite:public.db"
"""
MONTHS = ("2021-01", "2021-02", "2021-03")


@pytest.fixture(autouse=True)
def _undisturbed(monkeypatch):
    """No settings of whoever runs the tests, and their signal handlers back afterwards."""
    for field in Run.model_fields:
        monkeypatch.delenv(f"STREAM_DP_{field.upper()}", raising=False)
    held = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    yield
    for name, handler in held.items():
        signal.signal(name, handler)


def write(folder, study=STUDY, months=MONTHS, people=50):
    """A study file and a long table of every person's months."""
    path = folder / "study.toml"
    path.write_text(study)
    with (folder / "reports.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["person", "period", "poverty", "work"])
        for month in months:
            table.writerows([f"p{i}", month, i % 2, "half day"] for i in range(people))
    return path


@pytest.fixture
def study(tmp_path):
    return write(tmp_path)


@pytest.fixture
def stream_dp(capsys):
    """Runs a command; gives what it printed. Checks the code and the form of a refusal."""

    def run(*words, code=0):
        given = cli.main([str(word) for word in words])
        told = capsys.readouterr()
        assert given == code, told.err
        assert "Traceback" not in told.err
        if code == 0:
            return told.out
        assert told.out == ""
        lines = told.err.splitlines()
        assert lines
        assert all(line.startswith("stream-dp: ") and len(line) < 400 for line in lines)
        return told.err

    return run


@pytest.fixture
def as_json(stream_dp):
    return lambda *words: json.loads(stream_dp(*words, "--json"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a study that is at the end of its horizon, with some unusable reports."""
    folder = tmp_path_factory.mktemp("finished")
    path = write(folder, people=70)
    with (folder / "reports.csv").open("a") as file:
        file.write("p1,2021-01,7,no\np1,2022-01,1,no\n")
    assert cli.main(["send", str(path), str(folder / "reports.csv")]) == 0
    assert cli.main(["close", str(path), "2021-03"]) == 0
    assert cli.main(["run", str(path), "--until-idle"]) == 0
    return folder


@pytest.fixture(params=["study", "public"])
def source(request, finished, tmp_path):
    """What an analyst names: the study's file, or a public log that is alone in a folder."""
    if request.param == "study":
        return str(finished / "study.toml")
    shutil.copy(finished / "public.db", tmp_path / "copied.db")
    return f"sqlite:{tmp_path / 'copied.db'}"


# new, check


def test_new_writes_a_study_that_can_be_checked(tmp_path, stream_dp, as_json):
    path = tmp_path / "mine.toml"
    assert f"stream-dp check {path}" in stream_dp("new", path)
    assert "total rho: " in stream_dp("check", path)
    held = as_json("check", path)
    assert Fraction(held["rho_planned"]) == Fraction(held["rho_total"])
    assert as_json("new", tmp_path / "other.toml") == {"written": str(tmp_path / "other.toml")}


def test_new_overwrites_nothing(tmp_path, stream_dp):
    path = tmp_path / "mine.toml"
    path.write_text("precious")
    assert "is there already; nothing was written" in stream_dp("new", path, code=2)
    assert path.read_text() == "precious"
    assert "cannot be written" in stream_dp("new", tmp_path / "no" / "where.toml", code=2)


def test_check_prints_the_plan_and_writes_nothing(study, stream_dp, as_json):
    text = stream_dp("check", study)
    for word in ("study poverty: 3 periods, 2021-01 to 2021-03", "release pairs", "eps = "):
        assert word in text
    held = as_json("check", study)
    assert held["study"] == "poverty"
    assert [r["name"] for r in held["releases"]] == ["pairs", "months"]
    assert Fraction(held["rho_planned"]) == Fraction(3, 4)
    assert {p.name for p in study.parent.iterdir()} == {"study.toml", "reports.csv"}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("rho = 1\n", "rho = 0.1\n", "more than study.rho"),
        ('neighbours = "replace_one"\n', "", "study.neighbours: is required"),
        ("width = 2", "width = 9", "releases[1].width: 9 periods is over the horizon of 3"),
        ("[run]", "[runs]", "runs: unknown section"),
        ("[study]", "[study", "not a TOML file"),
        ("size = 60", "size = -1", "study.population"),
    ],
)
def test_faults_of_a_study_file_are_told(tmp_path, stream_dp, old, new, told):
    path = write(tmp_path, STUDY.replace(old, new))
    err = stream_dp("check", path, code=2)
    assert told in err
    assert all(line.startswith(f"stream-dp: {path}: ") for line in err.splitlines())


@pytest.mark.parametrize("key", ["log", "public"])
@pytest.mark.parametrize(
    "url",
    [
        "postgres://me:secret@host/db",
        "kafka:host:9092/x",
        "kafka://me:secret@host:9092/x",
        "kafka://host:9092",
        "sqlite:",
        "file:x.db",
        "secret.db",
    ],
)
@pytest.mark.parametrize(
    "words", [["check"], ["send", "reports.csv"], ["status"], ["evaluate", "x"]]
)
def test_a_log_of_another_kind_is_refused_by_every_command(tmp_path, stream_dp, key, url, words):
    old = {"log": "sqlite:poverty.db", "public": "sqlite:public.db"}[key]
    path = write(tmp_path, STUDY.replace(old, url))
    told = stream_dp(words[0], path, *words[1:], code=2)
    assert told.startswith(f"stream-dp: {path}: run.{key}: log '")
    assert told.endswith("write it as sqlite:FILE or kafka://host:port/prefix\n")
    assert "secret@" not in told


def test_several_faults_are_told_at_once(tmp_path, stream_dp):
    path = write(tmp_path, STUDY.replace("width = 2", "width = 9").replace("size = 60", ""))
    assert len(stream_dp("check", path, code=2).splitlines()) == 2


# Mistakes in what is typed.


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "COMMAND"),
        (["nothing"], "invalid choice: 'nothing'"),
        (["check"], "STUDY.toml"),
        (["check", "a.toml", "b.toml"], "unrecognized arguments: b.toml"),
        (["check", "a.toml", "--loud"], "unrecognized arguments: --loud"),
        (["send", "a.toml"], "FILE"),
        (["close", "a.toml"], "PERIOD"),
        (["export", "a.toml", "r"], "OUT"),
        (["evaluate", "a.toml", "t.csv", "--repetitions", "many"], "invalid int value: 'many'"),
        (["estimate", "a.toml", "r", "q", "--share", "--count"], "not allowed with"),
    ],
)
def test_wrong_words_are_told_with_the_way_to_help(stream_dp, words, told):
    err = stream_dp(*words, code=2)
    assert told in err
    assert "--help" in err
    assert len(err.splitlines()) == 1


STUDY_COMMANDS = [
    ["check"],
    ["send", "reports.csv"],
    ["close", "2021-01"],
    ["run", "--until-idle"],
    ["status"],
    ["rejected"],
    ["releases"],
    ["export", "pairs", "out.csv"],
    ["estimate", "pairs", "pattern 1"],
    ["verify"],
    ["evaluate", "reports.csv"],
]


@pytest.mark.parametrize("words", STUDY_COMMANDS, ids=lambda w: w[0])
def test_a_study_file_that_is_not_there(tmp_path, stream_dp, words):
    path = tmp_path / "none.toml"
    err = stream_dp(words[0], path, *words[1:], code=2)
    assert f"{path}: no such file; 'stream-dp new {path}' writes one" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", STUDY_COMMANDS, ids=lambda w: w[0])
@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"= 1", b"[study]\n", b""])
def test_a_file_that_is_no_study(tmp_path, stream_dp, words, content):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    stream_dp(words[0], path, *words[1:], code=2)
    assert [p.name for p in tmp_path.iterdir()] == ["bad.toml"]


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["send", "--help"]])
def test_help_and_version(capsys, words):
    with pytest.raises(SystemExit) as leaving:
        cli.main(words)
    assert leaving.value.code == 0
    assert "stream-dp" in capsys.readouterr().out


# send


def test_send_says_how_many_reports_it_sent(study, stream_dp, as_json):
    table = study.parent / "reports.csv"
    assert stream_dp("send", study, table) == f"{table}: 150 reports sent\n"
    assert as_json("send", study, table) == {"sent": {str(table): 150}}


def test_send_a_wide_table(study, stream_dp, as_json):
    table = study.parent / "wide.csv"
    table.write_text("id,m1,m2,2021-03\na,0,1,\nb,,1,1\n")
    layout = ["--person", "id", "--attribute", "poverty", "--columns", "m1=2021-01,m2=2021-02"]
    assert as_json("send", study, table, *layout) == {"sent": {str(table): 4}}
    stream_dp("close", study, "2021-03")
    stream_dp("run", study, "--until-idle")
    assert as_json("status", study)["cells_at_last_cut"]["accepted"] == 4


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--person", "id"], "no column 'id'; name the ids' with --person"),
        (["--period", "month"], "no column 'month'; name it with --period"),
        (["--attribute", "age"], "attribute 'age': not declared; there are poverty, work"),
        (["--attribute", "poverty"], "a column for each period, or --columns NAME=PERIOD"),
        (["--columns", "poverty"], "--columns: write COL=NAME,COL=NAME, not 'poverty'"),
        (["--columns", "a=poverty"], "no column 'a' to rename"),
    ],
)
def test_wrong_options_of_send(study, stream_dp, options, told):
    table = study.parent / "reports.csv"
    assert told in stream_dp("send", study, table, *options, code=2)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("none.csv", None, "no such file"),
        ("table.txt", b"person,period,poverty\n", "write tables as .csv or .parquet"),
        ("empty.csv", b"", "cannot be read as a table"),
        ("ragged.csv", b"person,period,poverty\na,2021-01\n", "cannot be read as a table"),
        ("latin.csv", b"person,period,poverty\n\xe9,2021-01,1\n", "cannot be read as a table"),
        ("fake.parquet", b"person,period,poverty\n", "cannot be read as a table"),
        ("empty.parquet", b"", "cannot be read as a table"),
    ],
)
def test_wrong_files_of_send(study, stream_dp, name, content, told):
    path = study.parent / name
    if content is not None:
        path.write_bytes(content)
    err = stream_dp("send", study, path, code=2)
    assert told in err
    assert str(path) in err
    assert len(err.splitlines()) == 1


def test_sending_twice_changes_no_release(study, stream_dp, as_json):
    table = study.parent / "reports.csv"
    for _ in range(2):
        stream_dp("send", study, table)
    stream_dp("close", study, "2021-03")
    stream_dp("run", study, "--until-idle")
    assert as_json("status", study)["cells_at_last_cut"] == {
        "received": 600,
        "accepted": 300,
        "superseded": 300,
        "rejected": {},
        "pending": 0,
    }


# close, run, status, rejected


def test_a_study_from_its_first_day_to_its_last(study, stream_dp, as_json):
    before = as_json("status", study)
    assert not (study.parent / "poverty.db").exists()
    assert before["begun"] is False
    assert before["open_period"] == "2021-01"
    assert before["waits_for"] == f"stream-dp close {study} 2021-01"
    assert (before["last_closed"], before["rho_spent"]) == (None, "0")
    assert "not begun" in stream_dp("status", study)
    assert stream_dp("rejected", study) == "CONFIDENTIAL\nnothing was rejected\n"

    out = stream_dp("run", study, "--until-idle")
    assert "2021-01 waits for: stream-dp close" in out
    assert "open period: 2021-01" in stream_dp("status", study)
    assert as_json("status", study)["begun"] is True
    err = stream_dp("estimate", study, "pairs", "pattern 1", code=2)
    assert "nothing is published of it yet" in err

    stream_dp("send", study, study.parent / "reports.csv")
    spent = []
    for month in MONTHS:
        assert month in stream_dp("close", study, month)
        out = stream_dp("run", study, "--until-idle")
        assert f"closed {month}" in out
        held = as_json("status", study)
        assert held["last_closed"] == month
        spent.append(Fraction(held["rho_spent"]))
        assert held["cells_at_last_cut"]["received"] == 300
    assert spent[0] < spent[1] < spent[2] == Fraction(3, 4)
    assert "the horizon is reached" in out
    assert (held["open_period"], held["waits_for"]) == (None, "nothing: the horizon is reached")
    text = stream_dp("status", study)
    assert text.startswith("CONFIDENTIAL\n")
    assert "300 received = 300 accepted + 0 superseded + 0 rejected + 0 pending" in text
    assert as_json("run", study, "--until-idle") == {"horizon_reached": True}


def test_closing_twice_is_harmless_and_a_later_period_closes_the_earlier_ones(
    study, stream_dp, as_json
):
    stream_dp("send", study, study.parent / "reports.csv")
    for month in ("2021-02", "2021-02", "2021-01"):
        assert as_json("close", study, month) == {"closed": month}
    out = stream_dp("run", study, "--until-idle")
    assert [line for line in out.splitlines() if line.startswith("closed")] == [
        "closed 2021-01",
        "closed 2021-02",
    ]
    assert as_json("status", study)["open_period"] == "2021-03"
    stream_dp("close", study, "2021-02")
    assert as_json("run", study, "--until-idle") == {"horizon_reached": False}
    assert [r["period"] for r in as_json("releases", study)["releases"]] == [
        "2021-01",
        "2021-02",
        "2021-02",
    ]


@pytest.mark.parametrize("period", ["2021-04", "2020-12", "January", "1", "", "2021-1"])
def test_an_unknown_period_cannot_be_closed(study, stream_dp, period):
    err = stream_dp("close", study, period, code=2)
    assert f"period '{period}': not one of the study's, 2021-01 to 2021-03" in err


def test_a_study_with_a_schedule_is_not_closed_by_hand(tmp_path, stream_dp, as_json):
    scheduled = STUDY.replace("count = 3\n", 'count = 3\nclose = "schedule"\nzone = "UTC"\n')
    path = write(tmp_path, scheduled)
    assert "closes by its schedule" in stream_dp("close", path, "2021-01", code=2)
    assert as_json("status", path)["waits_for"] == "its scheduled close"
    stream_dp("send", path, path.parent / "reports.csv")
    # Every close lies in the past of what was just sent: nothing counts, everything goes out.
    assert as_json("run", path, "--until-idle") == {"horizon_reached": True}
    stream_dp("verify", path)


def test_rejected_says_why_and_nothing_more(finished, stream_dp, as_json):
    study = finished / "study.toml"
    held = as_json("rejected", study)
    full = 10 * 3 * 2  # ten people too many
    assert held["rejected"] == {"period": 2, "value": 1, "full": full}
    assert held["confidential"] is True
    text = stream_dp("rejected", study)
    assert text.startswith("CONFIDENTIAL\n")
    assert f"{full} cells  full: no place in the population" in text
    assert "p1" not in text
    cells = as_json("status", study)["cells_at_last_cut"]
    assert cells["rejected"] == held["rejected"]
    assert cells["received"] == 70 * 3 * 2 + 4


def test_a_study_that_was_changed_is_refused(study, stream_dp):
    stream_dp("run", study, "--until-idle")
    study.write_text(STUDY.replace("rho = 0.25", "rho = 0.3"))
    for words in (["run", study, "--until-idle"], ["status", study], ["verify", study]):
        err = stream_dp(*words, code=4)
        assert "it has changed since its first record" in err
    # [run] is no part of it.
    study.write_text(STUDY + 'snapshots = "elsewhere"\n')
    stream_dp("run", study, "--until-idle")


@pytest.mark.parametrize("words", [["send", "reports.csv"], ["close", "2021-01"], ["run"]])
def test_a_log_that_is_something_else(study, stream_dp, words):
    (study.parent / "poverty.db").write_bytes(b"notes " * 1000)
    words = [study.parent / w if w.endswith(".csv") else w for w in words]
    assert "not a log of stream-dp" in stream_dp(words[0], study, *words[1:], code=2)


def test_a_log_in_a_folder_that_is_not_there(tmp_path, stream_dp):
    path = write(tmp_path, STUDY.replace("sqlite:poverty.db", "sqlite:data/poverty.db"))
    assert "data: no such folder" in stream_dp("run", path, "--until-idle", code=2)
    path = write(tmp_path, STUDY.replace("sqlite:poverty.db", "poverty.db"))
    assert "write it as sqlite:FILE" in stream_dp("run", path, "--until-idle", code=2)


def test_paths_are_relative_to_the_study_file_and_the_environment_overrides_them(
    study, stream_dp, monkeypatch, tmp_path_factory
):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("STREAM_DP_PUBLIC", f"sqlite:{elsewhere / 'other.db'}")
    stream_dp("run", study, "--until-idle")
    assert (elsewhere / "other.db").exists()
    assert (study.parent / "poverty.db").exists()
    assert not (study.parent / "public.db").exists()
    assert all(p.name.startswith("other.db") for p in elsewhere.iterdir())


# releases, export, estimate, verify


def test_releases(source, stream_dp, as_json):
    held = as_json("releases", source)
    assert held["study"] == "poverty"
    names = [(r["release"], r["period"]) for r in held["releases"]]
    assert names == [
        ("months", "2021-01"),
        ("pairs", "2021-02"),
        ("months", "2021-02"),
        ("pairs", "2021-03"),
        ("months", "2021-03"),
    ]
    spent = [Fraction(r["rho_spent"]) for r in held["releases"]]
    assert spent == sorted(spent)
    assert spent[-1] == Fraction(3, 4)
    assert held["head"] == held["releases"][-1]["hash"]
    text = stream_dp("releases", source)
    assert text.startswith("study poverty: A small trial\n")
    assert text.rstrip().endswith(f"head {held['head']}")
    assert len(text.splitlines()) == 3 + len(names)


@pytest.mark.parametrize(("period", "columns"), [(None, 3), ("2021-02", 2)])
def test_export(source, stream_dp, as_json, tmp_path, period, columns):
    options = ["--period", period] if period else []
    out = stream_dp("export", source, "pairs", tmp_path / "panel.parquet", *options)
    table = pyarrow.parquet.read_table(tmp_path / "panel.parquet")
    assert table.column_names == ["row", *MONTHS[:columns]]
    assert f"{table.num_rows} synthetic rows, 2021-01 to {MONTHS[columns - 1]}" in out
    assert out.splitlines()[-1].startswith("panel bias: ")
    held = as_json("export", source, "pairs", tmp_path / "panel.csv", *options)
    assert held["rows"] == table.num_rows
    assert held["panel_bias"].endswith("use 'estimate'")
    with (tmp_path / "panel.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(r["2021-01"]) for r in rows] == table["2021-01"].to_pylist()
    assert {r["2021-02"] for r in rows} <= {"0", "1"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["none", "out.csv"], "release 'none': the study has no such release; it has pairs, month"),
        (["pairs", "out.xlsx"], "write it as .parquet or .csv"),
        (["pairs", "out"], "write it as .parquet or .csv"),
        (["pairs", "no/where/out.csv"], "cannot be written"),
        (["pairs", "no/where/out.parquet"], "cannot be written"),
        (["pairs", "out.csv", "--period", "2021-01"], "none at period '2021-01'; it has 2021-02"),
        (["pairs", "out.csv", "--period", "x"], "none at period 'x'"),
    ],
)
def test_what_cannot_be_exported(source, stream_dp, tmp_path, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    assert told in stream_dp("export", source, *words, code=2)
    assert not list(tmp_path.glob("out*"))


def test_estimate(source, stream_dp, as_json):
    query = "at-least 1 of last 2 poverty=1"
    held = as_json("estimate", source, "pairs", query)
    assert held["query"] == query
    assert (held["period"], held["measure"]) == ("2021-03", "share")
    low, high = held["interval"]
    assert low < held["value"] < high
    assert held["standard_error"] > 0
    counted = as_json("estimate", source, "pairs", query, "--count", "--period", "2021-02")
    assert (counted["period"], counted["measure"]) == ("2021-02", "count")
    assert held == as_json("estimate", source, "pairs", query, "--share")
    text = stream_dp("estimate", source, "pairs", query)
    assert f"{query} at 2021-03 (share of households)" in text
    assert f"{held['value']:.5f}" in text
    assert "95% interval" in text
    # Nearly everybody has the event every month: of 60 places all but noise.
    total = as_json("estimate", source, "months", "total at-least 3", "--count")
    assert abs(total["value"] - 60) < 6 * total["standard_error"]


def test_estimate_lists_what_can_be_asked(source, stream_dp, as_json):
    everything = as_json("estimate", source)
    assert set(everything) == {"pairs", "months"}
    assert as_json("estimate", source, "months") == {"months": everything["months"]}
    text = stream_dp("estimate", source)
    for name, queries in everything.items():
        for query in queries:
            assert query in text
            as_json("estimate", source, name, query)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["none"], "the study has no such release; it has pairs, months"),
        (["none", "pattern 1"], "the study has no such release; it has pairs, months"),
        (["pairs", "poor"], "not understood; write"),
        (["pairs", "pattern 2"], "'2' is no value; the values are 0, 1"),
        (["pairs", "pattern 1 1 1"], "looks at 3 periods and the release at 2"),
        (["pairs", "total at-least 1"], "ask a window release for a pattern"),
        (["months", "pattern 1"], "total at-least"),
        (["months", "total at-least 4"], "ask for 1 to 3 periods"),
        (["pairs", "pattern 1", "--period", "2021-01"], "none at period '2021-01'"),
    ],
)
def test_what_cannot_be_estimated(source, stream_dp, words, told):
    err = stream_dp("estimate", source, *words, code=2)
    assert told in err
    assert len(err.splitlines()) == 1


def test_verify(source, finished, stream_dp, as_json):
    held = as_json("verify", source)
    text = stream_dp("verify", source)
    assert text.rstrip().endswith(f"head {held['head']}")
    with_study = source.endswith(".toml")
    assert any("journal and public log agree" in line for line in held["verified"]) == with_study
    kept = as_json("releases", source)["releases"][1]["hash"]
    assert "kept elsewhere is in the chain" in stream_dp("verify", source, "--head", kept)
    err = stream_dp("verify", source, "--head", "0" * 64, code=4)
    assert "the hash kept elsewhere is not in its chain" in err


def test_verify_finds_a_changed_byte(finished, tmp_path, stream_dp):
    data = (finished / "public.db").read_bytes()
    # A name inside a manifest, so that the file is still a log.
    assert b"A small trial" in data
    (tmp_path / "changed.db").write_bytes(data.replace(b"A small trial", b"A large trial"))
    for words in (["verify"], ["releases"], ["estimate"]):
        err = stream_dp(words[0], f"sqlite:{tmp_path / 'changed.db'}", *words[1:], code=4)
        assert "message" in err


@pytest.mark.parametrize("command", ["releases", "verify", "estimate"])
def test_public_logs_that_are_not_there(study, tmp_path, stream_dp, command):
    assert "no such log" in stream_dp(command, f"sqlite:{tmp_path / 'none.db'}", code=2)
    assert "write it as sqlite:FILE" in stream_dp(command, "postgres:x", code=2)
    assert "public.db" in stream_dp(command, study, code=2)
    err = stream_dp(command, tmp_path / "public.db", code=2)
    assert f"name a public log as sqlite:{tmp_path / 'public.db'}" in err
    (tmp_path / "notes.db").write_bytes(b"notes " * 1000)
    err = stream_dp(command, f"sqlite:{tmp_path / 'notes.db'}", code=2)
    assert "not a log of stream-dp" in err
    assert not (tmp_path / "public.db").exists()


def test_the_confidential_log_is_no_public_log(finished, stream_dp):
    err = stream_dp("releases", f"sqlite:{finished / 'poverty.db'}", code=2)
    assert "public log" in err


# evaluate


@pytest.fixture
def _one_process(monkeypatch):
    monkeypatch.setattr("stream_dp.evaluation.panels.repeat._cores", lambda: 1)


@pytest.mark.usefixtures("_one_process")
def test_evaluate(study, stream_dp, as_json):
    table = study.parent / "reports.csv"
    held = as_json("evaluate", study, table, "--repetitions", "3")
    assert held["confidential"] is True
    assert "CONFIDENTIAL" in stream_dp("evaluate", study, table, "--repetitions", "2").upper()


@pytest.mark.usefixtures("_one_process")
def test_evaluate_asks_products_of_open_attributes_by_their_names(tmp_path, stream_dp, as_json):
    text = STUDY.replace("missing = 0", 'missing = "absent"')
    text = text.replace('attribute = "poverty"', 'attribute = ["poverty", "work"]')
    study, table = tmp_path / "open.toml", tmp_path / "long.csv"
    study.write_text(text)
    work = ["no", "half day"]
    told = [f"p{i},2021-0{t},{i % 2},{work[i * t % 3 % 2]}" for i in range(40) for t in (1, 2, 3)]
    table.write_text("\n".join(["person,period,poverty,work", *told]) + "\n")
    found = as_json("evaluate", study, table, "--repetitions", "2")
    assert "at-least 1 of last 2 'poverty=" in json.dumps(found)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["reports.csv", "--repetitions", "1"], "--repetitions: give at least 2"),
        (["reports.csv", "--seed", "-1"], "seed"),
        (["none.csv"], "no such file"),
        (["reports.csv", "--person", "id"], "no column 'id'"),
        (["bad.csv"], "no value of it fits the study"),
    ],
)
def test_wrong_words_of_evaluate(study, monkeypatch, stream_dp, words, told):
    monkeypatch.chdir(study.parent)
    Path("bad.csv").write_text("person,period,poverty\n")
    assert told in stream_dp("evaluate", study, *words, code=2)


# As a process.


def process(*words, **options):
    command = [sys.executable, "-m", "stream_dp.services.cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def test_exit_codes_of_the_process(finished, tmp_path):
    done = process("check", tmp_path / "none.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    done = process("verify", finished / "study.toml", "--head", "0" * 64)
    assert (done.returncode, done.stdout) == (4, "")
    done = process("releases", finished / "study.toml", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["study"] == "poverty"


def test_nothing_is_said_when_the_reader_leaves(finished):
    read, write_ = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "stream_dp.services.cli", "releases"]
    done = subprocess.run(
        [*command, str(finished / "study.toml")], stdout=write_, stderr=subprocess.PIPE
    )
    os.close(write_)
    assert done.stderr == b""
    assert done.returncode == 1
