"""Tables: what people keep in CSV and Parquet files, long and wide."""

import pyarrow as pa
import pyarrow.parquet
import pytest
from kit.tables import STUDY, refused

from stream_dp.population.celltext import DAMAGED
from stream_dp.population.tables import (
    TableLayout,
    count_rows,
    read_columns,
    read_reports,
    text_files,
)

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
    reports = read(
        text,
        person="id",
        attribute="poverty",
        columns={"m1": "2021-02", "m2": "2021-03"},
    )
    assert sorted(reports) == [("ann", "2021-02", {"poverty": "1"}), ("ann", "2021-03", LONG[1][2])]


def test_long_columns_under_other_names(read):
    text = "id,month,pov\nann,2021-01,1\n"
    reports = read(text, person="id", period="month", columns={"pov": "poverty"})
    assert reports == [("ann", "2021-01", {"poverty": "1"})]


@pytest.mark.parametrize("shown", ["pov\n(last week)", r"pov\n(last week)"])
def test_a_header_with_a_line_break_is_named_as_it_is_or_as_it_is_shown(read, shown):
    text = 'id,month,"pov\n(last week)"\np1,2021-02,1\n'
    reports = read(text, person="id", period="month", columns={shown: "poverty"})
    assert reports == read(
        text.replace('"pov\n(last week)"', "poverty"), person="id", period="month"
    )


def test_text_stays_as_it_is(read):
    text = 'person,period,work\n007,2021-01,half  day\n1e3,2021-01,NA\nnull,2021-01,"a,b ""c"""\n'
    assert read(text) == [
        ("007", "2021-01", {"work": "half  day"}),
        ("1e3", "2021-01", {"work": "NA"}),
        ("null", "2021-01", {"work": 'a,b "c"'}),
    ]


def test_each_row_is_a_person(read):
    ids = [f"table.csv/{n}" for n in (1, 2, 3)]
    text = "period,poverty\n2021-01,1\n2021-01,0\n2021-02,1\n"
    reports = read(text, person="-")
    assert [person for person, _, _ in reports] == ids
    assert [period for _, period, _ in reports] == ["2021-01", "2021-01", "2021-02"]
    text = "2021-01,2021-02\n1,0\n0,\n"
    assert sorted(read(text, person="-", attribute="poverty")) == [
        (ids[0], "2021-01", {"poverty": "1"}),
        (ids[0], "2021-02", {"poverty": "0"}),
        (ids[1], "2021-01", {"poverty": "0"}),
    ]
    assert read("-,period,poverty\na,2021-01,1\n", person="-")[0][0] == ids[0]


def test_blanks_at_the_ends_of_an_answer(read):
    """As databases and SAS pad their columns."""
    rows = ["ann,2021-01, 1,half day  ", "bob,2021-02,0 ,   ", "cy,2021-03,,no"]
    text = "\n".join(["person,period,poverty,work", *rows, ""])
    assert read(text) == LONG
    assert read(text, values={"work": {"half day  ": "no"}})[0][2]["work"] == "no"


def test_blank_cells_are_no_values_and_rows_without_any_are_no_reports(read):
    text = 'person,period,poverty,work\nann,2021-01,,\nbob,2021-01,"",no\n'
    assert read(text) == [("bob", "2021-01", {"work": "no"})]


def test_a_blank_person_or_period_is_sent_on_to_be_rejected(read):
    assert read("person,period,poverty\n,2021-01,1\nann,,1\n") == [
        ("", "2021-01", {"poverty": "1"}),
        ("ann", "", {"poverty": "1"}),
    ]


FLOATS = [pa.float64(), pa.float32(), pa.float16()]
INTEGERS = [
    *[getattr(pa, f"{sign}int{width}")() for sign in ("", "u") for width in (8, 16, 32, 64)],
    pa.decimal128(3, 0),
    pa.decimal256(50, 0),
]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]


