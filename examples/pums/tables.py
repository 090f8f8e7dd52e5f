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
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

PERIOD = "2023"
MOST = 10  # people of a household, as pums.toml declares it
HOUSING = ("SERIALNO", "NP", "TEN", "HINCP")
PEOPLE = ("SERIALNO", "SPORDER", "AGEP", "SEX", "ESR")
RELATIONS = ("RELSHIPP", "RELP")  # one of them
SPOUSES = {"RELSHIPP": ("21", "23"), "RELP": ("1",)}
CHILDREN = {"RELSHIPP": ("25", "26", "27"), "RELP": ("2", "3", "4")}
HEADS = {"RELSHIPP": ("20",), "RELP": ("0",)}
INCOMES = (25_000, 50_000, 100_000, 200_000)  # dollars a year, where a new class begins


def refuse(line: str) -> NoReturn:
    """One line of what is wrong, and exit code 2."""
    print(line, file=sys.stderr)
    sys.exit(2)


def columns_of(path: str) -> list[str]:
    try:
        with pa.csv.open_csv(path) as rows:
            return list(rows.schema.names)
    except (OSError, pa.ArrowInvalid) as error:
        why = (
            "there is no such file"
            if isinstance(error, FileNotFoundError)
            else "no CSV file, or cut off"
        )
        refuse(f"{path}: {why}; give the ACS PUMS file of housing units, then that of people")


def read(path: str, columns: tuple[str, ...], either: tuple[str, ...] = ()) -> pa.Table:
    """The columns, and the first of `either` that is there, as text; an empty cell is null."""
    present = columns_of(path)
    lacking = sorted({*columns} - {*present})
    some = [name for name in either if name in present][:1]
    if either and not some:
        lacking.append(" or ".join(either))
    if lacking:
        refuse(f"{path}: no column {', '.join(lacking)}: is it a file of the ACS PUMS?")
    how = pa.csv.ConvertOptions(
        column_types=dict.fromkeys((*columns, *some), pa.string()),
        include_columns=[*columns, *some],
        null_values=[""],
        strings_can_be_null=True,
    )
    try:
        return pa.csv.read_csv(path, convert_options=how)
    except (OSError, pa.ArrowInvalid):
        refuse(f"{path}: no CSV file, or cut off; download it again")


def among(column: pa.ChunkedArray, codes: tuple[str, ...]) -> pa.ChunkedArray:
    """Whether a code, with zeros in front or without, is one of these."""
    plain = pc.utf8_ltrim(column, "0")
    return pc.is_in(pc.if_else(pc.equal(plain, ""), "0", plain), pa.array(codes))


def numbers(path: str, table: pa.Table, name: str) -> pa.ChunkedArray:
    """A column of whole numbers; a null is 0."""
    try:
        return pc.fill_null(pc.cast(table[name], pa.int64()), 0)
    except pa.ArrowInvalid:
        refuse(f"{path}: column {name} holds something that is no whole number")


def classes(values: pa.ChunkedArray, begins: tuple[int, ...]) -> pa.ChunkedArray:
    """The class of a number: how many of `begins` are not above it."""
    total = pa.scalar(0)
    for begin in begins:
        total = pc.add(total, pc.cast(pc.greater_equal(values, begin), pa.int64()))
    return pc.cast(total, pa.string())


def main(housing_file: str, person_file: str, out: str) -> None:
    housing = read(housing_file, HOUSING)
    people = read(person_file, PEOPLE, RELATIONS)
    relation = people.column_names[-1]

    # Households have a tenure; group quarters and vacant units have none.
    size = numbers(housing_file, housing, "NP")
    occupied = pc.and_(pc.is_valid(housing["TEN"]), pc.greater(size, 0))
    kept = housing.filter(pc.and_(occupied, pc.less_equal(size, MOST)))
    people = people.filter(pc.is_in(people["SERIALNO"], kept["SERIALNO"].combine_chunks()))
    if not len(people):
        refuse(f"{person_file}: nobody lives in the households of {housing_file}")

    head, spouse, child = (among(people[relation], m[relation]) for m in (HEADS, SPOUSES, CHILDREN))
    role = pc.if_else(
        head, "head", pc.if_else(spouse, "spouse", pc.if_else(child, "child", "other"))
    )
    person = pc.binary_join_element_wise(people["SERIALNO"], people["SPORDER"], "-")
    owned = pc.if_else(among(kept["TEN"], ("1", "2")), "owned", "rented")
    work = pc.if_else(among(people["ESR"], ("1", "2", "4", "5")), "employed", "not in labour force")
    work = pc.if_else(among(people["ESR"], ("3",)), "unemployed", work)
    work = pc.if_else(pc.is_null(people["ESR"]), "under 16", work)
    age = numbers(person_file, people, "AGEP")
    tables = {
        "groups": {
            "household": kept["SERIALNO"],
            "tenure": owned,
            "income": classes(numbers(housing_file, kept, "HINCP"), INCOMES),
        },
        "members": {"person": person, "household": people["SERIALNO"], "role": role},
        "reports": {
            "person": person,
            "period": pa.array([PERIOD] * len(person)),
            "age": classes(age, tuple(range(10, 90, 10))),
            "sex": pc.if_else(among(people["SEX"], ("1",)), "male", "female"),
            "work": work,
        },
    }

    folder = Path(out)
    study = Path(__file__).with_name("pums.toml").read_text("utf-8")
    study = re.sub(r"(?m)^size = \d+", f"size = {len(person)}", study)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, columns in tables.items():
            pa.csv.write_csv(pa.table(columns), folder / f"{name}.csv")
        (folder / "pums.toml").write_text(study, "utf-8")
    except OSError as error:
        refuse(f"{out}: cannot be written: {error.strerror}; name a folder for the tables")
    left_out = pc.sum(occupied).as_py() - len(kept)
    print(f"{len(kept)} households, {len(person)} people; {left_out} larger households left out")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        refuse("usage: tables.py psam_h06.csv psam_p06.csv OUT")
    main(*sys.argv[1:])
