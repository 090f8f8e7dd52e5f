"""Published batch releases: the certificate and the tables of people, of groups and members, or
of people and events.

A release is a message (log/message.py): its manifest is the certificate, its parts are Arrow IPC
streams: `groups/i` and `people/i` with slices of its tables, a column of codes for each attribute,
and `measurements/i` with the noisy answers (query, value, variance, standard_error). Where there
are groups, row i of their table is group i, and people name theirs in the column `group`, in
increasing order. So do events, of `events/i`, with their person in the column `person`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent, UserError
from stream_dp.study import (
    EventsRelease,
    Family,
    PeopleRelease,
    Study,
    TableRelease,
)
from stream_dp.study.families import TABLE_FAMILIES, Registry
from stream_dp.study.field_types import ABSENT
from stream_dp.study.group_releases import KEY_COLUMN, SIZE_COLUMN, Link, linked
from stream_dp.study.scale import Numbers
from stream_dp.study.structural_rules import RULE_ROLES, Rule, Variable

from .arrow_parts import NamedParts, read_measurements, read_table, sliced, sliced_answers
from .certificate import Certificate, Details, Published, WholeNumber, base_certificate
from .row_rules import rows_keep_rules

Ends = dict[int, int]  # by group, the largest or the smallest number of its members with a role


def keeps_rules(study: Study, release: TableRelease, tables: Tables) -> bool:
    """Whether every group and every row of a data set keeps every rule of its release.

    This is a check for readers, and so shares no code with the synthesizers.
    """
    rules = release.structural_rules
    if not all(_kept(study, rule, tables["people"]) for rule in rules):
        return False
    symbols = column_values(study, release)["people"] if release.column_rules else {}
    return rows_keep_rules(release.column_rules, symbols, tables["people"])


def _kept(study: Study, rule: Rule, people: pa.Table) -> bool:
    """Whether every group has low + gap <= high for its largest low and its smallest high."""
    if rule.low is None:
        assert rule.high is not None
        return all(rule.gap <= high for high in _ends(study, rule.high, people, min).values())
    lows = _ends(study, rule.low, people, max)
    if rule.high is None:
        return all(low + rule.gap <= 0 for low in lows.values())
    highs = _ends(study, rule.high, people, min)
    return all(low + rule.gap <= highs[group] for group, low in lows.items() if group in highs)


def _ends(
    study: Study,
    variable: Variable,
    people: pa.Table,
    end: Callable[[Iterable[int]], int],
) -> Ends:
    """By group the largest or smallest number of the variable, over members with a number."""
    roles = study.groups.roles if study.groups is not None else None
    assert roles is not None, "rules need roles"
    named = dict(zip(RULE_ROLES, (roles.head, roles.spouse, roles.child), strict=False))
    symbols = named.get(variable.role)
    codes = [
        code
        for code, symbol in enumerate(roles.values)
        if (symbol == symbols if symbols is not None else symbol in roles.others)
    ]
    numbers = study.attributes[variable.column].symbols
    columns = (people[name].to_pylist() for name in (KEY_COLUMN, roles.column, variable.column))
    ends: Ends = {}
    for group, role, code in zip(*columns, strict=True):
        number = numbers[code]
        if role in codes and isinstance(number, int):
            ends[group] = end((ends.get(group, number), number))
    return ends


BATCH_TYPE = "stream-dp.batch"
Tables = Mapping[str, pa.Table]  # by name: people, or groups and people, or people and events
ColumnValues = dict[str, dict[str, tuple[int | str, ...] | Numbers]]  # by table and column


class BatchCertificate(Certificate):
    """The certificate of a data set.

    type: `stream-dp.batch`.
    groups, people: the numbers of rows of the tables; 0 groups where people are released without
        groups.
    columns: by table and column, the value of each code, or the scale of numbers.
    measured: the number of noisy answers.
    notes: public numbers about the fit.
    """

    type: Literal["stream-dp.batch"] = "stream-dp.batch"
    groups: WholeNumber
    people: WholeNumber
    columns: dict[str, dict[str, tuple[int | str, ...] | Numbers]]
    measured: WholeNumber
    notes: Details

    @property
    def published_rows(self) -> int:
        """The rows of the table that is published."""
        return self.people

    @property
    def synthetic_rows(self) -> tuple[int | None, int | None]:
        """The synthetic people, and the synthetic groups where there are any."""
        return self.people, self.groups or None


@dataclass(frozen=True)
class DataSet(Published):
    """A published data set. certificate: its statement, checked."""

    certificate: BatchCertificate

    @property
    def measurements(self) -> pa.Table:
        """Noisy answers: query, value, variance, standard_error."""
        return read_measurements(self.message.parts)

    @property
    def tables(self) -> tuple[pa.Table, ...]:
        """The tables with their values: people, or groups and people, joined by `group`; or people
        and events, joined by `person`."""
        return tuple(self.named_tables.values())

    @property
    def named_tables(self) -> Tables:
        """The tables of `tables`, by name."""
        return decoded_tables(self.certificate.columns, self.check())

    def check(self) -> Tables:
        """The tables with codes. Raises Inconsistent for contradictions to the certificate."""
        certificate = self.certificate
        try:
            tables, measurements = read_tables(certificate.columns, self.message.parts)
        except UserError:
            raise Inconsistent("not the tables of its certificate") from None
        if (certificate.groups, certificate.people) != table_rows(tables):
            raise Inconsistent("not the rows of its certificate")
        if certificate.measured != measurements.num_rows:
            raise Inconsistent("not the measurements of its certificate")
        return tables


def table_rows(tables: Tables) -> tuple[int, int]:
    """The numbers of groups and people; 0 groups if people are released without groups."""
    return (tables["groups"].num_rows if "groups" in tables else 0), tables["people"].num_rows


def column_values(study: Study, release: TableRelease) -> ColumnValues:
    """By table and column, the values of the codes; the last column of groups is the size."""
    return _COLUMN_VALUES[release.family](study, release)


def _reported(study: Study, release: TableRelease) -> dict[str, tuple[int | str, ...] | Numbers]:
    """By column of people's answers, the values of the codes."""
    return {a.column: study.attributes[a.attribute].symbols for a in release.answers}


