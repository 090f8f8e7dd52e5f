"""Files of tables: separators, encodings, packed files, Arrow, spreadsheets."""

import bz2
import contextlib
import datetime
import gzip
import lzma
import time
import zipfile
import zlib
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.feather
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.examples import SHARED
from kit.studies import attribute, small_study, window

from stream_dp.errors import UserError
from stream_dp.population.celltext import DAMAGED
from stream_dp.population.tables import FileForm, TableLayout, read_columns, read_reports
from stream_dp.study.declared_sections import Ids

STUDY = small_study(
    name="files",
    size=10,
    attributes={"work": attribute(["no", "ja"], missing="absent")},
    releases=[window("w", "work", width=1, rho=1)],
)
ROWS = [("Ändu", "2021-01", {"work": "ja"}), ("007", "2021-02", {"work": "no"})]
TEXT = "person;period;work\nÄndu;2021-01;ja\n007;2021-02;no\n"


@pytest.fixture
def read(tmp_path):
    def read(content, name="table.csv", *, form=None, study=STUDY, **layout):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        layout = TableLayout(**layout, form=form or FileForm())
        return [row for batch in read_reports(path, study, layout) for row in batch]

    return read


def refused(read, *words, **layout):
    with pytest.raises(UserError) as error:
        read(*words, **layout)
    (line,) = error.value.lines
    assert "\n" not in line
    return line


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["table.csv", "table.tsv", "table.txt", "TABLE.CSV"])
def test_separators_are_read_from_the_header(read, separator, name):
    assert read(TEXT.replace(";", separator), name) == ROWS


def test_a_separator_is_the_one_that_gives_the_columns_of_ids_and_periods(read):
    text = "person;period;work;a,b,c,d,e\nÄndu;2021-01;ja;1,2\n007;2021-02;no;\n"
    assert read(text) == ROWS
    assert read("\ufeff\n\n" + text) == ROWS
    assert read('"person";"period";"work"\nÄndu;2021-01;ja\n007;2021-02;no\n') == ROWS


def test_a_declared_separator(read):
    text = TEXT.replace(";", "#")
    assert "no column 'person'" in str(refused_all(read, text))
    assert read(text, form=FileForm(separator="#")) == ROWS


def refused_all(read, *words, **layout):
    with pytest.raises(UserError) as error:
        read(*words, **layout)
    return error.value.lines


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-8-sig", "utf-8"),
        ("utf-16", None),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
        ("latin-1", "latin-1"),
        ("cp1252", "CP1252"),
    ],
)
def test_encodings(read, encoding, declared):
    assert read(TEXT.encode(encoding), form=FileForm(encoding=declared)) == ROWS


def test_a_byte_order_mark_of_big_endian(read):
    assert read("\ufeff".encode("utf-16-be") + TEXT.encode("utf-16-be")) == ROWS


def test_utf_32_by_its_mark(read):
    for order in ("utf-32-le", "utf-32-be"):
        assert read("\ufeff".encode(order) + TEXT.encode(order)) == ROWS


def test_a_byte_of_another_encoding_damages_its_cell_alone(read):
    """Nothing is guessed from it, and two ids that it damages are not one person."""
    text = (
        b"person;period;work;note\n\xc4ndu;2021-01;ja;\n\xd6ndu;2021-01;ja;\n007;2021-02;no;\xc4\n"
    )
    assert [row for row in read(text) if row[0]] == [ROWS[1]]
    assert [person for person, _, _ in read(text)] == ["", "", "007"]
    assert read(b"person;period;work\n007;2021-02;no\xc4\n") == [
        ("007", "2021-02", {"work": "no" + DAMAGED})
    ]
    assert read(TEXT.encode("utf-16")[:-1])[0] == ROWS[0]


def test_a_header_of_another_encoding_is_refused(read):
    line = refused(read, "person;period;work;größe\n".encode("latin-1"))
    assert "its header is not UTF-8" in line
    assert "--encoding cp1252" in line
    line = refused(read, TEXT.encode("utf-16-le"))
    assert "--encoding utf-16-le" in line


@pytest.mark.parametrize(
    "form", [{"encoding": "rot13"}, {"encoding": "none"}, {"encoding": "zip"}, {"encoding": ""}]
)
def test_encodings_of_no_text_are_refused(form):
    with pytest.raises(UserError, match="--encoding: no encoding of text"):
        FileForm(**form)


