"""Worlds of an audit of a whole study: what its panels, data sets and gate are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.population.population import Population
from stream_dp.study import DataSetRelease, Study
from stream_dp.study.period_gate import period_gate

from ..intake.roster import Members
from ..releaser.job_families import everybodys_tables
from .group_runs import RELATED, random_relatives, simulated_members, simulated_roster
from .histories import Cell, History, cells_of, random_people, simulated_population, slots_of

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
