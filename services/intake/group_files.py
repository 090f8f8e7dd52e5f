"""Reads and checks the operator's tables of groups, of their members and of places."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.batch.data.domain import Column
from stream_dp.batch.data.hierarchy_tables import id_column, text_column
from stream_dp.errors import UserError
from stream_dp.population.arrow_tables import TableSource, missing_columns
from stream_dp.population.celltext import paired_ids
from stream_dp.population.report_judging import LONGEST_ID
from stream_dp.population.tables import FileForm, read_table
from stream_dp.population.tables.labelled_files import file_labels
from stream_dp.population.tables.reading import rewritten
from stream_dp.population.tables.table_files import header_names
from stream_dp.population.tables.value_texts import AmbiguousCoding, Codings, ValueTexts
from stream_dp.study import Study
from stream_dp.study.field_types import ABSENT, FAULT, is_formula

from .group_tables import PlacesTable, Roster, coded_roles


@dataclass(frozen=True)
class RosterTables:
    """Two tables, in files of any kind or in memory, with the columns of keys and ids.

    groups: a row for each group.
    members: a row for each member.
    key: the groups' column of keys.
    member_key: the members' column of their groups' keys.
    person: the members' column of ids.
    member: the members' column of numbers within a group; with it ids are GROUP/NUMBER.
    form: of both files.
    codings: what the columns of values hold, codes or labels, where a file has both.
    """

    groups: TableSource
    members: TableSource
    key: str
    member_key: str
    person: str
    member: str | None = None
    form: FileForm = field(default_factory=FileForm)
    codings: Codings = field(default_factory=Codings)

    @property
    def id_column(self) -> str:
        """The members' column of ids, or of numbers within a group."""
        return self.person if self.member is None else self.member