def typed(cells, kind):
    """An array of that type from text, through one that can be cast to it."""
    between = pa.array([None if c is None else float(c) for c in cells])
    return pa.array(cells, kind) if kind in TEXTS else between.cast(kind)


@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS, *TEXTS], ids=str)
def test_integers_of_any_type(read, kind):
    texts = typed(["7", "8"], pa.int64() if kind in FLOATS else kind)
    values = typed(["1", None], kind)
    reports = read({"person": texts, "period": ["2021-01", "2021-01"], "poverty": values})
    assert reports == [("7", "2021-01", {"poverty": "1"})]
    if kind != pa.string_view():  # Parquet has no dictionary of these
        texts, values = texts.dictionary_encode(), values.dictionary_encode()
    assert read({"person": texts, "2021-01": values}, attribute="poverty") == reports


def test_floats_from_pandas_with_nan_for_blank(read):
    columns = {
        "person": [1, 2, 3],
        "2021-01": [1.0, float("nan"), 0.0],
        "2021-02": [0.5, 1.0, None],
    }
    assert sorted(read(columns, attribute="poverty")) == [
        ("1", "2021-01", {"poverty": "1"}),
        ("1", "2021-02", {"poverty": "0.5"}),
        ("2", "2021-02", {"poverty": "1"}),
        ("3", "2021-01", {"poverty": "0"}),
    ]


def test_periods_of_any_type_are_written_each_by_itself(read):
    years = {"person": ["a", "b", "c"], "poverty": [1, 1, 1]}
    for column, expected in (
        ([2021.0, float("nan"), 2.5], ["2021", "", "2.5"]),
        ([202101, None, 2021], ["2021-01", "", "2021"]),
        (pa.array([18628, None, 18700], pa.date32()), ["2021-01", "", "2021-03"]),
    ):
        assert [period for _, period, _ in read({**years, "period": column})] == expected


ID = 12_345_678_901


@pytest.mark.parametrize(("other", "id"), [(None, ""), (0.5, ""), (1e300, ""), (7.0, "7")])
@pytest.mark.parametrize("encode", [False, True])
@pytest.mark.parametrize("layout", [{}, {"attribute": "poverty"}])
def test_ids_that_one_row_turned_into_floats_keep_their_digits(read, other, id, encode, layout):
    """As pandas writes a column of whole numbers with one missing or fractional id."""
    ids = pa.array([float(ID), float(ID + 1), other])
    periods = {"2021-01": [1, 1, 1]} if layout else {"period": ["2021-01"] * 3, "poverty": [1] * 3}
    ids = ids.dictionary_encode() if encode else ids
    rows = read({"person": ids, **periods}, **layout)
    assert [person for person, _, _ in rows] == [str(ID), str(ID + 1), id]


