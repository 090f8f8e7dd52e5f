"""Ids that a spreadsheet has damaged, ids in a program's form, and ids that may be nobody's."""

import pyarrow as pa
import pytest
from kit.tables import AS_WRITTEN, STUDY, refused

from stream_dp.population.tables import FileForm, TableLayout, judge_table, read_table
from stream_dp.population.tables.id_shapes import read_ids
from stream_dp.study.id_forms import IdForm

DAMAGED = [
    *("1.23E+11", "1,23E+11", "1E+05", "1e+05", "1.6777216e+07", "-1.2E+11"),
    *("1234567890123450000", "1234567890123450", "1234567890123456.0"),
    *("3-Jan", "03-Jan", "Jan-03", "Mar-05", "03. Mrz", "Okt 04"),
    *("#N/A", "#REF!", "#NV", "#DIV/0!", "Err:502", "########"),
]
SOUND = [
    *("007", "0", "1000", "123456789012345", "1234567890123456", "123456789012340"),
    *("0001234567890123450", "12E5", "1E5", "5e3", "1E-05", "1.23E11", "A1E+05", "3.5", "1,5"),
    *("2021-03-01", "1/3", "h1/2", "Jan", "3-JAN", "MAR-05", "3-jan", "Jan-2021", "#12", "'t Hart"),
    *("01.0", "1.000", "v1.0", "O'Brien", "=1+1", "Ändu", "p0007", "7-4", "a b", "-"),
]
PROGRAMS = {
    '="0012"': "0012",
    '="p1"': "p1",
    "'0012": "0012",
    "1001.0": "1001",
    "1001,00": "1001",
    "0.0": "0",
    '="12.0"': "12",
    """="'0012 " """: "0012",
}
NUMBERS = ["0", "000", "-1", "99999999"]
NOBODY = ["NA", "n/a", "NaN", "NULL", "None", ".", "-", "Total"]
NOBODY += ["Grand total", "unknown", "test", "Gesamt", r"\N"]


@pytest.mark.parametrize("text", DAMAGED)
def test_an_id_that_a_spreadsheet_wrote_is_damaged(text):
    ids = read_ids(pa.array(["a", text, None]))
    assert ids.texts.to_pylist() == ["a", None, None]
    assert ids.forms[IdForm.DAMAGED].tolist() == [False, True, False]


@pytest.mark.parametrize("text", SOUND)
def test_an_id_that_only_looks_like_it_is_itself(text):
    ids = read_ids(pa.array([text]))
    assert ids.texts.to_pylist() == [text]
    assert IdForm.DAMAGED not in ids.forms


@pytest.mark.parametrize("text", PROGRAMS)
def test_an_id_in_a_program_s_form_is_read_without_it(text):
    ids = read_ids(pa.array([text]))
    assert (ids.texts.to_pylist(), list(ids.forms)) == ([PROGRAMS[text]], [IdForm.PROGRAM])


def test_ids_that_need_a_look_stay_as_they_are():
    for form, texts in (
        (IdForm.NOBODY, NOBODY),
        (IdForm.NUMBER, NUMBERS),
        (IdForm.DATE, ["2021-03-01", "1.3.2021", "03-Jan-21"]),
    ):
        ids = read_ids(pa.array(texts))
        assert (ids.texts.to_pylist(), list(ids.forms)) == (texts, [form])


def test_blanks_at_the_ends_do_not_count():
    ids = read_ids(pa.array(["A1 ", " A1", "A1\u00a0", "A1\u200b", "\u00adA1", "\u200eA1", "A1\n"]))
    assert (set(ids.texts.to_pylist()), list(ids.forms)) == ({"A1"}, [IdForm.PADDED])


def test_an_id_of_blanks_is_empty():
    ids = read_ids(pa.array([" ", "\u00a0\u200b", "a"]))
    assert (ids.texts.to_pylist(), list(ids.forms)) == ([None, None, "a"], [IdForm.BLANK])


def test_no_id_changes_another():
    """Rule 5: each id alone, whatever stands beside it."""
    texts = [*DAMAGED, *SOUND, *PROGRAMS, *NOBODY]
    together = read_ids(pa.array(texts)).texts.to_pylist()
    assert together == [read_ids(pa.array([t])).texts.to_pylist()[0] for t in texts]


def test_a_file_of_every_kind_has_the_same_rule(read):
    ids = ["1.23E+11", "7", "1234567890123450000"]
    columns = {"person": ids, "period": ["2021-01"] * 3, "poverty": [1, 0, 1]}
    text = "person,period,poverty\n" + "".join(f"{p},2021-01,1\n" for p in ids)
    for content, name in ((columns, "t.parquet"), (text, "t.csv")):
        assert [person for person, _, _ in read(content, name)] == ["", "7", ""]
    whole = {**columns, "person": pa.array([1234567890123450000, 7, 8])}
    assert [person for person, _, _ in read(whole)] == ["", "7", "8"]


def test_ids_as_written(read):
    text = "person,period,poverty\n1.23E+11,2021-01,1\n1001.0,2021-01,1\n"
    rows = read(text, study=AS_WRITTEN)
    assert [person for person, _, _ in rows] == ["1.23E+11", "1001.0"]


def test_rows_of_nobody_are_left_out_and_counted(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("person,period,poverty\nNA,2021-01,1\n7,2021-01,1\n#N/A,2021-01,0\n")
    judgement = judge_table(path, STUDY, TableLayout(nobody=("NA", "#N/A")))
    assert (judgement.nobody, judgement.cells, judgement.faulty) == (2, 1, 0)
    judgement = judge_table(path, STUDY, TableLayout())
    assert (judgement.nobody, judgement.cells, judgement.faulty) == (0, 3, 2)
    assert judgement.nobodies == {"NA": 1}


def test_a_damaged_key_of_a_whole_table_is_a_line(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("key,a\n1,x\n1.23E+11,y\n")

    def keys(_, **form):
        return read_table(path, ["key"], FileForm(**form), ["key"]).column("key").to_pylist()

    (line,) = refused(keys, None)
    assert "column 'key': 1 ids are damaged, the first in row 2 below the header" in line
    rows = read_table(path, ["key"], FileForm(), ["key"], as_written=True)
    assert rows.column("key").to_pylist() == ["1", "1.23E+11"]
