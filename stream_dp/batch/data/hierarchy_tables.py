"""Converts two tables, of groups and of people, to a hierarchy, and back.

All faults are reported together: a line for each kind, with a count and the key of an example, but
without any attribute of a person. The lines are for the operator, on the confidential side.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.population.arrow_tables import ArrowStream, arrow_table, missing_columns
from stream_dp.population.celltext import cell_text, id_text
from stream_dp.study.group_releases import KEY_COLUMN

from .domain import Column, Domain, Hierarchy, Int64Array, role_faults


def from_tables(
    domain: Domain,
    groups: ArrowStream,
    people: ArrowStream,
    *,
    key_group: str,
    key_person: str,
    size: str | None = None,
) -> Hierarchy:
    """The hierarchy of two tables: groups in their order, the members of each in theirs.

    domain: the declared columns.
    groups: a table with a column for each group attribute, text or numbers.
    people: a table with a column for each person attribute, text or numbers.
    key_group: the column of `groups` that identifies groups.
    key_person: the column of `people` that names each person's group.
    size: a column of `groups` with the number of members, which is then checked.
    Raises UserError with a line for each kind of fault.
    """
    group_rows, person_rows = arrow_table(groups, "groups"), arrow_table(people, "people")
    needed = [key_group, *(c.name for c in domain.group), *([size] if size else [])]
    lines = missing_columns("groups", group_rows.column_names, needed)
    needed = [key_person, *(c.name for c in domain.person)]
    lines += missing_columns("people", person_rows.column_names, needed)
    if lines:
        raise UserError(lines)
    keys, person_keys = text_column(group_rows, key_group), text_column(person_rows, key_person)
    if lines := _key_faults(keys, person_keys):
        raise UserError(lines)

    group_of = pc.index_in(person_keys, keys).fill_null(-1).to_numpy(zero_copy_only=False)
    group_of = group_of.astype(np.int64)
    lost = np.flatnonzero(group_of < 0)
    if len(lost):
        example = person_keys[lost[0]]
        lines.append(f"people: {_many(len(lost), 'row')} of no group, such as {example}")
    sizes = np.bincount(group_of[group_of >= 0], minlength=len(keys))
    stated = None if size is None else integer_column(group_rows, size)
    lines += _size_faults(keys, sizes, domain.most, size, stated)
    group_codes, faults = _codes("groups", domain.group, group_rows, keys)
    person_codes, person_faults = _codes("people", domain.person, person_rows, person_keys)
    lines += faults + person_faults
    if not len(lost):
        for fault, rows in role_faults(domain, person_codes, group_of, len(keys)):
            lines.append(f"groups: {_many(len(rows), 'group')} with {fault},{_such(keys, rows)}")
    if lines:
        raise UserError(lines)
    order = np.argsort(group_of, kind="stable")
    with_size = np.column_stack([group_codes, sizes - 1])
    return Hierarchy(domain, with_size, person_codes[order], group_of[order])


def _key_faults(keys: pa.Array, person_keys: pa.Array) -> list[str]:
    """A line for each kind of fault of the keys of groups, and of people's keys."""
    lines = list[str]()
    for name, column in (("groups", keys), ("people", person_keys)):
        if column.null_count:
            lines.append(f"{name}: {_many(column.null_count, 'row')} without a key")
    if len(keys.drop_null().unique()) < len(keys) - keys.null_count:
        counts = keys.drop_null().value_counts()
        repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
        lines.append(
            f"groups: {_many(len(repeated), 'key')} there more than once, such as {repeated[0]}"
        )
    return lines


def _size_faults(
    keys: pa.Array, sizes: Int64Array, most: int, name: str | None, stated: pa.Array | None
) -> list[str]:
    """A line for each kind of fault of the sizes of groups.

    sizes: the numbers of members. most: of them.
    name, stated: the column with the number of members; None without one.
    """
    lines = list[str]()
    empty, large = np.flatnonzero(sizes < 1), np.flatnonzero(sizes > most)
    if len(empty):
        lines.append(f"groups: {_many(len(empty), 'group')} without members,{_such(keys, empty)}")
    if len(large):
        lines.append(
            f"groups: {_many(len(large), 'group')} of more than {most} members,{_such(keys, large)}"
        )
    if stated is not None:
        agrees = pc.equal(stated, pa.array(sizes)).fill_null(False)
        differ = np.flatnonzero(~agrees.to_numpy(zero_copy_only=False))
        if len(differ):
            lines.append(
                f"groups: {_many(len(differ), 'group')} with another number of members than"
                f" '{name}' says,{_such(keys, differ)}"
            )
    return lines


def to_tables(hierarchy: Hierarchy) -> tuple[pa.Table, pa.Table]:
    """Tables of groups and people with their values, joined by the column `group`: 0, 1, ..."""
    domain = hierarchy.domain
    numbers = pa.array(np.arange(hierarchy.G))
    groups = _values(domain.group_columns, hierarchy.groups)
    people = _values(domain.person, hierarchy.people)
    return (
        pa.table([numbers, *groups], names=[KEY_COLUMN, *(c.name for c in domain.group_columns)]),
        pa.table(
            [pa.array(hierarchy.group_of), *people],
            names=[KEY_COLUMN, *(c.name for c in domain.person)],
        ),
    )


def text_column(table: pa.Table, name: str) -> pa.Array:
    """A column as text, empty cells null. Raises UserError for neither text nor numbers."""
    return _filled(cell_text(table.column(name), name))


def id_column(table: pa.Table, name: str) -> pa.Array:
    """A column of ids, of persons or groups, as text, empty cells null.

    Raises UserError unless its type is text or whole numbers.
    """
    return _filled(id_text(table.column(name), name))


def _filled(cells: pa.ChunkedArray) -> pa.Array:
    array = cells.combine_chunks()
    return pc.if_else(pc.equal(array, ""), None, array)


def integer_column(table: pa.Table, name: str) -> pa.Array:
    """A column as integers, empty cells null; '01' is 1. Raises UserError for other cells."""
    try:
        return text_column(table, name).cast(pa.int64())
    except pa.ArrowException:
        raise UserError(f"column '{name}': holds something else than whole numbers") from None


def _codes(
    name: str, columns: Sequence[Column], table: pa.Table, keys: pa.Array
) -> tuple[NDArray[np.int64], list[str]]:
    """(rows, columns) codes, and a line per column with undeclared values."""
    lines: list[str] = []
    codes = np.empty((table.num_rows, len(columns)), np.int64)
    for i, column in enumerate(columns):
        codes[:, i] = column.codes(text_column(table, column.name))
        wrong = np.flatnonzero(codes[:, i] < 0)
        if len(wrong):
            lines.append(
                f"{name}: {_many(len(wrong), 'row')} with an undeclared or empty"
                f" '{column.name}',{_such(keys, wrong)}"
            )
    return codes, lines


def _values(columns: Sequence[Column], codes: NDArray[np.integer]) -> list[pa.Array]:
    """The values of every column; integers where all of its values are."""
    arrays = []
    for i, column in enumerate(columns):
        all_integers = all(isinstance(v, int) for v in column.values)
        values = pa.array(column.values if all_integers else [str(v) for v in column.values])
        arrays.append(values.take(pa.array(codes[:, i])))
    return arrays


def _such(keys: pa.Array, rows: Int64Array) -> str:
    return f" such as that of key {keys[rows[0]]}"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
