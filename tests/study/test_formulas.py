"""Texts that a spreadsheet runs as a formula are no values, and are in no exported table."""

import csv
from contextlib import closing

import openpyxl
import pyarrow as pa
import pytest
from kit.studies import attribute, small_study, window

import stream_dp
from stream_dp.errors import UserError
from stream_dp.release.published_panels import long_tables
from stream_dp.services.intake.table_judging import FaultReport
from stream_dp.services.portals import release_tables
from stream_dp.services.portals.release_tables import write_tables
from stream_dp.services.storage.atomic_files import atomic_file
from stream_dp.study.field_types import is_formula

FORMULAS = ["=1+1", "+1", "@SUM(A1)", "-1+1", "-", "--1", " @x", "\t=x", "\r=x", "\tx", "\uff1dx"]
SOUND = ["-1", "-1.5", "0", "1-2", "a=b", "a@b.org", "x+y", "", "-007", "half day"]


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas(text):
    assert is_formula(text)


@pytest.mark.parametrize("text", SOUND)
def test_texts_that_are_none(text):
    assert not is_formula(text)


def study(values, **more):
    return small_study(
        name="formulas",
        size=4,
        attributes={"a": attribute(values, missing="absent")},
        releases=[window("w", "a", width=1, rho=1)],
        **more,
    )


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_no_value(text):
    with pytest.raises(UserError) as refusal:
        study([text, "b"])
    (line,) = refusal.value.lines
    assert line.startswith("attributes.a.values.0: must be a whole number, or ")


def cells_of(path):
    """The texts of a table's cells, as a spreadsheet reads them; no cell is a formula."""
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return [cell for row in csv.reader(file) for cell in row]
    with path.open("rb") as file:
        (sheet,) = openpyxl.load_workbook(file).worksheets
    cells = [cell for row in sheet.iter_rows() for cell in row if cell.value is not None]
    assert not [cell for cell in cells if cell.data_type == "f"]
    return [str(cell.value) for cell in cells]


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_no_cell_of_an_exported_table_is_a_formula(tmp_path, kind):
    """Numbers below 0 stay numbers, as text too."""
    declared = study([-1, "-2", "half day"])
    reports = pa.table({"person": list("abcd"), "period": ["2021-01"] * 4, "a": ["-1", "-2"] * 2})
    public = stream_dp.run_study(declared, reports, simulation_seed=1)
    panel = public.panel("w")
    tables = {
        "wide": panel.tables(),
        "long": long_tables(declared.periods, panel, pa.date32()),
        "answers": iter([public.measurements("w")]),
    }
    for name, content in tables.items():
        path = tmp_path / f"{name}.{kind}"
        write_tables(path, {name: content})
        cells = cells_of(path)
        assert {"-1", "-2"} & set(cells) or name == "answers"
        assert not any(map(is_formula, cells))


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_in_a_sheet_is_never_run(tmp_path, text):
    """Even one that the study would refuse."""
    if "\r" in text or "\uff1d" in text:
        return
    path = tmp_path / "t.xlsx"
    write_tables(path, {"one": iter([pa.table({"query": [text]})])})
    with path.open("rb") as file:
        cell = openpyxl.load_workbook(file).worksheets[0]["A2"]
    assert (cell.data_type, cell.value) == ("s", text)


def test_a_table_longer_than_a_sheet_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(release_tables, "MOST_ROWS", 3)
    path = tmp_path / "t.xlsx"
    table = pa.table({"row": range(2)})
    with pytest.raises(UserError, match=r"a sheet holds 3 rows, and 'one' has more.* \.csv"):
        with atomic_file(path) as draft:
            write_tables(draft, {"one": iter([table, table])})
    assert not [*tmp_path.iterdir()]


def test_no_cell_of_a_report_of_faults_is_a_formula(tmp_path):
    with closing(FaultReport(tmp_path / "t.csv")) as report:
        for row, text in enumerate([*FORMULAS, *SOUND], start=1):
            report.add(row, text, "value", text)
        report.keep()
    lines = (tmp_path / "t.csv.faults.txt").read_text().splitlines()
    assert len(lines) == 1 + len(FORMULAS) + len(SOUND)
    assert not any(is_formula(cell) for line in lines for cell in line.split("\t"))
