"""Sheets of OpenDocument, and what a hostile one may ask of the reader."""

import datetime
import zipfile

import pytest
from kit.opendocuments import cell, row, rows, write_ods
from kit.studies import attribute, small_study, window

from stream_dp.errors import UserError
from stream_dp.population.celltext import DAMAGED
from stream_dp.population.tables import FileForm, TableLayout, read_columns, read_reports

STUDY = small_study(
    name="files",
    size=10,
    attributes={"work": attribute(["no", "ja"], missing="absent")},
    releases=[window("w", "work", width=1, rho=1)],
)
HEAD = ["person", "period", "work"]
ROWS = [("Ändu", "2021-01", {"work": "ja"}), ("007", "2021-02", {"work": "no"})]
TABLE = [HEAD, ["Ändu", "2021-01", "ja"], ["007", "2021-02", "no"]]


@pytest.fixture
def read(tmp_path):
    def read(sheets=None, *, form=None, path=tmp_path / "t.ods", **options):
        if sheets is not None:
            write_ods(path, sheets, **options)
        layout = TableLayout(form=form or FileForm())
        return [one for batch in read_reports(path, STUDY, layout) for one in batch]

    return read


def refused(read, *words, **options):
    with pytest.raises(UserError) as error:
        read(*words, **options)
    (line,) = error.value.lines
    return line


def test_a_sheet_as_a_spreadsheet_writes_it(read):
    assert read({"a": rows(TABLE)}) == ROWS


def test_kinds_of_cells(read):
    table = [
        row(map(cell, HEAD)),
        row([cell(7, shown="0007"), cell(datetime.date(2021, 1, 31)), cell("ja")]),
        row([cell(12.0, shown="12"), cell(datetime.datetime(2021, 2, 3, 10, 30)), cell("ja")]),
        row([cell(0.5, shown="0.5"), cell("2021-01"), cell("no")]),
        row([cell(1234567890123456, shown="1.23E+15"), cell("2021-01"), cell("no")]),
        row([cell("b"), cell("2021-03"), cell(None)]),
        row([cell("x & y"), cell(202103), cell("no")]),
    ]
    assert read({"a": table}) == [
        ("0007", "2021-01", {"work": "ja"}),
        ("12", "2021-02", {"work": "ja"}),
        ("", "2021-01", {"work": "no"}),
        ("", "2021-01", {"work": "no"}),
        ("x & y", "2021-03", {"work": "no"}),
    ]


def test_percents_formulas_and_ids_that_became_dates(read):
    percent = cell(0.07, shown="7.0%").replace('"float"', '"percentage"')
    formula = '<table:table-cell table:formula="of:=[.A1]"/>'
    lines = [
        [cell("a"), cell("2021-01"), percent],
        [cell("b"), cell("2021-01"), formula],
        [cell(datetime.date(2021, 1, 3)), cell("2021-01"), cell("ja")],
        [cell(7, shown="P0007"), cell("2021-01"), cell("ja")],
        [cell(8, shown="8 EUR"), cell("2021-01"), cell("ja")],
    ]
    values = ["7", DAMAGED, "ja", "ja", "ja"]
    people = ["a", "b", "", "P0007", "8"]
    sheet = [row(map(cell, HEAD)), *map(row, lines)]
    assert read({"a": sheet}) == [
        (person, "2021-01", {"work": value}) for person, value in zip(people, values, strict=True)
    ]


def test_comments_and_line_ends_of_a_cell(read):
    noted = cell("ja").replace(
        "<text:p>", "<office:annotation><text:p>SECRET</text:p></office:annotation><text:p>", 1
    )
    spaced = cell("_").replace("_", "a<text:s text:c='2'/>b</text:p><text:p>c", 1)
    table = [row(map(cell, HEAD)), row([spaced, cell("2021-01"), noted])]
    assert read({"a": table}) == [("a  b\nc", "2021-01", {"work": "ja"})]


def test_a_title_above_the_header(read):
    table = [["Survey of 2021"], [], HEAD, *TABLE[1:]]
    assert "no column 'person'" in refused_all(read, {"a": rows(table)})
    assert read({"a": rows(table)}, form=FileForm(header_row=3)) == ROWS
    assert "row 2 is empty" in refused(read, None, form=FileForm(header_row=2))


