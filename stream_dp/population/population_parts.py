"""Parts of a population: a part is closed on its own, and the parts' counts add up.

People fall into 2^k parts by the top bits of the keyed hash of the id. The functions here are pure
but for the population in their arguments, so any of them may run twice, anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dp.study import Study

from .cells import Answering, CellCounts, Cells, Part, Reason, WaitingCells, ordered, part_of, split
from .id_index import Index
from .population import Population, cells_by_period

Counts = dict[str, NDArray[np.int64]]
_NOTHING = CellCounts(rejected={})


@dataclass(frozen=True)
class ClosedPart:
    """The result of closing a period of a part.

    people: the number of people in the part.
    newcomers: the number of people that this period has admitted.
    counts: by release, the counts of its people.
    nobody: by release, the counts of an unclaimed slot; empty unless the study declares a size.
    accounting: of the cells that came with this period; pending is the increase.
    refused, answering: as in `ClosedPeriod`.
    """

    people: int
    newcomers: int
    counts: Counts
    nobody: Counts
    accounting: CellCounts
    refused: Mapping[Reason, Cells]
    answering: Answering


@dataclass(frozen=True)
class ReturningPart:
    """The people of a part at the gate of a period.

    people: with a place.
    known: who answer for the period and have a place.
    newcomers: who answer for the period and have no place.
    """

    people: int
    known: int
    newcomers: int


def close_part(population: Population, cells: Cells, room: int | None = None) -> ClosedPart:
    """Closes the next period of a part, in place.

    cells: of this part, of the input since the last close, in any order.
    room: how many newcomers it admits at most; None for all of them.
    """
    people_before, population.accounting = population.people, _NOTHING
    population.fold(ordered(cells), [])
    closed = population.close(room)
    accounting, population.accounting = population.accounting, _NOTHING
    return ClosedPart(
        people=population.people,
        newcomers=population.people - people_before,
        counts=closed.counts,
        nobody=closed.count(slice(0, closed.nobody)) if closed.nobody else {},
        accounting=accounting,
        refused=closed.refused,
        answering=closed.answering,
    )


def returning_part(population: Population, cells: Cells) -> ReturningPart:
    """Counts the people of a part whom the gate of the next period may count.

    cells: as in `close_part`.
    """
    population.fold(ordered(cells), [])
    return ReturningPart(population.people, *population.answering_with_and_without_place())


def returning(study: Study, parts: Sequence[ReturningPart], number: int) -> int:
    """The people whom the gate of a period counts, see `Population.returning`.

    number: of the period.
    """
    known = sum(part.known for part in parts)
    if number > 1:
        return known
    newcomers = sum(part.newcomers for part in parts)
    if study.size is not None:
        newcomers = min(newcomers, study.size - sum(part.people for part in parts))
    return known + newcomers


def allot(newcomers: Sequence[int], room: int) -> list[int]:
    """Allots free slots to the newcomers of the parts, in the order of their hashes over all parts.

    newcomers: by part, in the order of the parts, which is the order of the hashes.
    room: the number of free slots.

    Returns the number of admitted newcomers by part.
    """
    rooms = []
    for count in newcomers:
        rooms.append(min(count, room))
        room -= rooms[-1]
    return rooms


def total(study: Study, closed_parts: Sequence[ClosedPart]) -> tuple[Counts, CellCounts, Answering]:
    """Adds up the counts of all parts by release, the accounting of their cells, and their answers.

    If the study declares a size, each unclaimed slot counts as somebody who never answered.
    """
    counts: Counts = {}
    unclaimed = (
        0 if study.size is None else study.size - sum(closed.people for closed in closed_parts)
    )
    for release in study.releases:
        of_people = np.sum([closed.counts[release.name] for closed in closed_parts], axis=0)
        of_nobody = unclaimed * closed_parts[0].nobody[release.name] if unclaimed else 0
        counts[release.name] = of_people + of_nobody
    accounting, answering = _NOTHING, Answering()
    for closed in closed_parts:
        accounting = accounting.plus(closed.accounting)
        answering = answering.plus(closed.answering)
    return counts, accounting, answering


def split_population(population: Population, count: int) -> list[Population]:
    """Splits a population of everybody into parts. count: how many, a power of two."""
    study, index, superseded = population.study, population.index, population.pending.copy()
    nobody = Population(study, Part(0, 1))
    for _ in range(population.period):
        nobody.close()
    part_of_person = part_of(index.hi, count)
    populations = []
    for number, waiting in enumerate(split(population.waiting.all(), count)):
        part_population = Population(study, Part(number, count))
        part_population.period = population.period
        rows = part_of_person == number
        slots = index.slot[rows]
        renumbered = np.arange(slots.shape[0], dtype=np.int32)
        part_population.index = Index(
            index.hi[rows], index.lo[rows], renumbered + np.int32(part_population.nobodies)
        )
        part_population.columns = {
            name: np.concatenate([nobody.columns[name], column[slots]])
            for name, column in population.columns.items()
        }
        part_population.waiting = WaitingCells.of(waiting)
        part_population.pending.update(cells_by_period(waiting))
        superseded.subtract(part_population.pending)
        populations.append(part_population)
    # Superseded cells are in no part, but count as pending until their period closes.
    populations[0].pending.update(superseded)
    return populations


def join_populations(
    study: Study, populations: Sequence[Population], accounting: CellCounts
) -> Population:
    """Joins all parts into the population of everybody.

    accounting: of all cells since the study began.
    """
    everybody = Population(study)
    everybody.period = populations[0].period
    first = populations[0].nobodies
    starts = np.cumsum([0, *(population.people for population in populations)])
    everybody.index = Index(
        np.concatenate([population.index.hi for population in populations]),
        np.concatenate([population.index.lo for population in populations]),
        np.concatenate(
            [p.index.slot - first + start for p, start in zip(populations, starts, strict=False)]
        ).astype(np.int32),
    )
    unclaimed = (study.size or everybody.people) - everybody.people
    everybody.columns = {
        name: np.concatenate(
            [
                *(population.columns[name][first:] for population in populations),
                populations[0].columns[name][:first].repeat(unclaimed),
            ]
        )
        for name in everybody.columns
    }
    everybody.waiting = WaitingCells.of(
        ordered(Cells.joined([population.waiting.all() for population in populations]))
    )
    for population in populations:
        everybody.pending.update(population.pending)
    everybody.accounting = accounting
    return everybody
