"""`init`: from a table that nobody has seen to a command that sends every cell of it."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import pty
import shlex
import sys
from itertools import product
from pathlib import Path
from subprocess import DEVNULL

import pyarrow as pa
import pyarrow.parquet
import pytest
from kit.fork_server import Popen
from trial import sent_command

from stream_dp.planning.expected_errors import expected_errors
from stream_dp.privacy.zcdp import epsilon
from stream_dp.services.commands import cli
from stream_dp.study import Attribute
from stream_dp.studyfile import load_study

WORK = "Out of Work"
ANSWERS = f"""columns = {WORK}
2025-01, 2
100
complete = no
{WORK}: values = yes,no
{WORK}: empty = no
{WORK}: count = yes
price = 3
"""


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
    monkeypatch.setattr("sys.stdin", io.StringIO(ANSWERS))
    printed = stream_dp("init", file, "--out", tmp_path / "made.toml", *options)
    assert "the best guess about one person is right at most" in printed
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
    lines = ["Data", "2025-01, 1", "500", "complete = no", "in work,out", "price = 1"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    printed = stream_dp("init", "t.xlsx")
    command = sent_command(printed)
    assert command[command.index("--sheet") + 1] == "Data"
    study, _ = load_study(tmp_path / "t.toml")
    assert study.attributes["work"].interest == "in work"
    assert "would not count" not in stream_dp(*command)
    assert "stream-dp run t.toml --until-idle" in printed.splitlines()[-2]
    assert "such as 2025-01" in printed.splitlines()[-1]


def test_a_wide_table(tmp_path, stream_dp, monkeypatch):
    (tmp_path / "wide.csv").write_text("hhid,m1,m2,m3\n1,0,1,0\n2,1,,1\n")
    monkeypatch.chdir(tmp_path)
    lines = ["attribute = poor", "periods = 2025-01, 3", "unit = household", "at most 50"]
    lines += ["0,1", "m{}: count = 1", "price = 2"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    printed = stream_dp("init", "wide.csv")
    study, _ = load_study(tmp_path / "wide.toml")
    assert (study.neighbours, study.size, study.periods.count) == ("add_remove", None, 3)
    assert [release.rows for release in study.releases] == [50, 50]
    command = sent_command(printed)
    assert "would not count" not in stream_dp(*command)


@pytest.mark.parametrize(
    ("months", "first"),
    [
        ("2021-11,2021-12,2022-01", "2021-11"),
        ("2019,2020,2021", "2019"),
        ("2021Q3,2021Q4", "2021-Q3"),
    ],
)
def test_columns_that_are_named_as_periods(months, first, tmp_path, stream_dp, monkeypatch):
    count = months.count(",") + 1
    (tmp_path / "w.csv").write_text(f"id,{months}\n1{',0' * count}\n2{',1' * count}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("attribute = poor\n2\n\n0,1\n\n"))
    printed = stream_dp("init", "w.csv")
    study, _ = load_study(tmp_path / "w.toml")
    assert (study.periods.first, study.periods.count) == (first, count)
    assert "would not count" not in stream_dp(*sent_command(printed))


def test_a_file_without_ids(tmp_path, stream_dp, monkeypatch, capsys):
    (tmp_path / "t.csv").write_text("work,sex\nyes,f\nno,m\nno,m\n")
    monkeypatch.chdir(tmp_path)
    lines = [
        "-",
        "=",
        "columns = work",
        "periods = 2025, 1",
        "3",
        "complete = no",
        "yes,no",
        "",
        "",
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    printed = stream_dp("init", "t.csv")
    assert "work-patterns at 2025: 3 synthetic rows" in stream_dp(
        "rehearse", *sent_command(printed)[1:]
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("\n\n"))
    assert cli.main(["init", "t.csv"]) == 2
    assert "an answer is needed" in capsys.readouterr().err


CENTRES = [(c, i, v) for c in (1, 2) for i in range(6) for v in (1, 2)]


@pytest.mark.parametrize(
    ("answer", "options"),
    [("centre+id", ["--group", "centre", "--member", "id"]), ("id", ["--columns", "{}="])],
)
def test_ids_that_repeat_are_asked_for_again(answer, options, tmp_path, stream_dp, monkeypatch):
    rows = [f"{i},{c},{v},{(i + v + c) % 2}" for c, i, v in CENTRES]
    (tmp_path / "t.csv").write_text("\n".join(["id,centre,visit,well", *rows, ""]))
    monkeypatch.chdir(tmp_path)
    lines = ["columns = well", answer, "1, 2", "12", "complete = no", "0,1", "well: empty = 0"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*lines, "", "", "", ""])))
    command = sent_command(stream_dp("init", "t.csv"))
    assert {*options} <= {*command}
    assert ("repeat an earlier" in stream_dp(*command)) == (answer == "id")


@pytest.mark.parametrize("further", ["", "6,2,1,1\n"])
def test_ids_that_repeat_have_no_proposal(further, tmp_path, monkeypatch, capsys):
    """One person's rows can raise the question, and never answer it."""
    (tmp_path / "t.csv").write_text(f"id,centre,visit,well\n6,1,1,1\n6,1,2,1\n7,2,1,0\n{further}")
    monkeypatch.chdir(tmp_path)
    lines = ["columns = well", *[""] * 9]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    assert cli.main(["init", "t.csv"]) == 2
    asked = "write centre+id if ids are numbers within 'centre', id if the last row" in (
        capsys.readouterr().err
    )
    assert asked == bool(further)