def read_roster(study: Study, files: RosterTables) -> Roster:
    """The table of groups, sorted by key, with its members, sorted by group and id.

    Raises UserError, a line for each kind of fault.
    """
    declared = study.groups
    assert declared is not None
    roles = declared.roles
    form, group_columns = files.form, [files.key, *declared.attributes]
    written = study.id_rule.as_written is True
    groups = read_table(files.groups, group_columns, form, [files.key], as_written=written)
    member_columns = [files.id_column, files.member_key, *([roles.column] if roles else [])]
    members = read_table(
        files.members, member_columns, form, member_columns[:2], as_written=written
    )
    keys = _column(files.groups, id_column, groups, files.key)
    member_keys, ids = (
        _column(files.members, id_column, members, name)
        for name in (files.member_key, files.id_column)
    )
    if files.member is not None:
        ids = paired_ids(member_keys, ids)
    normal_ids = _normal_ids(study, ids)
    faults = _id_faults(files, keys, member_keys, normal_ids)
    if faults:
        raise UserError(faults)
    order = np.argsort(np.array(keys.to_pylist(), object), kind="stable")
    keys = keys.take(pa.array(order))
    group_of = (
        pc.index_in(member_keys, keys).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    persons = np.array(ids.to_pylist(), object)
    sizes = np.bincount(group_of[group_of >= 0], minlength=len(keys))
    faults += _size_faults(
        files=files, study=study, group_of=group_of, sizes=sizes[np.argsort(order)], ids=normal_ids
    )
    attributes = {}
    for name, attribute in declared.attributes.items():
        column = _values(files, files.groups, groups, name, attribute.symbols)
        undeclared = Column(name, attribute.symbols).codes(column) < 0
        if undeclared.any():
            faults.append(
                f"{files.groups}: {undeclared.sum()} rows with an undeclared or empty '{name}',"
                f" {_first(undeclared)}"
            )
        attributes[name] = column.take(pa.array(order)).to_pylist()
    role_values = (
        _values(files, files.members, members, roles.column, roles.values) if roles else None
    )
    if role_values is not None and (group_of >= 0).all():
        _, role_faults = coded_roles(declared, role_values, group_of, len(keys))
        faults += [f"{files.members}: {fault}" for fault in role_faults]
    if faults:
        raise UserError(faults)
    by_id = np.argsort(persons, kind="stable")
    rows = by_id[np.argsort(group_of[by_id], kind="stable")]
    return Roster(
        attributes,
        persons[rows].tolist(),
        group_of[rows],
        role_values.take(pa.array(rows)).to_pylist() if role_values is not None else None,
    )


def _id_faults(
    files: RosterTables, keys: pa.Array, member_keys: pa.Array, ids: pa.Array
) -> list[str]:
    """Faults of missing and repeated keys and ids."""
    faults = [
        f"{path}: {column.null_count} rows without '{name}', {_first(column.is_null())}"
        for path, name, column in (
            (files.groups, files.key, keys),
            (files.members, files.member_key, member_keys),
            (files.members, files.id_column, ids),
        )
        if column.null_count
    ]
    for path, name, column in (
        (files.groups, files.key, keys),
        (files.members, files.id_column, ids),
    ):
        if (repeated := _repeated(column)).any():
            faults.append(f"{path}: a value of '{name}' stands there twice, {_first(repeated)}")
    return faults


def _size_faults(
    files: RosterTables,
    study: Study,
    group_of: NDArray[np.int64],
    sizes: NDArray[np.int64],
    ids: pa.Array,
) -> list[str]:
    """Faults of the sizes of groups, members without a group and ids that are too long.

    group_of: every member's group, or -1.
    sizes: the sizes of groups, in the order of the groups' file.
    ids: the members' ids in normal form.
    """
    assert study.groups is not None
    largest = study.groups.most
    faults = [
        f"{fault.format(is_faulty.sum())}, {_first(is_faulty)}"
        for is_faulty, fault in (
            (group_of < 0, f"{files.members}: {{}} members of no group in {files.groups}"),
            (sizes == 0, f"{files.groups}: {{}} groups without members"),
            (sizes > largest, f"{files.groups}: {{}} groups of over {largest}"),
            (
                np.array([len(person) > LONGEST_ID for person in ids.to_pylist()]),
                f"{files.members}: {{}} ids too long",
            ),
        )
        if is_faulty.any()
    ]
    if study.size is not None and len(group_of) > study.size:
        faults.append(
            f"{files.members}: more members than study.population.size; everybody needs a place"
        )
    if not len(group_of):
        faults.append(f"{files.members}: no members")
    return faults


def _values(
    files: RosterTables,
    path: TableSource,
    rows: pa.Table,
    name: str,
    values: Collection[int | str],
) -> pa.Array:
    """Reads a column of values as text: the labels of the file's codes, where these are declared.

    Raises UserError where the declared values may be codes or labels.
    """
    column = _column(path, text_column, rows, name)
    declared = {str(value) for value in values if value != ABSENT}
    labels = file_labels(path, files.form.encoding).values.get(name, {})
    try:
        texts = ValueTexts.of(labels, {}, declared.__contains__, files.codings.of(name))
    except AmbiguousCoding as ambiguous:
        raise UserError(f"{path}: {ambiguous.line(name, name)}") from None
    return rewritten(column, texts.value) if texts.meanings else column


def _column(
    path: TableSource, read: Callable[[pa.Table, str], pa.Array], rows: pa.Table, name: str
) -> pa.Array:
    """Reads a column of a file. Raises UserError with the file's name."""
    try:
        return read(rows, name)
    except UserError as error:
        raise UserError(f"{path}: {line}" for line in error.lines) from None


def _normal_ids(study: Study, ids: pa.Array) -> pa.Array:
    """Ids in the normal form of the study's rule; null for an empty normal form."""
    normal = study.id_rule.normals([i or "" for i in ids.to_pylist()])
    return pa.array([i or None for i in normal], pa.string())


def _first(is_faulty: pa.ChunkedArray) -> str:
    """Names the first faulty row, without values."""
    return f"the first in row {1 + int(np.flatnonzero(np.asarray(is_faulty))[0])} below the header"


def _repeated(column: pa.Array) -> NDArray[np.bool_]:
    """A mask of repeated values, without the first."""
    codes = column.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    first = np.zeros(len(codes), bool)
    first[np.unique(codes, return_index=True)[1]] = True
    repeated: NDArray[np.bool_] = ~first & (codes >= 0)
    return repeated


MOST_PLACES = 1 << 30
_MOST_SIZE = 1 << 31  # people in a place
_LONGEST = 64  # characters of a key or of a region's name


def read_places(
    study: Study, path: TableSource, key: str = "place", form: FileForm | None = None
) -> PlacesTable:
    """Reads the table of places, sorted by key, from a file of any kind or from memory.

    Beside the declared columns of regions the table has one of three sets of columns. `key` has the
    keys of places. `places` has the number of places in the region, with generated keys
    REGION/.../1, REGION/.../2 and so on. `size` and `count`, in a study with a table of counts,
    have the number of places of every size.

    Raises UserError, a line for each kind of fault.
    """
    assert study.places is not None
    columns = study.places.regions
    if study.places.counted:
        return _counted(path, columns, _read(path, study, form, "size", "count"))
    names = header_names(path, form or FileForm(), columns)
    if not {*columns} <= {*names} or not {key, "places"} & {*names}:
        line = f"{path}: needs the columns {', '.join(columns)}, and '{key}' of keys or"
        raise UserError(f"{line} 'places' of how many each region has")
    if key not in names:
        return _numbered(path, columns, _read(path, study, form, "places"))
    rows = _read(path, study, form, key)
    regions, region_of = _regions(path, columns, rows)
    return _keyed(path, columns, regions, region_of, id_column(rows, key), key)


def _read(path: TableSource, study: Study, form: FileForm | None, *columns: str) -> pa.Table:
    """Reads columns. In a spreadsheet codes of regions and keys keep the zeros that it shows."""
    assert study.places is not None
    regions = study.places.regions
    codes = [*regions, *({*columns} - {"places", "size", "count"})]
    as_written = study.id_rule.as_written is True
    return read_table(path, [*regions, *columns], form or FileForm(), codes, as_written=as_written)


def _keyed(
    path: TableSource,
    columns: tuple[str, ...],
    regions: tuple[tuple[str, ...], ...],
    region_of: NDArray[np.int64],
    keys: pa.Array,
    name: str,
) -> PlacesTable:
    """The table of places with these keys. Raises UserError."""
    texts = np.array(keys.to_pylist(), object)
    lines = []
    if keys.null_count:
        lines.append(f"{path}: {keys.null_count} rows without '{name}'")
    present_keys = [text for text in texts.tolist() if text is not None]
    if len({*present_keys}) < len(present_keys):
        lines.append(f"{path}: a value of '{name}' stands there twice")
    if any(len(text) > _LONGEST for text in present_keys):
        lines.append(f"{path}: a value of '{name}' has over {_LONGEST} characters")
    if any(map(is_formula, present_keys)):
        lines.append(f"{path}: a value of '{name}' {FAULT}")
    if ABSENT in {*present_keys}:
        lines.append(f"{path}: '{ABSENT}' is reserved for people in no place")
    if lines:
        raise UserError(lines)
    order = np.argsort(texts, kind="stable")
    return PlacesTable(
        columns,
        regions,
        np.bincount(region_of, minlength=len(regions)).astype(np.int64),
        tuple(texts[order].tolist()),
        region_of[order],
    )


def _numbered(path: TableSource, columns: tuple[str, ...], rows: pa.Table) -> PlacesTable:
    """The table of places from numbers of places by region. Raises UserError."""
    regions, region_of = _regions(path, columns, rows)
    (numbers,) = _numbers(path, rows, {"places": MOST_PLACES})
    if len(regions) < len(region_of):
        raise UserError(f"{path}: a region stands there twice")
    if not 0 < numbers.sum() <= MOST_PLACES:
        raise UserError(f"{path}: the places must be 1 to {MOST_PLACES}")
    keys = [
        f"{'/'.join(regions[region])}/{i}"
        for region, count in zip(region_of.tolist(), numbers.tolist(), strict=True)
        for i in range(1, count + 1)
    ]
    region_of_keys = np.repeat(region_of, numbers)
    return _keyed(path, columns, regions, region_of_keys, pa.array(keys, pa.string()), "places")


def _counted(path: TableSource, columns: tuple[str, ...], rows: pa.Table) -> PlacesTable:
    """The table of places from counts by size. Raises UserError."""
    regions, region_of = _regions(path, columns, rows)
    size, count = _numbers(path, rows, {"size": _MOST_SIZE, "count": MOST_PLACES})
    place_counts = np.zeros(len(regions), np.int64)
    np.add.at(place_counts, region_of, count)
    if not 0 < place_counts.sum() <= MOST_PLACES:
        raise UserError(f"{path}: the places must be 1 to {MOST_PLACES}")
    order = np.lexsort((size, region_of))
    counts = np.stack([region_of, size, count], axis=1)[order]
    return PlacesTable(columns, regions, place_counts, counts=counts)


def _numbers(path: TableSource, rows: pa.Table, bounds: dict[str, int]) -> list[NDArray[np.int64]]:
    """Reads columns of whole numbers. bounds: by column, the exclusive bound. Raises UserError."""
    lines, numbers = [], []
    for name, bound in bounds.items():
        try:
            column = np.array([int(t) for t in text_column(rows, name).to_pylist()], np.int64)
        except (TypeError, ValueError, OverflowError):
            lines.append(f"{path}: '{name}' must be whole numbers")
            continue
        if len(column) and not 0 <= column.min() <= column.max() < bound:
            lines.append(f"{path}: '{name}' must not be negative, nor {bound} or more")
        numbers.append(column)
    if lines:
        raise UserError(lines)
    return numbers


def _regions(
    path: TableSource, columns: tuple[str, ...], rows: pa.Table
) -> tuple[tuple[tuple[str, ...], ...], NDArray[np.int64]]:
    """The paths of regions in increasing order, and every row's region. Raises UserError."""
    lines = missing_columns(str(path), rows.column_names, columns)
    if lines:
        raise UserError(lines)
    texts = [text_column(rows, name) for name in columns]
    for name, text in zip(columns, texts, strict=True):
        if text.null_count:
            lines.append(f"{path}: {text.null_count} rows without '{name}'")
        names = [t for t in text.unique().to_pylist() if t is not None]
        if any("/" in t or not 0 < len(t) <= _LONGEST for t in names):
            lines.append(
                f"{path}: a value of '{name}' has a '/', or over {_LONGEST} characters, or none"
            )
        if any(map(is_formula, names)):
            lines.append(f"{path}: a value of '{name}' {FAULT}")
    if not len(rows):
        lines.append(f"{path}: no rows")
    if lines:
        raise UserError(lines)
    paths = list(zip(*(text.to_pylist() for text in texts), strict=True))
    regions = tuple(sorted({*paths}))
    number = {region: i for i, region in enumerate(regions)}
    return regions, np.fromiter((number[p] for p in paths), np.int64, len(paths))
