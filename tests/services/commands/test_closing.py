"""`close`: what it shows an operator of the open periods, and when it asks."""

import json
import sys
from types import SimpleNamespace

import pytest
from kit.commands import json_output, refusal
from kit.studies import attribute, study_toml, window

from stream_dp.log.log import Record, Unavailable
from stream_dp.log.sqlite import SqliteLog
from stream_dp.services.commands import close
from stream_dp.services.commands.cli import main
from stream_dp.services.intake.markers import close_marker
from stream_dp.study.topics import REPORTS

STUDY = {
    "name": "homes",
    "size": 4,
    "attributes": {
        "work": attribute(["no", "yes"], missing="no"),
        "region": attribute(["north", "south"], missing="absent", fixed=True),
    },
    "releases": [window("now", "work", width=1, rho=1)],
}
JANUARY = "a,2021-01,yes,north\nb,2021-01,no,south\nc,2021-01,no,\n"


def written(folder, **run):
    path = folder / "study.toml"
    path.write_text(study_toml(**STUDY, run=run))
    return path


@pytest.fixture
def study(tmp_path):
    return written(tmp_path)


@pytest.fixture
def terminal(monkeypatch):
    """A terminal whose operator gives these answers; the questions that were asked."""
    answers, questions = [], []

    def ask(question):
        questions.append(question)
        if not answers:
            raise EOFError
        return answers.pop(0)

    monkeypatch.setattr("builtins.input", ask)
    monkeypatch.setattr(close, "_on_terminal", lambda: True)
    return answers, questions


def send(study, name, rows):
    (study.parent / name).write_text(f"person,period,work,region\n{rows}")
    path = study.parent / name
    assert main(["send", str(study), str(path)]) == 0


def append(study, *records):
    log = SqliteLog(study.parent / "homes.db")
    log.create({REPORTS: 1})
    log.append(records)
    log.close()


def report(person, period, **values):
    value = json.dumps({"person": person, "period": period, "values": values})
    return Record(REPORTS, value.encode(), person.encode())


def released(study):
    assert main(["run", str(study), "--until-idle"]) == 0


def reports_of(study):
    log = SqliteLog(study.parent / "homes.db", readonly=True)
    records = log.read(REPORTS, {0: 0}, 1000, 0).records
    log.close()
    return records