def test_waves_with_gaps_in_one_column(tmp_path, stream_dp, monkeypatch):
    rows = [f"{i},{wave},{i % 2}" for i in range(9) for wave in (1, 3, 6, 2)]
    (tmp_path / "waves.csv").write_text("\n".join(["id,wave,poor", *rows, ""]))
    monkeypatch.chdir(tmp_path)
    lines = ["1, 3, 6", "9", "complete = no", "0,1", "poor: empty = 0", "", ""]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    command = sent_command(stream_dp("init", "waves.csv"))
    assert command[-2:] == ["--map", "period:1=1,3=2,6=3"]
    assert "9 of 36 cells would not count" in stream_dp(*command)
    monkeypatch.setattr("sys.stdin", io.StringIO("1,a=3,2\n"))
    assert cli.main(["init", "waves.csv"]) == 2


@pytest.mark.parametrize("periods", ["", "1970, 6"])
def test_a_wide_table_of_waves_with_gaps(periods, tmp_path, stream_dp, monkeypatch):
    (tmp_path / "waves.csv").write_text("id,y70,y72,y75\n1,0,1,0\n2,1,,1\n")
    monkeypatch.chdir(tmp_path)
    lines = [f"periods = {periods or '1, 3'}", "50", "0,1", "y{}: empty = 0", "", ""]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    printed = stream_dp("init", "waves.csv")
    command = sent_command(printed)
    assert "would not count" not in stream_dp(*command)
    # Two digits of a year tell its period; waves without a calendar need each theirs.
    assert command[-1] == "y{}=..." if periods else "y75=3" in command[-1]


def test_a_wave_without_a_period_is_told_at_once(tmp_path, monkeypatch, capsys):
    (tmp_path / "waves.csv").write_text("id,y70,y72,y75\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("periods = 1970, 3\n"))
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
    answers = "2025-01, 2\n100\ncomplete = no\n{}price = 2\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(answers.format("a,b\n")))
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
    monkeypatch.setattr("sys.stdin", io.StringIO("2025-01, 2\n100\ncomplete = no\nprice = 2\n"))
    stream_dp("init", "t.csv", "--codebook", "codes.csv")
    assert load_study(tmp_path / "t.toml")[0].attributes["work"].listed == (1, 2)


WRONG = {
    "": "init: the input ends before an answer to 'periods'; nothing was written",
    "person = nobody\n": "write one of ID, Month, Out of Work",
    "columns = x,y\n": "there is no column 'x'",
    "January\n": "write the first period and how many, such as 2026-01, 12",
    "2025-01, 9999\n": "write a whole number from 1 to 600",
    "2025-01, 2\n2019, 4\n": "init: people: write a whole number from 1 to",
    "2025-01, 2\nperhaps\n": "write a whole number from 1 to",
    "2025-01, 2\n5\n\nyes\n": "init: Out of Work: values: write at least two values",
    "2025-01, 2\n5\n\n1-5\n": "for all numbers of a range write '1 to 5'",
    "2025-01, 2\n5\n\n3, 1 to 5\n": "write each value once: a code is in the range",
    "2025-01, 2\n5\n\n0 to 900, refused\n": "beside words a range has at most 100 numbers",
    "2025-01, 2\n5\n\nyes,no\nprice = much\n": "write a number such as 0.5",
    "2025-01, 2\n5\n\nyes,no\nprice = 5\n6\n": "type 5 again, or change the price",
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
    answers = ["period = -", "kids{}", "attribute = kids"] if wide else ["2025-01, 2"]
    answers += ["50", "complete = no", ""]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(answers) + "\n"))
    command = sent_command(stream_dp("init", "t.sav"))
    assert command[-2:] == ["--labels", "kids" if wide else "kids1"]
    assert load_study(tmp_path / "t.toml")[0].attributes[command[-1]].listed == (0, 1, 2)
    assert "would not count" not in stream_dp(*command)
    refused = stream_dp(*command[:-2], code=2)
    assert "1 is the code of '0'" in refused


