"""A header that is not where it is looked for: the line names the option that finds it."""

import json
import re
import shlex

import openpyxl
import pytest
from kit.agency_files import HEAD, PEOPLE, rows, sent, text, write

from stream_dp.log.sqlite import SqliteLog

TABLE = text(rows())
ABOVE = {
    "a title": "Survey of work\n\n",
    "a comment": "# exported in 2021\n# by nobody\n",
    "a title with separators": "Survey,of,work,2021\n",
}
NAMES = {
    "capitals": ("PERSON", "Period"),
    "blanks": (" person", "period "),
    "quotes": ("'person'", "`period`"),
}


def options(lines):
    """The options that the lines name at their ends."""
    found = [re.search(r"(--(?:person|period|header-row) [^;]*)(?:;|$)", line) for line in lines]
    return [word for match in found if match for word in shlex.split(match[1])]


@pytest.mark.parametrize("above", ABOVE)
def test_rows_above_a_header(study, command, above):
    path = write(study.parent / "t.csv", ABOVE[above] + TABLE)
    code, _, lines = command("send", study, path)
    named = options(lines[-1:])
    assert (code, named) == (2, ["--header-row", str(1 + ABOVE[above].count("\n"))])
    assert command("send", study, path, *named)[0] == 0
    assert sent(study) == len(PEOPLE)


def test_a_workbook_with_a_title(study, command):
    book, path = openpyxl.Workbook(), study.parent / "t.xlsx"
    for row in (["Survey"], [], HEAD, *rows()):
        book.active.append(row)
    book.save(path)
    code, _, lines = command("send", study, path)
    assert (code, options(lines[-1:])) == (2, ["--header-row", "3"])
    assert command("send", study, path, "--header-row", "3")[0] == 0
    assert sent(study) == len(PEOPLE)


def test_a_wide_workbook_whose_second_row_has_the_periods(study, command):
    book, path = openpyxl.Workbook(), study.parent / "t.xlsx"
    for row in (["person", "poverty", None], ["person", "2021-01", "2021-02"], ["1", 0, 1]):
        book.active.append(row)
    book.save(path)
    words = ["send", study, path, "--attribute", "poverty"]
    assert options(command(*words)[2][-1:]) == ["--header-row", "2"]
    assert command(*words, "--header-row", "2")[0] == 0


@pytest.mark.parametrize("names", NAMES)
def test_names_that_differ_in_little(study, command, names):
    path = write(study.parent / "t.csv", text(rows(), (*NAMES[names], *HEAD[2:])))
    code, _, lines = command("send", study, path)
    named = options(lines)
    assert (code, named) == (2, ["--person", NAMES[names][0], "--period", NAMES[names][1]])
    assert command("send", study, path, *named)[0] == 0
    assert sent(study) == len(PEOPLE)


@pytest.mark.parametrize("stated", ["sep=,", '"sep=,"', "SEP=,", "sep=,,,,"])
def test_a_line_that_states_the_separator(study, command, stated):
    path = write(study.parent / "t.csv", f"{stated}\n{TABLE}")
    assert command("send", study, path)[0] == 0
    assert sent(study) == len(PEOPLE)


@pytest.mark.parametrize(("separator", "quote"), [("\t", ""), (",", '"'), (",", "")])
def test_names_of_rows_that_the_header_leaves_out(study, command, separator, quote):
    """As `write.table` of R writes a table."""
    lines = [
        separator.join(f"{quote}{cell}{quote}" for cell in row)
        for row in [HEAD, *((f"row {n}", *row) for n, row in enumerate(rows(), 1))]
    ]
    path = write(study.parent / "t.txt", "\n".join(lines) + "\n")
    code, _, refusal = command("send", study, path)
    assert code == 2
    assert any("--row-names if R wrote names of rows without" in line for line in refusal)
    assert command("send", study, path, "--row-names")[0] == 0
    assert sent(study) == len(PEOPLE)


def test_blanks_between_the_cells(study, command):
    path = write(study.parent / "t.txt", TABLE.replace("half day", "no").replace(",", " "))
    code, _, refusal = command("send", study, path)
    assert (code, any("--separator space" in line for line in refusal)) == (2, True)
    assert command("send", study, path, "--separator", "space")[0] == 0
    assert sent(study) == len(PEOPLE)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("t.dat", "beside it, as t.sps"),
        ("t.json", "as .jsonl"),
        ("t.rds", "readRDS"),
        ("t", "the name says no kind"),
    ],
)
def test_kinds_that_are_not_read_have_their_reason(study, command, name, reason):
    code, _, lines = command("send", study, write(study.parent / name, "1 2\n"))
    assert code == 2
    assert any(reason in line for line in lines)


def test_ids_of_two_columns(study, command):
    body = "".join(
        f"{clinic},{number},2021-01,{number % 2}\n" for clinic in "ab" for number in range(1, 5)
    )
    path = write(study.parent / "t.csv", "clinic,id,period,poverty\n" + body)
    code, _, lines = command("send", study, path, "--person", "id")
    assert (code, sent(study)) == (2, 0)
    pair, last = re.findall(r"(--[^;]*?)(?:;|$)", lines[-1])
    check = command("send", study, path, *shlex.split(pair), "--check")
    assert check[:2] == (0, f"{path}: 8 cells, all of them would count\n")
    assert command("send", study, path, "--person", "id", *shlex.split(last))[0] == 0


def test_cells_in_single_quotes(study, command):
    path = write(study.parent / "t.csv", "person,period,poverty\n'1','2021-01','1'\n")
    code, _, lines = command("send", study, path)
    assert code == 2
    assert any("single quotes" in line for line in lines)


@pytest.mark.parametrize(
    ("template", "given"),
    [
        ("{a}_{p}", []),
        ("{a}_{m}", []),
        ("{p} {a}", []),
        ("{a}.{p}", ["--columns", "{}=..."]),
        ("{a}_{p}", ["--columns", "poverty{}=..."]),
    ],
)
@pytest.mark.parametrize("other", ["hours", "povertylevel", "poverty_flag"])
def test_the_columns_of_one_of_two_attributes(study, command, template, given, other):
    """Beside each column of the attribute stands one of another attribute."""
    periods = [("2021-02", "2021m2"), ("2021-01", "2021m1")]
    names = [template.format(a=a, p=p, m=m) for p, m in periods for a in ("poverty", other)]
    path = write(study.parent / "t.csv", f"person,{','.join(names)}\n1,0,7,1,8\n")
    words = ["send", study, path, "--attribute", "poverty"]
    code, _, lines = command(*words, *given)
    if code == 2:
        told = re.split(", or |one attribute: ", lines[0], maxsplit=1)[1]
        option = re.search(r"--columns '[^']*'", told)
        assert command(*words, *shlex.split(option[0]))[0] == 0
    log = SqliteLog(study.parent / "agency.db", readonly=True)
    reports = [json.loads(record.value) for record in log.read("reports", {0: 0}, 9, 0).records]
    log.close()
    values = {report["period"]: report["values"] for report in reports}
    assert values == {"2021-02": {"poverty": "0"}, "2021-01": {"poverty": "1"}}