def _people_columns(study: Study, release: PeopleRelease) -> ColumnValues:
    derived = {name: d.symbols for name, d in release.computed.items()}
    return {"people": {**_reported(study, release), **derived}}


def _households_columns(study: Study, release: TableRelease) -> ColumnValues:
    """The columns of groups and their members, with their values."""
    assert study.groups is not None
    groups: dict[str, tuple[int | str, ...] | Numbers] = {
        name: attribute.symbols for name, attribute in study.groups.attributes.items()
    }
    sizes = tuple(range(1, study.groups.most + 1))
    roles = study.groups.roles
    people = {roles.column: roles.values} if roles is not None else {}
    return {
        "groups": {**groups, SIZE_COLUMN: sizes},
        "people": {**people, **_reported(study, release)},
    }


def _events_columns(study: Study, release: EventsRelease) -> ColumnValues:
    """The columns of people and their events; all but the first of events may be 'absent'."""
    people: dict[str, tuple[int | str, ...] | Numbers] = {
        name: study.attributes[name].symbols for name in release.attributes
    }
    events: dict[str, tuple[int | str, ...] | Numbers] = {}
    for column, slots in zip(release.events.columns, release.slots, strict=True):
        values = study.attributes[slots[0]].listed
        events[column] = (*values, ABSENT) if events else values
    return {
        "people": {**people, SIZE_COLUMN: tuple(range(release.events.most + 1))},
        "events": events,
    }


_COLUMN_VALUES: Registry[Family, Callable[..., ColumnValues]] = Registry(
    "columns of published tables",
    TABLE_FAMILIES,
    {
        Family.PEOPLE: _people_columns,
        Family.HOUSEHOLDS: _households_columns,
        Family.EVENTS: _events_columns,
    },
)


def with_derived(
    study: Study, release: PeopleRelease, people: NDArray[np.integer]
) -> NDArray[np.integer]:
    """Codes of people, (N, attributes), with the derived columns."""
    columns = [people]
    for derived in release.computed.values():
        codes = np.array(derived.codes(tuple(study.attributes[derived.of].symbols)))
        columns.append(codes[people[:, [release.names.index(derived.of)]]])
    return np.concatenate(columns, axis=1)