@pytest.mark.parametrize("separator", ["", ";;", '"', "\n", "ä"])
def test_separators_that_are_none_are_refused(separator):
    with pytest.raises(UserError, match="--separator: write one character"):
        FileForm(separator=separator)


def test_packed_text(read, tmp_path):
    packed = gzip.compress(TEXT.encode())
    assert read(packed, "table.csv.gz") == ROWS
    assert read(packed[: len(packed) // 2] + packed[len(packed) // 2 :], "table.tsv.gz") == ROWS
    with zipfile.ZipFile(tmp_path / "table.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/._table.csv", "x")
        archive.writestr("export/table of 2021.csv", TEXT)
    assert read(None, "table.zip") == ROWS


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_files_packed_in_every_way(read, pack):
    suffix = {gzip.compress: "gz", bz2.compress: "bz2", lzma.compress: "xz"}[pack]
    half = TEXT.encode().index(b"007")
    parts = TEXT.encode()[:half], TEXT.encode()[half:]
    for end in (suffix, suffix.upper()):
        assert read(pack(TEXT.encode()), f"table.csv.{end}") == ROWS
        assert read(b"".join(map(pack, parts)), f"table.csv.{end}") == ROWS
    for damaged in (pack(TEXT.encode())[:-6], b"", b"\0" * 40, b"BZh9\xfd7zXZ\0" * 9):
        assert "cannot be read as a table" in refused(read, damaged, f"table.csv.{suffix}")


def test_streams_of_xz_with_padding_between(read):
    assert read(b"\0\0\0\0".join([lzma.compress(TEXT.encode()), b""]), "table.csv.xz") == ROWS


def test_xz_takes_no_more_memory_than_its_bound(read):
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 20}]
    packed = bytearray(lzma.compress(TEXT.encode(), check=lzma.CHECK_NONE, filters=filters))
    properties = packed.index(b"\x21\x01", 12) + 2
    packed[properties] = 40  # a dictionary of 4 GiB
    header = packed[12 : 12 + 4 * (packed[12] + 1)]
    packed[12 + len(header) - 4 : 12 + len(header)] = zlib.crc32(header[:-4]).to_bytes(4, "little")
    assert "cannot be read as a table" in refused(read, bytes(packed), "table.csv.xz")


def test_packed_files_that_are_damaged_or_several(read, tmp_path):
    packed = gzip.compress(TEXT.encode() * 1000)
    assert "cannot be read as a table" in refused(read, packed[:-9], "cut.csv.gz")
    assert "cannot be read as a table" in refused(read, packed[:40] + b"x" * 9, "bad.csv.gz")
    assert "cannot be read as a table" in refused(read, TEXT, "plain.csv.gz")
    assert "cannot be read as a table" in refused(read, TEXT, "plain.zip")
    assert "write tables as" in refused(read, packed, "table.gz")
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.csv", TEXT)
        archive.writestr("b.csv", TEXT)
    assert "holds 2 files; unpack it" in refused(read, None, "two.zip")
    with zipfile.ZipFile(tmp_path / "none.zip", "w"):
        pass
    assert "holds 0 files; unpack it" in refused(read, None, "none.zip")


TABLE = pa.table(
    {
        "person": ["Ändu", "007"],
        "period": pa.array([datetime.date(2021, 1, 31), datetime.date(2021, 2, 28)]),
        "work": pa.array(["ja", "no"]).dictionary_encode(),
    }
)


@pytest.mark.parametrize("name", ["table.arrow", "table.ipc", "table.feather"])
@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_arrow_files(read, tmp_path, name, compression):
    pa.feather.write_feather(TABLE, tmp_path / name, compression)
    assert read(None, name) == ROWS


def test_an_arrow_stream(read, tmp_path):
    with pa.OSFile(str(tmp_path / "table.arrow"), "wb") as sink:
        with pa.ipc.new_stream(sink, TABLE.schema) as writer:
            writer.write_table(TABLE)
    assert read(None, "table.arrow") == ROWS


