"""Tables of groups and reports from the ACS: python tables.py psam_h06.csv psam_p06.csv OUT

The Census Bureau's public-use microdata have a file of housing units and one of people, which share
SERIALNO. Written to the folder OUT: groups.csv, members.csv and reports.csv, and pums.toml with the
number of people filled in. RELSHIPP (from 2019 on), or RELP before, says who is who. Group quarters
and vacant units are left out, and so are households of more than MOST people; weights are ignored.
Then, in OUT:

    stream-dp groups pums.toml groups.csv members.csv --group household
    stream-dp send pums.toml reports.csv
    stream-dp close pums.toml 2023
    stream-dp run pums.toml --until-idle
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

PERIOD = "2023"
MOST = 10  # people of a household, as pums.toml declares it
SPOUSES = {"RELSHIPP": ("21", "23"), "RELP": ("1",)}
CHILDREN = {"RELSHIPP": ("25", "26", "27"), "RELP": ("2", "3", "4")}
HEADS = {"RELSHIPP": ("20",), "RELP": ("0",)}
INCOMES = (25_000, 50_000, 100_000, 200_000)  # dollars a year, where a new class begins


def columns_of(path: str) -> list[str]:
    with pa.csv.open_csv(path) as rows:
        return list(rows.schema.names)


def read(path: str, columns: list[str]) -> pa.Table:
    """The columns as text; an empty cell is null."""
    lacking = sorted(set(columns) - set(columns_of(path)))
    if lacking:
        sys.exit(f"{path}: no column {', '.join(lacking)}: is it a file of the ACS PUMS?")
    how = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(columns, pa.string()),
        include_columns=columns,
        null_values=[""],
        strings_can_be_null=True,
    )
    return pa.csv.read_csv(path, convert_options=how)


def among(column: pa.ChunkedArray, codes: tuple[str, ...]) -> pa.ChunkedArray:
    """Whether a code, with zeros in front or without, is one of these."""
    plain = pc.utf8_ltrim(column, "0")
    return pc.is_in(pc.if_else(pc.equal(plain, ""), "0", plain), pa.array(codes))


def classes(column: pa.ChunkedArray, begins: tuple[int, ...]) -> pa.ChunkedArray:
    """The class of a number: how many of `begins` are not above it; a null is in class 0."""
    numbers = pc.fill_null(pc.cast(column, pa.int64()), 0)
    total = pa.scalar(0)
    for begin in begins:
        total = pc.add(total, pc.cast(pc.greater_equal(numbers, begin), pa.int64()))
    return pc.cast(total, pa.string())


housing_file, person_file, out = sys.argv[1:]
relation = "RELSHIPP" if "RELSHIPP" in columns_of(person_file) else "RELP"
housing = read(housing_file, ["SERIALNO", "NP", "TEN", "HINCP"])
people = read(person_file, ["SERIALNO", "SPORDER", relation, "AGEP", "SEX", "ESR"])

# Households have a tenure; group quarters and vacant units have none.
size = pc.cast(housing["NP"], pa.int64())
occupied = pc.and_(pc.is_valid(housing["TEN"]), pc.greater(size, 0))
kept = housing.filter(pc.and_(occupied, pc.less_equal(size, MOST)))
people = people.filter(pc.is_in(people["SERIALNO"], kept["SERIALNO"].combine_chunks()))

head, spouse, child = (among(people[relation], m[relation]) for m in (HEADS, SPOUSES, CHILDREN))
role = pc.if_else(head, "head", pc.if_else(spouse, "spouse", pc.if_else(child, "child", "other")))
person = pc.binary_join_element_wise(people["SERIALNO"], people["SPORDER"], "-")
owned = pc.if_else(among(kept["TEN"], ("1", "2")), "owned", "rented")
work = pc.if_else(among(people["ESR"], ("1", "2", "4", "5")), "employed", "not in labour force")
work = pc.if_else(among(people["ESR"], ("3",)), "unemployed", work)
work = pc.if_else(pc.is_null(people["ESR"]), "under 16", work)
tables = {
    "groups": {
        "household": kept["SERIALNO"],
        "tenure": owned,
        "income": classes(kept["HINCP"], INCOMES),
    },
    "members": {"person": person, "household": people["SERIALNO"], "role": role},
    "reports": {
        "person": person,
        "period": pa.array([PERIOD] * len(person)),
        "age": classes(people["AGEP"], tuple(range(10, 90, 10))),
        "sex": pc.if_else(among(people["SEX"], ("1",)), "male", "female"),
        "work": work,
    },
}

folder = Path(out)
folder.mkdir(parents=True, exist_ok=True)
for name, columns in tables.items():
    pa.csv.write_csv(pa.table(columns), folder / f"{name}.csv")
study = Path(__file__).with_name("pums.toml").read_text("utf-8")
study = re.sub(r"(?m)^size = \d+", f"size = {len(person)}", study)
(folder / "pums.toml").write_text(study, "utf-8")
left_out = pc.sum(occupied).as_py() - len(kept)
print(f"{len(kept)} households, {len(person)} people; {left_out} larger households left out")
