"""Texts that a spreadsheet runs as a formula are no values, and are in no exported table."""

import csv
from contextlib import closing

import pyarrow as pa
import pytest
from kit.studies import attribute, small_study, window

import stream_dp
from stream_dp.errors import UserError
from stream_dp.services.commands.export import _long, _write
from stream_dp.services.intake.fault_report import FaultReport
from stream_dp.study.formulas import is_formula

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


def test_no_cell_of_an_exported_panel_is_a_formula(tmp_path):
    """Numbers below 0 stay numbers, as text too."""
    declared = study([-1, "-2", "half day"])
    reports = pa.table({"person": list("abcd"), "period": ["2021-01"] * 4, "a": ["-1", "-2"] * 2})
    public = stream_dp.run_study(declared, reports, simulation_seed=1)
    panel = public.panel("w")
    for name, tables in (("wide.csv", panel.tables()), ("long.csv", _long(declared, panel))):
        _write(tmp_path / name, tables)
        with (tmp_path / name).open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert {"-1", "-2"} & set(cells)
        assert not any(map(is_formula, cells))


def test_no_cell_of_a_report_of_faults_is_a_formula(tmp_path):
    with closing(FaultReport(tmp_path / "t.csv")) as report:
        for row, text in enumerate([*FORMULAS, *SOUND], start=1):
            report.add(row, text, "value", text)
        report.keep()
    lines = (tmp_path / "t.csv.faults.txt").read_text().splitlines()
    assert len(lines) == 1 + len(FORMULAS) + len(SOUND)
    assert not any(is_formula(cell) for line in lines for cell in line.split("\t"))
