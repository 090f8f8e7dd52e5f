"""A file that is wrong as a whole is refused, a faulty row does not count; both say what to do."""

import gzip
import json
import os
import stat
import subprocess
import sys
import zipfile
from datetime import date, timedelta
from pathlib import Path

import pytest
from kit import refusals
from kit.agency_files import HEAD, PEOPLE, STUDY, parquet, rows, sent, share_of_poor, text, write

LONG = [(*row[:2], row[2], "x" * 70_000) for row in rows()]
WIDE = ["--attribute", "poverty"]
# By what is wrong: the file's name, its content, options, and what the refusal says.
WRONG = {
    "ids that are empty": ("t.csv", text(rows(people=[""] * 3)), [], "person: the person's id"),
    "an id that is too long": ("t.csv", text(rows(people=["1" * 300])), [], "person"),
    "a period that is over": ("t.csv", text(rows("2020-12")), [], "period"),
    "a period to come": ("t.csv", text(rows("2022-01")), [], "2021-01 to 2021-03"),
    "months in words": ("t.csv", text(rows("January")), [], "period"),
    "dates of another order": ("t.csv", text(rows("31.01.2021")), [], "--dates '%d.%m.%Y'"),
    "dates of either order": ("t.csv", text(rows("01/02/2021")), [], "--dates '%d/%m/%Y' or"),
    "a date that is none": ("t.csv", text(rows("2021-02-30")), [], "period"),
    "periods that are empty": ("t.csv", text(rows("")), [], "period"),
    "columns in each other's place": (
        "t.csv",
        text(rows(), ("person", "period", "work", "poverty")),
        [],
        "value",
    ),
    "a name with a mistake": ("t.csv", text(rows(), (*HEAD[:3], "wrok")), [], "'wrok=work'"),
    "capital letters": ("t.csv", text(rows(), (*HEAD[:2], "POVERTY", "a")), [], "POVERTY=poverty"),
    "no header": ("t.csv", text(rows()[1:], rows()[0]), [], "no column 'person'"),
    "no column of ids": ("t.csv", text(rows(), ("id", *HEAD[1:])), [], "--person"),
    "no column of periods": ("t.csv", text(rows(), ("person", "m", *HEAD[2:])), [], "--period"),
    "no attribute": ("t.csv", text(rows(), (*HEAD[:2], "a", "b")), [], "give a column for an"),
    "a column twice": ("t.csv", text(rows(), (*HEAD[:3], "poverty")), [], "in 2 columns"),
    "nothing but a header": ("t.csv", text([]), [], "holds no values"),
    "only empty cells": (
        "t.csv",
        text([(p, "2021-01", "", "") for p in PEOPLE]),
        [],
        "holds no values",
    ),
    "an empty file": ("t.csv", "", [], "cannot be read as a table"),
    "a quote left open": (
        "t.csv",
        text(rows()) + '"0001,2021-01,1,no\n',
        [],
        "in line 42 is not closed",
    ),
    "Latin-1": ("t.csv", text(rows(people=["é"])).encode("latin-1"), [], "--encoding cp1252"),
    "UTF-16 without a mark": ("t.csv", text(rows()).encode("utf-16-le"), [], "utf-16-le"),
    "another file": ("t.csv", b"\x89PNG\r\n\x1a\n\0\0", [], "cannot be read as a table"),
    "a file that is cut": ("t.parquet", parquet(poverty=[1])[:-20], [], "cannot be read"),
    "packed and cut": ("t.csv.gz", gzip.compress(text(rows()).encode())[:-6], [], "cannot be"),
    "a wide file sent as long": ("t.csv", "person,2021-01\n0001,1\n", [], "no column 'period'"),
    "a wide file with a period too many": (
        "t.csv",
        "person,2021-01,2021-04\n0001,1,1\n",
        WIDE,
        "--columns '2021-04='",
    ),
    "a wide file without periods": ("t.csv", "person,m1,m2\n0001,1,1\n", WIDE, "--columns"),
    "reports over the largest size": ("t.csv", text(LONG), [], "unreadable: rows with more"),
    "a header that is too long": (
        "t.csv",
        text(rows(), (*HEAD[:3], "x" * 131_073)),
        [],
        "its header has a cell that is too long",
    ),
    "another separator": ("t.csv", text(rows(), separator="#"), [], "no column 'person'"),
    "a binary sheet": ("t.xls", b"\xd0\xcf\x11\xe0", [], "save it as .xlsx"),
    "a document": ("t.docx", b"PK", [], "write tables as CSV"),
}


def test_there_are_thirty_of_them():
    assert len(WRONG) >= 30


