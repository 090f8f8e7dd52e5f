"""Runs of data sets of groups on simulated groups and their members.

The people in whom the worlds differ are each a group of their own, or, where groups declare roles,
the head of one with a spouse and a child.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from stream_dp.study import DataSetRelease, Study
from stream_dp.study.group_releases import Groups

from ..intake.roster import Members, Roster
from .data_set_runs import DataSetRuns
from .histories import Cell, History, random_people, simulated_people

RELATED = 3  # people of a group with roles, at most: head, spouse, child


def random_relatives(cells: Sequence[Cell], relatives: list[str]) -> dict[str, History]:
    """The histories of relatives at random, the same in both worlds."""
    histories = random_people(cells, len(relatives), "relative").values()
    return dict(zip(relatives, histories, strict=True))


def simulated_roster(declared: Groups, heads: list[str]) -> tuple[Roster, list[str]]:
    """A group for each head, and the ids of the relatives in it."""
    roles = declared.roles
    kin = [] if roles is None else [str(roles.spouse), str(roles.child)][: declared.most - 1]
    persons, group_of, told, relatives = list[str](), list[int](), list[str](), list[str]()
    for group, head in enumerate(heads):
        members = [head, *(f"{head}, {role}" for role in kin)]
        relatives += members[1:]
        persons += members
        group_of += [group] * len(members)
        told += [] if roles is None else [str(roles.head), *kin]
    roster = Roster(
        attributes={
            name: [str(attribute.symbols[0])] * len(heads)
            for name, attribute in declared.attributes.items()
        },
        persons=persons,
        group_of=np.array(group_of, np.int64),
        roles=None if roles is None else told,
    )
    return roster, relatives


def simulated_members(study: Study, roster: Roster, slots: Mapping[str, int]) -> Members:
    """The members of simulated groups. slots: of a population, by id."""
    return Members(
        roster.codes(study),
        np.array([slots[person] for person in roster.persons], np.int64),
        roster.group_of,
        roster.role_codes(study),
    )


class HouseholdRuns(DataSetRuns):
    """The first data set of a release of groups; see `histories.AuditedRelease`.

    The people in whom the worlds differ are each a group of their own, or, where groups declare
    roles, the head of one with a spouse and a child.
    """

    def __init__(self, study: Study, release: DataSetRelease) -> None:
        """Raises UserError if this installation cannot fit the release."""
        super().__init__(study, release)
        if self.study.groups is not None and self.study.groups.roles is not None:
            self.most, self.others = max(1, self.most // RELATED), self.others // RELATED

    def _tables(self, people: Mapping[str, History]) -> dict[str, pa.Table]:
        declared = self.study.groups
        assert declared is not None
        roster, relatives = simulated_roster(declared, list(people))
        reporting = {**people, **random_relatives(self.cells, relatives)}
        simulated = simulated_people(self.study, self.cells, reporting, self.number, roster.persons)
        return self._snapshot(
            simulated.population, simulated_members(self.study, roster, simulated.slots)
        )