@dataclass(frozen=True)
class Provenance:
    """The statement of a worker about a data set.

    mechanism: its title.
    notes: public numbers about the fit.
    simulated: whether the noise came from a seed.
    fused_with: the periods of the earlier tables that the fit used, by number.
    """

    mechanism: str
    notes: Mapping[str, object]
    simulated: bool
    fused_with: tuple[int, ...] = ()


def batch_certificate(
    study: Study,
    declared: TableRelease,
    *,
    number: int,
    tables: Tables,
    measured: int,
    provenance: Provenance,
    rho: Fraction,
    spent: Fraction,
) -> BatchCertificate:
    """The certificate of a data set; see `certificate.Charged`.

    tables: as codes.
    measured: the number of noisy answers.
    """
    groups, people = table_rows(tables)
    base = base_certificate(
        study,
        declared,
        mechanism=provenance.mechanism,
        number=number,
        rho=rho,
        spent=spent,
        simulated=provenance.simulated,
    )
    return BatchCertificate(
        **dict(base),
        groups=groups,
        people=people,
        columns=column_values(study, declared),
        measured=measured,
        notes=dict(provenance.notes),
    )


def coded_tables(
    names: Mapping[str, Mapping[str, Sequence[int | str]]],
    groups: NDArray[np.integer],
    people: NDArray[np.integer],
    group_of: NDArray[np.int64],
) -> Tables:
    """The tables of groups and people with codes, or those of people and events.

    names: by table and column, the value of each code.
    groups, people: codes, a column for each name.
    group_of: the row of each person's group, (people,), in increasing order.
    """
    link = linked(names)
    assert link is not None
    keys = pa.array(group_of.astype(np.int32))
    members = coded_people(names[link.members], people).add_column(0, link.key, keys)
    return {link.owners: coded_people(names[link.owners], groups), link.members: members}


def coded_people(names: Mapping[str, Sequence[int | str]], people: NDArray[np.integer]) -> pa.Table:
    """A table with codes. names: by column, the values of the codes."""
    columns = zip(names.items(), people.T, strict=True)
    return pa.table(
        {name: pa.array(codes, _code_type(values)) for (name, values), codes in columns}
    )


def _code_type(values: Sequence[int | str]) -> pa.DataType:
    return pa.uint16() if len(values) <= 1 << 16 else pa.uint32()


def data_set_parts(tables: Tables, measurements: pa.Table) -> list[tuple[str, bytes]]:
    """The tables and the noisy answers as named Arrow streams, all within a record."""
    parts = list[tuple[str, bytes]]()
    for name, table in tables.items():
        width = sum(field.type.bit_width for field in table.schema) // 8
        parts += sliced(name, table.num_rows, width, table.slice)
    return [*parts, *sliced_answers("measurements", measurements)]


def read_tables(
    columns: Mapping[str, Mapping[str, Sequence[int | str]]], parts: NamedParts
) -> tuple[Tables, pa.Table]:
    """The tables and the noisy answers in a release's parts.

    columns: as `column_values` returns them.

    Raises UserError where the parts have other columns or codes, or sizes that are not those of
    the groups.
    """
    try:
        tables, link = {}, linked(columns)
        for which, values in columns.items():
            types = {name: _code_type(symbols) for name, symbols in values.items()}
            if link is not None and which == link.members:
                types = {link.key: pa.int32(), **types}
            tables[which] = read_table(parts, which, _in_any_order(types))
            for name, symbols in values.items():
                codes = tables[which][name]
                if codes.to_numpy().max(initial=0) >= len(symbols):
                    raise ValueError
        if link is not None:
            least = int(columns[link.owners][SIZE_COLUMN][0])
            _require_members(link, tables, least)
            tables = {which: tables[which] for which in (link.owners, link.members)}
        return tables, read_measurements(parts)
    except (ValueError, KeyError):
        raise UserError("a result is not what its release declares") from None


