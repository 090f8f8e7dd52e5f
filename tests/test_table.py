"""Tables: what people keep in CSV and Parquet files, long and wide."""

import re

import pyarrow as pa
import pyarrow.parquet
import pytest

from stream_dp.errors import UserError
from stream_dp.studyfile import parse
from stream_dp.table import Layout, reports, rows

STUDY = parse(
    {
        "study": {
            "name": "tables",
            "unit": "person",
            "neighbours": "replace_one",
            "rho": 1,
            "delta": "1/10",
            "periods": {"first": "2021-01", "every": "month", "count": 3},
            "population": {"size": 10},
        },
        "attributes": {
            "poverty": {"values": [0, 1], "missing": 0},
            "work": {"values": ["no", "half day"], "missing": "absent"},
        },
        "releases": [{"name": "w", "kind": "window", "attribute": "poverty", "width": 1, "rho": 1}],
    }
)


@pytest.fixture
def read(tmp_path):
    """The reports of a table in one list: CSV from text or bytes, Parquet from columns."""

    def read(content, name=None, **layout):
        if isinstance(content, dict):
            path = tmp_path / (name or "table.parquet")
            pa.parquet.write_table(pa.table(content), path)
        else:
            path = tmp_path / (name or "table.csv")
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return [row for batch in reports(path, STUDY, Layout(**layout)) for row in batch]

    return read


LONG = [
    ("ann", "2021-01", {"poverty": "1", "work": "half day"}),
    ("bob", "2021-02", {"poverty": "0"}),
    ("cy", "2021-03", {"work": "no"}),
]


def test_long_csv(read):
    text = "person,period,poverty,work\nann,2021-01,1,half day\nbob,2021-02,0,\ncy,2021-03,,no\n"
    assert read(text) == LONG
    assert read(text.replace("\n", "\r\n")) == LONG
    assert read(text.rstrip("\n")) == LONG
    assert read(b"\xef\xbb\xbf" + text.encode()) == LONG


def test_long_parquet(read):
    columns = {
        "person": ["ann", "bob", "cy"],
        "period": ["2021-01", "2021-02", "2021-03"],
        "poverty": [1, 0, None],
        "work": ["half day", None, "no"],
    }
    assert read(columns) == LONG


def test_columns_that_are_not_asked_for_are_left_out(read):
    text = "period,age,poverty,person,name\n2021-01,33,1,ann,Ann\n"
    assert read(text) == [("ann", "2021-01", {"poverty": "1"})]


def test_wide_csv(read):
    text = "person,2021-01,2021-02,2021-03,2021-04\nann,1,,0,1\nbob,0,1,,1\n"
    assert sorted(read(text, attribute="poverty")) == [
        ("ann", "2021-01", {"poverty": "1"}),
        ("ann", "2021-03", {"poverty": "0"}),
        ("bob", "2021-01", {"poverty": "0"}),
        ("bob", "2021-02", {"poverty": "1"}),
    ]


def test_wide_columns_under_other_names(read):
    text = "id,m1,m2,poverty\nann,1,0,9\n"
    found = read(
        text,
        person="id",
        attribute="poverty",
        columns={"m1": "2021-02", "m2": "2021-03"},
    )
    assert sorted(found) == [("ann", "2021-02", {"poverty": "1"}), ("ann", "2021-03", LONG[1][2])]


def test_long_columns_under_other_names(read):
    text = "id,month,pov\nann,2021-01,1\n"
    found = read(text, person="id", period="month", columns={"pov": "poverty"})
    assert found == [("ann", "2021-01", {"poverty": "1"})]


def test_text_stays_as_it_is(read):
    text = 'person,period,work\n007,2021-01," half day"\n1e3,2021-01,NA\nnull,2021-01,"a,b ""c"""\n'
    assert read(text) == [
        ("007", "2021-01", {"work": " half day"}),
        ("1e3", "2021-01", {"work": "NA"}),
        ("null", "2021-01", {"work": 'a,b "c"'}),
    ]


def test_blank_cells_are_no_values_and_rows_without_any_are_no_reports(read):
    text = 'person,period,poverty,work\nann,2021-01,,\nbob,2021-01,"",no\n'
    assert read(text) == [("bob", "2021-01", {"work": "no"})]


def test_a_blank_person_or_period_is_sent_on_to_be_rejected(read):
    assert read("person,period,poverty\n,2021-01,1\nann,,1\n") == [
        ("", "2021-01", {"poverty": "1"}),
        ("ann", "", {"poverty": "1"}),
    ]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.int8(), pa.uint64(), pa.string()])
def test_whole_numbers_of_any_type(read, kind):
    texts = pa.array(["7", "8"]).cast(kind)
    values = pa.array(["1", None]).cast(kind)
    found = read({"person": texts, "period": ["2021-01", "2021-01"], "poverty": values})
    assert found == [("7", "2021-01", {"poverty": "1"})]


