"""Two files, of groups and of their members, as a hierarchy: CSV or Parquet, and census PUMS.

Only the columns that are needed are read, as text, and nothing is guessed from the data. What is
left out is left out by a group's own record, or by its size, never by what a member says: under
`replace_in_place` that does not depend on any person's attributes. What was left out is counted;
the counts are confidential, like the data.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from stream_dp.errors import UserError

from .domain import Column, Domain, Hierarchy, Roles
from .tables import from_tables, integer_column, missing_columns, text_column

ROLE = "role"
_SERIAL = "SERIALNO"
_ROLES = ("head", "spouse", "child", "other")
# Data dictionaries of the ACS PUMS, 2010 to 2018 (RELP) and from 2019 on (RELSHIPP): the reference
# person; husbands and wives, not unmarried partners; biological, adopted and step children; others
# who live in a household. The two codes that follow are people in group quarters.
ROLE_BY_CODE: dict[str, dict[int, str]] = {
    "RELSHIPP": {20: "head"}
    | dict.fromkeys((21, 23), "spouse")
    | dict.fromkeys((25, 26, 27), "child")
    | dict.fromkeys((22, 24, *range(28, 37)), "other"),
    "RELP": {0: "head", 1: "spouse"}
    | dict.fromkeys((2, 3, 4), "child")
    | dict.fromkeys(range(5, 16), "other"),
}
TYPE_COLUMNS = ("TYPEHUGQ", "TYPE")  # from 2020 on, and before: 1 is a housing unit


@dataclass(frozen=True)
class HierarchyReading:
    """A hierarchy, and how many records were left out, by reason. Confidential."""

    hierarchy: Hierarchy
    left_out: dict[str, int]


def read_hierarchy(
    groups_file: Path,
    people_file: Path,
    key_group: str,
    key_person: str,
    domain: Domain,
    *,
    size: str | None = None,
    drop_larger: bool = False,
) -> HierarchyReading:
    """Two files, .csv or .parquet, whose columns have the names that the domain declares.

    key_group names the groups in their file, key_person each person's group in the other; size:
    as in `from_tables`. drop_larger: groups of more than `domain.most` members are left out, with
    their members; otherwise they are a fault. Raises UserError.
    """
    extra = [size] if size else []
    groups = read_table(groups_file, [key_group, *(c.name for c in domain.group), *extra])
    people = read_table(people_file, [key_person, *(c.name for c in domain.person)])
    left_out: dict[str, int] = {}
    if drop_larger:
        groups, people = _smaller(groups, people, key_group, key_person, domain.most, left_out)
    return HierarchyReading(
        from_tables(domain, groups, people, key_group, key_person, size), left_out
    )


def read_pums(
    households_file: Path,
    persons_file: Path,
    group: Sequence[Column],
    person: Sequence[Column],
    most: int,
    *,
    children: int | None = None,
    drop_larger: bool = False,
) -> HierarchyReading:
    """The household and the person file of the American Community Survey's public microdata.

    group, person: the columns wanted of each file; persons get one more, `role`, from RELSHIPP
    (2019 on) or RELP (2010 to 2018). Records are tied by SERIALNO, and NP is checked against the
    persons that are there. Vacant units (NP = 0) and group quarters (by TYPEHUGQ or TYPE) are left
    out. drop_larger: as in `read`. Raises UserError.

    children: the most that a household has, most - 1 by default. More are a fault, and not left
    out: that would drop or keep everybody else for the role that one person states.
    """
    have = _names(households_file)
    kind = next((n for n in TYPE_COLUMNS if n in have), TYPE_COLUMNS[0])
    theirs = _names(persons_file)
    relation = next((n for n in ROLE_BY_CODE if n in theirs), "RELSHIPP")
    households = read_table(households_file, [_SERIAL, "NP", kind, *(c.name for c in group)])
    persons = read_table(persons_file, [_SERIAL, relation, *(c.name for c in person)])

    unit = integer_column(households, kind)
    unknown = len(unit) - _count(pc.is_in(unit, pa.array([1, 2, 3])))
    if unknown:
        raise UserError(f"{households_file}: {unknown} rows whose '{kind}' is none of 1, 2, 3")
    vacant = pc.and_(
        pc.equal(unit, 1), pc.equal(integer_column(households, "NP"), 0).fill_null(False)
    )
    quarters = text_column(households.filter(pc.not_equal(unit, 1)), _SERIAL)
    living_there = _among(persons, _SERIAL, quarters)
    left_out = {
        "vacant housing units": _count(vacant),
        "group quarters": len(quarters),
        "persons in group quarters": _count(living_there),
    }
    households = households.filter(pc.and_not(pc.equal(unit, 1), vacant))
    persons = persons.filter(pc.invert(living_there))

    codes = ROLE_BY_CODE[relation]
    place = pc.index_in(integer_column(persons, relation), pa.array(list(codes), pa.int64()))
    role = pa.array(list(codes.values())).take(place)
    persons = persons.append_column(ROLE, role)
    roles = Roles(ROLE, *_ROLES[:3], max(1, most - 1) if children is None else children)
    domain = Domain(tuple(group), (*person, Column(ROLE, _ROLES)), most, roles)
    if drop_larger:
        households, persons = _smaller(households, persons, _SERIAL, _SERIAL, most, left_out)
    return HierarchyReading(
        from_tables(domain, households, persons, _SERIAL, _SERIAL, "NP"), left_out
    )


def read_table(path: Path, columns: Sequence[str]) -> pa.Table:
    """These columns of a .csv or .parquet file; a CSV's as text. Raises UserError."""
    columns = list(dict.fromkeys(columns))
    lines = missing_columns(str(path), _names(path), columns)
    if lines:
        raise UserError(lines)
    try:
        if path.suffix == ".parquet":
            return pyarrow.parquet.read_table(path, columns=columns)
        as_text = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.string()),
            include_columns=columns,
            strings_can_be_null=True,
            null_values=[""],
        )
        # Without it a block's end could fall into a quoted cell, wherever other rows put it.
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
        return pyarrow.csv.read_csv(path, parse_options=parse, convert_options=as_text)
    except (pa.ArrowException, OSError):
        raise _unreadable(path) from None