def test_the_price_is_one_until_somebody_types_more_twice(tmp_path, stream_dp, monkeypatch):
    (tmp_path / "t.csv").write_text("person,period,work\n1,2025-01,yes\n")
    monkeypatch.chdir(tmp_path)
    for price, eps in (("\n", 1.0), ("price = 5\n5\n", 5.0)):
        lines = "2025-01, 2\n500\ncomplete = no\nyes,no\n"
        monkeypatch.setattr("sys.stdin", io.StringIO(lines + price))
        stream_dp("init", "t.csv", "--out", f"{eps}.toml")
        study, _ = load_study(tmp_path / f"{eps}.toml")
        assert 0.98 * eps < float(epsilon(study.rho, study.delta)) <= eps
    assert "share = 1.0" in (tmp_path / "1.0.toml").read_text()


def test_complete_data_cost_nothing_extra(tmp_path, stream_dp, monkeypatch):
    """A table with every cell has no symbol of absence, at the error of a study without one."""
    rows = [f"{i},2025-0{m},{(i + m) % 2}" for i in range(40) for m in (1, 2)]
    (tmp_path / "every.csv").write_text("\n".join(["id,month,poor", *rows, ""]))
    (tmp_path / "lacks.csv").write_text("\n".join(["id,month,poor", *rows[:-1], ""]))
    monkeypatch.chdir(tmp_path)
    errors = {}
    for name, query in product(("every", "lacks"), ("pattern 1", "at-least 1 of last 3 poor=1")):
        lines = "2025-01, 3\n400\n" + "\n" * (name == "every") + "0,1\n\n"
        monkeypatch.setattr("sys.stdin", io.StringIO(lines))
        stream_dp("init", f"{name}.csv", "--out", f"{name}-{len(errors)}.toml")
        study, _ = load_study(tmp_path / f"{name}-{len(errors)}.toml")
        errors[name, query] = expected_errors(study, "poor-patterns", query)[-1].share
        bare = study.revised(attributes={"poor": Attribute(values=(0, 1), missing=0)})
        ratio = errors[name, query] / expected_errors(bare, "poor-patterns", query)[-1].share
        assert (ratio == 1) == (name == "every"), (name, query, ratio)


def test_a_file_of_people_becomes_a_table(tmp_path, stream_dp, monkeypatch):
    rows = [f"{i},{'fm'[i % 2]},{i % 90},{i % 3}" for i in range(300)]
    (tmp_path / "people.csv").write_text("\n".join(["id,sex,age,kids", *rows, ""]))
    monkeypatch.chdir(tmp_path)
    lines = "=\n300\n\nf,m\n0 to 110\n0 to 9\n\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    printed = stream_dp("init", "people.csv")
    study, _ = load_study(tmp_path / "people.toml")
    (release,) = study.batches
    assert (release.kind, release.questions) == ("table", ("sex", "age", "kids"))
    assert study.attributes["age"].number is not None
    assert "would not count" not in stream_dp(*sent_command(printed))


@pytest.mark.parametrize("link", ["separate", "product", "histories"])
def test_columns_are_linked_as_chosen(link, tmp_path, stream_dp, monkeypatch, capsys):
    (tmp_path / "t.csv").write_text("id,quarter,work,poor\n1,2023Q1,yes,0\n1,2023Q2,no,1\n")
    monkeypatch.chdir(tmp_path)
    lines = f"2023Q1, 6\n900\n\nyes,no\n0 to 1\n{link}\n\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert cli.main(["init", "t.csv"]) == 0
    seen = capsys.readouterr()
    assert (
        "separate: 2 panels that are not linked, each with 1/2 of the price; a share is" in seen.err
    )
    study, _ = load_study(tmp_path / "t.toml")
    named = [r.attribute for r in study.releases] or [h.of for h in study.batches[0].attributes]
    assert named == ([("work", "poor")] if link == "product" else ["work", "poor"])
    assert "would not count" not in stream_dp(*sent_command(seen.out))