@settings(
    max_examples=60,
    suppress_health_check=SHARED,
)
@given(st.data())
def test_a_damaged_arrow_file_is_read_or_refused(read, tmp_path, data):
    pa.feather.write_feather(TABLE, tmp_path / "sound.arrow", "uncompressed")
    content = bytearray((tmp_path / "sound.arrow").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(UserError):
        read(bytes(content), "table.arrow")


def sheet(path, rows, *, formats=(), more=()):
    book = openpyxl.Workbook()
    book.active.title = "answers"
    for row in rows:
        book.active.append(row)
    for cell, number_format in formats:
        book.active[cell].number_format = number_format
    for name in more:
        book.create_sheet(name)
    book.save(path)


HEAD = ["person", "period", "work"]


def test_spreadsheets(read, tmp_path):
    rows = [
        HEAD,
        ["Ändu", datetime.datetime(2021, 1, 31), "ja"],
        ["007", datetime.date(2021, 2, 28), "no"],
        [12.0, "2021-03", "no"],
        ["b", datetime.datetime(2021, 3, 31, 12, 30), None],
    ]
    sheet(tmp_path / "table.xlsx", rows)
    assert read(None, "table.xlsx") == [*ROWS, ("12", "2021-03", {"work": "no"})]


def test_ids_of_a_spreadsheet_are_as_it_shows_them(read, tmp_path):
    rows = [HEAD, [7, "2021-01", "ja"], [12345, "2021-01", "ja"]]
    sheet(tmp_path / "table.xlsx", rows, formats=[("A2", "0000"), ("A3", "0000")])
    assert [person for person, _, _ in read(None, "table.xlsx")] == ["0007", "12345"]


@pytest.mark.parametrize("number", [0.5, 1234567890123456, 1e20, -1])
def test_a_number_that_a_spreadsheet_has_changed_is_no_id(read, tmp_path, number):
    sheet(tmp_path / "table.xlsx", [HEAD, ["a", "2021-01", "ja"], [number, "2021-01", "ja"]])
    assert [person for person, _, _ in read(None, "table.xlsx")] == ["a", ""]


def test_letters_that_a_format_shows_belong_to_the_id(read, tmp_path):
    rows = [HEAD, [7, "2021-01", "ja"], [8, "2021-01", "ja"], [1234, "2021-01", "ja"]]
    formats = [("A2", '"P"0000'), ("A3", r"\A\-00"), ("A4", "000-000")]
    sheet(tmp_path / "table.xlsx", rows, formats=formats)
    assert [person for person, _, _ in read(None, "table.xlsx")] == ["P0007", "A-08", "1234"]


def test_an_id_that_became_a_date_is_damaged(read, tmp_path):
    rows = [HEAD, [datetime.date(2021, 1, 3), "2021-01", "ja"], ["a", "2021-01", "ja"]]
    sheet(tmp_path / "table.xlsx", rows)
    assert [person for person, _, _ in read(None, "table.xlsx")] == ["", "a"]
    as_written = read(None, "table.xlsx", study=STUDY.revised(ids=Ids(as_written=True)))
    assert [person for person, _, _ in as_written] == ["2021-01-03", "a"]


def edited(path, *replaced):
    """Replaces XML of the first sheet of a workbook."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    xml = parts["xl/worksheets/sheet1.xml"].decode()
    for old, new in replaced:
        assert old in xml
        xml = xml.replace(old, new, 1)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, xml if name == "xl/worksheets/sheet1.xml" else content)


def test_a_formula_without_a_result_is_damaged_and_no_empty_cell(read, tmp_path):
    path = tmp_path / "table.xlsx"
    rows = [HEAD, ["a", "2021-01", '=IF(1>0,"ja","no")'], ["b", "2021-01", "=1"], [*"cde"]]
    sheet(path, rows)
    # The second has an empty text as its result, which is stored.
    edited(path, ('<c r="C3"><f>1</f><v></v></c>', '<c r="C3" t="str"><f>1</f><v></v></c>'))
    assert read(None, path.name)[0] == ("a", "2021-01", {"work": DAMAGED})
    assert [row[0] for row in read(None, path.name)] == ["a", "c"]
    sheet(path, [["person", "period", "=A1"], ["a", "2021-01", "ja"]])
    assert "a name in row 1 is a formula; open the sheet in a" in refused(read, None, path.name)


@pytest.mark.parametrize("dimension", ["A1", "A1:C2", "A1:A3", "A1:XFD1048576", "B2:C3"])
def test_a_size_that_a_sheet_states_is_not_believed(read, tmp_path, dimension):
    path = tmp_path / "table.xlsx"
    sheet(path, [HEAD, *([f"p{n}", "2021-01", "ja"] for n in range(20))])
    edited(path, ('<dimension ref="A1:C21"/>', f'<dimension ref="{dimension}"/>'))
    assert [person for person, _, _ in read(None, path.name)] == [f"p{n}" for n in range(20)]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('<row r="4"', '<row r="3"', "row 3 of the sheet stands below row 3"),
        ('<row r="4"', '<row r="2"', "row 2 of the sheet stands below row 3"),
        ('<row r="4"', '<row r="1048577"', "over 1,048,576 rows"),
        ('<row r="4"', '<row r="99999999999"', "over 1,048,576 rows"),
        ('r="C4"', 'r="B4"', "cannot be read as a spreadsheet"),
    ],
)
def test_rows_and_cells_that_state_a_place_of_others(read, tmp_path, old, new, fault):
    """Openpyxl leaves out such rows without a word."""
    path = tmp_path / "table.xlsx"
    sheet(path, [HEAD, *([person, "2021-01", "ja"] for person in "abc")])
    edited(path, (old, new))
    assert fault in refused(read, None, path.name)


def test_cells_in_another_order_are_all_read(read, tmp_path):
    path = tmp_path / "table.xlsx"
    sheet(path, [HEAD, ["a", "2021-01", 1]])
    cell = '<c r="C2" t="n"><v>1</v></c>'
    edited(path, (cell, ""), ('<c r="A2"', cell + '<c r="A2"'))
    assert read(None, path.name) == [("a", "2021-01", {"work": "1"})]


def test_a_percent_is_the_number_that_a_sheet_shows(read, tmp_path):
    formats = [("C2", "0%"), ("C3", "0.0%"), ("C4", '0"%"'), ("C5", "0%"), ("C6", "General")]
    values = [1, 0.07, 5, "ja", 1]
    sheet(tmp_path / "table.xlsx", [HEAD, *(["a", "2021-01", v] for v in values)], formats=formats)
    works = [values["work"] for _, _, values in read(None, "table.xlsx")]
    assert works == ["100", "7", "5", "ja", "1"]


def test_a_row_of_a_spreadsheet_with_a_cell_too_many_is_no_report(tmp_path, read):
    rows = [HEAD, ["a", "2021-01", "ja", "more"], [], ["b", "2021-01", "no"]]
    sheet(tmp_path / "table.xlsx", rows)
    assert read(None, "table.xlsx") == [("b", "2021-01", {"work": "no"})]
    columns = list(read_columns(tmp_path / "table.xlsx", STUDY, TableLayout()))
    assert [row for some in columns for row in some.unreadable] == [(1, "a\t2021-01\tja\tmore")]


def test_a_hidden_sheet_and_a_title_of_a_spreadsheet(read, tmp_path):
    book = openpyxl.Workbook()
    for row in (["Survey of 2021"], [], HEAD, ["a", "2021-01", "ja"], [], ["b", "2021-02", "no"]):
        book.active.append(row)
    book.active.merge_cells("A1:C1")
    book.create_sheet("old").append(HEAD)
    book["old"].sheet_state = "hidden"
    book.save(tmp_path / "table.xlsx")
    rows = read(None, "table.xlsx", form=FileForm(header_row=3))
    assert [row[:2] for row in rows] == [("a", "2021-01"), ("b", "2021-02")]
    assert "row 2 is empty" in refused(read, None, "table.xlsx", form=FileForm(header_row=2))
    assert read(None, "table.xlsx", form=FileForm(sheet="old")) == []


def test_a_refused_spreadsheet_is_closed(read, tmp_path):
    sheet(tmp_path / "table.xlsx", [[], HEAD, ["a", "2021-01", "ja"]])
    """At once, although the error with its frames is still there."""
    with pytest.raises(UserError, match="row 1 is empty") as error:
        read(None, "table.xlsx", form=FileForm(header_row=1))
    assert error.value.lines
    open_files = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
    assert tmp_path / "table.xlsx" not in open_files


def test_a_part_of_a_spreadsheet_that_is_too_large_once_unpacked(read, tmp_path, monkeypatch):
    sheet(tmp_path / "table.xlsx", [HEAD, ["a", "2021-01", "ja"]])
    monkeypatch.setattr("stream_dp.population.tables.spreadsheets.MOST_UNPACKED", 100)
    assert "once it is unpacked; save the sheet as CSV" in refused(read, None, "table.xlsx")


def test_a_cell_far_away_does_not_fill_the_sheet(read, tmp_path):
    """Such a file has 5 kB; every row up to the cell was filled to its column."""
    book = openpyxl.Workbook()
    book.active.append(HEAD)
    book.active.append(["a", "2021-01", "ja"])
    book.active.cell(200_000, 5_000, "x")
    book.save(tmp_path / "table.xlsx")
    begun = time.process_time()
    assert read(None, "table.xlsx") == [("a", "2021-01", {"work": "ja"})]
    assert time.process_time() - begun < 10


def test_a_sheet_is_named_where_there_are_several(read, tmp_path):
    sheet(tmp_path / "table.xlsx", [HEAD, ["a", "2021-01", "ja"]], more=["notes"])
    line = refused(read, None, "table.xlsx")
    assert "there are several sheets; name one with --sheet: answers, notes" in line
    assert len(read(None, "table.xlsx", form=FileForm(sheet="answers"))) == 1
    assert "the sheet is empty" in refused(read, None, "table.xlsx", form=FileForm(sheet="notes"))
    assert "no sheet 'x'" in refused(read, None, "table.xlsx", form=FileForm(sheet="x"))


def test_spreadsheets_that_are_none(read, tmp_path):
    for content in (b"", b"PK\3\4 not really", TEXT.encode(), gzip.compress(TEXT.encode())):
        assert "cannot be read as a spreadsheet" in refused(read, content, "table.xlsx")


def test_spreadsheets_need_an_extra(read, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    assert "pip install '.[tables]'" in refused(read, b"x", "table.xlsx")


WIDE = "id,m{},m{},m{}\na,ja,no,ja\n"


def test_wide_columns_by_a_pattern(read):
    expected = [("a", f"2021-0{m}", {"work": w}) for m, w in ((1, "ja"), (2, "no"), (3, "ja"))]
    layout = {"person": "id", "attribute": "work"}
    in_order = WIDE.format(1, 2, 3)
    assert read(in_order, **layout, columns={"m{}": "..."}) == expected
    assert read(WIDE.format(10, 11, 12), **layout, columns={"m{}": "2021-01..."}) == expected
    assert read(WIDE.format("a", "b", "c"), **layout, columns={"{}": "..."}) == expected
    dated = WIDE.format("202101", "2021-02-28", "2021M03")
    assert read(dated, **layout, columns={"m{}": "{}"}) == expected
    assert read(dated.replace("m2", "2"), **layout) == expected


@pytest.mark.parametrize(
    ("names", "columns", "fault"),
    [
        ((1, 10, 2), {"m{}": "..."}, "do not tell their periods"),
        ((1, 2, 4), {"m{}": "..."}, "do not tell their periods"),
        ((1, 2, 3), {"m{}": "2021-02..."}, "3 columns fit, and there are 2 periods"),
        ((1, 2, 3), {"m{}": "2022-01..."}, "'2022-01' is no period of the study"),
        ((1, 2, 3), {"q{}": "..."}, "no column 'q{}' to rename"),
        ((1, 2, 3), {"m{}": "2021-01"}, "'2021-01' is there in 3 columns"),
    ],
)
def test_patterns_that_do_not_fit(read, names, columns, fault):
    layout = {"person": "id", "attribute": "work", "columns": columns}
    assert any(fault in line for line in refused_all(read, WIDE.format(*names), **layout))


def test_texts_of_a_file_that_stand_for_values(read):
    text = "person,period,work\na,2021-01,Yes\nb,2021-01,No\nc,2021-01,-9\nd,2021-01,ja\n"
    values = {"work": {"Yes": "ja", "No": "no", "-9": ""}}
    assert read(text, values=values) == [
        ("a", "2021-01", {"work": "ja"}),
        ("b", "2021-01", {"work": "no"}),
        ("d", "2021-01", {"work": "ja"}),
    ]
    (line,) = refused_all(read, text, values={"age": {}})
    assert "--map: attribute 'age' is not declared" in line
