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
from pydantic import BaseModel, ConfigDict

from stream_dp import __version__
from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.message import MAX_PART, Message
from stream_dp.privacy.zcdp import epsilon
from stream_dp.study import Study
from stream_dp.study.groups import KEY_COLUMN, SIZE_COLUMN, BatchRelease

from .arrow import NamedParts, ipc_stream, read_table
from .panels import (
    MEASUREMENTS,
    SEEDED_NOISE,
    SYSTEM_NOISE,
    Details,
    Epsilon,
    Exact,
    Text,
    WholeNumber,
    invariants_words,
    read_measurements,
    relation_words,
)

BATCH_TYPE = "stream-dp.batch"
_IN_CERTIFICATE = {
    "name",
    "kind",
    "attributes",
    "rho",
    "every",
    "at",
}  # in the certificate or the study
GroupsAndPeople = tuple[pa.Table, pa.Table]


class BatchCertificate(BaseModel):
    """What a data set guarantees, and how it was made.

    groups, people: rows of the two tables; columns: by table and column, the value of each code;
    measured: how many noisy answers; rho: of this data set; rho_spent: of all that is published
    up to it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    type: Literal["stream-dp.batch"] = "stream-dp.batch"
    study: Text
    study_hash: Text
    release: Text
    kind: Text
    period: Text
    number: WholeNumber
    horizon: WholeNumber
    groups: WholeNumber
    people: WholeNumber
    columns: dict[str, dict[str, tuple[int | str, ...]]]
    mechanism: Text
    parameters: Details
    unit: Text
    neighbours: Text
    guarantee: Text
    invariants: Text
    rho: Exact
    rho_spent: Exact
    rho_total: Exact
    delta: Exact
    epsilon_spent: Epsilon
    epsilon_total: Epsilon
    measured: WholeNumber
    noise: Text
    notes: Details
    code_version: Text


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
        held = self.certificate
        try:
            found, measured = read_tables(held.columns, self.message.parts)
        except UserError:
            raise Inconsistent("not the tables of its certificate") from None
        if (held.groups, held.people) != (found[0].num_rows, found[1].num_rows):
            raise Inconsistent("not the rows of its certificate")
        if held.measured != measured.num_rows:
            raise Inconsistent("not the measurements of its certificate")
        return found


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


def batch_certificate(
    study: Study,
    declared: BatchRelease,
    number: int,
    tables: GroupsAndPeople,
    measured: int,
    about: Mapping[str, Any],
    rho: Fraction,
    spent: Fraction,
) -> BatchCertificate:
    """about: `mechanism`, `notes` and `simulated`, as the worker tells them."""
    return BatchCertificate(
        study=study.name,
        study_hash=study.hash,
        release=declared.name,
        kind=declared.kind,
        period=study.periods.labels[number - 1],
        number=number,
        horizon=study.periods.count,
        groups=tables[0].num_rows,
        people=tables[1].num_rows,
        columns=column_values(study, declared),
        mechanism=about["mechanism"],
        parameters=declared.model_dump(mode="json", exclude_none=True, exclude=_IN_CERTIFICATE),
        unit=study.unit,
        neighbours=study.neighbours,
        guarantee=relation_words(study),
        invariants=invariants_words(study),
        rho=rho,
        rho_spent=spent,
        rho_total=study.rho,
        delta=study.delta,
        epsilon_spent=str(epsilon(spent, study.delta)),
        epsilon_total=str(epsilon(study.rho, study.delta)),
        measured=measured,
        noise=SEEDED_NOISE if about["simulated"] else SYSTEM_NOISE,
        notes=about["notes"],
        code_version=__version__,
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


def data_set_parts(found: GroupsAndPeople, measurements: pa.Table) -> list[tuple[str, bytes]]:
    """As named Arrow streams, each within a record."""
    longest = max((len(q.encode()) for q in measurements["query"].to_pylist()), default=0)
    return [
        *_slices("groups", found[0], 2 * found[0].num_columns),
        *_slices("people", found[1], 2 * found[1].num_columns + 2),
        *_slices("measurements", measurements, longest + 200),
    ]


def _slices(name: str, table: pa.Table, row: int) -> list[tuple[str, bytes]]:
    some = max(1, (MAX_PART - 65_536) // row)
    starts = range(0, max(1, table.num_rows), some)
    return [(f"{name}/{i}", ipc_stream(table.slice(start, some))) for i, start in enumerate(starts)]


def read_tables(
    declared: Mapping[str, Mapping[str, Sequence[int | str]]], found: NamedParts
) -> tuple[GroupsAndPeople, pa.Table]:
    """Tables and measurements, if they are what the columns declare. Raises UserError."""
    try:
        held = (
            read_table(found, "groups", _columns(dict.fromkeys(declared["groups"], pa.uint16()))),
            read_table(
                found,
                "people",
                _columns(
                    {KEY_COLUMN: pa.int32(), **dict.fromkeys(declared["people"], pa.uint16())}
                ),
            ),
        )
        for table, name in zip(held, ("groups", "people"), strict=True):
            for column, values in declared[name].items():
                if len(table) and pa.compute.max(table[column]).as_py() >= len(values):
                    raise ValueError
        key = held[1][KEY_COLUMN].to_numpy()
        if len(key) and not 0 <= key[0] <= key[-1] < held[0].num_rows:
            raise ValueError
        if (np.diff(key) < 0).any():
            raise ValueError
        sizes = np.bincount(key, minlength=held[0].num_rows)
        if not np.array_equal(sizes, held[0][SIZE_COLUMN].to_numpy().astype(np.int64) + 1):
            raise ValueError
        return held, read_measurements(found)
    except (ValueError, KeyError):
        raise UserError("a result is not what its release declares") from None


def _columns(types: Mapping[str, pa.DataType]) -> Callable[[pa.Schema], bool]:
    """Whether a schema has these columns in any order: a certificate, being canonical JSON, has
    its own."""

    def fits(schema: pa.Schema) -> bool:
        return (
            len(schema) == len(types)
            and dict(zip(schema.names, schema.types, strict=True)) == types
        )

    return fits


def has_declared_roles(study: Study, found: GroupsAndPeople) -> bool:
    """Whether every group has the roles that the study declares; `found` are its tables.

    Readers check for themselves: nothing of the synthesizers is used here.
    """
    roles = study.groups.roles if study.groups is not None else None
    if roles is None:
        return True
    group, role = found[1][KEY_COLUMN].to_numpy(), found[1][roles.column].to_numpy()
    heads, spouses, children = (
        np.bincount(group[role == roles.values.index(value)], minlength=found[0].num_rows)
        for value in (roles.head, roles.spouse, roles.child)
    )
    return bool(((heads == 1) & (spouses <= 1) & (children <= roles.children)).all())


def measurement_table(
    queries: Sequence[str],
    values: NDArray[np.int64],
    variances: Sequence[Fraction],
    errors: NDArray[np.float64],
) -> pa.Table:
    return pa.table(
        {
            "query": queries,
            "value": values,
            "variance": [str(v) for v in variances],
            "standard_error": errors,
        },
        MEASUREMENTS,
    )


def decoded_tables(
    declared: Mapping[str, Mapping[str, Sequence[int | str]]], found: GroupsAndPeople
) -> GroupsAndPeople:
    """The tables with values instead of codes, groups with their number as the key."""
    groups, people = found
    number = pa.array(np.arange(groups.num_rows, dtype=np.int64))
    return (
        pa.table({KEY_COLUMN: number, **_values(declared["groups"], groups)}),
        pa.table(
            {KEY_COLUMN: people[KEY_COLUMN].cast(pa.int64()), **_values(declared["people"], people)}
        ),
    )


def _values(declared: Mapping[str, Sequence[int | str]], table: pa.Table) -> dict[str, Any]:
    found = {}
    for name in table.column_names:  # in the order of the study, which a certificate does not keep
        if name not in declared:
            continue
        values = declared[name]
        whole = all(isinstance(v, int) for v in values)
        known = pa.array(list(values) if whole else [str(v) for v in values])
        found[name] = known.take(pa.array(table[name].to_numpy()))
    return found
