"""Bounds of a cell, of a record and of a file, in every kind of table that is read."""

import bz2
import gzip
import io
import lzma
import zipfile

import pyarrow as pa
import pyarrow.parquet
import pytest
from kit.tables import STUDY

from stream_dp.errors import UserError
from stream_dp.population import table_bounds
from stream_dp.population.celltext import cell_text
from stream_dp.population.tables import (
    FileForm,
    TableLayout,
    judge_table,
    read_reports,
    read_table,
)
from stream_dp.population.tables.table_files import header_names
from stream_dp.population.tables.text_records import TextRecords
from stream_dp.services.desk.column_proposals import codebook_values
from stream_dp.services.process.command_output import BAD_INPUT, UNAVAILABLE, failure

HEADER, ROW = "person,period,poverty\n", "ann,2021-01,1\n"


@pytest.fixture
def small(monkeypatch):
    """Bounds that a small file reaches."""
    for name, value in {"_FREE": 1 << 16, "_BATCH": 1 << 12}.items():
        monkeypatch.setattr(table_bounds, name, value)


def reports(path):
    return [row for batch in read_reports(path, STUDY, TableLayout()) for row in batch]


def unreadable(path):
    """The number of unreadable rows and of all cells of a table."""
    judgement = judge_table(path, STUDY, TableLayout())
    faults = {reason: at.cells for (_, reason), at in judgement.faults.items()}
    return faults.get("unreadable", 0), judgement.cells


def packed(path, text):
    packs = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    if path.suffix in packs:
        path.write_bytes(packs[path.suffix](text.encode()))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("table.csv", text)
    return path


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.bz2", "t.csv.xz", "t.zip"])
def test_a_packed_file_of_equal_rows_is_refused(name, tmp_path, small):
    path = packed(tmp_path / name, HEADER + ROW * 100)
    assert len(reports(path)) == 100
    path = packed(tmp_path / name, HEADER + ROW * 20_000)
    with pytest.raises(UserError, match="holds over 100 times its size"):
        reports(path)


def test_a_parquet_file_of_equal_rows_is_refused(tmp_path, small):
    path = tmp_path / "t.parquet"
    columns = {"person": ["ann"], "period": ["2021-01"], "poverty": [1]}
    table = pa.table(columns)
    rows = 100_000
    pa.parquet.write_table(table.take(pa.array([0] * rows)), path)
    assert path.stat().st_size * 1000 < rows * 30 * 2
    with pytest.raises(UserError, match="holds over 1000 times its size"):
        reports(path)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "view"])
def test_long_texts_are_taken_apart_batch_by_batch(kind, tmp_path, small, monkeypatch):
    """2.3 GB in a file of 1,157 bytes was an error of Arrow: here 6 MB in batches of 4 kB."""
    monkeypatch.setattr(table_bounds, "_FREE", 1 << 26)
    text = pa.array(["x" * 2_000])
    cells = pa.DictionaryArray.from_arrays(pa.array([0] * 3_000, pa.int32()), text)
    if kind == "view":
        cells = cells.dictionary_decode().cast(pa.string_view())
    path = tmp_path / ("t.parquet" if kind == "parquet" else "t.arrow")
    table = pa.table({"key": pa.array(range(3_000)), "name": cells})
    if kind == "parquet":
        pa.parquet.write_table(table, path)
        batches = table_bounds.parquet_batches(path)
    else:
        batches = table_bounds.bounded_batches(path, table.to_batches())
        path.write_bytes(b"")
    batches = [batch for batch in batches if len(batch)]
    assert sum(map(len, batches)) == 3_000
    assert max(map(len, batches)) <= 2
    keys = [key for batch in batches for key in batch.column("key").to_pylist()]
    assert keys == [*range(3_000)]


def test_a_text_beyond_the_bound_of_a_cell_is_cut_and_its_row_unreadable(tmp_path):
    path = tmp_path / "t.parquet"
    long = "1" * (4 * table_bounds.MOST_CELL + 10)
    columns = {"person": ["ann", "bob"], "period": ["2021-01"] * 2, "poverty": ["1", long]}
    pa.parquet.write_table(pa.table(columns), path)
    lengths = [
        len(cell)
        for batch in table_bounds.parquet_batches(path)
        for cell in batch.column("poverty").to_pylist()
    ]
    assert lengths == [1, 4 * table_bounds.MOST_CELL + 1]
    assert unreadable(path)[1] == 2


def test_an_endless_line_is_one_unreadable_row(tmp_path, monkeypatch):
    monkeypatch.setattr("stream_dp.population.tables.text_records.MOST_RECORD", 1 << 18)
    path = tmp_path / "t.csv"
    for line in ("x" * (1 << 21), "x," * (1 << 20), '"' + "x" * (1 << 21) + '",2021-01,1'):
        path.write_text(HEADER + ROW + line + "\n" + ROW)
        assert [report[0] for report in reports(path)] == ["ann", "ann"]
        assert unreadable(path)[0] == 1


