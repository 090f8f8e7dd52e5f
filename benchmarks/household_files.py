"""Files of households and persons for the benchmarks: a survey, and the census' public microdata.

Groups are left out for what their own record says or for their size, never for what a member's
record says. So under `replace_in_place` the choice does not depend on any person's attributes. The
numbers of records that were left out are confidential, like the data.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from stream_dp.batch.data.domain import Column, Domain, Hierarchy, Roles
from stream_dp.batch.data.hierarchy_tables import from_tables, integer_column, text_column
from stream_dp.errors import UserError
from stream_dp.population.tables import FileForm, read_table
from stream_dp.population.tables.table_files import header_names

ROLE = "role"
_SERIAL = "SERIALNO"
_ROLES = ("head", "spouse", "child", "other")
# Codes of the ACS PUMS data dictionaries: RELP from 2010 to 2018, RELSHIPP from 2019 on. head: the
# reference person; spouse: husband or wife, no unmarried partner; child: biological, adopted or
# stepchild; other: anyone else in a household. The next two codes mean group quarters.
ROLE_BY_CODE: dict[str, dict[int, str]] = {
    "RELSHIPP": {20: "head"}
    | dict.fromkeys((21, 23), "spouse")
    | dict.fromkeys((25, 26, 27), "child")
    | dict.fromkeys((22, 24, *range(28, 37)), "other"),
    "RELP": {0: "head", 1: "spouse"}
    | dict.fromkeys((2, 3, 4), "child")
    | dict.fromkeys(range(5, 16), "other"),
}
TYPE_COLUMNS = ("TYPEHUGQ", "TYPE")  # from 2020 on, and before; 1 is a housing unit


@dataclass(frozen=True)
class HierarchyReading:
    """A hierarchy, and the number of records that were left out, by reason. Confidential."""

    hierarchy: Hierarchy
    left_out: dict[str, int]


Edges = Mapping[str, tuple[int, ...]]  # by column, where its bins begin


def binned_column(name: str, edges: tuple[int, ...]) -> Column:
    """The column of a number's bins: below the first edge, between edges, from the last one up."""
    return Column(name, bin_labels(edges))


def bin_labels(edges: tuple[int, ...]) -> tuple[str, ...]:
    inner = (f"{a}..<{b}" for a, b in pairwise(edges))
    return (f"<{edges[0]}", *inner, f">={edges[-1]}")


def _binned(table: pa.Table, bins: Edges) -> pa.Table:
    """A table with the bins of its numbers; cells that are no numbers stay what they are."""
    for name in {*bins} & {*table.column_names}:
        edges, labels = bins[name], bin_labels(bins[name])

        def label(cell: str | None, edges=edges, labels=labels) -> str | None:
            try:
                return labels[bisect_right(edges, float(cell))]
            except (TypeError, ValueError):
                return cell

        cells = [label(cell) for cell in text_column(table, name).to_pylist()]
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(cells, pa.string()))
    return table


def read_hierarchy(
    groups_file: Path,
    people_file: Path,
    domain: Domain,
    *,
    key_group: str,
    key_person: str,
    bins: Edges | None = None,
    drop_larger: bool = False,
) -> HierarchyReading:
    """Two files whose columns have the names that the domain declares.

    key_group: the column of groups_file that identifies groups.
    key_person: the column of people_file that names each person's group.
    bins: of the columns of people that are numbers.
    drop_larger: leave out groups of more than `domain.most` members, with their members; otherwise
        they are a fault.
    Raises UserError.
    """
    groups = read_table(groups_file, [key_group, *(c.name for c in domain.group)], FileForm())
    people = read_table(people_file, [key_person, *(c.name for c in domain.person)], FileForm())
    left_out: dict[str, int] = {}
    if drop_larger:
        groups, people, left_out = _without_larger(
            groups, people, key_group=key_group, key_person=key_person, most=domain.most
        )
    people = _binned(people, bins or {})
    hierarchy = from_tables(domain, groups, people, key_group=key_group, key_person=key_person)
    return HierarchyReading(hierarchy, left_out)


