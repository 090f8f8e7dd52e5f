"""Groups and places are read from every form of file that reports are read from."""

import csv
import gzip
import io
import zipfile
from pathlib import Path

import openpyxl
import pandas
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pyreadstat
import pytest
from kit.opendocuments import rows, write_ods
from kit.studies import attribute, small_study

from stream_dp.errors import UserError
from stream_dp.population.arrow_tables import NamedTable
from stream_dp.population.tables import FileForm
from stream_dp.services.intake.group_files import RosterTables, read_places, read_roster

HOMES = small_study(
    name="homes",
    size=20,
    neighbours="replace_in_place",
    attributes={"work": attribute([0, 1], missing=0)},
    groups={
        "unit": "household",
        "most": 3,
        "attributes": {"region": {"values": ["nörd", "süd"]}},
    },
    releases=[
        {"name": "homes", "kind": "mwem", "attributes": ["work"], "ways": 2, "every": 2, "rho": 5}
    ],
    rho=5,
)
BLOCKS = small_study(
    neighbours="add_remove",
    size=None,
    rho=9,
    periods={"first": 1, "every": "step", "count": 3},
    attributes={"home": {"place": True, "missing": "absent"}},
    places={"unit": "block", "regions": ["state"], "counted": False},
    releases=[
        {"name": "s", "kind": "sizes", "largest": 6, "every": 1, "rho": 3, "attribute": "home"}
    ],
)
GROUPS = {"home": [1, 2, 3], "region": ["nörd", "süd", "süd"], "note": ["a;b", "", ","]}
MEMBERS = {"person": [11, 12, 13, 14], "home": [1, 2, 3, 1], "note": ["x"] * 4}
PLACES = {"place": [7, 8], "state": ["nörd", "süd"]}


def as_text(table, separator=","):
    file = io.StringIO()
    writer = csv.writer(file, delimiter=separator)
    writer.writerows([list(table), *zip(*table.values(), strict=True)])
    return file.getvalue()


def zipped(path, table):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("table.csv", as_text(table))


def arrow_stream(path, table):
    table = pa.table(table)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def workbook(path, table):
    book = openpyxl.Workbook()
    for row in [list(table), *zip(*table.values(), strict=True)]:
        book.active.append(row)
    book.save(path)


def document(path, table):
    write_ods(path, {"a": rows([list(table), *zip(*table.values(), strict=True)])})


FORMS = {
    "t.csv": lambda path, table: path.write_text(as_text(table), "utf-8-sig"),
    "T.CSV": lambda path, table: path.write_text(as_text(table, ";"), "utf-8"),
    "t.tsv": lambda path, table: path.write_text(as_text(table, "\t"), "utf-16"),
    "t.psv": lambda path, table: path.write_text(as_text(table, "|"), "utf-8"),
    "t.txt": lambda path, table: path.write_text("\n\n" + as_text(table, ";"), "utf-8"),
    "t.csv.gz": lambda path, table: path.write_bytes(gzip.compress(as_text(table).encode())),
    "t.zip": zipped,
    "t.parquet": lambda path, table: pa.parquet.write_table(pa.table(table), path),
    "t.feather": lambda path, table: pa.feather.write_feather(pa.table(table), path),
    "t.arrow": arrow_stream,
    "t.xlsx": workbook,
    "t.ods": document,
    "t.sav": lambda path, table: pyreadstat.write_sav(pandas.DataFrame(table), path),
    "t.dta": lambda path, table: pyreadstat.write_dta(pandas.DataFrame(table), path),
}


def named(folder, kind, name, table):
    path = folder / name / kind
    path.parent.mkdir()
    FORMS[kind](path, table)
    return path


def roster(groups, members, **more):
    tables = RosterTables(groups, members, key="home", member_key="home", person="person", **more)
    return read_roster(HOMES, tables)


@pytest.mark.parametrize("kind", FORMS)
def test_groups_members_and_places_are_read_from_each_form(tmp_path, kind):
    groups, members = (
        named(tmp_path, kind, name, table)
        for name, table in (("groups", GROUPS), ("members", MEMBERS))
    )
    read = roster(groups, members)
    assert read.attributes == {"region": ["nörd", "süd", "süd"]}
    assert (read.persons, read.group_of.tolist()) == (["11", "14", "12", "13"], [0, 0, 1, 2])
    places = read_places(BLOCKS, named(tmp_path, kind, "places", PLACES))
    assert (places.keys, places.regions) == (("7", "8"), (("nörd",), ("süd",)))


@pytest.mark.parametrize("kind", FORMS)
def test_a_damaged_file_of_groups_is_one_line(tmp_path, kind):
    groups = named(tmp_path, kind, "groups", GROUPS)
    groups.write_bytes(groups.read_bytes()[:30] + b'\xff\xff\0"' * 9)
    with pytest.raises(UserError) as refusal:
        roster(groups, NamedTable("members", pa.table(MEMBERS)))
    (line,) = refusal.value.lines
    assert str(groups) in line


def test_tables_in_memory_are_read_alike():
    read = roster(*(NamedTable(n, pa.table(t)) for n, t in (("g", GROUPS), ("m", MEMBERS))))
    assert read.persons == ["11", "14", "12", "13"]
    with pytest.raises(UserError, match="g: no column 'home'; there are x"):
        roster(NamedTable("g", pa.table({"x": [1]})), NamedTable("m", pa.table(MEMBERS)))


def test_a_code_of_a_file_stands_for_the_value_of_its_label(tmp_path):
    path = tmp_path / "groups.sav"
    coded = pandas.DataFrame({"home": [1.0, 2.0, 3.0], "region": [1.0, 2.0, 2.0]})
    labels = {"region": {1: "nörd", 2: "süd"}}
    pyreadstat.write_sav(coded, path, variable_value_labels=labels)
    read = roster(path, NamedTable("members", pa.table(MEMBERS)))
    assert read.attributes == {"region": ["nörd", "süd", "süd"]}


def test_keys_of_a_spreadsheet_are_as_it_shows_them(tmp_path):
    book = openpyxl.Workbook()
    for row in (["place", "state"], [7, 1], [8, 2]):
        book.active.append(row)
    for cell in ("A2", "A3"):
        book.active[cell].number_format = "0000"
    book.save(tmp_path / "places.xlsx")
    assert read_places(BLOCKS, tmp_path / "places.xlsx").keys == ("0007", "0008")
    book.active["A3"] = 8.5
    book.save(tmp_path / "places.xlsx")
    with pytest.raises(UserError, match="column 'place': row 2 below the header holds text of"):
        read_places(BLOCKS, tmp_path / "places.xlsx")


def test_text_of_another_encoding_needs_its_name(tmp_path):
    path = tmp_path / "groups.csv"
    path.write_text(as_text(GROUPS, ";"), "cp1252")
    members = NamedTable("members", pa.table(MEMBERS))
    with pytest.raises(UserError, match="column 'region': row 1 below the header holds text of"):
        roster(path, members)
    assert roster(path, members, form=FileForm(encoding="cp1252")).attributes["region"][0] == "nörd"


def test_a_row_that_does_not_fit_the_header_is_refused(tmp_path):
    path = Path(tmp_path / "places.csv")
    path.write_text("place,state\na,n\nb,n,x\n")
    with pytest.raises(UserError, match="row 2 below the header has more or fewer cells"):
        read_places(BLOCKS, path)
