"""Files of groups and members: a survey, the census' format, and real households."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from grouped import marginal_counts

from stream_dp.batch.data.domain import Column, Domain
from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.groups.workload.queries import (
    GROUP,
    HAS_CHILD,
    HAS_PARENT,
    PERSON,
    SPOUSE,
    Marginal,
    Queries,
    all_marginals,
)
from stream_dp.errors import UserError
from stream_dp.population.tables import FileForm, read_table

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))  # as when one is run
files_of_households = importlib.import_module("household_files")
read_hierarchy, read_pums = files_of_households.read_hierarchy, files_of_households.read_pums
binned_column = files_of_households.binned_column

SURVEY = Path(__file__).parents[3] / "shared" / "data" / "households"
DOMAIN = Domain((Column("area", (1, 2)),), (Column("sex", ("f", "m")),), 2)
KEYS = {"key_group": "hh", "key_person": "hh"}
GROUPS = "hh,area,note\n1,1,x\n2,2,\n3,1,y\n"
PEOPLE = "person,hh,sex\n1,3,f\n2,1,m\n3,1,f\n4,2,f\n5,2,m\n6,2,m\n"


def write(folder, **files):
    paths = []
    for name, content in files.items():
        paths.append(folder / f"{name}.csv")
        paths[-1].write_text(content, "utf-8")
    return paths


def test_larger_groups_are_a_fault_or_left_out(tmp_path):
    files = write(tmp_path, groups=GROUPS, people=PEOPLE)
    with pytest.raises(UserError, match="1 group of more than 2 members, such as that of key 2"):
        read_hierarchy(*files, DOMAIN, **KEYS)
    reading = read_hierarchy(*files, DOMAIN, **KEYS, drop_larger=True)
    assert reading.left_out == {"groups of more than 2 members": 1, "their members": 3}
    assert reading.hierarchy.groups.tolist() == [[0, 1], [0, 0]]
    assert reading.hierarchy.people.tolist() == [[1], [0], [0]]


def test_parquet_and_csv_read_the_same(tmp_path):
    people = {"hh": [3.0, 1.0, 1.0], "sex": pa.array(["f", "m", "f"]).dictionary_encode()}
    pyarrow.parquet.write_table(pa.table({"hh": [1, 3], "area": [1, 1]}), tmp_path / "g.parquet")
    pyarrow.parquet.write_table(pa.table(people), tmp_path / "p.parquet")
    reading = read_hierarchy(tmp_path / "g.parquet", tmp_path / "p.parquet", DOMAIN, **KEYS)
    files = write(tmp_path, groups=GROUPS, people="\ufeff" + PEOPLE)
    other = read_hierarchy(*files, DOMAIN, **KEYS, drop_larger=True)
    assert reading.left_out == {}
    assert np.array_equal(reading.hierarchy.people, other.hierarchy.people)
    assert np.array_equal(reading.hierarchy.groups, other.hierarchy.groups)


def test_files_that_cannot_be_read_give_one_line(tmp_path):
    groups, people = write(tmp_path, groups=GROUPS, people=PEOPLE)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"nothing")
    short = write(tmp_path, short="hh,area\n1\n")[0]
    for path, fault in [
        (tmp_path / "none.csv", "no such file"),
        (broken, "cannot be read"),
        (short, "cannot be read"),
        (people, "no column 'area'; there are person, hh, sex"),
        (write(tmp_path, twice="hh,area,area\n1,1,2\n")[0], "more than one column 'area'"),
    ]:
        with pytest.raises(UserError) as refusal:
            read_table(path, ["hh", "area"], FileForm())
        assert len(refusal.value.lines) == 1
        assert str(path) in str(refusal.value)
        assert fault in str(refusal.value)
    groups.rename(tmp_path / "groups.doc")
    with pytest.raises(
        UserError, match=r"groups\.doc: write tables as CSV .* \.sas7bdat, \.xpt, or"
    ):
        read_table(tmp_path / "groups.doc", ["hh", "area"], FileForm())


# Four housing units (one of them vacant), two group quarters; a couple with two children and a
# lodger, a parent with one child, two who are not related.
HOUSEHOLDS = """RT,SERIALNO,NP,TYPEHUGQ,TEN,HINCP
H,2021HU0000001,5,1,1,60000
H,2021HU0000002,02,1,3,8000
H,2021HU0000003,0,1,,
H,2021GQ0000004,1,2,,
H,2021GQ0000005,1,3,,
H,2021HU0000006,2,1,3,-20
"""
PERSONS = """RT,SERIALNO,SPORDER,RELSHIPP,SEX,AGEP
P,2021HU0000001,1,20,1,41
P,2021HU0000001,2,23,1,40
P,2021HU0000001,3,25,2,12
P,2021HU0000001,4,27,1,3
P,2021HU0000001,5,34,2,30
P,2021HU0000002,1,20,2,35
P,2021HU0000002,2,26,2,9
P,2021GQ0000004,1,37,1,80
P,2021GQ0000005,1,38,2,19
P,2021HU0000006,1,20,2,70
P,2021HU0000006,2,22,1,71
"""
BINS = {"HINCP": (0, 10_000, 50_000), "AGEP": (18, 65)}
TENURE = (Column("TEN", (1, 2, 3, 4)), binned_column("HINCP", BINS["HINCP"]))
PERSON_COLUMNS = (Column("SEX", (1, 2)), binned_column("AGEP", BINS["AGEP"]))
CENSUS = {"group": TENURE, "person": PERSON_COLUMNS, "bins": BINS}
TO_RELP = {"20": "0", "23": "1", "25": "02", "27": "4", "34": "12", "26": "3", "22": "13"}
TO_RELP |= {"37": "16", "38": "17"}


def earlier(persons):
    """The same as before 2019."""
    lines = [line.split(",") for line in persons.splitlines()]
    for line in lines[1:]:
        line[3] = TO_RELP[line[3]]
    return "\n".join(",".join(line) for line in lines).replace("RELSHIPP", "RELP") + "\n"


@pytest.mark.parametrize("year", ["2021", "2015"])
def test_census_households_and_their_relations(tmp_path, year):
    households, persons = HOUSEHOLDS, PERSONS
    if year == "2015":
        households, persons = households.replace("TYPEHUGQ", "TYPE"), earlier(persons)
    files = write(tmp_path, hus=households, pus=persons)
    reading = read_pums(*files, **CENSUS, most=6, children=2)
    assert reading.left_out == {
        "vacant housing units": 1,
        "group quarters": 2,
        "persons in group quarters": 2,
    }
    hierarchy = reading.hierarchy
    assert hierarchy.groups.tolist() == [[0, 3, 4], [2, 1, 1], [2, 0, 1]]
    assert [hierarchy.domain.person[2].values[c] for c in hierarchy.people[:, 2]] == (
        ["head", "spouse", "child", "child", "other", "head", "child", "head", "other"]
    )
    assert hierarchy.domain.roles.children == 2
    for level, people in [(SPOUSE, 2), (HAS_CHILD, 3), (HAS_PARENT, 3), (PERSON, 9), (GROUP, 3)]:
        assert marginal_counts(hierarchy, Marginal(hierarchy.domain, level)).tolist() == [people]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("0001,5,34", "0001,5,37", "1 row with an undeclared or empty 'role'"),
        ("0001,5,34", "0001,5,x", "'RELSHIPP': holds something else than whole numbers"),
        ("0001,5,34", "0001,5,20", "1 group with more than one head"),
        ("0001,5,34", "0001,5,30", None),
        ("0001,5,34", "0001,5,25", "1 group with more than 2 children"),
        ("0001,5,1,1", "0001,4,1,1", "another number of members than 'NP' says"),
        ("0003,0,1", "0003,0,", "1 rows whose 'TYPEHUGQ' is none of 1, 2, 3"),
        ("TYPEHUGQ", "KIND", "no column 'TYPEHUGQ'"),
        ("RELSHIPP", "KIN", "no column 'RELSHIPP'"),
    ],
)
def test_census_files_with_faults_are_refused(tmp_path, old, new, fault):
    files = write(tmp_path, hus=HOUSEHOLDS.replace(old, new), pus=PERSONS.replace(old, new))
    if fault is None:
        read_pums(*files, **CENSUS, most=6, children=2)
        return
    with pytest.raises(UserError, match=fault):
        read_pums(*files, **CENSUS, most=6, children=2)


def test_large_census_households_may_be_left_out(tmp_path):
    files = write(tmp_path, hus=HOUSEHOLDS, pus=PERSONS)
    reading = read_pums(*files, **CENSUS, most=4, drop_larger=True)
    assert reading.left_out["groups of more than 4 members"] == 1
    assert reading.left_out["their members"] == 5
    assert (reading.hierarchy.G, reading.hierarchy.N) == (2, 4)
    assert reading.hierarchy.domain.roles.children == 3


def test_the_benchmark_of_households_reads_census_files(tmp_path):
    path = Path(__file__).parents[2] / "benchmarks" / "households.py"
    spec = importlib.util.spec_from_file_location("households_benchmark", path)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)

    def more(table, names, cells):
        head, *rows = table.splitlines()
        return "\n".join([head + names, *(row + cells for row in rows)]) + "\n"

    wider = more(HOUSEHOLDS, ",VEH", ",2"), more(PERSONS, ",RAC1P,ESR", ",6,")
    hierarchy = benchmark.census(*write(tmp_path, hus=wider[0], pus=wider[1]))
    assert (hierarchy.G, hierarchy.N, hierarchy.domain.roles.children) == (3, 9, 7)
    assert hierarchy.domain.person[3].values[hierarchy.people[0, 3]] == "none"


REAL = Domain(
    (
        Column("SUBREGCluster", (1, 2, 3, 4)),
        Column("HHIncome", (1, 2, 3)),
        Column("HHDwelling", (1, 2)),
        Column("HHChildren", (0, 1)),
    ),
    (
        Column("PAge", tuple(range(11))),
        Column("PGender", (1, 2)),
        Column("PEmp", (1, 2, 3, "NA")),
        Column("POcc", (*range(1, 11), "NA")),
        Column("PComm", ("NA", "active", "auto", "other", "transit", "workFromHome")),
    ),
    8,
)


@pytest.mark.skipif(not SURVEY.is_dir(), reason=f"real households are not at {SURVEY}")
def test_real_households_and_all_their_marginals():
    """Households of more than 8 are left out: 6 of 27,980, for sizes are invariant."""
    files = SURVEY / "survey_households.csv", SURVEY / "survey_persons.csv"
    reading = read_hierarchy(*files, REAL, key_group="hhID", key_person="hhID", drop_larger=True)
    hierarchy = reading.hierarchy
    assert reading.left_out == {"groups of more than 8 members": 6, "their members": 58}
    assert (hierarchy.G, hierarchy.N) == (27_980 - 6, 59_762 - 58)

    marginals = all_marginals(REAL, 3, (GROUP, PERSON))
    queries = Queries.joined(m.queries() for m in marginals)
    counts = exact_answers(hierarchy, queries)
    assert len(counts) == sum(m.size for m in marginals) == 31_070
    start = 0
    for m in marginals:
        total = counts[start : start + m.size].sum()
        start += m.size
        # Everybody is in one cell; a group is in several where its members differ.
        if m.level == PERSON:
            assert total == hierarchy.N
        else:
            assert (total == hierarchy.G) if not m.person else (hierarchy.G <= total <= hierarchy.N)
    rng = np.random.default_rng(3)
    for i in rng.integers(0, len(queries), 20):
        group = (hierarchy.groups == queries.group[i]) | (queries.group[i] < 0)
        person = (hierarchy.people == queries.person[i]) | (queries.person[i] < 0)
        fits = person.all(axis=1) & group.all(axis=1)[hierarchy.group_of]
        people = int(fits.sum())
        groups = len(set(hierarchy.group_of[fits].tolist()))
        assert counts[i] == (groups if queries.level[i] == GROUP else people)