def refused_all(read, *words):
    with pytest.raises(UserError) as error:
        read(*words)
    return str(error.value.lines)


def test_rows_count_below_the_header_with_blank_rows(read, tmp_path):
    read({"a": rows([["title"], HEAD, TABLE[1], [], ["a", "2021-01", "ja", "more"]])}, form=FOURTH)
    columns = list(read_columns(tmp_path / "t.ods", STUDY, TableLayout(form=FOURTH)))
    assert [one for batch in columns for one in batch.rows.tolist()] == [1]
    assert [one for batch in columns for one in batch.unreadable] == [(3, "a\t2021-01\tja\tmore")]


FOURTH = FileForm(header_row=2)


def test_hidden_sheets_are_taken_only_by_name(read):
    sheets = {"old": rows([HEAD, ["x", "2021-01", "no"]]), "new": rows(TABLE)}
    assert read(sheets, hidden="old") == ROWS
    assert read(None, form=FileForm(sheet="old")) == [("x", "2021-01", {"work": "no"})]
    line = refused(read, sheets)
    assert "there are several sheets; name one with --sheet: old, new" in line
    assert "no sheet 'x'" in refused(read, None, form=FileForm(sheet="x"))
    assert "the sheet is empty" in refused(read, {"a": rows([])})


def test_merged_cells_are_blank_cells(read):
    covered = "<table:covered-table-cell/>"
    table = [row([*map(cell, HEAD), cell("of both"), covered, cell("note")])]
    table += [row([*map(cell, TABLE[1]), cell(1), cell(2), cell("n")])]
    assert read({"a": table}) == ROWS[:1]


def test_a_row_that_is_repeated_is_read_as_often(read):
    table = [row(map(cell, HEAD)), row(map(cell, TABLE[1]), repeated=3)]
    assert read({"a": table}) == ROWS[:1] * 3


def test_a_file_of_a_few_bytes_asks_for_no_memory(read, tmp_path, monkeypatch):
    """Rows and cells that are repeated a thousand million times are refused or cut."""
    many = 999_999_999
    table = [row(map(cell, HEAD)), row([*map(cell, TABLE[1]), cell("x", repeated=many)])]
    assert read({"a": table}) == []
    assert (tmp_path / "t.ods").stat().st_size < 2000
    table = [row(map(cell, HEAD)), row(map(cell, TABLE[1]), repeated=many)]
    assert "has over 1,048,576 rows" in refused(read, {"a": table})
    monkeypatch.setattr("stream_dp.population.tables.spreadsheets._MOST_CELLS", 1 << 16)
    table = [row([*map(cell, HEAD), cell("x", repeated=many)]), row([cell("x", repeated=many)], 9)]
    assert "has over 65,536 cells; save it as CSV" in refused(read, {"a": table})
    table = [row(map(cell, HEAD)), row([cell("a"), cell("2021-01", repeated=10**10)])]
    assert "cannot be read" in refused(read, {"a": table})


def test_a_long_cell_is_no_cell(read, tmp_path):
    table = [row(map(cell, HEAD)), row([cell("x" * 200_000), cell("2021-01"), cell("ja")])]
    assert read({"a": [*table, row(map(cell, TABLE[2]))]}) == ROWS[1:]


def test_entities_are_refused(read):
    head = '<!DOCTYPE a [<!ENTITY a "b">]>'
    assert "cannot be read as a spreadsheet" in refused(read, {"a": rows(TABLE)}, head=head)


def test_a_part_that_is_too_large_once_unpacked(read, tmp_path, monkeypatch):
    monkeypatch.setattr("stream_dp.population.tables.spreadsheets.MOST_UNPACKED", 1000)
    line = refused(read, {"a": rows(TABLE * 100)})
    assert "content.xml has over" in line


def test_damaged_files(read, tmp_path):
    path = tmp_path / "t.ods"
    write_ods(path, {"a": rows(TABLE)})
    content = path.read_bytes()
    for damaged in (b"", content[:200], content[:100] + b"x" * 50 + content[150:]):
        path.write_bytes(damaged)
        assert "cannot be read" in refused(read)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other.xml", "")
    assert "cannot be read" in refused(read)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("content.xml", "<a><b></a>")
    assert "cannot be read" in refused(read)
