"""What `rejected` tells of the cells that do not count, and `status` of a close not yet read."""

import json

import pytest
from kit.studies import attribute, study_toml, window

from stream_dp.log.log import Record
from stream_dp.log.sqlite import SqliteLog
from stream_dp.services.commands.cli import main
from stream_dp.services.intake.markers import close_marker
from stream_dp.study.topics import REPORTS

STUDY = study_toml(
    name="rejects",
    periods={"first": 2001, "every": "year", "count": 3},
    size=2,
    attributes={
        "a": attribute([0, 1], missing=0),
        "b": attribute(["x", "y"], missing="absent"),
        "region": attribute(["north", "south"], missing="absent", fixed=True),
    },
    releases=[window("w", "a", width=1, rho=1)],
)
SECRET = "Zq7secret"


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


@pytest.fixture
def command(capsys):
    """Runs a command that must succeed; what it prints."""

    def command(*words):
        capsys.readouterr()
        assert main([*map(str, words)]) == 0
        return capsys.readouterr().out

    return command


def send(command, study, name, text):
    (study.parent / name).write_text(text)
    command("send", study, study.parent / name)


def cells(command, study):
    output = json.loads(command("rejected", study, "--json"))
    return {
        (c["reason"], c["attribute"], c["period"], c["file"]): c["cells"] for c in output["cells"]
    }


def test_attribute_period_and_file_of_what_is_rejected(command, study):
    head = "person,period,a,b,region\n"
    send(command, study, "good.csv", head + "p1,2001,1,x,north\np2,2001,1,x,south\n")
    send(
        command,
        study,
        "odd.csv",
        head + f"p1,2002,7,{SECRET},\np1,1999,1,,\n,2001,1,,\np2,2002,,x,\n",
    )
    command("close", study, "2001")
    command("run", study, "--until-idle")
    send(command, study, "late.csv", head + "p1,2001,0,,\np1,2002,,x,\n")
    send(command, study, "more.csv", head + "p1,2002,1,x,south\np3,2002,1,,\n")
    command("close", study, "2002")
    command("run", study, "--until-idle")
    expected = {
        ("value", "a", "2002", "odd.csv"): 1,
        ("value", "b", "2002", "odd.csv"): 1,
        ("period", "a", "", "odd.csv"): 1,
        ("late", "a", "2001", "late.csv"): 1,
        ("full", "a", "2002", "more.csv"): 1,
        ("fixed", "region", "2002", "more.csv"): 1,
    }
    shown = cells(command, study)
    assert expected.items() <= shown.items()
    assert shown.keys() - expected.keys() <= {("person", "a", "2001", "odd.csv")}
    text = command("rejected", study)
    assert "        2 cells  value: not one of the attribute's values\n" in text
    assert "            1  attribute a, period 2002, file odd.csv\n" in text
    assert SECRET not in text


def test_nothing_is_quoted_of_other_programs_records(command, study):
    command("run", study, "--until-idle")
    log = SqliteLog(study.parent / "rejects.db")
    report = {"person": SECRET, "period": SECRET, "values": {SECRET: SECRET, "a": 1}}
    report_ = {"person": SECRET, "period": "2001", "values": {SECRET: 1, "b": SECRET}}
    log.append([Record(REPORTS, json.dumps(r).encode()) for r in (report, report_)])
    log.append([Record(REPORTS, b"x", None, (("stream-dp-source", b"\x1b[2J\xff\xc2\x9b"),))])
    log.append([close_marker(1, 0)])
    log.close()
    command("run", study, "--until-idle")
    assert cells(command, study) == {
        ("period", "", "", ""): 1,
        ("period", "a", "", ""): 1,
        ("attribute", "", "2001", ""): 1,
        ("value", "b", "2001", ""): 1,
        ("unreadable", "", "", "\\u001b[2J\\xff\\u009b"): 1,
    }
    text = command("rejected", study)
    assert SECRET not in text
    assert text.replace("\n", "").isprintable()


def test_file_names_that_are_strange_and_long(command, study):
    names = ["a\nb\x1b.csv", "n" * 250 + ".csv"]
    for name in names:
        send(command, study, name, "person,period,a\np1,2001,7\np2,2001,0\n")
    command("close", study, "2001", "--yes")
    command("run", study, "--until-idle")
    assert {file for _, _, _, file in cells(command, study)} == {"a\\u000ab\\u001b.csv", names[1]}


def test_a_close_that_is_given_is_not_asked_for(command, study):
    def waits():
        return json.loads(command("status", study, "--json"))["waits_for"]

    assert waits() == f"stream-dp close {study} 2001"
    command("close", study, "2002", "--yes")
    given = f"stream-dp run {study}: the close was given, and is not read yet"
    assert waits() == given
    out = command("run", study, "--until-idle")
    assert "waits for: stream-dp close" in out
    assert "2001 waits" not in out
    assert "2002 waits" not in out
    assert waits() == f"stream-dp close {study} 2003"
    send(command, study, "a.csv", "person,period,a\np1,2003,1\n")
    assert waits() == f"stream-dp close {study} 2003"
    command("close", study, "2003")
    assert waits() == given
    command("run", study, "--until-idle")
    assert waits() == "nothing: the horizon is reached"


def test_a_close_in_some_partitions_only_is_asked_for_again(command, study):
    study.write_text(STUDY + "[run]\npartitions = 2\n")
    command("run", study, "--until-idle")
    log = SqliteLog(study.parent / "rejects.db")
    log.append([close_marker(1, 0)])
    output = json.loads(command("status", study, "--json"))
    assert output["waits_for"] == f"stream-dp close {study} 2001"
    log.append([close_marker(2, 1)])
    log.close()
    output = json.loads(command("status", study, "--json"))
    assert output["waits_for"].startswith("stream-dp run")


def test_a_report_over_the_largest_size_is_counted_and_its_file_known(command, study):
    rows = f"p1,2001,{'y' * 70_000}\np2,2001,x\np1,2001\n"
    send(command, study, "long.csv", "person,period,b\n" + rows)
    command("close", study, "2001")
    command("run", study, "--until-idle")
    assert cells(command, study) == {("unreadable", "", "", "long.csv"): 2}