@pytest.mark.parametrize("check", [[], ["--check"]])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_file_is_not_sent(study, command, wrong, check):
    """After a good one, from which the shape of ids is known."""
    good = write(study.parent / "good.csv", text(rows()))
    assert command("send", study, good)[0] == 0
    name, content, options, mend = WRONG[wrong]
    path = write(study.parent / name, content)
    code, out, lines = command("send", study, path, *options, *check)
    assert (code, out) == (2, "")
    assert any(mend in line for line in lines), lines
    assert all(line.startswith("stream-dp: ") and len(line) < 400 for line in lines)
    assert sent(study) == len(PEOPLE)


# By what is wrong with some rows: the file's name, its content, how many cells do not count, and
# what the sender is told.
FAULTY = {
    "zeros lost": ("t.csv", text(rows(people=range(1, 41))), 0, "--id-width 4"),
    "zeros lost in some rows": (
        "t.csv",
        text([*rows("2021-02", PEOPLE[:20]), *rows("2021-02", range(21, 41))]),
        0,
        "--id-width 4",
    ),
    "ids with a letter in front": (
        "t.csv",
        text(rows(people=[f"P{p}" for p in PEOPLE])),
        0,
        "look otherwise",
    ),
    "one id with zeros": (
        "t.csv",
        text(rows(people=[*range(1, 41), "0000042"])),
        0,
        "--id-width 7",
    ),
    "ids that became decimals": (
        "t.csv",
        text(rows(people=[f"{int(p)}.0" for p in PEOPLE])),
        0,
        "--id-width 4 puts zeros",
    ),
    "an id that is a fraction": ("t.parquet", parquet(person=[1.0, 2.5]), 1, "write the column as"),
    "an id that is missing": ("t.parquet", parquet(person=[1.0, None]), 1, "the person's id is"),
    "texts for numbers": (
        "t.csv",
        text([(p, "2021-01", "Yes", "no") for p in PEOPLE]),
        40,
        "--map 'poverty:TEXT=0,TEXT=1'",
    ),
    "a code for missing": ("t.csv", text([("0001", "2021-01", -9, "no")]), 1, "TEXT="),
    "a typing error": ("t.csv", text([*rows(), ("0041", "2021-01", 9, "no")]), 1, "poverty"),
    "a fraction": ("t.parquet", parquet(poverty=[0.5, 1.0]), 1, "poverty"),
    "a short row": ("t.csv", text(rows()) + "0001,2021-01\n", 1, "unreadable: rows with more"),
    "a long row": ("t.csv", text(rows()) + "1,2021-01,1,no,no\n", 1, "unreadable: rows with more"),
    "a row in another encoding": (
        "t.csv",
        text([*rows(), ("é", "2021-01", 1, "no")]).encode("latin-1"),
        2,
        "--encoding cp1252",
    ),
    "a row over the largest size": ("t.csv", text([*rows(), LONG[0]]), 1, "too long"),
    "a row of a cell that is too long": (
        "t.csv",
        text([*rows(), ("1", "2021-01", 1, "x" * 131_073)]),
        1,
        "too long",
    ),
    "an id over lines": (
        "t.csv",
        text([*rows(), ('"a\nb"', "2021-01", 1, "")]),
        1,
        "go over lines",
    ),
}


@pytest.mark.parametrize("wrong", FAULTY)
def test_what_is_wrong_with_a_row_holds_no_other_row_back(study, command, wrong):
    study.write_text(STUDY.replace("size = 60", "size = 200"))
    good = write(study.parent / "good.csv", text(rows()))
    assert command("send", study, good)[0] == 0
    name, content, faulty, mend = FAULTY[wrong]
    path = write(study.parent / name, content)
    code, out, _ = command("send", study, path, "--check", "--json")
    checked = json.loads(out)
    assert (code, checked["faulty_cells"]) == (0, {str(path): faulty})
    code, out, lines = command("send", study, path, "--quiet")
    assert (code, lines) == (0, [])
    assert mend in out
    assert command("close", study, "2021-02", "--yes")[0] == 0
    assert command("run", study, "--until-idle")[0] == 0
    cells = json.loads(command("status", study, "--json")[1])["cells_at_last_cut"]
    assert sum(cells["rejected"].values()) == faulty
    assert cells["accepted"] + cells["superseded"] == 80 + checked["checked"][str(path)] - faulty
    assert json.loads(command("rejected", study, "--json")[1])["rejected"] == cells["rejected"]
    if faulty:
        (report,) = study.parent.glob("*.faults.txt")
        assert stat.S_IMODE(report.stat().st_mode) == 0o600
        assert str(report) in out
        assert len(report.read_text().splitlines()) == 1 + faulty


