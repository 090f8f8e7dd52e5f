"""A file that replaces an earlier one: what it withdraws, and what it leaves."""

import csv
import json

import pytest
from kit.agency_files import PEOPLE, rows, sent, share_of_poor, text, write


def accepted(command, study):
    command("close", study, "2021-03")
    assert command("run", study, "--until-idle")[0] == 0
    return json.loads(command("status", study, "--json")[1])["cells_at_last_cut"]["accepted"]


def test_a_file_that_replaces_an_earlier_one(study, command):
    """The new file lacks ten people, an answer and a month; it changes one answer."""
    earlier = write(study.parent / "old.csv", text([*rows(), *rows("2021-02")]))
    body = [*rows("2021-01", PEOPLE[10:]), ("0001", "2021-01", 0, "")]
    newer = write(study.parent / "new.csv", text(body))
    command("send", study, earlier)
    code, out, _ = command("send", study, newer, "--replace", earlier)
    assert code == 0
    assert out == f"{newer}: 31 reports sent\n{earlier}: 50 reports withdrawn\n"
    again = write(study.parent / "again.csv", text(body))
    assert command("send", study, again, "--replace", newer)[1].endswith("0 reports withdrawn\n")
    # Cleared cells are accepted too; what counts is in the counts of the close.
    command("close", study, "2021-03", "--yes")
    assert command("run", study, "--until-idle")[0] == 0
    assert share_of_poor(command, study, "2021-01") == pytest.approx(30 / 60, abs=0.02)
    assert share_of_poor(command, study, "2021-02") == pytest.approx(0, abs=0.02)


def test_what_is_closed_is_not_withdrawn(study, command):
    earlier = write(study.parent / "old.csv", text([*rows(), *rows("2021-02")]))
    newer = write(study.parent / "new.csv", text([]))
    command("send", study, earlier)
    command("close", study, "2021-01")
    command("run", study, "--until-idle")
    code, out, _ = command("send", study, newer, "--replace", earlier)
    assert (code, out.splitlines()[1]) == (0, f"{earlier}: 40 reports withdrawn")
    command("close", study, "2021-02", "--yes")
    command("run", study, "--until-idle")
    assert "nothing was rejected" in command("rejected", study)[1]
    assert share_of_poor(command, study, "2021-02") == pytest.approx(0, abs=0.02)


def test_replacements_that_are_refused(study, command):
    good = write(study.parent / "good.csv", text(rows()))
    bad = write(study.parent / "bad.csv", "a,b\n1,2\n")
    none = study.parent / "none.csv"
    for words, fault in (
        ([good, good, "--replace", good], "name the one file"),
        ([good, "--replace", none], "no such file"),
        ([good, "--replace", bad], "no column 'person'"),
        ([bad, "--replace", good], "no column 'person'"),
    ):
        code, _, lines = command("send", study, *words)
        assert code == 2
        assert fault in lines[0]
    assert sent(study) == 0


def test_a_row_changes_no_other_row_of_a_replacement(study, command):
    """What is withdrawn of one person depends on the rows of that person alone."""
    earlier = write(study.parent / "old.csv", text(rows()))
    newer = write(study.parent / "new.csv", text(rows(people=PEOPLE[1:])))
    assert "1 reports withdrawn" in command("send", study, newer, "--replace", earlier)[1]
    with earlier.open("a") as file:
        csv.writer(file).writerow(("9998", "2021-02", 1, "no"))
    assert "2 reports withdrawn" in command("send", study, newer, "--replace", earlier)[1]
