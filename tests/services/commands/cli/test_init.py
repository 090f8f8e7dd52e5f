"""`init`: from a table that nobody has seen to a command that sends every cell of it."""

from __future__ import annotations

import gzip
import hashlib
import io
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from stream_dp.services.commands import cli
from stream_dp.studyfile import load_study

LONG = "\n\n\n{columns}\n\n2025-01\n2\n\nyes\n100\n"
ANSWERS = LONG.format(columns="Out of Work") + "yes,no\nno\n2\nyes\n5\n"


def semicolons(path: Path) -> tuple[Path, list[str]]:
    rows = ["ID;Month;Out of Work;Remark"]
    rows += [
        f"{i:04};2025-{m:02};{'yes' if i % 3 else 'no'};été" for i in range(40) for m in (1, 2)
    ]
    (path / "messy.csv").write_text("\n".join(rows), encoding="cp1252")
    return path / "messy.csv", ["--encoding", "cp1252"]


def parquet(path: Path) -> tuple[Path, list[str]]:
    table = {"pid": ["a", "b"] * 2, "date": ["2025-01-31"] * 2 + ["2025-02-28"] * 2}
    pa.parquet.write_table(
        pa.table({**table, "Out of Work": ["yes", "no", None, "yes"]}), path / "t.parquet"
    )
    return path / "t.parquet", []


def spreadsheet(path: Path) -> tuple[Path, list[str]]:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["person", "period", "Out of Work"])
    book.active.append(["1", "2025-01", "yes"])
    book.save(path / "t.xlsx")
    return path / "t.xlsx", []


def sent_command(printed: str) -> list[str]:
    """The words of the printed command that sends the table."""
    (sent,) = [line for line in printed.splitlines() if line.startswith("to send it: ")]
    return shlex.split(sent.removeprefix("to send it: stream-dp "))


def packed(path: Path) -> tuple[Path, list[str]]:
    """As `write.table` of R writes a table, packed."""
    rows = ['"id" "month" "Out of Work"', *(f'"{i}" "a{i}" 2025-01 "yes"' for i in range(9))]
    with gzip.open(path / "t.txt.gz", "wt") as file:
        file.write("\n".join([*rows, ""]))
    return path / "t.txt.gz", []


@pytest.mark.parametrize("table", [semicolons, parquet, spreadsheet, packed])
def test_the_printed_command_sends_every_cell(table, tmp_path, stream_dp, monkeypatch):
    file, options = table(tmp_path)
    monkeypatch.chdir(tmp_path)
    answers = ANSWERS if table is not parquet else ANSWERS.replace("\n\n2025", "\nmonth\n2025")
    monkeypatch.setattr("sys.stdin", io.StringIO("\n\n" * (table is packed) + answers))
    printed = stream_dp("init", file, "--out", tmp_path / "made.toml", *options)
    assert "within 5 percentage points" in printed
    study, _ = load_study(tmp_path / "made.toml")
    assert study.name == file.name.partition(".")[0]
    assert [(r.name, r.kind) for r in study.releases] == [
        ("out-of-work-patterns", "window"),
        ("out-of-work-totals", "cumulative"),
    ]
    (line,) = [line for line in printed.splitlines() if line.startswith("to try it in memory: ")]
    assert "nothing would be rejected" in stream_dp(*shlex.split(line)[6:], *options)
    command = sent_command(printed)
    assert "would not count" not in stream_dp(*command, *options)


