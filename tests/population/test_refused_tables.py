"""Tables whose header or type is wrong, and columns that are no text."""

import pyarrow as pa
import pytest
from kit.tables import STUDY, refused

from stream_dp.errors import UserError
from stream_dp.population.tables import FileForm, TableLayout, read_reports


@pytest.mark.parametrize(
    ("content", "layout", "message"),
    [
        ("id,period,poverty\na,b,1\n", {}, "no column 'person'; name the ids with --person"),
        ("person,month,poverty\na,b,1\n", {}, "no column 'period'; name it with --period"),
        ("person,period\na,b\n", {}, "nothing to send: give a column for an attribute (poverty,"),
        ("person,m1\na,1\n", {"attribute": "poverty"}, "a column for each period, or --columns"),
        ("person,2021-01\na,1\n", {"attribute": "age"}, "'age': not declared; there are poverty,"),
        (
            "person,period,poverty\na,b,1\n",
            {"columns": {"pov": "poverty"}},
            "no column 'pov' to rename",
        ),
        ("person+period+poverty\na+b+1\n", {}, "no column 'person'"),
    ],
)
def test_a_wrong_header_is_refused(read, content, layout, message):
    assert any(message in line for line in refused(read, content, **layout))


@pytest.mark.parametrize(
    "content",
    [
        b"per\xffson,period,poverty\nann,2021-01,1\n",
        "",
        "\n",
        b"PAR1 not really",
        b"\x00\x00\x00\x00",
    ],
)
def test_what_is_no_table_is_refused(read, content):
    refused(read, content)


def test_a_column_twice_is_refused_because_one_would_be_lost(read):
    twice = "person,period,poverty,poverty\nann,2021-01,1,0\n"
    assert any("'poverty'" in line for line in refused(read, twice))
    both = "person,period,poverty,pov\nann,2021-01,1,0\n"
    assert any("'poverty'" in line for line in refused(read, both, columns={"pov": "poverty"}))
    wide = "person,2021-01,m1\nann,1,0\n"
    lines = refused(read, wide, attribute="poverty", columns={"m1": "2021-01"})
    assert any("'2021-01'" in line for line in lines)


@pytest.mark.parametrize("content", ["person,period,age\n", "id,period,poverty\n"])
def test_a_wrong_header_without_rows_is_refused_too(read, content):
    refused(read, content)


def test_a_right_header_without_rows_is_no_fault(read):
    assert read("person,period,poverty\n") == []
    assert read({"person": pa.array([], pa.string()), "period": [], "poverty": []}) == []


@pytest.mark.parametrize(
    "column",
    [
        [float("inf")],
        [1e300],
        [[1, 2]],
        [{"a": 1}],
        pa.array([b"\xff\xfe"], pa.binary()),
    ],
    ids=["infinity", "huge", "list", "struct", "binary"],
)
def test_columns_that_are_no_text_are_values_or_refused(read, column):
    columns = {"person": ["ann"], "period": ["2021-01"], "poverty": column}
    try:
        reports = read(columns)
    except UserError as error:
        (line,) = error.lines
        assert "table.parquet" in line
    else:
        ((_, _, values),) = reports
        assert values["poverty"] not in {"0", "1"}


def test_files_that_are_not_there_or_of_another_kind(tmp_path, read):
    with pytest.raises(UserError, match="no such file"):
        list(read_reports(tmp_path / "none.csv", STUDY, TableLayout()))
    with pytest.raises(UserError, match="no such file"):
        list(read_reports(tmp_path, STUDY, TableLayout()))
    with pytest.raises(UserError, match=r"write tables as CSV .*, \.parquet, "):
        read("person,period,poverty\n", name="table.doc")
    for name in ("table.parquet",):
        with pytest.raises(UserError, match="cannot be read as a table"):
            read("person,period,poverty\nann,2021-01,1\n", name=name)


def test_a_table_without_periods_is_asked_for_one_unless_it_is_wide(read):
    (line,) = refused(read, "person,poverty\na,1\n")
    assert line.endswith("name it with --period; if all rows are of one period: --period 2021-01")
    for header in ("person,m1,m2,m3", "person,2021-01,2021-02"):
        line = refused(read, f"{header}\na,1,1\n")[0]
        assert line.endswith("if each period has a column: --attribute poverty")


def test_a_header_below_other_rows(read):
    text = "Survey; of 2021\n\nperson;period;poverty\na;2021-01;1\n"
    assert read(text, form=FileForm(header_row=3)) == [("a", "2021-01", {"poverty": "1"})]
    assert "it has no header" in refused(read, text, form=FileForm(header_row=9))[0]
    with pytest.raises(UserError, match="--header-row: write a number"):
        FileForm(header_row=0)


def test_a_mark_of_utf8_before_another_encoding(read):
    content = b"\xef\xbb\xbfperson;period;poverty\n\xc4;2021-01;1\n"
    assert read(content, form=FileForm(encoding="latin-1")) == [("Ä", "2021-01", {"poverty": "1"})]