def _names(path: Path) -> list[str]:
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    try:
        if path.suffix == ".parquet":
            return list(pyarrow.parquet.read_schema(path).names)
        if path.suffix == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as lines:
                return next(csv.reader(lines), [])
    except (pa.ArrowException, UnicodeDecodeError, csv.Error, OSError):
        raise _unreadable(path) from None
    raise UserError(f"{path}: tables are .csv or .parquet")


def _unreadable(path: Path) -> UserError:
    return UserError(f"{path}: cannot be read: check its header, its rows and that it is UTF-8")


def _smaller(
    groups: pa.Table,
    people: pa.Table,
    key_group: str,
    key_person: str,
    most: int,
    left_out: dict[str, int],
) -> tuple[pa.Table, pa.Table]:
    """Both without the groups of more than `most` members; counts them in `left_out`."""
    counts = text_column(people, key_person).drop_null().value_counts()
    larger = counts.filter(pc.greater(counts.field("counts"), most)).field("values")
    of_groups, of_people = _among(groups, key_group, larger), _among(people, key_person, larger)
    left_out[f"groups of more than {most} members"] = _count(of_groups)
    left_out["their members"] = _count(of_people)
    return groups.filter(pc.invert(of_groups)), people.filter(pc.invert(of_people))


def _among(rows: pa.Table, key: str, keys: pa.Array) -> pa.Array:
    return pc.is_in(text_column(rows, key), value_set=keys)


def _count(mask: pa.Array) -> int:
    return int(pc.sum(mask, min_count=0).as_py())
