"""The operator's table that a study was begun with: of groups and their members, or of places."""

from __future__ import annotations

from stream_dp.errors import UserError
from stream_dp.log.base import Log
from stream_dp.study import Study

from .places import PlacesTable, bound_places
from .roster import Roster, read_roster
from .topic import checked_table


def bound_table(log: Log, study: Study, bound: str | None) -> Roster | PlacesTable | None:
    """The table of groups or of places; None for a study with neither.

    bound: the hash of the table that the journal was begun with; None before it is begun.

    Raises UserError, Inconsistent; see `bound_roster` and `bound_places`.
    """
    return bound_roster(log, study, bound) or bound_places(log, study, bound)


def bound_roster(log: Log, study: Study, bound: str | None) -> Roster | None:
    """The table of groups; None for a study without groups.

    bound: the hash of the table that the journal was begun with; None before it is begun.

    Raises UserError where no table was sent or it does not fit the study, Inconsistent where it
    is not the one of the journal.
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