@pytest.mark.parametrize("wrong", FAULTY)
def test_a_strict_sender_holds_the_whole_file_back(study, command, wrong):
    good = write(study.parent / "good.csv", text(rows()))
    assert command("send", study, good, "--strict")[0] == 0
    name, content, _, mend = FAULTY[wrong]
    path = write(study.parent / name, content)
    if wrong == "an id over lines":
        mend = "person"
    code, out, lines = command("send", study, path, "--strict")
    assert (code, out) == (2, "")
    assert any(mend in line for line in lines)
    assert "without --strict what counts is sent" in lines[-1]
    assert sent(study) == len(PEOPLE)


def test_a_file_of_which_nothing_counts_holds_no_other_back(study, command):
    good = write(study.parent / "good.csv", text(rows()))
    bad = write(study.parent / "bad.csv", text(rows("January")))
    code, out, lines = command("send", study, bad, good, "--quiet")
    assert (code, lines) == (2, [])
    assert out.splitlines()[:2] == [
        f"{good}: 40 reports sent",
        f"{bad}: 80 of 80 cells would not count; nothing of it is sent",
    ]
    assert sent(study) == 40
    # Ids of the first file are known when the second is judged.
    short = write(study.parent / "short.csv", text(rows("2021-02", range(1, 41))))
    assert "--id-width 4" in command("send", study, good, short)[1]


def test_a_file_that_is_wrong_as_a_whole_keeps_all_from_being_sent(study, command):
    good = write(study.parent / "good.csv", text(rows()))
    bad = write(study.parent / "bad.csv", text(rows(), ("id", *HEAD[1:])))
    code, out, lines = command("send", study, good, bad, "--quiet")
    assert (code, out) == (2, "")
    assert all("good.csv" not in line for line in lines)
    assert sent(study) == 0


def test_the_table_of_what_is_wrong(study, command):
    content = text([*rows("2021-01", PEOPLE[:2]), *rows("May", PEOPLE[2:5]), ("9999", "", 7, "x")])
    path = write(study.parent / "t.csv", content)
    report = study.parent / "t.csv.faults.txt"
    code, out, _ = command("send", study, path)
    assert code == 0
    assert out.splitlines()[:4] == [
        f"{path}: 6 reports sent",
        f"{path}: 8 of 12 cells would not count; the others count; each is in {report}",
        "  column  reason         cells  first row",
        "  period  period             8          3",
    ]
    assert report.read_text().splitlines()[:3] == [
        "row\tcolumn\treason\ttext",
        "3\tperiod\tperiod\tMay",
        "4\tperiod\tperiod\tMay",
    ]
    assert sent(study) == 6


def test_a_report_that_cannot_be_written_holds_no_row_back(study, command, monkeypatch):
    path = write(study.parent / "t.csv", text([*rows(), ("0041", "2021-01", 9, "no")]))
    (study.parent / "t.csv.faults.txt").mkdir()
    code, out, _ = command("send", study, path)
    assert code == 0
    assert "t.csv.faults.txt: cannot be written: Is a directory" in out
    assert sent(study) == 41
    assert not list(study.parent.glob("*-part"))


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--map", "poverty"], "--map: write A:TEXT=VALUE"),
        (["--map", "poverty:Yes"], "--map: write A:TEXT=VALUE"),
        (["--map", "age:Yes=1"], "--map: attribute 'age' is not declared"),
        (["--map", "poverty:Yes=yes"], "--map: 'yes' is no value of poverty; it is one of 0, 1"),
        (["--dates", "x"], "--dates: 'x' names no period; write a format"),
        (["--id-width", "0"], "--id-width: write a number"),
        (["--separator", ";;"], "--separator: write one character"),
        (["--encoding", "x"], "--encoding: no encoding"),
    ],
)
def test_wrong_options(study, command, words, fault):
    path = write(study.parent / "t.csv", text(rows()))
    code, _, lines = command("send", study, path, *words)
    assert code == 2
    assert fault in lines[0]
    assert sent(study) == 0


def test_a_file_for_a_closed_period_is_refused(study, command):
    path = write(study.parent / "t.csv", text(rows()))
    assert command("send", study, path)[0] == 0
    assert command("close", study, "2021-01")[0] == 0
    late = "late: the period is closed, for good"
    assert late in "".join(command("send", study, path)[2])  # closed, and not read yet
    assert command("run", study, "--until-idle")[0] == 0
    assert late in "".join(command("send", study, path)[2])
    assert command("send", study, write(path, text(rows("2021-02"))))[0] == 0


def month_end(period):
    year, month = map(int, period.split("-"))
    return date(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)


