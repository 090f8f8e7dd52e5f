"""Published batch releases: the certificate and the tables of groups and their members.

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
from .certificate import Certificate, Details, WholeNumber, base_certificate

BATCH_TYPE = "stream-dp.batch"
GroupsAndPeople = tuple[pa.Table, pa.Table]


class BatchCertificate(Certificate):
    """The certificate of a data set.

    groups, people: rows of the two tables.
    columns: by table and column, the value of each code.
    measured: the number of noisy answers.
    notes: public numbers about the fit.
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
        """The tables of groups and of people with their values, joined by the column `group`."""
        return decoded_tables(self.certificate.columns, self.check())

    def check(self) -> GroupsAndPeople:
        """The tables as codes. Raises Inconsistent where they contradict the certificate."""
        certificate = self.certificate
        try:
            tables, measurements = read_tables(certificate.columns, self.message.parts)
        except UserError:
            raise Inconsistent("not the tables of its certificate") from None
        groups, people = tables
        if (certificate.groups, certificate.people) != (groups.num_rows, people.num_rows):
            raise Inconsistent("not the rows of its certificate")
        if certificate.measured != measurements.num_rows:
            raise Inconsistent("not the measurements of its certificate")
        return tables


def column_values(
    study: Study, release: BatchRelease
) -> dict[str, dict[str, tuple[int | str, ...]]]:
    """By table and column, the value of each code; the last column of groups is their size."""
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
    """What a worker states of a data set.

    mechanism: its title.
    notes: public numbers about the fit.
    simulated: whether the noise came from a seed.
    """

    mechanism: str
    notes: Mapping[str, Any]
    simulated: bool


def batch_certificate(
    study: Study,
    declared: BatchRelease,
    *,
    number: int,
    tables: GroupsAndPeople,
    measured: int,
    provenance: Provenance,
    rho: Fraction,
    spent: Fraction,
) -> BatchCertificate:
    """The certificate of a data set.

    number: the period, from 1, whose close began it.
    tables: its groups and people.
    measured: the number of noisy answers.
    rho: its cost.
    spent: the cost of all releases up to this one, itself included.
    """
    groups, people = tables
    return BatchCertificate(
        **dict(
            base_certificate(
                study,
                declared,
                number,
                mechanism=provenance.mechanism,
                rho=rho,
                spent=spent,
                simulated=provenance.simulated,
            )
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
    """The tables of groups and people as codes.

    names: of the columns, by table.
    groups, people: codes, a column for each name.
    group_of: the row of each person's group, (people,), in increasing order.
    """
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
    """The tables and the noisy answers as named Arrow streams, each within a record."""
    groups, people = tables
    return [
        *sliced("groups", groups.num_rows, 2 * groups.num_columns, groups.slice),
        *sliced("people", people.num_rows, 2 * people.num_columns + 2, people.slice),
        *sliced_answers("measurements", measurements),
    ]


def read_tables(
    columns: Mapping[str, Mapping[str, Sequence[int | str]]], parts: NamedParts
) -> tuple[GroupsAndPeople, pa.Table]:
    """The tables and the noisy answers in a release's parts.

    columns: as `column_values` returns them.

    Raises UserError where the parts have other columns or codes, or sizes that are not those of
    the groups.
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
    """A check that a schema has these columns in any order.

    A certificate is canonical JSON, in which the columns have lost the study's order.
    """

    def fits(schema: pa.Schema) -> bool:
        return (
            len(schema) == len(types)
            and dict(zip(schema.names, schema.types, strict=True)) == types
        )

    return fits


def has_declared_roles(study: Study, tables: GroupsAndPeople) -> bool:
    """Whether every group has the roles that the study declares.

    It is a check for readers, and so shares no code with the synthesizers.
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
    """The tables with values instead of codes, and each group's number as its key."""
    groups, people = tables
    number = pa.array(np.arange(groups.num_rows, dtype=np.int64))
    return (
        pa.table({KEY_COLUMN: number, **_values(columns["groups"], groups)}),
        pa.table(
            {KEY_COLUMN: people[KEY_COLUMN].cast(pa.int64()), **_values(columns["people"], people)}
        ),
    )


def _values(columns: Mapping[str, Sequence[int | str]], table: pa.Table) -> dict[str, Any]:
    """By column, its values, in the table's order of columns."""
    decoded = {}
    for name in table.column_names:
        if name not in columns:
            continue
        symbols = columns[name]
        numeric = all(isinstance(symbol, int) for symbol in symbols)
        known = pa.array(list(symbols) if numeric else [str(symbol) for symbol in symbols])
        decoded[name] = known.take(pa.array(table[name].to_numpy()))
    return decoded
