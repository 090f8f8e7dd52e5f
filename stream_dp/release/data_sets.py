"""Batch releases as they are published: groups and their members, certificate and bytes.

A release is a message (log/message.py): its manifest is the certificate, its parts are Arrow IPC
streams: `groups/i` and `people/i` with slices of the two tables, a column of codes for each
attribute, and `measurements/i` with the noisy answers (query, value, variance, standard_error).
Row i of the groups is group i; people name theirs in the column `group`, in increasing order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.message import Message
from stream_dp.study import Study
from stream_dp.study.groups import KEY_COLUMN, SIZE_COLUMN, BatchRelease

from .arrow import NamedParts, read_measurements, read_table, sliced, sliced_answers
from .certificate import Certificate, Details, WholeNumber, common_fields

BATCH_TYPE = "stream-dp.batch"
GroupsAndPeople = tuple[pa.Table, pa.Table]


class BatchCertificate(Certificate):
    """What a data set guarantees, and how it was made.

    groups, people: rows of the two tables.
    columns: by table and column, the value of each code.
    measured: how many noisy answers there are.
    """

    type: Literal["stream-dp.batch"] = "stream-dp.batch"
    groups: WholeNumber
    people: WholeNumber
    columns: dict[str, dict[str, tuple[int | str, ...]]]
    measured: WholeNumber
    notes: Details


@dataclass(frozen=True)
class DataSet:
    """A published data set."""

    certificate: BatchCertificate
    message: Message

    @property
    def measurements(self) -> pa.Table:
        """Noisy answers: query, value, variance, standard_error."""
        return read_measurements(self.message.parts)

    @property
    def tables(self) -> GroupsAndPeople:
        """Groups and people with their values; `group` ties them."""
        return decoded_tables(self.certificate.columns, self.check())

    def check(self) -> GroupsAndPeople:
        """The tables as codes. Raises Inconsistent unless they are what the certificate says."""
        certificate = self.certificate
        try:
            tables, measured = read_tables(certificate.columns, self.message.parts)
        except UserError:
            raise Inconsistent("not the tables of its certificate") from None
        groups, people = tables
        if (certificate.groups, certificate.people) != (groups.num_rows, people.num_rows):
            raise Inconsistent("not the rows of its certificate")
        if certificate.measured != measured.num_rows:
            raise Inconsistent("not the measurements of its certificate")
        return tables


def column_values(
    study: Study, release: BatchRelease
) -> dict[str, dict[str, tuple[int | str, ...]]]:
    """By table and column, the value of each code; the size of a group is its last column."""
    assert study.groups is not None
    groups: dict[str, tuple[int | str, ...]] = {
        name: attribute.values for name, attribute in study.groups.attributes.items()
    }
    sizes = tuple(range(1, study.groups.most + 1))
    roles = study.groups.roles
    people = {roles.column: roles.values} if roles is not None else {}
    people |= {name: study.attributes[name].symbols for name in release.attributes}
    return {"groups": {**groups, SIZE_COLUMN: sizes}, "people": people}


@dataclass(frozen=True)
class Provenance:
    """How a worker says that a data set was made. notes: public numbers about the fit."""

    mechanism: str
    notes: Mapping[str, Any]
    simulated: bool


def batch_certificate(
    study: Study,
    declared: BatchRelease,
    number: int,
    tables: GroupsAndPeople,
    measured: int,
    provenance: Provenance,
    *,
    rho: Fraction,
    spent: Fraction,
) -> BatchCertificate:
    """The certificate of a data set that the close of period `number` began.

    measured: how many noisy answers there are.
    rho, spent: what it cost, and all that is published up to it.
    """
    groups, people = tables
    return BatchCertificate(
        **common_fields(
            study,
            declared,
            number,
            mechanism=provenance.mechanism,
            rho=rho,
            spent=spent,
            simulated=provenance.simulated,
        ),
        groups=groups.num_rows,
        people=people.num_rows,
        columns=column_values(study, declared),
        measured=measured,
        notes=dict(provenance.notes),
    )


def coded_tables(
    names: Mapping[str, Iterable[str]],
    groups: NDArray[np.integer],
    people: NDArray[np.integer],
    group_of: NDArray[np.int64],
) -> GroupsAndPeople:
    """names: of the columns of each table; groups, people: codes; group_of: (people,)."""
    keys = pa.array(group_of.astype(np.int32))
    return (
        pa.table({name: _codes(groups[:, i]) for i, name in enumerate(names["groups"])}),
        pa.table(
            {
                KEY_COLUMN: keys,
                **{name: _codes(people[:, i]) for i, name in enumerate(names["people"])},
            }
        ),
    )


def _codes(column: NDArray[np.integer]) -> pa.Array:
    return pa.array(np.ascontiguousarray(column, np.uint16))


def data_set_parts(tables: GroupsAndPeople, measurements: pa.Table) -> list[tuple[str, bytes]]:
    """As named Arrow streams, each within a record."""
    groups, people = tables
    return [
        *sliced("groups", groups.num_rows, 2 * groups.num_columns, groups.slice),
        *sliced("people", people.num_rows, 2 * people.num_columns + 2, people.slice),
        *sliced_answers("measurements", measurements),
    ]


def read_tables(
    columns: Mapping[str, Mapping[str, Sequence[int | str]]], parts: NamedParts
) -> tuple[GroupsAndPeople, pa.Table]:
    """Tables and measurements in a release's parts, if they are what `columns` declares.

    columns: as `column_values` gives them. Raises UserError.
    """
    group_types = dict.fromkeys(columns["groups"], pa.uint16())
    person_types = {KEY_COLUMN: pa.int32(), **dict.fromkeys(columns["people"], pa.uint16())}
    try:
        groups = read_table(parts, "groups", _in_any_order(group_types))
        people = read_table(parts, "people", _in_any_order(person_types))
        for table, values in ((groups, columns["groups"]), (people, columns["people"])):
            for name, symbols in values.items():
                if len(table) and pa.compute.max(table[name]).as_py() >= len(symbols):
                    raise ValueError
        key = people[KEY_COLUMN].to_numpy()
        if len(key) and not 0 <= key[0] <= key[-1] < groups.num_rows:
            raise ValueError
        if (np.diff(key) < 0).any():
            raise ValueError
        sizes = np.bincount(key, minlength=groups.num_rows)
        if not np.array_equal(sizes, groups[SIZE_COLUMN].to_numpy().astype(np.int64) + 1):
            raise ValueError
        return (groups, people), read_measurements(parts)
    except (ValueError, KeyError):
        raise UserError("a result is not what its release declares") from None


def _in_any_order(types: Mapping[str, pa.DataType]) -> Callable[[pa.Schema], bool]:
    """Whether a schema has these columns in any order.

    A certificate is canonical JSON and does not keep the study's order.
    """

    def fits(schema: pa.Schema) -> bool:
        return (
            len(schema) == len(types)
            and dict(zip(schema.names, schema.types, strict=True)) == types
        )

    return fits


def has_declared_roles(study: Study, tables: GroupsAndPeople) -> bool:
    """Whether every group has the roles that the study declares.

    Readers check for themselves: nothing of the synthesizers is used here.
    """
    roles = study.groups.roles if study.groups is not None else None
    if roles is None:
        return True
    groups, people = tables
    group, role = people[KEY_COLUMN].to_numpy(), people[roles.column].to_numpy()
    heads, spouses, children = (
        np.bincount(group[role == roles.values.index(value)], minlength=groups.num_rows)
        for value in (roles.head, roles.spouse, roles.child)
    )
    return bool(((heads == 1) & (spouses <= 1) & (children <= roles.children)).all())


def decoded_tables(
    columns: Mapping[str, Mapping[str, Sequence[int | str]]], tables: GroupsAndPeople
) -> GroupsAndPeople:
    """The tables with values instead of codes, groups with their number as the key."""
    groups, people = tables
    number = pa.array(np.arange(groups.num_rows, dtype=np.int64))
    return (
        pa.table({KEY_COLUMN: number, **_values(columns["groups"], groups)}),
        pa.table(
            {KEY_COLUMN: people[KEY_COLUMN].cast(pa.int64()), **_values(columns["people"], people)}
        ),
    )


def _values(columns: Mapping[str, Sequence[int | str]], table: pa.Table) -> dict[str, Any]:
    """By column, its values. In the table's order: a certificate does not keep the study's."""
    decoded = {}
    for name in table.column_names:
        if name not in columns:
            continue
        symbols = columns[name]
        numeric = all(isinstance(symbol, int) for symbol in symbols)
        known = pa.array(list(symbols) if numeric else [str(symbol) for symbol in symbols])
        decoded[name] = known.take(pa.array(table[name].to_numpy()))
    return decoded
