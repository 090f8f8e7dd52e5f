"""Runs of data sets of groups and of releases of sizes, on simulated groups and places.

The people in whom the worlds differ are each a group of their own, or, where groups declare roles,
the head of one with a spouse and a child. In sizes a person moves from a place in one region to a
place in another. Several people alike move from one place, which changes sorted sizes most, or each
from a place of its own, which changes cumulative counts most.

The worlds of an audit of a whole study are what its panels, data sets and gate are given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.population.population import Population
from stream_dp.study import DataSetRelease, SizesRelease, Study
from stream_dp.study.group_releases import Groups
from stream_dp.study.period_gate import period_gate

from ..intake.group_tables import Members, PlacesTable, Roster
from ..releaser.job_families import everybodys_tables
from .data_set_runs import DataSetRuns
from .histories import (
    Cell,
    History,
    WorstPair,
    cells_of,
    random_people,
    simulated_people,
    simulated_population,
    slots_of,
)
from .rho_bounds import APART
from .watched_fits import repeated_fit, watched_fit

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


_PLACES = 60  # in each of two regions
_LEAVING, _JOINING = (0,), (1,)  # histories: in a place of the first region, or of the second


class SizesRuns(DataSetRuns):
    """The first data set of a release of sizes; see `histories.AuditedRelease`.

    together: whether all people alike are in the same place.
    """

    def __init__(self, study: Study, release: SizesRelease) -> None:
        """Raises UserError for a release from a table of counts, or whose cap is 1."""
        if release.attribute is None:
            raise UserError(
                f"audit: '{release.name}' is measured from a table of counts, not from reports;"
                " the audit sends reports; audit the same release with an attribute of places"
            )
        if release.largest < 2:
            raise UserError(f"audit: '{release.name}' has sizes up to 1; the audit needs 2")
        super().__init__(study, release)
        self.together, self.largest = True, release.largest
        self.keys = tuple(f"place {i:03}" for i in range(2 * _PLACES))
        assert self.study.places is not None
        columns = self.study.places.regions
        self.table = PlacesTable(
            columns=columns,
            regions=tuple(tuple(f"{name} {r}" for name in columns) for r in (1, 2)),
            place_counts=np.array([_PLACES, _PLACES], np.int64),
            keys=self.keys,
            region_of=np.repeat(np.arange(2), _PLACES),
        )
        label = study.periods.labels[self.number - 1]
        self.cells = (Cell(label, release.attribute, (*self.keys, None)),)
        self.subject += f", of {2 * _PLACES} simulated places in two regions"

    def _cells(self) -> tuple[Cell, ...]:
        return ()

    def _people(self, history: History | None, size: int) -> dict[str, History]:
        """Canaries at the places of a history, and others at the places that canaries may join.

        history: of the canaries, None if they are nowhere.
        """
        place = None if history is None else history[0]
        canaries: dict[str, History] = {}
        if place is not None:
            for i in range(size):
                canaries[f"canary {i}"] = (place * _PLACES + (0 if self.together else i),)
        # With nobody there, a move would leave the sizes of both regions together as they are.
        number = max(size, 1)
        joined = [0] * number if self.together else range(number)
        others = {f"other {i}": (_PLACES + place,) for i, place in enumerate(joined)}
        return {**others, **canaries}

    def _tables(self, people: Mapping[str, History]) -> dict[str, pa.Table]:
        study = self.table.of_study(self.study)
        simulated = simulated_people(study, self.cells, people, self.number)
        return self._snapshot(simulated.population, self.table)

    def worst_pair(self) -> WorstPair:
        """The costlier of two ways to join: all in one place, or each in one of their own.

        The cost of a shift d of the exact values is sum of d^2 / variance / 2, for `size` people at
        once; as it grows with the square of their number, it is divided by that.
        """
        second = None if self.study.neighbours == "add_remove" else _LEAVING
        wanted = round(APART / math.sqrt(2 * float(self.rho)))
        found = list[tuple[float, bool, int]]()
        for together in (True, False):
            self.together = together
            room = self.largest // 2 if together else _PLACES
            size = max(1, min(wanted, room, self.most))
            reference = watched_fit(self._fit(second, size), None)
            moved = repeated_fit(self._fit(_JOINING, size), reference)
            shift = [b.exact - a.exact for a, b in zip(reference, moved, strict=True)]
            variances = list(chain.from_iterable(run.variances for run in reference))
            cost = float((np.concatenate(shift) ** 2 / variances).sum() / 2)
            found.append((cost / size**2, together, size))
            self._references = [reference]
        rho, self.together, self.most = max(found)
        return WorstPair(_JOINING, second, rho)


Ints = NDArray[np.int64]
DataSet = tuple[str, int]  # the release's name and the number of the period
Measured = str | DataSet  # a panel, the gate, or a data set
_OTHERS, _OTHERS_OF_PANELS = 400, 20  # people who are the same in both worlds, at most


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
    most: the people whom two worlds may differ by, at most.
    others: the people who are the same in all worlds.
    """

    def __init__(self, study: Study, schedule: Mapping[DataSet, DataSetRelease]) -> None:
        self.study, self.schedule, self.gate = study, schedule, period_gate(study)
        size, most_others = study.size, _OTHERS if schedule else _OTHERS_OF_PANELS
        self.most = _OTHERS if size is None else max(1, size // 2)
        if schedule:
            self.most = min(self.most, _OTHERS)
        self.others = most_others if size is None else min(most_others, size - self.most)
        if study.groups is not None and study.groups.roles is not None:
            self.most, self.others = max(1, self.most // RELATED), self.others // RELATED

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

    def _closed(self, population: Population, members: Members | None) -> tuple[WorldPeriod, ...]:
        periods = []
        for number in range(1, self.study.periods.count + 1):
            returning = 0 if self.gate is None else population.returning()
            counts = population.close().counts
            tables = {
                name: {
                    table: pa.concat_tables(parts)
                    for table, parts in everybodys_tables(
                        self.study, release, population, members
                    ).items()
                }
                for (name, due), release in self.schedule.items()
                if due == number
            }
            periods.append(WorldPeriod(returning, counts, tables))
        return tuple(periods)
