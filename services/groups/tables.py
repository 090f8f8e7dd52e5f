"""The table of groups and their members from two files, checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.batch.data.domain import Column
from stream_dp.batch.data.readers import read_table
from stream_dp.batch.data.tables import id_column, text_column
from stream_dp.errors import UserError
from stream_dp.population.reports import LONGEST_ID
from stream_dp.study import Study

from .roster import Roster, coded_roles


def roster_from_files(
    study: Study, groups_file: Path, members_file: Path, key: str, theirs: str, person: str
) -> Roster:
    """Two files, .csv or .parquet. Raises UserError, a line for each kind of fault."""
    declared = study.groups
    assert declared is not None
    groups = read_table(groups_file, [key, *declared.attributes])
    roles = declared.roles
    members = read_table(members_file, [person, theirs, *([roles.column] if roles else [])])
    keys = _column(groups_file, id_column, groups, key)
    place, ids = (_column(members_file, id_column, members, name) for name in (theirs, person))
    compared = _compared(study, ids)
    lines = [
        f"{path}: {column.null_count} rows without '{name}', {_first(column.is_null())}"
        for path, name, column in (
            (groups_file, key, keys),
            (members_file, theirs, place),
            (members_file, person, compared),
        )
        if column.null_count
    ]
    for path, name, column in ((groups_file, key, keys), (members_file, person, compared)):
        again = _repeated(column)
        if again.any():
            lines.append(f"{path}: a value of '{name}' stands there twice, {_first(again)}")
    if lines:
        raise UserError(lines)
    order = np.argsort(np.array(keys.to_pylist(), object), kind="stable")
    keys = keys.take(pa.array(order))
    row = pc.index_in(place, keys).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    persons = np.array(ids.to_pylist(), object)
    sizes = np.bincount(row[row >= 0], minlength=len(keys))
    rows = np.argsort(order)  # of the groups, as the file has them
    for wrong, words in (
        (row < 0, f"{members_file}: {{}} members of no group in {groups_file}"),
        ((sizes == 0)[rows], f"{groups_file}: {{}} groups without members"),
        ((sizes > declared.most)[rows], f"{groups_file}: {{}} groups of over {declared.most}"),
        (
            np.array([len(p) > LONGEST_ID for p in compared.to_pylist()]),
            f"{members_file}: {{}} ids too long",
        ),
    ):
        if wrong.any():
            lines.append(f"{words.format(wrong.sum())}, {_first(wrong)}")
    if study.size is not None and len(persons) > study.size:
        lines.append(
            f"{members_file}: more members than study.population.size; everybody needs a place"
        )
    if not len(persons):
        lines.append(f"{members_file}: no members")
    attributes = {}
    for name, attribute in declared.attributes.items():
        column = _column(groups_file, text_column, groups, name)
        bad = Column(name, attribute.values).codes(column) < 0
        if bad.any():
            what = f"{bad.sum()} rows with an undeclared or empty '{name}', {_first(bad)}"
            lines.append(f"{groups_file}: {what}")
        attributes[name] = column.take(pa.array(order)).to_pylist()
    role_values = (
        _column(members_file, text_column, members, roles.column) if roles is not None else None
    )
    if role_values is not None and (row >= 0).all():
        faults = coded_roles(declared, role_values, row, len(keys))[1]
        lines += [f"{members_file}: {fault}" for fault in faults]
    if lines:
        raise UserError(lines)
    by = np.argsort(persons, kind="stable")
    by = by[np.argsort(row[by], kind="stable")]
    in_order = role_values.take(pa.array(by)).to_pylist() if role_values is not None else None
    return Roster(attributes, persons[by].tolist(), row[by], in_order)


def _column(
    path: Path, read: Callable[[pa.Table, str], pa.Array], rows: pa.Table, name: str
) -> pa.Array:
    """A column, whose fault is told with its file."""
    try:
        return read(rows, name)
    except UserError as error:
        raise UserError(f"{path}: {line}" for line in error.lines) from None


def _compared(study: Study, ids: pa.Array) -> pa.Array:
    """Ids by the study's rule; null where nothing is left."""
    if study.ids is None:
        return ids
    normal = study.ids.normal
    return pa.array([normal(i) or None if i else None for i in ids.to_pylist()], pa.string())


def _first(wrong: Any) -> str:
    """Where to look, without what stands there."""
    return f"the first in row {1 + int(np.flatnonzero(np.asarray(wrong))[0])} below the header"


def _repeated(column: pa.Array) -> NDArray[np.bool_]:
    """Which values stand further above as well."""
    codes = column.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    first = np.zeros(len(codes), bool)
    first[np.unique(codes, return_index=True)[1]] = True
    again: NDArray[np.bool_] = ~first & (codes >= 0)
    return again