def test_a_cut_line_of_the_right_number_of_cells_is_unreadable(monkeypatch):
    monkeypatch.setattr("stream_dp.population.tables.text_records.MOST_RECORD", 1 << 18)
    cells = ["x" * 100_000] * 3
    records = TextRecords(io.StringIO("\n" * 16 + ",".join(cells) + "\na,b,c\n"), ",")
    read = []
    while (chunk := records.read(8)) is not None:
        read += chunk.cells or list(zip(*(c.to_pylist() for c in chunk.columns), strict=True))
    assert [None if cells is None else tuple(cells) for cells in read] == [None, ("a", "b", "c")]


def test_a_record_over_endlessly_many_lines_is_unreadable(tmp_path, monkeypatch):
    monkeypatch.setattr("stream_dp.population.tables.text_records.MOST_RECORD", 1 << 12)
    path = tmp_path / "t.csv"
    record = '"x\nx",' * 2_000 + '"x\nx"'
    path.write_text(HEADER + ROW + record + "\n" + ROW)
    assert [report[0] for report in reports(path)] == ["ann", "ann"]
    assert unreadable(path)[0] == 1


def test_blank_lines_are_passed_over_and_not_above_a_header_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr("stream_dp.population.tables.text_files._MOST_ABOVE", 1_000)
    path = tmp_path / "t.csv"
    path.write_text(HEADER + "\n" * 3_000_000 + ROW)
    assert len(reports(path)) == 1
    path.write_text("\n" * 1_000 + HEADER + ROW)
    with pytest.raises(UserError, match="its first 1,000 lines are blank"):
        reports(path)


def test_a_header_that_is_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("stream_dp.population.tables.text_files.MOST_RECORD", 1_000)
    monkeypatch.setattr(table_bounds, "MOST_RECORD", 1_000)
    path = tmp_path / "t.csv"
    path.write_text("x," * 1_000 + "\n" + ROW)
    with pytest.raises(UserError, match="line 1 has over 1,000 characters"):
        reports(path)
    with pytest.raises(UserError, match="line 1 has over 1,000 characters"):
        header_names(path, FileForm())
    with pytest.raises(UserError, match="a line is too long"):
        codebook_values(path)


def test_a_row_of_a_sheet_is_bounded(tmp_path, monkeypatch):
    spreadsheets = "stream_dp.population.tables.spreadsheets"
    openpyxl = pytest.importorskip("openpyxl")
    path = tmp_path / "t.xlsx"
    book = openpyxl.Workbook()
    book.active.append(["person", "period", "poverty"])
    for number in range(200):
        book.active.append([f"p{number}", "2021-01", 1])
    book.save(path)
    monkeypatch.setattr(f"{spreadsheets}._MOST_XML", 2_000)
    monkeypatch.setattr(f"{spreadsheets}._CHUNK", 700)
    assert len(reports(path)) == 200
    book.active.append(["x" * 5_000, "2021-01", 1])
    book.save(path)
    with pytest.raises(UserError, match="a row or a text has over"):
        reports(path)


def test_groups_have_the_same_bounds(tmp_path, small):
    path = tmp_path / "groups.parquet"
    table = pa.table({"group": ["g" * 50], "region": ["north"]})
    pa.parquet.write_table(table.take(pa.array([0] * 50)), path)
    assert read_table(path, ["region", "group"], FileForm()).column_names == ["region", "group"]
    assert len(read_table(path, ["group"], FileForm())) == 50
    pa.parquet.write_table(table.take(pa.array([0] * 100_000)), path)
    with pytest.raises(UserError, match="holds over 1000 times its size"):
        read_table(path, ["group"], FileForm())


def test_memory_that_runs_out_is_a_line(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text(HEADER + ROW)

    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(TextRecords, "read", fails)
    with pytest.raises(UserError, match=r"t\.csv: there is not enough memory to read it"):
        reports(path)
    assert failure(MemoryError())[0] == UNAVAILABLE
    code, lines = failure(pa.ArrowInvalid("with a value"))
    assert (code, list(lines)) == (
        BAD_INPUT,
        ["a table cannot be read or written: ArrowInvalid"],
    )


def test_a_column_that_arrow_cannot_take_apart_is_a_line():
    class Large:
        type = pa.dictionary(pa.int32(), pa.string())

        def cast(self, kind):
            raise pa.ArrowInvalid("offset overflow")

    column = Large()
    with pytest.raises(UserError, match="column 'name': its texts have over 2 GB"):
        cell_text(column, "name")