def test_what_the_first_period_holds_before_and_after_its_end(study, capsys):
    send(study, "january.csv", JANUARY)
    capsys.readouterr()
    before = reports_of(study)
    shown = json_output(capsys, "close", study, "2021-01", "--check")
    assert shown == {
        "confidential": True,
        "before": None,
        "periods": [{"period": "2021-01", "people": 3, "accepted": 5}],
        "rejected": {},
        "rejected_share": 0.0,
        "cells": [],
        "obstructed": False,
        "doubts": [],
    }
    assert reports_of(study) == before
    assert not (study.parent / "homes-public.db").exists()

    main(["close", str(study), "2021-01"])
    released(study)
    send(study, "february.csv", "a,2021-02,no,\nb,2021-02,no,\n")
    capsys.readouterr()
    shown = json_output(capsys, "close", study, "2021-02", "--check")
    assert shown["before"] == {"period": "2021-01", "people": 3, "accepted": 5}
    assert shown["periods"] == [{"period": "2021-02", "people": 2, "accepted": 2}]
    assert main(["close", str(study), "2021-02", "--check"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "CONFIDENTIAL",
        "2021-01: 3 with an answer, 5 cells accepted (closed)",
        "2021-02: 2 with an answer, 2 cells accepted",
        "since the last close nothing is rejected",
    ]


def test_reports_below_the_last_cut_are_not_read_again(study, capsys, monkeypatch):
    send(study, "january.csv", JANUARY)
    main(["close", str(study), "2021-01"])
    released(study)
    send(study, "february.csv", "a,2021-02,no,\n")
    capsys.readouterr()
    cut, read, begins = len(reports_of(study)) - 1, SqliteLog.read, []

    def noted(log, topic, positions, *arguments):
        begins.extend([positions[0]] if topic == REPORTS else [])
        return read(log, topic, positions, *arguments)

    monkeypatch.setattr(SqliteLog, "read", noted)
    shown = checked(capsys, study, "2021-02")
    assert [shown["before"]["people"], shown["periods"][0]["people"]] == [3, 1]
    assert min(begins) == cut


def checked(capsys, study, period):
    """What `close --check` shows; it ends with 0, whether or not it has doubts."""
    return json_output(capsys, "close", study, period, "--check")


def test_the_numbers_are_those_that_the_releaser_then_decides(study, capsys):
    """Pending, superseded, cleared, full, fixed, late and unreadable: all as the journal has it."""
    send(study, "all.csv", JANUARY + "a,2021-02,yes,south\nd,2021-03,yes,\n")
    append(study, report("a", "2021-01", work="no"), report("c", "2021-01", work=None))
    append(study, Record(REPORTS, b"not a report"), report("b", "2021-01-31", work="yes"))
    for month in ("2021-01", "2021-03"):
        send(study, f"{month}.csv", f"e,{month},no,\nf,{month},no,\na,2021-01,no,\n")
        capsys.readouterr()
        shown = checked(capsys, study, month)
        earlier = json_output(capsys, "status", study)["cells_at_last_cut"]
        main(["close", str(study), month, "--yes"])
        released(study)
        capsys.readouterr()
        now = json_output(capsys, "status", study)["cells_at_last_cut"]
        zero = {"accepted": 0, "rejected": {}}
        assert sum(p["accepted"] for p in shown["periods"]) == (
            now["accepted"] - (earlier or zero)["accepted"]
        )
        assert shown["rejected"] == {
            reason: more
            for reason, count in now["rejected"].items()
            if (more := count - (earlier or zero)["rejected"].get(reason, 0))
        }
    rejected = json_output(capsys, "rejected", study)["rejected"]
    assert {"unreadable", "period", "full", "late", "fixed"} == set(rejected)


def test_a_close_that_is_not_read_yet_ends_the_period_in_the_preview(study, capsys):
    send(study, "january.csv", JANUARY)
    main(["close", str(study), "2021-01"])
    send(study, "late.csv", "d,2021-01,no,\nd,2021-02,no,\n")
    capsys.readouterr()
    shown = checked(capsys, study, "2021-02")
    assert [(p["people"], p["accepted"]) for p in shown["periods"]] == [(3, 5), (1, 1)]
    assert shown["rejected"] == {"late": 1}


def test_several_partitions_and_the_input_without_snapshots(tmp_path, capsys):
    study = written(tmp_path, partitions=3)
    rows = "".join(f"p{i},2021-0{m},yes,\n" for m in (1, 2) for i in range(4))
    send(study, "reports.csv", rows)
    main(["close", str(study), "2021-01"])
    released(study)
    for file in (tmp_path / "homes-snapshots").iterdir():
        file.unlink()
    capsys.readouterr()
    shown = json_output(capsys, "close", study, "2021-02", "--check")
    assert shown["before"]["people"] == 4
    assert shown["periods"] == [{"period": "2021-02", "people": 4, "accepted": 4}]


def test_on_a_terminal_it_shows_and_asks(study, capsys, terminal):
    answers, questions = terminal
    send(study, "january.csv", JANUARY + "d,2021-01,maybe,\n")
    capsys.readouterr()
    for answer in ("", "no", None):
        answers[:] = [] if answer is None else [answer]
        assert main(["close", str(study), "2021-01"]) == 2
        out, error = capsys.readouterr()
        assert "2021-01: 3 with an answer" in out
        assert "1 cells  value: not one of the attribute's values" in out
        assert "file january.csv" in out
        assert error == "stream-dp: close: nothing was closed\n"
    assert len(reports_of(study)) == 4
    answers[:] = ["y"]
    assert main(["close", str(study), "2021-01"]) == 0
    assert len(questions) == 4
    assert "2021-01 is closed" in capsys.readouterr().out
    assert len(reports_of(study)) == 5

    assert main(["close", str(study), "2021-01", "--yes"]) == 0
    assert main(["close", str(study), "2021-01", "--json"]) == 0
    assert len(questions) == 4


@pytest.mark.parametrize("words", [[], ["--yes"], ["--json"], ["--yes", "--json"]])
def test_without_a_terminal_it_counts_nothing(tmp_path, capsys, monkeypatch, words):
    """Of an empty month, and with a share of rejected cells that is too large."""
    study = written(tmp_path, rejects=0)
    append(study, Record(REPORTS, b"not a report"))
    monkeypatch.setattr(
        "stream_dp.services.releaser.close_preview.preview", lambda *_: pytest.fail("counted")
    )
    assert main(["close", str(study), "2021-02", *words]) == 0
    assert "2021-02" in capsys.readouterr().out
    assert len(reports_of(study)) == 2


def test_fixed_attributes_are_said_once(study, capsys):
    """The first month has more cells than the others, and leaves no doubt about them."""
    months = ("2021-01", "2021-02", "2021-03")
    send(study, "one.csv", "a,2021-01,no,north\nb,2021-01,no,south\nc,2021-01,no,north\n")
    send(study, "two.csv", "a,2021-02,no,\nb,2021-02,no,\n")
    send(study, "three.csv", "a,2021-03,no,\n")
    for month in months:
        capsys.readouterr()
        assert checked(capsys, study, month)["doubts"] == []
        main(["close", str(study), month])
        released(study)


def test_doubts_about_empty_and_sparse_periods(tmp_path, capsys):
    study = written(tmp_path)
    append(study, report("a", "2021-02", work="no"))
    assert checked(capsys, study, "2021-01")["doubts"] == ["2021-01 holds no cell"]
    for person in "abc":
        append(study, report(person, "2021-01", work="no"))
    doubts = ["2021-02 has less than half the answers of 2021-01", "2021-03 holds no cell"]
    assert checked(capsys, study, "2021-03")["doubts"] == doubts
    assert len(reports_of(study)) == 4

    # Of what is given already there is no doubt, read or not.
    assert main(["close", str(study), "2021-02"]) == 0
    for _ in range(2):
        capsys.readouterr()
        assert checked(capsys, study, "2021-02")["doubts"] == []
        released(study)


def test_doubts_about_a_month_whose_answers_are_all_cleared(study, capsys):
    append(study, *(report(p, "2021-01", work="no") for p in "ab"))
    append(study, *(report(p, "2021-02", work="no") for p in "ab"))
    append(study, *(report(p, "2021-02", work=None) for p in "ab"))
    doubts = checked(capsys, study, "2021-02")["doubts"]
    assert doubts == ["2021-02 has less than half the answers of 2021-01"]


@pytest.mark.parametrize("share", ["0.05", "0.4"])
def test_doubts_about_a_share_of_rejects(tmp_path, capsys, monkeypatch, terminal, share):
    study = written(tmp_path)
    monkeypatch.setenv("STREAM_DP_REJECTS", share)
    send(study, "march.csv", JANUARY.replace("c,2021-01", "c,2031-01"))
    capsys.readouterr()
    # 1 of 5 cells is rejected.
    line = "a larger share of cells is rejected than run.rejects = 0.05"
    doubts = [line] if share == "0.05" else []
    assert checked(capsys, study, "2021-01")["doubts"] == doubts
    assert main(["close", str(study), "2021-01", "--check"]) == 0
    assert (line in capsys.readouterr().out) == bool(doubts)
    # The operator decides.
    assert main(["close", str(study), "2021-01"]) == 2
    assert (line in capsys.readouterr().out) == bool(doubts)
    terminal[0].append("y")
    assert main(["close", str(study), "2021-01"]) == 0
    assert len(reports_of(study)) == 4


def test_an_operator_who_may_not_read(tmp_path, capsys, monkeypatch, terminal):
    study = written(tmp_path, rejects=0.5)
    append(study, report("a", "2021-01", work="no"))

    def refuse(*_):
        raise Unavailable("kafka: not authorized to read reports")

    monkeypatch.setattr("stream_dp.services.releaser.close_preview.preview", refuse)
    answers, _ = terminal
    answers.append("yes")
    assert main(["close", str(study), "2021-01"]) == 0
    assert "cannot be counted: kafka: not authorized" in capsys.readouterr().out
    assert len(reports_of(study)) == 2
    assert "not authorized" in refusal(capsys, 5, "close", study, "2021-01", "--check")


def test_nothing_is_counted_where_the_journal_is_lost(study, capsys):
    send(study, "january.csv", JANUARY)
    main(["close", str(study), "2021-01"])
    released(study)
    (study.parent / "homes.db").unlink()
    capsys.readouterr()
    assert "confidential log is lost" in refusal(capsys, 4, "close", study, "2021-02", "--check")


@pytest.mark.parametrize("share", ["2", "-0.1", "nan", "'many'"])
def test_a_share_that_is_none(tmp_path, capsys, share):
    study = written(tmp_path)
    study.write_text(study.read_text() + f"\n[run]\nrejects = {share}\n")
    assert "rejects" in refusal(capsys, 2, "check", study)


def test_a_wait_before_the_markers_can_be_interrupted(study, capsys, monkeypatch):
    append(study, report("a", "2021-01", work="no"))
    waits = []

    def interrupt(seconds):
        waits.append(seconds)
        raise KeyboardInterrupt

    # Of this command alone: other threads of the process sleep, too.
    monkeypatch.setattr(close, "time", SimpleNamespace(sleep=interrupt))
    assert main(["close", str(study), "2021-01", "--after", "30m"]) == 130
    assert "still open" in capsys.readouterr().out
    assert waits == [1800]
    assert len(reports_of(study)) == 1
    monkeypatch.setattr(close, "time", SimpleNamespace(sleep=waits.append))
    assert main(["close", str(study), "2021-01", "--after", "1h", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"closed": "2021-01"}
    assert waits == [1800, 3600]
    assert len(reports_of(study)) == 2


@pytest.mark.parametrize("wait", ["soon", "-5s", "1.5h", "", "99999999d"])
def test_a_wait_that_is_no_length_of_time(study, capsys, wait):
    error = refusal(capsys, 2, "close", study, "2021-01", f"--after={wait}")
    assert "--after" in error


def test_a_terminal_is_both_ends(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert close._on_terminal() is False


def test_markers_alone_are_a_period_without_answers(study, capsys):
    append(study, close_marker(1, 0))
    shown = checked(capsys, study, "2021-02")
    assert [p["people"] for p in shown["periods"]] == [0, 0]
    assert shown["doubts"] == ["2021-02 holds no cell"]