@pytest.mark.parametrize(
    ("kind", "exact"), [(pa.float64(), 2**53), (pa.float32(), 2**24), (pa.float16(), 2**11)]
)
def test_a_float_that_may_have_lost_digits_is_no_id(read, kind, exact):
    ids = pa.array([float(exact - 1), float(exact)]).cast(kind)
    rows = read({"person": ids, "period": ["2021-01"] * 2, "poverty": [1, 1]})
    assert [person for person, _, _ in rows] == [str(exact - 1), ""]


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        (pa.array([b"ann"]), "binary"),
        (pa.array([b"ann"], pa.large_binary()), "large_binary"),
        (pa.array([b"ann"], pa.binary(3)), "fixed_size_binary[3]"),
        (pa.array([True]), "bool"),
        (pa.array([1], pa.date32()), "date32[day]"),
        (pa.array([1], pa.timestamp("us")), "timestamp[us]"),
        (pa.array(["1.20"]).cast(pa.decimal128(9, 2)), "decimal128(9, 2)"),
        (pa.array([["ann"]]), "list"),
        (pa.array([{"id": "ann"}]), "struct"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_ids_of_another_type_are_refused_before_anything_is_sent(read, ids, kind):
    (line,) = refused(read, {"person": ids, "period": ["2021-01"], "poverty": [1]})
    assert f"column 'person': holds {kind}" in line
    assert "ids are text or whole numbers" in line
    none = {"person": ids[:0], "period": pa.array([], pa.string()), "poverty": pa.array([])}
    assert refused(read, none) == (line,)


def test_ids_keep_every_digit_and_leading_zeros(read):
    for ids, expected in (
        (["007", "7", "1e3", "12E5"], ["007", "7", "1e3", "12E5"]),
        (pa.array([2**64 - 1, 0], pa.uint64()), [str(2**64 - 1), "0"]),
        (pa.array([-(2**63), None], pa.int64()), [str(-(2**63)), ""]),
        (pa.array([None, None]), ["", ""]),
    ):
        rows = len(expected)
        columns = {"person": ids, "period": ["2021-01"] * rows, "poverty": [1] * rows}
        assert [person for person, _, _ in read(columns)] == expected


def test_parquet_text_that_is_not_utf8_is_no_id_and_no_value(read):
    bad = pa.StringArray.from_buffers(
        2,
        pa.py_buffer(b"\0\0\0\0\1\0\0\0\3\0\0\0"),
        pa.py_buffer(b"a\xff\xfe"),
    )
    rows = read({"person": bad, "period": ["2021-01"] * 2, "poverty": [1, 1]})
    assert [person for person, _, _ in rows] == ["a", ""]
    rows = read({"person": ["p", "q"], "period": bad, "poverty": bad})
    assert rows == [("p", "a", {"poverty": "a"}), ("q", DAMAGED, {"poverty": DAMAGED})]


def test_a_csv_that_begins_with_blank_lines_is_read_as_text_too(read):
    text = "\n\nperson,period,poverty\n007,2021-01,1\n0.5,2021-01,0\n"
    assert [person for person, _, _ in read(text)] == ["007", "0.5"]


@pytest.mark.parametrize("quoted", [False, True])
def test_a_row_that_does_not_fit_the_header_is_no_report_and_keeps_its_number(tmp_path, quoted):
    """Also behind blank lines, and among rows in quotes."""
    path = tmp_path / "table.csv"
    rows = [f'"p{i}",2021-01,1' if quoted else f"p{i},2021-01,1" for i in range(50_000)]
    rows[40_000], rows[45_000], rows[49_999] = "few,2021-01", "\n\nmany,2021-01,1,2", "a\ufdd0b"
    path.write_text("\n".join(["person,period,poverty", *rows]) + "\n", encoding="utf-8")
    unreadable, numbers = [], []
    for columns in read_columns(path, STUDY, TableLayout()):
        unreadable += columns.unreadable
        numbers += columns.rows.tolist()
        people = [int(person[1:]) for person in columns.persons.to_pylist()]
        assert people == (columns.rows - 1).tolist()
    assert unreadable == [
        (40_001, "few,2021-01"),
        (45_001, "many,2021-01,1,2"),
        (50_000, "a\ufdd0b"),
    ]
    assert len(numbers) == 49_997


@pytest.mark.parametrize("row", ['"ann,2021-01,1\nbob,2021-01,1\n"c', 'ann,2021-01,"1\nbob,x,y'])
def test_a_quote_that_is_left_open_does_not_swallow_rows_in_silence(read, row):
    text = f"person,period,poverty\nx,2021-01,1\n{row},2021-01,1\n"
    (line,) = refused(read, text.replace("y,2021-01,1\n", "y\n"))
    assert "the quote that is opened in line 3 is not closed as it should be" in line


@pytest.mark.parametrize("quote", ['a"b', '"a" b', 'a"', '""a'])
def test_a_quote_within_a_line_changes_no_other_row(read, quote):
    text = "note,person,period,poverty\nx,ann,2021-01,1\n{},bob,2021-01,0\ny,cy,2021-01,1\n"
    assert read(text.format(quote)) == read(text.format("z"))


LONG_CELL = "x" * 131_073


def test_a_cell_that_is_too_long_makes_its_row_unreadable_and_no_other(read, tmp_path):
    head, rows = (
        "note,person,period,poverty\n",
        "x,ann,2021-01,1\n{},bob,2021-01,0\ny,cy,2021-01,1\n",
    )
    others = read(head + rows.replace("{},bob,2021-01,0\n", ""))
    for note in (LONG_CELL, f'"{LONG_CELL}"', f'"\n{LONG_CELL}\n""\n"', f'"{LONG_CELL},\n"'):
        assert read(head + rows.format(note)) == others
        columns = list(read_columns(tmp_path / "table.csv", STUDY, TableLayout()))
        assert [row.row for some in columns for row in some.unreadable] == [2]
    for note in (f'"{LONG_CELL}', f'"\n{LONG_CELL}', f'"\n{LONG_CELL}\n"x'):
        (line,) = refused(read, head + rows.format(note))
        assert "the quote that is opened in line 3" in line


def test_a_header_that_is_too_long_is_refused(read):
    (line,) = refused(read, f"person,period,poverty,{LONG_CELL}\nann,2021-01,1,2\n")
    assert "its header has a cell that is too long" in line


def test_an_id_over_lines_is_none(read):
    text = 'person,period,poverty\n"a\nb",2021-01,1\ncy,2021-01,0\n'
    assert [person for person, _, _ in read(text)] == ["", "cy"]


def test_lines_in_cells_of_other_columns_are_no_fault(read, monkeypatch):
    monkeypatch.setattr(text_files, "CSV_CHARACTERS", 64)
    rows = [(f"p{i}", "2021-01", {"poverty": "1"}) for i in range(200)]
    text = "note,person,period,poverty\n"
    text += "".join(f'"one,\n""{i}""\n\n{"x" * (i % 7)}",p{i},2021-01,1\n' for i in range(200))
    assert read(text) == rows


def test_categories_truths_and_dates(read):
    columns = {
        "person": pa.array(["ann", "bob", "ann"]).dictionary_encode(),
        "period": pa.array(["2021-01"] * 3).dictionary_encode(),
        "poverty": [True, False, None],
        "work": pa.array(["no", None, "half day"]).dictionary_encode(),
    }
    reports = read(columns)
    assert reports[0] == ("ann", "2021-01", {"poverty": "true", "work": "no"})
    assert reports[2] == ("ann", "2021-01", {"work": "half day"})


def test_many_rows_come_in_batches_in_order(read, tmp_path):
    count = 150_000
    text = "person,period,poverty\n" + "".join(f"p{i},2021-01,{i % 2}\n" for i in range(count))
    reports = read(text)
    assert [person for person, _, _ in reports] == [f"p{i}" for i in range(count)]
    batches = list(read_reports(tmp_path / "table.csv", STUDY, TableLayout()))
    assert len(batches) > 1
    assert count_rows(tmp_path / "table.csv") == count
    read({"person": ["p"] * count, "period": ["2021-01"] * count, "poverty": [1] * count})
    assert (
        len([b for b in read_reports(tmp_path / "table.parquet", STUDY, TableLayout()) if b]) == 3
    )
    assert count_rows(tmp_path / "table.parquet") == count


def test_ids_of_two_columns(read):
    """A member's number with a '/' makes no id, so that no two pairs share one."""
    content = (
        "hh,no,period,poverty\n7,1,2021-01,1\na/b,2,2021-01,0\na,b/2,2021-01,1\n8,,2021-01,1\n"
    )
    rows = read(content, group="hh", member="no")
    assert [person for person, _, _ in rows] == ["7/1", "a/b/2", "", ""]


def test_one_period_of_all_rows(read):
    rows = read("person,poverty\na,1\nb,0\n", period="202102")
    assert rows == [("a", "2021-02", {"poverty": "1"}), ("b", "2021-02", {"poverty": "0"})]