def test_the_sheet_is_asked_for_and_figures_show_the_first_text(tmp_path, stream_dp, monkeypatch):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["about", "this file"])
    book.create_sheet("Data").append(["person", "period", "work"])
    book["Data"].append(["1", "2025-01", "in work"])
    book.save(tmp_path / "t.xlsx")
    monkeypatch.chdir(tmp_path)
    lines = [
        "Data",
        "",
        "",
        "",
        "",
        "",
        "2025-01",
        "1",
        "",
        "",
        "500",
        "in work,out",
        "",
        "1",
        "",
        "9",
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    printed = stream_dp("init", "t.xlsx")
    command = sent_command(printed)
    assert command[command.index("--sheet") + 1] == "Data"
    study, _ = load_study(tmp_path / "t.toml")
    assert study.attributes["work"].interest == "in work"
    assert "would not count" not in stream_dp(*command)
    assert "stream-dp run t.toml --until-idle" in printed.splitlines()[-1]


def test_a_wide_table(tmp_path, stream_dp, monkeypatch):
    (tmp_path / "wide.csv").write_text("hhid,m1,m2,m3\n1,0,1,0\n2,1,,1\n")
    monkeypatch.chdir(tmp_path)
    lines = ["", "", "-", "", "poor", "month", "2025-01", "", "household", "no", "50"]
    lines += ["0,1", "absent", "", "1", "10"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    printed = stream_dp("init", "wide.csv")
    study, _ = load_study(tmp_path / "wide.toml")
    assert (study.neighbours, study.size, study.periods.count) == ("add_remove", None, 3)
    assert [release.rows for release in study.releases] == [50, 50]
    command = sent_command(printed)
    assert "would not count" not in stream_dp(*command)


def test_a_file_without_ids(tmp_path, stream_dp, monkeypatch, capsys):
    (tmp_path / "t.csv").write_text("work,sex\nyes,f\nno,m\nno,m\n")
    monkeypatch.chdir(tmp_path)
    lines = ["", "-", "=", "work", "year", "2025", "1", "2025", "", "yes", "3", "yes,no", "", ""]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*lines, "-", "10", ""])))
    printed = stream_dp("init", "t.csv")
    assert "work-patterns at 2025: 3 synthetic rows" in stream_dp(
        "rehearse", *sent_command(printed)[1:]
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("\n\n"))
    assert cli.main(["init", "t.csv"]) == 2
    assert "an answer is needed" in capsys.readouterr().err


def test_waves_with_gaps_in_one_column(tmp_path, stream_dp, monkeypatch):
    rows = [f"{i},{wave},{i % 2}" for i in range(9) for wave in (1, 3, 6, 2)]
    (tmp_path / "waves.csv").write_text("\n".join(["id,wave,poor", *rows, ""]))
    monkeypatch.chdir(tmp_path)
    lines = ["", "", "", "", "", "1", "1, 3, 6", "", "yes", "9", "0,1", "0", "", "-", "10", ""]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    command = sent_command(stream_dp("init", "waves.csv"))
    assert command[-2:] == ["--map", "period:1=1,3=2,6=3"]
    assert "9 of 36 cells would not count" in stream_dp(*command)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*lines[:6], "1,a=3", ""])))
    assert cli.main(["init", "waves.csv"]) == 2


@pytest.mark.parametrize(("length", "first", "count"), [("step", "1", "3"), ("year", "1970", "6")])
def test_a_wide_table_of_waves_with_gaps(length, first, count, tmp_path, stream_dp, monkeypatch):
    (tmp_path / "waves.csv").write_text("id,y70,y72,y75\n1,0,1,0\n2,1,,1\n")
    monkeypatch.chdir(tmp_path)
    lines = ["", "", "-", "", "poor", length, first, count, "", "yes", "50", "0,1", "0", "", "-"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*lines, "10"]) + "\n"))
    printed = stream_dp("init", "waves.csv")
    command = sent_command(printed)
    assert "would not count" not in stream_dp(*command)
    # Two digits of a year tell its period; waves without a calendar need each theirs.
    assert command[-1] == "y{}=..." if length == "year" else "y75=3" in command[-1]


