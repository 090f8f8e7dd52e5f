"""The worlds of an audit: what the panels, data sets and gate of a study are given.

The people in whom the worlds differ are each a group of their own, or, where groups declare roles,
the head of one with a spouse and a child. In sizes a person moves from a place in one region to a
place in another. Several people alike move from one place, which changes sorted sizes most, or each
from a place of its own, which changes cumulative counts most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.population.population import Population
from stream_dp.study import DataSetRelease, Study
from stream_dp.study.group_releases import Groups
from stream_dp.study.noisy_gate import noisy_gate

from ..intake.group_tables import Members, PlacesTable, Roster
from ..releaser.job_families import everybodys_tables
from .histories import Cell, History, cells_of, random_people, simulated_population, slots_of

Ints = NDArray[np.int64]
DataSet = tuple[str, int]  # the release's name and the number of the period
Measured = str | DataSet  # a panel, the gate, or a data set
_OTHERS, _OTHERS_OF_PANELS = 400, 20  # people who are the same in both worlds, at most
_RELATED = 3  # people of a group with roles, at most: head, spouse, child
_REGION_PLACES = 60  # in each of two regions
LEAVING, JOINING = (0,), (1,)  # histories: in a place of the first region, or of the second


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


@dataclass(frozen=True)
class WorldPeriod:
    """The input of a closed period, of one world.

    returning: the people whom the gate counts.
    counts: by panel.
    tables: by data set that begins at the close.
    """

    returning: int
    counts: Mapping[str, Ints]
    tables: Mapping[str, dict[str, pa.Table]]


class Worlds:
    """The worlds of a study.

    schedule: its data sets.
    last: the number of the last period.
    most: the people whom two worlds may differ by, at most.
    others: the people who are the same in all worlds.
    """

    def __init__(self, study: Study, schedule: Mapping[DataSet, DataSetRelease], last: int) -> None:
        self.study, self.schedule, self.last = study, schedule, last
        self.gate = noisy_gate(study)
        size, most_others = study.size, _OTHERS if schedule else _OTHERS_OF_PANELS
        self.most = _OTHERS if size is None else max(1, size // 2, size - most_others)
        if schedule:
            self.most = min(self.most, _OTHERS)
        self.others = most_others if size is None else min(most_others, size - self.most)
        if study.groups is not None and study.groups.roles is not None:
            self.most, self.others = max(1, self.most // _RELATED), self.others // _RELATED

    def cells(self, *measured: Measured) -> tuple[Cell, ...]:
        """The cells that panels and data sets look at, in the order of periods."""
        questions = set[tuple[int, str]]()
        for name in measured:
            if isinstance(name, str):
                release = self.study.release(name)
                first, last = self.study.span(release)
                questions |= {(n, q) for n in range(first, last + 1) for q in release.questions}
            else:
                questions |= {(name[1] - a.ago, a.attribute) for a in self.schedule[name].answers}
        for number, name in [*questions]:
            attribute = self.study.attributes[name]
            if attribute.fixed or attribute.carries:
                questions |= {(earlier, name) for earlier in range(1, number)}
        return tuple(
            cell
            for number, name in sorted(questions)
            if number >= 1
            for cell in cells_of(self.study, [name], [number])
        )

    def world(
        self, cells: Sequence[Cell], history: History | None, size: int
    ) -> tuple[WorldPeriod, ...]:
        """The input of all periods, of `size` people alike beside the others."""
        others = random_people(cells, self.others, "other")
        alike = {} if history is None else {f"canary {i}": history for i in range(size)}
        people, groups = {**others, **alike}, self.study.groups
        if groups is None:
            return self._closed(simulated_population(self.study, cells, people), None)
        roster, relatives = simulated_roster(groups, list(people))
        reporting = {**people, **random_relatives(cells, relatives)}
        population = simulated_population(self.study, cells, reporting, roster.persons)
        slots = slots_of(self.study, population, roster.persons)
        return self._closed(population, simulated_members(self.study, roster, slots))

    def _closed(
        self, population: Population, table: Members | PlacesTable | None
    ) -> tuple[WorldPeriod, ...]:
        periods = []
        for number in range(1, self.last + 1):
            returning = 0 if self.gate is None else population.returning()
            counts = population.close().counts
            tables = {
                name: {
                    part: pa.concat_tables(rows)
                    for part, rows in everybodys_tables(
                        self.study, release, population, table
                    ).items()
                }
                for (name, due), release in self.schedule.items()
                if due == number
            }
            periods.append(WorldPeriod(returning, counts, tables))
        return tuple(periods)


class PlaceWorlds(Worlds):
    """The worlds of a release of sizes.

    together: whether all people alike are in the same place.
    """

    def __init__(self, study: Study, schedule: Mapping[DataSet, DataSetRelease], last: int) -> None:
        super().__init__(study, schedule, last)
        self.together, self.keys = True, tuple(f"place {i:03}" for i in range(2 * _REGION_PLACES))
        assert study.places is not None
        columns = study.places.regions
        self.table = PlacesTable(
            columns=columns,
            regions=tuple(tuple(f"{name} {r}" for name in columns) for r in (1, 2)),
            place_counts=np.array([_REGION_PLACES, _REGION_PLACES], np.int64),
            keys=self.keys,
            region_of=np.repeat(np.arange(2), _REGION_PLACES),
        )

    def cells(self, *measured: Measured) -> tuple[Cell, ...]:
        (release,) = self.schedule.values()
        (attribute,) = release.questions
        return (Cell(self.study.periods.labels[self.last - 1], attribute, (*self.keys, None)),)

    def room(self, largest: int) -> int:
        """The people alike that have places, at most. largest: the cap of sizes."""
        return min(self.most, largest // 2 if self.together else _REGION_PLACES)

    def world(
        self, cells: Sequence[Cell], history: History | None, size: int
    ) -> tuple[WorldPeriod, ...]:
        """Canaries in the region of a history, and others at the places that canaries may join.

        Place j of the first region has the number j, and place j of the second region the number
        _REGION_PLACES + j. A person's answer is the number of the person's place.
        """
        people: dict[str, History] = {}
        # With nobody there, a move would leave the sizes of both regions together as they are.
        for i in range(max(size, 1)):
            place_of_region = 0 if self.together else i
            people[f"other {i}"] = (_REGION_PLACES + place_of_region,)
            if history is not None and i < size:
                people[f"canary {i}"] = (history[0] * _REGION_PLACES + place_of_region,)
        population = simulated_population(self.table.of_study(self.study), cells, people)
        return self._closed(population, self.table)
