"""Jobs of groups and members: members in the order of their table, and tables of synthetic ones."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.kinds import load_synthesizer
from stream_dp.batch.synthesizer import FitContext, release_domain
from stream_dp.errors import Inconsistent, UserError
from stream_dp.population.population import Population, symbols_of
from stream_dp.release.published_tables import Provenance, Tables, coded_tables, column_values
from stream_dp.study import BatchRelease, Study
from stream_dp.study.group_releases import KEY_COLUMN

from ..intake.group_tables import Members, PlacesTable
from .table_results import OTHER_RELEASE, codes_of, fitted_table_parts, with_ancestors

TABLES = ("groups", "people")
_ROW = "row"  # column of the tables of parts


def asks_people(release: BatchRelease) -> bool:
    """A data set of groups always uses the members' reports."""
    return True


def part_table(
    study: Study,
    release: BatchRelease,
    population: Population,
    members: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
) -> pa.Table:
    """The column `row`, increasing, and the codes of the members in a part.

    members: slots of members in this part and their rows in the table of all members.
    """
    assert members is not None
    slots, row = members
    order = np.argsort(row)
    codes = symbols_of(population)
    columns = {name: pa.array(codes[name][slots[order]]) for name in release.names}
    return pa.table({_ROW: pa.array(row[order]), **columns})


def nobody_table(study: Study, release: BatchRelease, population: Population) -> None:
    """None: every slot of a member is claimed."""
    return


def joined_tables(
    study: Study,
    release: BatchRelease,
    parts: Iterable[pa.Table],
    table: Members | PlacesTable | None,
    nobody: pa.Table | None,
    unclaimed: int,
) -> dict[str, Iterable[pa.Table]]:
    """The groups, and the members of all parts by group.

    Raises Inconsistent for a member without a part.
    """
    assert isinstance(table, Members)
    names = column_values(study, release)
    codes = _by_row(parts, len(table.group_of), release.names)
    joined = coded_tables(names, table.groups, table.with_roles(codes), table.group_of)
    return {name: [rows] for name, rows in joined.items()}


def _by_row(
    parts: Iterable[pa.Table], members: int, names: Iterable[str]
) -> NDArray[np.unsignedinteger]:
    """The members' codes in the order of their table, (members, columns)."""
    columns = {name: np.zeros(members, np.uint32) for name in names}
    seen = 0
    for table in parts:
        row = table[_ROW].to_numpy()
        seen += len(row)
        for name, column in columns.items():
            column[row] = table[name].to_numpy()
    if seen != members:
        raise Inconsistent("snapshot: a member of a group has no place; remove it to replay")
    return np.stack(list(columns.values()), axis=1)


def fitted_parts(
    study: Study, release: BatchRelease, tables: Tables, context: FitContext
) -> tuple[Provenance, list[tuple[str, bytes]]]:
    """Fits a job: provenance and published parts. Raises UserError for other tables."""
    names = column_values(study, release)
    try:
        codes = {which: codes_of(tables[which], tuple(names[which])) for which in names}
        group_of = tables["people"][KEY_COLUMN].to_numpy().astype(np.int64)
        domain = release_domain(study, release)
        hierarchy = Hierarchy(domain, codes["groups"], codes["people"], group_of)
    except (ValueError, KeyError):
        raise UserError(OTHER_RELEASE) from None

    def coded(sample: Hierarchy) -> Tables:
        return coded_tables(names, sample.groups, sample.people, sample.group_of)

    fit = load_synthesizer(release.kind)
    provenance, parts = fitted_table_parts(fit, hierarchy, release, context, coded)
    return with_ancestors(provenance, study, release, context), parts