def _require_members(link: Link, tables: Tables, least: int) -> None:
    """Raises ValueError unless members name their groups in order, and groups have their sizes.

    least: the smallest size.
    """
    groups, key = tables[link.owners], tables[link.members][link.key].to_numpy()
    if len(key) and not 0 <= key[0] <= key[-1] < groups.num_rows:
        raise ValueError
    if (np.diff(key) < 0).any():
        raise ValueError
    sizes = np.bincount(key, minlength=groups.num_rows)
    if not np.array_equal(sizes, groups[SIZE_COLUMN].to_numpy().astype(np.int64) + least):
        raise ValueError


def _in_any_order(types: Mapping[str, pa.DataType]) -> Callable[[pa.Schema], bool]:
    """A check of the columns of a schema in any order.

    A certificate is canonical JSON, in which the columns have lost the study's order.
    """

    def fits(schema: pa.Schema) -> bool:
        """Whether the schema has the declared columns with their types, each once."""
        return (
            len(schema) == len(types)
            and dict(zip(schema.names, schema.types, strict=True)) == types
        )

    return fits


def has_declared_roles(study: Study, tables: Tables) -> bool:
    """Whether every group has the declared roles.

    This is a check for readers, and so shares no code with the synthesizers.
    """
    roles = study.groups.roles if study.groups is not None else None
    if roles is None or "groups" not in tables:
        return True
    groups, people = tables["groups"], tables["people"]
    group, role = people[KEY_COLUMN].to_numpy(), people[roles.column].to_numpy()
    heads, spouses, children = (
        np.bincount(group[role == roles.values.index(value)], minlength=groups.num_rows)
        for value in (roles.head, roles.spouse, roles.child)
    )
    return bool(((heads == 1) & (spouses <= 1) & (children <= roles.children)).all())


def decoded_tables(
    columns: Mapping[str, Mapping[str, Sequence[int | str]]], tables: Tables
) -> Tables:
    """The tables with values instead of codes, and the numbers of groups or of people as keys."""
    decoded = {which: _values(columns[which], table) for which, table in tables.items()}
    link = linked(tables)
    if link is None:
        return {which: pa.table(values) for which, values in decoded.items()}
    number = pa.array(np.arange(tables[link.owners].num_rows, dtype=np.int64))
    key = tables[link.members][link.key].cast(pa.int64())
    keys = {link.owners: number, link.members: key}
    return {which: pa.table({link.key: keys[which], **decoded[which]}) for which in keys}


Columns = Mapping[str, Mapping[str, Sequence[int | str]]]  # by table and column, its values


def binned(columns: Columns, tables: Tables) -> tuple[Columns, Tables]:
    """Columns and tables of codes with bins in place of numbers."""
    labels, coarse = dict[str, dict[str, Sequence[int | str]]](), dict[str, pa.Table]()
    for which, table in tables.items():
        labels[which], coarse[which] = dict(columns[which]), table
        for name, values in columns[which].items():
            if isinstance(values, Numbers):
                codes = table[name].to_numpy()
                bins = np.searchsorted(values.starts, codes, side="right") - 1
                index = table.column_names.index(name)
                labels[which][name] = values.bin_labels
                coarse[which] = coarse[which].set_column(index, name, pa.array(bins, pa.uint16()))
    return labels, coarse


def number_cells(numbers: Numbers, codes: NDArray[np.integer]) -> pa.Array:
    """The numbers and special codes of codes, as integers; null for 'absent'."""
    points = numbers.scale.points
    beyond = codes.astype(np.int64) - len(points)
    special = np.array([*numbers.special, 0], np.int64)[np.maximum(beyond, 0)]
    cells = np.where(beyond < 0, points.start + points.step * codes.astype(np.int64), special)
    return pa.array(cells, mask=beyond == len(numbers.special))


def _values(columns: Mapping[str, Sequence[int | str]], table: pa.Table) -> dict[str, object]:
    """The values by column, in the table's order of columns."""
    decoded = {}
    for name in table.column_names:
        if name not in columns:
            continue
        symbols, codes = columns[name], table[name].to_numpy()
        if isinstance(symbols, Numbers):
            decoded[name] = number_cells(symbols, codes)
            continue
        numeric = all(isinstance(symbol, int) for symbol in symbols)
        names = pa.array(list(symbols) if numeric else [str(symbol) for symbol in symbols])
        decoded[name] = names.take(pa.array(codes))
    return decoded