def test_floats_from_pandas_with_nan_for_blank(read):
    columns = {
        "person": [1.0, 2.0, 3.0],
        "2021-01": [1.0, float("nan"), 0.0],
        "2021-02": [0.5, 1.0, None],
    }
    assert sorted(read(columns, attribute="poverty")) == [
        ("1", "2021-01", {"poverty": "1"}),
        ("1", "2021-02", {"poverty": "0.5"}),
        ("2", "2021-02", {"poverty": "1"}),
        ("3", "2021-01", {"poverty": "0"}),
    ]


def test_categories_truths_and_dates(read):
    columns = {
        "person": pa.array(["ann", "bob", "ann"]).dictionary_encode(),
        "period": pa.array(["2021-01"] * 3).dictionary_encode(),
        "poverty": [True, False, None],
        "work": pa.array(["no", None, "half day"]).dictionary_encode(),
    }
    found = read(columns)
    assert found[0] == ("ann", "2021-01", {"poverty": "true", "work": "no"})
    assert found[2] == ("ann", "2021-01", {"work": "half day"})


def test_many_rows_come_in_batches_in_order(read, tmp_path):
    count = 150_000
    text = "person,period,poverty\n" + "".join(f"p{i},2021-01,{i % 2}\n" for i in range(count))
    found = read(text)
    assert [person for person, _, _ in found] == [f"p{i}" for i in range(count)]
    batches = list(reports(tmp_path / "table.csv", STUDY, Layout()))
    assert len(batches) > 1
    assert rows(tmp_path / "table.csv") == count
    read({"person": ["p"] * count, "period": ["2021-01"] * count, "poverty": [1] * count})
    assert len([b for b in reports(tmp_path / "table.parquet", STUDY, Layout()) if b]) == 3
    assert rows(tmp_path / "table.parquet") == count


def refused(read, content, **layout):
    with pytest.raises(UserError) as error:
        read(content, **layout)
    for line in error.value.lines:
        assert "\n" not in line
        assert not re.search("Arrow|Error|Traceback", line)
    return error.value.lines


@pytest.mark.parametrize(
    ("content", "layout", "told"),
    [
        ("id,period,poverty\na,b,1\n", {}, "no column 'person'; name the ids' with --person"),
        ("person,month,poverty\na,b,1\n", {}, "no column 'period'; name it with --period"),
        ("person,period\na,b\n", {}, "nothing to send: give a column for an attribute (poverty,"),
        ("person,m1\na,1\n", {"attribute": "poverty"}, "a column for each period, or --columns"),
        ("person,2021-01\na,1\n", {"attribute": "age"}, "'age': not declared; there are poverty,"),
        (
            "person,period,poverty\na,b,1\n",
            {"columns": {"pov": "poverty"}},
            "no column 'pov' to rename",
        ),
        ("person;period;poverty\na;b;1\n", {}, "no column 'person'"),
    ],
)
def test_a_wrong_header_is_told(read, content, layout, told):
    assert any(told in line for line in refused(read, content, **layout))


@pytest.mark.parametrize(
    "content",
    [
        "person,period,poverty\nann,2021-01\n",
        "person,period,poverty\nann,2021-01,1,2\n",
        b"person,period,poverty\nann,2021-01,\xff\n",
        b"per\xffson,period,poverty\nann,2021-01,1\n",
        "",
        "\n",
        b"PAR1 not really",
        b"\x00\x00\x00\x00",
    ],
)
def test_what_is_no_table_is_told(read, content):
    refused(read, content)


def test_a_column_twice_is_refused_because_one_would_be_lost(read):
    twice = "person,period,poverty,poverty\nann,2021-01,1,0\n"
    assert any("'poverty'" in line for line in refused(read, twice))
    both = "person,period,poverty,pov\nann,2021-01,1,0\n"
    assert any("'poverty'" in line for line in refused(read, both, columns={"pov": "poverty"}))
    wide = "person,2021-01,m1\nann,1,0\n"
    told = refused(read, wide, attribute="poverty", columns={"m1": "2021-01"})
    assert any("'2021-01'" in line for line in told)


@pytest.mark.parametrize("content", ["person,period,age\n", "id,period,poverty\n"])
def test_a_wrong_header_without_rows_is_told_too(read, content):
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
def test_columns_that_are_no_text_are_values_or_told(read, column):
    columns = {"person": ["ann"], "period": ["2021-01"], "poverty": column}
    try:
        found = read(columns)
    except UserError as error:
        (line,) = error.lines
        assert "table.parquet" in line
    else:
        ((_, _, values),) = found
        assert values["poverty"] not in {"0", "1"}


def test_files_that_are_not_there_or_of_another_kind(tmp_path, read):
    with pytest.raises(UserError, match="no such file"):
        list(reports(tmp_path / "none.csv", STUDY, Layout()))
    with pytest.raises(UserError, match="no such file"):
        list(reports(tmp_path, STUDY, Layout()))
    with pytest.raises(UserError, match=r"write tables as \.csv or \.parquet"):
        read("person,period,poverty\n", name="table.txt")
    for name in ("table.parquet",):
        with pytest.raises(UserError, match="cannot be read as a table"):
            read("person,period,poverty\nann,2021-01,1\n", name=name)
