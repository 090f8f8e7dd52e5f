"""The operator's table at the start of a study: groups with members, or places."""

from __future__ import annotations

from stream_dp.errors import UserError
from stream_dp.log.log import Log
from stream_dp.study import Study

from .place_table import PlacesTable, bound_places
from .roster import Roster, read_roster
from .table_topic import checked_table


def bound_table(log: Log, study: Study, bound: str | None) -> Roster | PlacesTable | None:
    """The table of groups or of places; None for a study with neither.

    bound: the hash of the table in the journal's first entry; None before the first entry.

    Raises UserError, Inconsistent; see `bound_roster` and `bound_places`.
    """
    return bound_roster(log, study, bound) or bound_places(log, study, bound)


def bound_roster(log: Log, study: Study, bound: str | None) -> Roster | None:
    """The table of groups; None for a study without groups.

    bound: the hash of the table in the journal's first entry; None before the first entry.

    Raises UserError if no table was sent or the table does not fit the study, Inconsistent if the
    table has another hash than the journal's.
    """
    if study.groups is None:
        return None
    table = checked_table("groups", read_roster(log), bound)
    table.codes(study)
    if study.ids is not None:
        duplicates = len(table.persons) - len(
            {study.ids.normal(person) for person in table.persons}
        )
        if duplicates:
            raise UserError(
                f"groups: by the rule of study.ids, {duplicates} members are somebody who is there"
                " already; send another table"
            )
    if study.size is not None and len(table.persons) > study.size:
        raise UserError("groups: more members than study.population.size; send another table")
    return table
