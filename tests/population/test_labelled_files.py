"""Files of SPSS and Stata: numbers, dates, labels, missing codes."""

import datetime

import pandas
import pytest
from kit.studies import attribute, small_study, window

from stream_dp.errors import UserError
from stream_dp.population.tables import FileForm, TableLayout, labelled_files, read_reports
from stream_dp.population.tables.labelled_files import file_labels

pyreadstat = pytest.importorskip("pyreadstat")


def study(values):
    return small_study(
        name="files",
        size=10,
        attributes={"work": attribute(values, missing="absent")},
        releases=[window("w", "work", width=1, rho=1)],
    )


FRAME = pandas.DataFrame(
    {
        "person": [1.0, 2.0, 3.0, 3.5],
        "period": [datetime.date(2021, 1, 31)] * 3 + [datetime.date(2021, 2, 1)],
        "work": [1.0, 2.0, 9.0, 1.0],
    }
)
LABELS = {"work": {1: "ja", 2: "no", 9: "refused"}}


@pytest.fixture
def spss(tmp_path):
    path = tmp_path / "t.sav"
    pyreadstat.write_sav(
        FRAME,
        path,
        column_labels={"work": "At work"},
        variable_value_labels=LABELS,
        missing_ranges={"work": [9]},
    )
    return path


def read(path, values, **form):
    layout = TableLayout(form=FileForm(**form))
    return [row for batch in read_reports(path, study(values), layout) for row in batch]


@pytest.mark.parametrize("values", [["no", "ja"], [1, 2]])
def test_codes_or_labels_are_the_declared_values(spss, values):
    first, second = ("ja", "no") if "ja" in values else ("1", "2")
    assert read(spss, values) == [
        ("1", "2021-01", {"work": first}),
        ("2", "2021-01", {"work": second}),
        ("", "2021-02", {"work": first}),
    ]


def test_labels_leave_out_the_codes_that_mean_missing(spss):
    labels = file_labels(spss)
    assert labels.columns == {"work": "At work"}
    assert labels.values == {"work": {"1": "ja", "2": "no"}}


def test_stata(tmp_path):
    path = tmp_path / "t.dta"
    frame = FRAME.assign(person=["a", "b", "", "ü"], work=[1, 2, 9, 1])
    pyreadstat.write_dta(frame, path, variable_value_labels=LABELS)
    assert [row[0] for row in read(path, ["no", "ja"])] == ["a", "b", "", "ü"]
    assert [row[2]["work"] for row in read(path, ["no", "ja"])] == ["ja", "no", "9", "ja"]
    assert file_labels(path).values == {"work": {"1": "ja", "2": "no", "9": "refused"}}


@pytest.mark.parametrize("name", ["t.xpt", "T.XPT", "t.por"])
def test_transport_files_of_sas_and_spss(tmp_path, name):
    """The names of columns are capitals in a .por file."""
    frame = FRAME.assign(period=["2021-01"] * 3 + ["2021-02"], work=["ja", "no", "", "ja"])
    write = pyreadstat.write_por if name.endswith("por") else pyreadstat.write_xport
    write(frame, tmp_path / name)
    renamed = {"WORK": "work"} if name.endswith("por") else None
    layout = TableLayout(columns=renamed, **_capitals(name))
    batches = read_reports(tmp_path / name, study(["no", "ja"]), layout)
    assert [row for batch in batches for row in batch] == [
        ("1", "2021-01", {"work": "ja"}),
        ("2", "2021-01", {"work": "no"}),
        ("", "2021-02", {"work": "ja"}),
    ]
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:100])
    with pytest.raises(UserError, match="cannot be read as a"):
        list(read_reports(tmp_path / name, study(["no", "ja"]), layout))


def _capitals(name):
    return {"person": "PERSON", "period": "PERIOD"} if name.endswith("por") else {}


def test_an_id_of_32_bits_that_lost_digits_is_damaged(tmp_path):
    """As in .parquet: above 2^24 several whole numbers are one."""
    months = ["2021-01"] * 4
    frame = FRAME.assign(person=[7, 16777215, 16777216, 123456789], period=months)
    frame["person"] = frame["person"].astype("float32")
    frame.to_stata(tmp_path / "t.dta", write_index=False)
    people = [person for person, _, _ in read(tmp_path / "t.dta", [1, 2, 9])]
    assert people == ["7", "16777215", "", ""]


@pytest.mark.parametrize("compress", [False, True, "zlib"])
@pytest.mark.parametrize(("stated", "fault"), [(-1, None), (4, None), (2, "2 that it states")])
def test_a_number_of_rows_that_a_file_states_is_not_believed(tmp_path, compress, stated, fault):
    path = tmp_path / ("t.zsav" if compress == "zlib" else "t.sav")
    pyreadstat.write_sav(FRAME, path, row_compress=compress is True, compress=compress == "zlib")
    content = bytearray(path.read_bytes())
    content[80:84] = stated.to_bytes(4, "little", signed=True)
    path.write_bytes(content)
    if fault is None:
        assert len(read(path, [1, 2, 9])) == 4
        return
    with pytest.raises(UserError, match=fault):
        read(path, [1, 2, 9])


def test_a_file_is_read_in_batches(spss, monkeypatch):
    whole = read(spss, [1, 2])
    monkeypatch.setattr(labelled_files, "_CELLS", 6)
    batches = list(labelled_files.labelled_batches(spss, None))
    assert [len(batch) for batch in batches] == [0, 2, 2]
    assert read(spss, [1, 2]) == whole


@pytest.mark.parametrize("kind", [".sav", ".zsav", ".dta", ".sas7bdat"])
def test_damaged_files_are_one_line(spss, tmp_path, kind):
    content = spss.read_bytes()
    for damaged in (b"", b"$FL2", content[:300], content[:-6] if kind != ".zsav" else b"x"):
        path = tmp_path / f"bad{kind}"
        path.write_bytes(damaged)
        with pytest.raises(UserError) as error:
            read(path, [1, 2])
        (line,) = error.value.lines
        assert f"cannot be read as a {kind} file" in line


def test_a_reader_that_is_not_installed(spss, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyreadstat", None)
    with pytest.raises(UserError, match=r"needs pyreadstat; .*: pip install '.\[tables\]'"):
        read(spss, [1, 2])


def test_a_header_row_is_of_text_and_sheets(spss):
    with pytest.raises(UserError, match=r"a \.sav file has no rows above its header"):
        read(spss, [1, 2], header_row=2)