def read_pums(
    households_file: Path,
    persons_file: Path,
    *,
    group: Sequence[Column],
    person: Sequence[Column],
    most: int,
    bins: Edges | None = None,
    children: int | None = None,
    drop_larger: bool = False,
) -> HierarchyReading:
    """The household and the person file of the American Community Survey's public microdata.

    Records are joined by SERIALNO, and NP is checked against the number of persons. Vacant units
    (NP = 0) and group quarters (by TYPEHUGQ or TYPE) are left out. Raises UserError.

    group: the columns to read of the household file.
    person: the columns to read of the person file; a further column `role` comes from RELSHIPP
        (2019 on) or RELP (2010 to 2018).
    bins: of the columns that are numbers.
    most: the largest number of persons in a household.
    children: the largest number of children, by default most - 1. Households with more are a
        fault; leaving them out would make other members' records depend on one person's role.
    drop_larger: as in `read_hierarchy`.
    """
    form = FileForm()
    household_names, person_names = (
        header_names(file, form) for file in (households_file, persons_file)
    )
    kind = next((n for n in TYPE_COLUMNS if n in household_names), TYPE_COLUMNS[0])
    relation = next((n for n in ROLE_BY_CODE if n in person_names), "RELSHIPP")
    household_columns = [_SERIAL, "NP", kind, *(c.name for c in group)]
    households = read_table(households_file, household_columns, form)
    persons = read_table(persons_file, [_SERIAL, relation, *(c.name for c in person)], form)

    unit = integer_column(households, kind)
    unknown = len(unit) - _count(pc.is_in(unit, pa.array([1, 2, 3])))
    if unknown:
        raise UserError(f"{households_file}: {unknown} rows whose '{kind}' is none of 1, 2, 3")
    vacant = pc.and_(
        pc.equal(unit, 1), pc.equal(integer_column(households, "NP"), 0).fill_null(False)
    )
    quarters = text_column(households.filter(pc.not_equal(unit, 1)), _SERIAL)
    in_quarters = _among(persons, _SERIAL, quarters)
    left_out = {
        "vacant housing units": _count(vacant),
        "group quarters": len(quarters),
        "persons in group quarters": _count(in_quarters),
    }
    households = households.filter(pc.and_not(pc.equal(unit, 1), vacant))
    persons = persons.filter(pc.invert(in_quarters))

    codes = ROLE_BY_CODE[relation]
    position = pc.index_in(integer_column(persons, relation), pa.array(list(codes), pa.int64()))
    role = pa.array(list(codes.values())).take(position)
    persons = persons.append_column(ROLE, role)
    head, spouse, child, _ = _ROLES
    roles = Roles(
        column=ROLE,
        head=head,
        spouse=spouse,
        child=child,
        children=max(1, most - 1) if children is None else children,
    )
    domain = Domain(tuple(group), (*person, Column(ROLE, _ROLES)), most, roles)
    if drop_larger:
        households, persons, larger = _without_larger(
            households, persons, key_group=_SERIAL, key_person=_SERIAL, most=most
        )
        left_out |= larger
    households, persons = _binned(households, bins or {}), _binned(persons, bins or {})
    hierarchy = from_tables(
        domain, households, persons, key_group=_SERIAL, key_person=_SERIAL, size="NP"
    )
    return HierarchyReading(hierarchy, left_out)


def _without_larger(
    groups: pa.Table, people: pa.Table, *, key_group: str, key_person: str, most: int
) -> tuple[pa.Table, pa.Table, dict[str, int]]:
    """Both tables without the groups of more than `most` members, and the numbers left out."""
    counts = text_column(people, key_person).drop_null().value_counts()
    larger = counts.filter(pc.greater(counts.field("counts"), most)).field("values")
    of_groups, of_people = _among(groups, key_group, larger), _among(people, key_person, larger)
    left_out = {
        f"groups of more than {most} members": _count(of_groups),
        "their members": _count(of_people),
    }
    return groups.filter(pc.invert(of_groups)), people.filter(pc.invert(of_people)), left_out


def _among(rows: pa.Table, key: str, keys: pa.Array) -> pa.Array:
    """For each row whether its key is among `keys`."""
    return pc.is_in(text_column(rows, key), value_set=keys)


def _count(mask: pa.Array) -> int:
    return int(pc.sum(mask, min_count=0).as_py())