def test_a_wave_without_a_period_is_told_at_once(tmp_path, monkeypatch, capsys):
    (tmp_path / "waves.csv").write_text("id,y70,y72,y75\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n\n-\n\npoor\nyear\n1970\n3\n"))
    assert cli.main(["init", "waves.csv"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "column 'y75' has no period of its own from 1970 to 1972" in last


def test_a_codebook_that_is_not_there(tmp_path, stream_dp):
    (tmp_path / "t.csv").write_text("person,period,work\n")
    refused = stream_dp("init", tmp_path / "t.csv", "--codebook", tmp_path / "c.csv", code=2)
    assert "c.csv: no such file" in refused


def test_cells_are_read_only_if_the_file_is_public(tmp_path, stream_dp, monkeypatch, capsys):
    (tmp_path / "t.csv").write_text("person,period,work\n1,2025-01,SECRET\n2,2025-01,other\n")
    monkeypatch.chdir(tmp_path)
    answers = "\n\n\n\n\n2025-01\n2\n\nyes\n100\n{}\n\n2\n-\n5\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(answers.format("a,b")))
    assert cli.main(["init", "t.csv", "--out", "first.toml"]) == 0
    seen = capsys.readouterr()
    assert "SECRET" not in seen.out + seen.err + (tmp_path / "first.toml").read_text()
    monkeypatch.setattr("sys.stdin", io.StringIO(answers.format("")))
    assert cli.main(["init", "t.csv", "--out", "second.toml", "--public"]) == 0
    study, _ = load_study(tmp_path / "second.toml")
    assert study.attributes["work"].listed == ("SECRET", "other")
    assert "the guarantee does not cover" in study.description
    source = f"sha256:{hashlib.sha256((tmp_path / 't.csv').read_bytes()).hexdigest()}"
    assert study.attributes["work"].values_from == source
    first, _ = load_study(tmp_path / "first.toml")
    assert first.attributes["work"].values_from is None


def test_values_of_a_codebook(tmp_path, stream_dp, monkeypatch):
    (tmp_path / "t.csv").write_text("person,period,work\n")
    (tmp_path / "codes.csv").write_text("Column,Value,Label\nwork,1,yes\nwork,2,no\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n\n\n\n\n2025-01\n2\n\nyes\n100\n\n\n2\n-\n5\n"))
    stream_dp("init", "t.csv", "--codebook", "codes.csv")
    assert load_study(tmp_path / "t.toml")[0].attributes["work"].listed == (1, 2)


WRONG = {
    "": "there is no answer to 'Name of the study'",
    "a b\n": "use letters, digits",
    "\nnobody\n": "write one of ID, Month, Out of Work",
    "\n\n\nx,y\n": "there is no column 'x'",
    "\n\n\n\n\nJanuary\n": "write a month such as 2026-01",
    "\n\n\n\n\n2025-01\n9999\n": "write a whole number from 1 to 600",
    "\n\n\n\n\n2025-01\n\n\nperhaps\n": "write one of yes, no",
    "\n\n\n\n\n2025-01\n\n\n\n5\nyes\n": "write at least two values",
}


@pytest.mark.parametrize("answers", WRONG)
def test_a_wrong_answer_is_one_line_and_nothing_is_written(answers, tmp_path, monkeypatch, capsys):
    (tmp_path / "t.csv").write_text("ID,Month,Out of Work\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(answers))
    assert cli.main(["init", "t.csv"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "stream-dp: " in last
    assert WRONG[answers] in last
    assert [file.name for file in tmp_path.iterdir()] == ["t.csv"]


def test_an_existing_study_is_not_written_over(tmp_path, stream_dp, monkeypatch, capsys):
    file, options = semicolons(tmp_path)
    (tmp_path / "made.toml").write_text("mine")
    monkeypatch.setattr("sys.stdin", io.StringIO(ANSWERS))
    assert cli.main(["init", str(file), "--out", str(tmp_path / "made.toml"), *options]) == 2
    assert "is there already" in capsys.readouterr().err
    assert (tmp_path / "made.toml").read_text() == "mine"


@pytest.mark.parametrize("wide", [False, True])
def test_labels_that_are_codes_of_others_are_sent_as_labels(wide, tmp_path, stream_dp, monkeypatch):
    """Children coded 1, 2, 3 for 0, 1, 2: with every proposal, the study counts children."""
    pandas, pyreadstat = map(pytest.importorskip, ("pandas", "pyreadstat"))
    coded = {"id": ["a", "b", "c"], "kids1": [1, 2, 3], "kids2": [3, 2, 1]}
    if not wide:
        coded = {"id": ["a", "b", "c"], "period": ["2025-01"] * 3, "kids1": [1, 2, 3]}
    named = {name: {1: "0", 2: "1", 3: "2"} for name in coded if name.startswith("kids")}
    pyreadstat.write_sav(pandas.DataFrame(coded), tmp_path / "t.sav", variable_value_labels=named)
    monkeypatch.chdir(tmp_path)
    lines = (
        ["", "", "-", "kids{}", "kids", "", "2025-01"] if wide else ["", "", "", "", "", "2025-01"]
    )
    answers = [*lines, "2", "", "", "50", *[""] * 9]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(answers) + "\n"))
    command = sent_command(stream_dp("init", "t.sav"))
    assert command[-2:] == ["--labels", "kids" if wide else "kids1"]
    assert load_study(tmp_path / "t.toml")[0].attributes[command[-1]].listed == (0, 1, 2)
    assert "would not count" not in stream_dp(*command)
    refused = stream_dp(*command[:-2], code=2)
    assert "1 is the code of '0'" in refused
