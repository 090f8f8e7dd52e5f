"""Files of cells of fixed width, with a syntax file of SPSS beside them."""

import pytest
from kit.studies import attribute, small_study, window

from stream_dp.errors import UserError
from stream_dp.population.tables import FileForm, TableLayout, judge_table, read_reports
from stream_dp.population.tables.labelled_files import file_labels

STUDY = small_study(
    name="files",
    size=10,
    attributes={"poverty": attribute(["no", "ja"], missing="absent")},
    releases=[window("w", "poverty", width=1, rho=1)],
)
LIST = "DATA LIST FILE='t.dat' / person 1-7 (A) period 9-15 (A) poverty 17."
LABELS = "VALUE LABELS poverty 1 'ja' 2 \"no\" 9 'refused'."
MISSING = "MISSING VALUES poverty (9)."
DATA = "001-001 2021-01 1\n001-002 2021-01 2\n001-003 2021-01 9\n001-004 2021-01\n"


@pytest.fixture
def reports(tmp_path):
    def reports(syntax, data, **form):
        path = tmp_path / "t.dat"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        path.with_suffix(".sps").write_text(
            "\n".join(syntax) if not isinstance(syntax, str) else syntax
        )
        layout = TableLayout(form=FileForm(**form))
        return [row for batch in read_reports(path, STUDY, layout) for row in batch]

    return reports


def row(person, answer):
    return (person, "2021-01", {"poverty": answer})


def test_labels_and_missing_values(reports, tmp_path):
    syntax = [
        "* A comment.",
        LIST,
        "VARIABLE LABELS poverty 'Poor' / person \"Id\".",
        LABELS,
        MISSING,
    ]
    assert reports([*syntax, "EXECUTE."], DATA) == [row("001-001", "ja"), row("001-002", "no")]
    labels = file_labels(tmp_path / "t.dat")
    assert labels.columns == {"poverty": "Poor", "person": "Id"}
    assert labels.values == {"poverty": {"1": "ja", "2": "no"}}


@pytest.mark.parametrize(
    ("syntax", "data", "answer"),
    [
        ("data list /1 person 1 period 2-8 (a)\n poverty 9-11 (2)", "12021-01150", "1.5"),
        ("DATA LIST /person 1 period 2-8 (A) poverty 9-11 (F,2).", "12021-01200", "2"),
        ("DATA LIST / person 1 period 2-8 (A) poverty 9-11.", "12021-01 07", "7"),
        ("DATA LIST / person 1 period 2-8 (A) poverty 9-11.", "12021-01-07", "-7"),
        ("DATA LIST / person 1 period 2-8 (A) poverty 9-11 (A).", "12021-01 07", " 07"),
        ("DATA LIST RECORDS=2 /1 person 1 /2 period 2-8 (A) poverty 9.", "1\n 2021-01x\n", "x"),
        ("DATA LIST SKIP=1 / person 1 period 2-8 (A) poverty 9.", "head\n12021-01x\n", "x"),
        ("DATA LIST / a1 TO a2 2-3 person 1 period 4-10 (A) poverty 11.", "1  2021-01x", "x"),
    ],
)  # fmt: skip
def test_columns(reports, syntax, data, answer):
    assert reports(syntax, data) == [("1", "2021-01", {"poverty": answer.strip()})]


@pytest.mark.parametrize(
    ("missing", "kept"),
    [
        ("(8, 9)", "17"),
        ("(7 THRU HI)", "1"),
        ("(LO THRU 1, 9)", "78"),
        ("('7')", "189"),
    ],
)
def test_ranges_of_missing_values(reports, missing, kept):
    data = "".join(f"00{n}     2021-01 {n}\n" for n in (1, 7, 8, 9))
    found = reports([LIST, f"MISSING VALUES poverty {missing}."], data)
    assert "".join(values["poverty"] for _, _, values in found) == kept


@pytest.mark.parametrize(
    ("syntax", "line"),
    [
        ("", "has no DATA LIST"),
        ("DATA LIST LIST / person.", "cells of no fixed width"),
        ("DATA LIST FREE / person.", "cells of no fixed width"),
        (f"{LIST}\nRECODE poverty (1=2).", "line 2 has RECODE"),
        (f"{LIST}\n\nCOMPUTE poverty = 1.", "line 3 has COMPUTE"),
        (f"{LIST}\nSELECT IF poverty = 1.", "line 2 has SELECT"),
        (f"{LIST}\n{LIST}", "a second DATA LIST"),
        (f"{LIST}\nVALUE LABELS other 1 'a'.", "'other', which is no column"),
        (f"{LIST}\nVALUE LABELS poverty 1 'a", "a quote that is not closed"),
        (f"{LIST}\nVALUE LABELS poverty 1", "an end that comes too early"),
        (f"{LIST}\nMISSING VALUES poverty (1", "an end that comes too early"),
        ("DATA LIST / person (A7).", "where a column and its positions"),
        ("DATA LIST / person 0-3.", "cannot share equally"),
        ("DATA LIST / person 3-1.", "cannot share equally"),
        ("DATA LIST / a1 TO a3 1-4.", "cannot share equally"),
        ("DATA LIST / person 1 Person 2.", "twice"),
        ("DATA LIST / person 1-9 (DATE).", "the format 'DATE'"),
        ("DATA LIST / person 1-9 (E).", "the format 'E'"),
        ("DATA LIST / a1 TO a99999999 1-9.", "TO a99999999"),
        ("DATA LIST /1000000000 person 1-9.", "no line from 1"),
        ("DATA LIST RECORDS=999999999 / person 1-9.", "RECORDS that is no number"),
        ("DATA LIST / person 1-9999999.", "cannot share equally"),
        ("(((((", "which is not read"),
    ],
)
def test_a_syntax_that_cannot_be_read_is_refused(reports, syntax, line):
    with pytest.raises(UserError) as refused:
        reports(syntax, DATA)
    assert line in str(refused.value)


def test_without_a_syntax_file_the_line_names_it(tmp_path):
    path = tmp_path / "t.dat"
    path.write_text(DATA)
    with pytest.raises(UserError, match=r"beside it, as t\.sps"):
        list(read_reports(path, STUDY, TableLayout()))


@pytest.mark.parametrize("line", ["M\N{LATIN SMALL LETTER U WITH DIAERESIS}x", "x" * (1 << 23)])
def test_a_line_that_cannot_be_read_changes_no_other(tmp_path, line):
    path = tmp_path / "t.dat"
    path.write_text(f"001-001 2021-01 1\n{line}\n001-002 2021-01 1\n")
    path.with_suffix(".SPS").write_text(f"{LIST}\n{LABELS}")
    judgement = judge_table(path, STUDY, TableLayout(), closed=0)
    assert judgement.cells - judgement.faulty == 2
    assert [(reason, at.first_row) for (_, reason), at in judgement.faults.items()] == [
        ("unreadable", 2)
    ]


def test_positions_count_characters_of_a_single_byte(reports):
    data = "M\N{LATIN SMALL LETTER U WITH DIAERESIS}x     2021-01 1\n".encode("latin-1")
    assert reports([LIST, LABELS], data, encoding="latin-1") == [
        row("M\N{LATIN SMALL LETTER U WITH DIAERESIS}x", "ja")
    ]