def test_the_messy_file_of_an_agency(study, command):
    """BOM, `;`, text categories, zeros in front, duplicates, month-end dates, a column too many."""
    head = ("person", "period", "poverty", "work", "region")
    months = ("2021-01", "2021-02", "2021-03")
    body = [
        (person, f"{month_end(month):%d.%m.%Y}", "Ja", "half day", "Süd")
        for month in months
        for person in [*PEOPLE, *PEOPLE[:3]]
    ]
    path = study.parent / "export.csv"
    path.write_bytes(text(body, head, ";", "\r\n").encode("utf-8-sig"))
    code, _, lines = command("send", study, path)
    assert code == 2
    for mend in ("--dates '%d.%m.%Y'", "--map 'poverty:TEXT=0,TEXT=1'"):
        assert any(mend in line for line in lines)
    words = ["--dates", "%d.%m.%Y", "--map", "poverty:Ja=1,Nein=0"]
    code, out, _ = command("send", study, path, *words)
    assert code == 0
    assert out.splitlines() == [
        f"{path}: 129 reports sent",
        f"{path}: columns left out: region",
        f"{path}: 18 cells repeat an earlier one of the same person and period, the first in row"
        " 41 below the header: the last one counts",
    ]
    command("close", study, "2021-03")
    assert command("run", study, "--until-idle")[0] == 0
    cells = json.loads(command("status", study, "--json")[1])["cells_at_last_cut"]
    assert (cells["accepted"], cells["superseded"], cells["rejected"]) == (240, 18, {})


def test_lost_zeros_and_dates_of_a_month_reach_the_estimates(study, command):
    """All 60 are poor in every month. February's ids have lost their zeros, March has dates."""
    people = [f"{i:04}" for i in range(1, 61)]
    first = write(study.parent / "january.csv", text(rows("2021-01", people)))
    second = write(study.parent / "february.csv", text(rows("2021-02", range(1, 61))))
    third = write(study.parent / "march.csv", text(rows("2021-03-31", people)))
    assert command("send", study, first)[0] == 0
    code, _, lines = command("send", study, second, "--strict")
    assert code == 2
    (mend,) = (line for line in lines if "--id-width" in line)
    assert command("send", study, second, "--id-width", "4")[0] == 0
    assert "puts zeros in front" in mend
    assert command("send", study, third)[0] == 0
    assert command("close", study, "2021-03")[0] == 0
    assert command("run", study, "--until-idle")[0] == 0
    for period in ("2021-01", "2021-02", "2021-03"):
        assert share_of_poor(command, study, period) == pytest.approx(1, abs=0.02)
    assert "nothing was rejected" in command("rejected", study)[1]


def test_a_packed_file_goes_in_like_the_plain_one(study, command):
    path = study.parent / "t.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.csv", text(rows()))
    assert command("send", study, path)[1] == f"{path}: 40 reports sent\n"


def test_check_sends_nothing_and_says_what_would_count(study, command):
    path = write(study.parent / "t.csv", text(rows()))
    code, out, _ = command("send", study, path, "--check")
    assert (code, out) == (0, f"{path}: 80 cells, all of them would count\n")
    data = json.loads(command("send", study, path, "--check", "--json")[1])
    assert data == {
        "checked": {str(path): 80},
        "faulty_cells": {str(path): 0},
        "fault_report": {str(path): None},
        "strange_ids": {str(path): 0},
        "left_out": {str(path): []},
        "repeated_cells": {str(path): 0},
        "over_lines": {str(path): 0},
        "late_people": {str(path): 0},
        "refused": {},
        "compared_with_log": True,
        "reading": {
            str(path): {
                "person": "person",
                "period": "period",
                "attributes": {"poverty": "poverty", "work": "work"},
            }
        },
    }
    assert not (study.parent / "agency.db").exists()
    path = write(path, text([*rows(), ("0001", "May", 1, "")]))
    code, out, _ = command("send", study, path, "--check")
    assert code == 0
    assert f"{path}: 1 of 81 cells would not count; the others count" in out
    assert not (study.parent / "agency.db").exists()


def test_a_large_refused_file_ends_with_its_code(study):
    """Where a reader was left open, about every fourth process aborted with 134."""
    large = text(((f"p{i}", "2021-01", 1, "no") for i in range(30_000)), ("id", *HEAD[1:]))
    path = write(study.parent / "large.csv", large)
    assert path.stat().st_size > 1 << 19
    command = [sys.executable, "-m", "kit.refusals", str(study), str(path), "10"]
    tests = str(Path(refusals.__file__).parents[1])
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": tests}, capture_output=True, check=True
    )
    assert json.loads(ended.stdout) == {"2": 10}