@pytest.mark.parametrize(("count", "due"), [(6, [3, 6]), (7, [4, 7]), (5, [5]), (2, [2])])
def test_the_last_table_of_histories_has_the_last_period(count, due, tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("id,year,work,poor\n1,2015,yes,0\n1,2016,no,1\n")
    monkeypatch.chdir(tmp_path)
    lines = f"2015, {count}\n900\n\nyes,no\n0 to 1\nhistories\n\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert cli.main(["init", "t.csv"]) == 0
    study, _ = load_study(tmp_path / "t.toml")
    (table,) = study.batches
    assert [*table.due(study.periods)] == due


UNSEEN = {
    "First period": "2023M1, 12",
    "Number of persons": "5000",
    "'Employed?'": "yes, no",
    "'Health (1 to 5)'": "1 to 5",
    "'Rents home'": "0,1",
    "'Region'": "north,south",
    "'In union'": "no,yes",
}


def test_ten_answers_for_five_columns(tmp_path):
    """A file that nobody prepared, at a terminal: signs in names, another form of months."""
    header = "Respondent No;Survey Month;Employed?;Health (1 to 5);Rents home;Region;In union"
    rows = [f"R{i:03};2023M{m};yes;{i % 5 + 1};0;north;no" for i in range(50) for m in (1, 2)]
    (tmp_path / "un seen.csv").write_text("\n".join([header, *rows, ""]))
    command = [sys.executable, "-m", "stream_dp.services.commands.cli", "init", "un seen.csv"]
    end, terminal = pty.openpty()
    typed: list[str] = []
    with Popen(command, cwd=tmp_path, stdin=terminal, stderr=terminal, stdout=DEVNULL) as process:
        os.close(terminal)
        shown = ""
        with contextlib.suppress(OSError):  # the terminal ends with the command
            while text := os.read(end, 1 << 16).decode():
                shown += text
                question = shown.rpartition("\n")[2]
                if question.endswith(": "):
                    typed.append(next((a for part, a in UNSEEN.items() if part in question), ""))
                    os.write(end, f"{typed[-1]}\n".encode())
                    shown += "\n"
        assert process.wait(60) == 0, shown
    os.close(end)
    assert len(typed) == 10
    assert typed.count("") == 3  # what is confirmed: complete data, separate panels, the price
    study, _ = load_study(tmp_path / "un-seen.toml")
    assert study.periods.first == "2023-01"
    assert [r.rho for r in study.releases] == [study.rho / 5] * 5
    assert study.attributes["health-1-to-5"].listed == (1, 2, 3, 4, 5)
    assert float(epsilon(study.rho, study.delta)) <= 1


class Terminal(io.StringIO):
    """Standard input that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_pipe_has_each_question_on_a_line_of_its_own(tmp_path, monkeypatch, capsys):
    (tmp_path / "t.csv").write_text("firm,period,work\n1,2025-01,yes\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("firm\n2025-01, 3\n40\n\nyes,no\n\n"))
    assert cli.main(["init", "t.csv"]) == 0
    lines = capsys.readouterr().err.splitlines()
    questions = [number for number, line in enumerate(lines) if line.endswith(": ")]
    assert "such as 'firm' or 'period' or 'work'" in lines[questions[0]]
    assert len(questions) == 6
    table = [line for line in lines[questions[0] : questions[1]] if line.startswith("  4")]
    assert table == ["  4  columns       work"]
    assert "picture" in " ".join(lines[questions[4] : questions[5]])  # before the price


def test_every_answer_can_be_changed_at_the_terminal(tmp_path, monkeypatch, capsys):
    (tmp_path / "t.csv").write_text("person,period,work\n1,2025-01,yes\n")
    monkeypatch.chdir(tmp_path)
    typed = "x|2025-01, 3|40|<|1 = mine|50||yes,no|?|unit = woman|much|2|width = 2|5|<|2||never"
    terminal = Terminal("\n".join(typed.split("|")))
    monkeypatch.setattr("sys.stdin", terminal)
    assert cli.main(["init", "t.csv"]) == 0
    study, _ = load_study(tmp_path / "mine.toml")
    assert (study.unit, study.size, study.attributes["work"].listed) == ("woman", 50, ("yes", "no"))
    assert 1.9 < float(epsilon(study.rho, study.delta)) <= 2
    assert study.releases[0].width == 2
    assert terminal.readline() == "never"
    assert "write the first period and how many" in capsys.readouterr().err


def test_an_answer_that_is_absent_after_all_repeats_the_last(tmp_path, stream_dp, monkeypatch):
    rows = [f"{i},2025-0{m},{i % 2}" for i in range(60) for m in (1, 2) if m == 1 or i > 30]
    (tmp_path / "later.csv").write_text("\n".join(["id,month,poor", *rows, ""]))
    monkeypatch.chdir(tmp_path)
    lines = "2025-01, 2\n60\ncomplete = yes\n0,1\nprice = 600000\n600000\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    stream_dp(*sent_command(stream_dp("init", "later.csv")))
    stream_dp("close", "later.toml", "2025-02", "--yes")
    stream_dp("run", "later.toml", "--until-idle")
    # Half of all are poor in both months, because nobody's last answer is forgotten.
    assert "50.000%" in stream_dp("estimate", "later.toml", "poor-patterns", "pattern 1 1")
